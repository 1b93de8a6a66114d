"""How Headwater itself, its workers and readers authenticate to a Kafka cluster of the operator's own."""

from pathlib import Path
from typing import Any

from pydantic import SecretStr

from headwater.errors import SetupError
from headwater.model.kafka_security import FILES, KafkaSecurity, members_of, require_consistent
from headwater.model.worker import KafkaAccess
from headwater.settings import Settings, variable


def admin_access(settings: Settings) -> KafkaAccess:
    """How Headwater itself authenticates. Raises SetupError when the settings are incomplete or don't fit together."""
    servers = settings.kafka_bootstrap_servers
    members = {member: _text(getattr(settings, f"kafka_{member}")) for member in KafkaSecurity.model_fields}
    access = KafkaAccess(bootstrap_servers=servers, **members)
    given = {member for member in members if f"kafka_{member}" in settings.model_fields_set}
    if settings.kafka_reader_security_protocol == "SASL_SSL":
        given.discard("ca_file")  # it has a meaning for the listener of the readers
    try:
        require_consistent(access, given, _variable)
    except ValueError as error:
        raise SetupError(f"Headwater can't log in to Kafka at {servers}: {error}.") from None
    fitting = members_of(access)
    access = KafkaAccess(bootstrap_servers=servers, **{m: value for m, value in members.items() if m in fitting})
    _require_files(access)
    return access


def reader_access(settings: Settings, admin: KafkaAccess) -> KafkaAccess:
    """How readers authenticate, without a user's name and password.

    Raises SetupError when no listener for SCRAM users is named: Headwater creates a SCRAM user for each deployment's
    readers, and one for its workers.
    """
    protocol = settings.kafka_reader_security_protocol or admin.security_protocol
    if not protocol.startswith("SASL_"):
        raise SetupError(
            f"Readers and workers log in to Kafka as SCRAM users, and a listener with {protocol} has no users: set "
            f"{variable('kafka_reader_security_protocol')} to SASL_SSL or SASL_PLAINTEXT, and "
            f"{variable('kafka_reader_bootstrap_servers')} to the addresses of a listener with SCRAM."
        )
    access = KafkaAccess(
        bootstrap_servers=settings.kafka_reader_bootstrap_servers or admin.bootstrap_servers,
        security_protocol=protocol,
        sasl_mechanism=settings.kafka_reader_sasl_mechanism or _scram_mechanism(admin),
        ca_file=_text(settings.kafka_ca_file) if protocol == "SASL_SSL" else "",
    )
    _require_files(access)
    return access


def _scram_mechanism(admin: KafkaAccess) -> Any:
    return admin.sasl_mechanism if admin.uses_scram else "SCRAM-SHA-512"


def worker_access(admin: KafkaAccess, readers: KafkaAccess) -> KafkaAccess:
    """How workers authenticate, without a user's name and password.

    They use the listener of Headwater itself when it is one for their mechanism, else that of the readers.
    """
    if admin.uses_sasl and admin.sasl_mechanism == readers.sasl_mechanism:
        return admin.model_copy(update={"username": "", "password": ""})
    return readers


def _require_files(access: KafkaAccess) -> None:
    for member in FILES:
        if path := getattr(access, member):
            try:
                Path(path).open("rb").close()
            except OSError as error:
                reason = error.strerror
                raise SetupError(
                    f"{_variable(member)} names {path}, which can't be read ({reason}). Correct it."
                ) from None


def _variable(member: str) -> str:
    return variable(f"kafka_{member}")


def _text(value: Any) -> Any:
    match value:
        case SecretStr():
            return value.get_secret_value()
        case Path():
            return str(value.expanduser().absolute())
        case None:
            return ""
        case _:
            return value
