"""The security settings of Kafka clients, for the installation and for stream bindings."""

from collections.abc import Callable, Collection
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

ScramMechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]

SECRET_FIELDS: Final = ("password", "oauth_client_secret", "key_password")
"""The fields that are secret. A secret may be in a file, whose path is then given as `<name>_file`."""
FILE_FIELDS: Final = ("ca_file", "certificate_file", "key_file", "oauth_ca_file")
"""The fields that are paths of files."""

_PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_NO_KERBEROS: Final = (
    "GSSAPI (Kerberos) is not supported, because Headwater's Kafka client is built without it. Use a listener with "
    "SCRAM-SHA-512, OAUTHBEARER or client certificates (security protocol SSL) instead"
)


def _reject_gssapi(name: Any) -> Any:
    mechanism = name.upper() if isinstance(name, str) else name
    if mechanism == "GSSAPI":
        raise ValueError(_NO_KERBEROS)
    return mechanism


SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Annotated[
    Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"], BeforeValidator(_reject_gssapi)
]


class KafkaSecurity(BaseModel):
    """The security settings of a Kafka client.

    They are plain values, so that a worker's spec can contain them. `require_consistent` checks that the settings fit
    each other.
    """

    model_config = ConfigDict(frozen=True)

    security_protocol: SecurityProtocol = "SASL_PLAINTEXT"
    sasl_mechanism: SaslMechanism = "SCRAM-SHA-512"  # only used when security_protocol begins with SASL_

    username: str = ""
    password: str = Field(default="", repr=False)

    oauth_token_endpoint_url: str = ""
    oauth_client_id: str = ""
    oauth_client_secret: str = Field(default="", repr=False)
    oauth_scope: str = ""
    oauth_extensions: str = ""  # `name=value,…`
    oauth_ca_file: str = ""  # CA certificates of the token endpoint

    aws_region: str = ""

    ca_file: str = ""  # CA certificates of the brokers
    certificate_file: str = ""  # client certificate
    key_file: str = ""  # key of the client certificate
    key_password: str = Field(default="", repr=False)

    @property
    def uses_sasl(self) -> bool:
        """Whether the client authenticates with a SASL mechanism."""
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """Whether the connection to the brokers is encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_scram(self) -> bool:
        """Whether the client authenticates as a SCRAM user."""
        return self.uses_sasl and self.sasl_mechanism.startswith("SCRAM-")


_MECHANISMS: Final[dict[str, tuple[str, ...]]] = {
    "username": _PASSWORD_MECHANISMS,
    "password": _PASSWORD_MECHANISMS,
    "oauth_token_endpoint_url": ("OAUTHBEARER",),
    "oauth_client_id": ("OAUTHBEARER",),
    "oauth_client_secret": ("OAUTHBEARER",),
    "oauth_scope": ("OAUTHBEARER",),
    "oauth_extensions": ("OAUTHBEARER",),
    "oauth_ca_file": ("OAUTHBEARER",),
    "aws_region": ("AWS_MSK_IAM",),
}
"""By field, the SASL mechanisms to which the field applies."""
_TLS_FIELDS: Final = ("ca_file", "certificate_file", "key_file", "key_password")
_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(_PASSWORD_MECHANISMS, ("username", "password")),
    "OAUTHBEARER": ("oauth_token_endpoint_url", "oauth_client_id", "oauth_client_secret"),
    "AWS_MSK_IAM": ("aws_region",),
}
"""By SASL mechanism, the fields that must be set."""


def applicable_fields(security: KafkaSecurity) -> frozenset[str]:
    """Return the fields that apply to the security protocol and the SASL mechanism."""
    fields = {"security_protocol"}
    if security.uses_sasl:
        fields |= {"sasl_mechanism"}
        fields |= {field for field, mechanisms in _MECHANISMS.items() if security.sasl_mechanism in mechanisms}
    if security.uses_tls:
        fields |= set(_TLS_FIELDS)
    return frozenset(fields)


def require_consistent(
    security: KafkaSecurity, explicit_fields: Collection[str], name: Callable[[str], str] = str
) -> None:
    """Raise ValueError when a required field is missing, or an explicit field does not apply.

    The message contains no secrets.

    Args:
        security: The security settings.
        explicit_fields: The fields that were set explicitly. All other fields have their default values.
        name: Returns the name by which the user knows a field, such as the name of a setting.
    """
    _require_complete(security, name)
    require_applicable(security, explicit_fields, name)


def require_applicable(
    security: KafkaSecurity, explicit_fields: Collection[str], name: Callable[[str], str] = str
) -> None:
    """Raise ValueError when an explicit field does not apply.

    Which fields apply depends on the security protocol and the SASL mechanism. See `require_consistent` for the
    parameters.
    """
    for field in sorted(set(explicit_fields) - applicable_fields(security)):
        if getattr(security, field):
            raise ValueError(_not_applicable(security, field, name))


def _require_complete(security: KafkaSecurity, name: Callable[[str], str]) -> None:
    mechanism = security.sasl_mechanism
    if security.uses_sasl:
        if missing := [field for field in _REQUIRED[mechanism] if not getattr(security, field)]:
            listed = " and ".join(_name_with_file(field, name) for field in missing)
            raise ValueError(f"{name('sasl_mechanism')} {mechanism} needs {listed}: add what is missing")
        if mechanism == "AWS_MSK_IAM" and not security.uses_tls:
            raise ValueError(f"{name('sasl_mechanism')} {mechanism} needs {name('security_protocol')} SASL_SSL")
    if bool(security.certificate_file) != bool(security.key_file):
        raise ValueError(f"{name('certificate_file')} and {name('key_file')} need each other: set both or none")
    if security.key_password and not security.key_file:
        raise ValueError(f"{name('key_password')} needs {name('key_file')}, the file of the key that it opens")


def _name_with_file(field: str, name: Callable[[str], str]) -> str:
    return f"{name(field)} (or {name(field + '_file')})" if field in SECRET_FIELDS else name(field)


def _not_applicable(security: KafkaSecurity, field: str, name: Callable[[str], str]) -> str:
    if field in _TLS_FIELDS:
        condition, values = "security_protocol", "SSL or SASL_SSL"
    elif not security.uses_sasl:
        condition, values = "security_protocol", "SASL_PLAINTEXT or SASL_SSL"
    else:
        condition, values = "sasl_mechanism", " or ".join(_MECHANISMS[field])
    setting = name(condition)
    return (
        f"{name(field)} applies only to {setting} {values}, but {setting} is {getattr(security, condition)}: "
        f"remove {name(field)}, or change {setting}"
    )
