"""Derives from the settings how Headwater, workers and readers authenticate to Kafka."""

from pathlib import Path
from typing import Any

from pydantic import SecretStr

from headwater.errors import SetupError
from headwater.model.access import KafkaAccess
from headwater.model.kafka_security import (
    FILE_FIELDS,
    KafkaSecurity,
    applicable_fields,
    require_applicable,
    require_consistent,
)
from headwater.settings import Settings, environment_variable

_CREDENTIALS = environment_variable("kafka_credentials")


def admin_access(settings: Settings) -> KafkaAccess:
    """Return how Headwater itself authenticates.

    Raises SetupError when the settings are incomplete or inconsistent.
    """
    servers = settings.kafka_bootstrap_servers
    values = {name: _plain_value(getattr(settings, f"kafka_{name}")) for name in KafkaSecurity.model_fields}
    access = KafkaAccess(bootstrap_servers=servers, **values)
    set_names = {name for name in values if f"kafka_{name}" in settings.model_fields_set}
    if settings.kafka_reader_security_protocol in ("SSL", "SASL_SSL"):
        # The readers' listener needs the CA file, so it is no fault when Headwater's own listener does not use it.
        set_names.discard("ca_file")
    try:
        require_consistent(access, set_names, _variable)
    except ValueError as error:
        raise SetupError(f"Headwater can't log in to Kafka at {servers}: {error}.") from None
    applicable = applicable_fields(access)
    access = KafkaAccess(
        bootstrap_servers=servers, **{name: value for name, value in values.items() if name in applicable}
    )
    _require_files(access)
    return access


def reject_user_settings(settings: Settings) -> None:
    """Raise SetupError when the settings name Kafka users, which only an external Kafka takes."""
    if settings.kafka_credentials == "given":
        raise SetupError(
            f"{_CREDENTIALS}=given is only for your own Kafka. Set {_variable('bootstrap_servers')}, or remove the "
            "setting."
        )
    _require_no_reader_login(settings)


def _require_no_reader_login(settings: Settings) -> None:
    if settings.kafka_reader_username or settings.kafka_reader_password.get_secret_value():
        raise SetupError(
            f"{_reader_variable('username')} or {_reader_variable('password')} is set, but Headwater creates the users "
            f"of readers itself. Remove both, or set {_CREDENTIALS}=given."
        )


def reader_access(settings: Settings, admin: KafkaAccess) -> KafkaAccess:
    """Return how readers authenticate. Raises SetupError when the settings are inconsistent.

    The user name and the password come from the settings. Both are empty when they are not set, and when Headwater
    creates SCRAM users for the readers and the workers of each deployment.
    """
    access = KafkaAccess(
        bootstrap_servers=settings.kafka_reader_bootstrap_servers or admin.bootstrap_servers,
        security_protocol=settings.kafka_reader_security_protocol or admin.security_protocol,
        sasl_mechanism=settings.kafka_reader_sasl_mechanism or _default_mechanism(settings, admin),
        username=settings.kafka_reader_username,
        password=settings.kafka_reader_password.get_secret_value(),
    )
    if settings.kafka_credentials == "given":
        _require_applicable_login(access)
    else:
        _require_no_reader_login(settings)
        _require_scram(access)
    if access.uses_tls:
        access = access.model_copy(update={"ca_file": _plain_value(settings.kafka_ca_file)})
    _require_files(access)
    return access


def _default_mechanism(settings: Settings, admin: KafkaAccess) -> Any:
    uses_mechanism_of_admin = admin.uses_scram or settings.kafka_credentials == "given"
    return admin.sasl_mechanism if uses_mechanism_of_admin else "SCRAM-SHA-512"


def _require_scram(access: KafkaAccess) -> None:
    alternative = f"Or set {_CREDENTIALS}=given, and create all users yourself."
    if not access.uses_sasl:
        raise SetupError(
            "Readers and workers log in to Kafka as SCRAM users, and a listener with "
            f"{access.security_protocol} has no users: set {_reader_variable('security_protocol')} to SASL_SSL or "
            f"SASL_PLAINTEXT, and {_reader_variable('bootstrap_servers')} to the addresses of a listener with SCRAM. "
            f"{alternative}"
        )
    if not access.uses_scram:
        raise SetupError(
            f"{_reader_variable('sasl_mechanism')} is {access.sasl_mechanism}, but Headwater creates SCRAM users for "
            f"readers and workers: set it to SCRAM-SHA-512 or SCRAM-SHA-256. {alternative}"
        )


def _require_applicable_login(access: KafkaAccess) -> None:
    """Raise SetupError for a user name or password that is set alone, or that can't be used."""
    if bool(access.username) != bool(access.password):
        raise SetupError(
            f"{_reader_variable('username')} and {_reader_variable('password')} belong together: set both or none."
        )
    try:
        require_applicable(access, ("username", "password"), _reader_variable)
    except ValueError as error:
        raise SetupError(f"Readers can't log in to Kafka at {access.bootstrap_servers}: {error}.") from None


def worker_access(admin: KafkaAccess, readers: KafkaAccess) -> KafkaAccess:
    """Return how workers authenticate.

    The user name and the password are added for each deployment. Workers use the listener of Headwater itself if the
    listener supports their SASL mechanism, otherwise the readers' listener.
    """
    if admin.uses_sasl and admin.sasl_mechanism == readers.sasl_mechanism:
        return admin.model_copy(update={"username": "", "password": ""})
    return readers


def _require_files(access: KafkaAccess) -> None:
    for name in FILE_FIELDS:
        if path := getattr(access, name):
            try:
                Path(path).open("rb").close()
            except OSError as error:
                reason = error.strerror
                raise SetupError(
                    f"{_variable(name)} names {path}, which can't be read ({reason}). Correct the path."
                ) from None


def _variable(name: str) -> str:
    return environment_variable(f"kafka_{name}")


def _reader_variable(name: str) -> str:
    return environment_variable(f"kafka_reader_{name}")


def _plain_value(value: Any) -> Any:
    match value:
        case SecretStr():
            return value.get_secret_value()
        case Path():
            return str(value.expanduser().absolute())
        case None:
            return ""
        case _:
            return value
