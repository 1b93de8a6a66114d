"""Security settings of Kafka clients, for the installation's cluster and for bindings."""

from collections.abc import Callable, Collection
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

ScramMechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]

SECRETS: Final = ("password", "oauth_client_secret", "key_password")
"""The members that are secrets. Each may be given by a file: the member `<name>_file` is then the path."""
FILES: Final = ("ca_file", "certificate_file", "key_file", "oauth_ca_file")
"""The members that are paths of files."""

_PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_NO_KERBEROS: Final = (
    "GSSAPI (Kerberos) is not supported, because Headwater's Kafka client is built without it. Use a listener with "
    "SCRAM-SHA-512, OAUTHBEARER or client certificates (security protocol SSL) instead"
)


def _known_mechanism(name: Any) -> Any:
    mechanism = name.upper() if isinstance(name, str) else name
    if mechanism == "GSSAPI":
        raise ValueError(_NO_KERBEROS)
    return mechanism


SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Annotated[
    Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"], BeforeValidator(_known_mechanism)
]


class KafkaSecurity(BaseModel):
    """Security settings of a Kafka client, as plain values that fit into a worker's spec.

    `require_consistent` checks the combination.
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
    oauth_ca_file: str = ""  # of the token endpoint

    aws_region: str = ""

    ca_file: str = ""  # of the brokers
    certificate_file: str = ""  # of the client
    key_file: str = ""
    key_password: str = Field(default="", repr=False)

    @property
    def uses_sasl(self) -> bool:
        """Whether the client authenticates by a SASL mechanism."""
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """Whether the connection to the brokers is encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_scram(self) -> bool:
        """Whether the client authenticates as a SCRAM user."""
        return self.uses_sasl and self.sasl_mechanism.startswith("SCRAM-")


_BY_MECHANISM: Final[dict[str, tuple[str, ...]]] = {
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
"""The SASL mechanisms to which each of these members applies."""
_TLS_MEMBERS: Final = ("ca_file", "certificate_file", "key_file", "key_password")
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(_PASSWORD_MECHANISMS, ("username", "password")),
    "OAUTHBEARER": ("oauth_token_endpoint_url", "oauth_client_id", "oauth_client_secret"),
    "AWS_MSK_IAM": ("aws_region",),
}


def applicable_fields(security: KafkaSecurity) -> frozenset[str]:
    """Return the members that apply to the security protocol and the SASL mechanism."""
    members = {"security_protocol"}
    if security.uses_sasl:
        members |= {"sasl_mechanism"}
        members |= {member for member, mechanisms in _BY_MECHANISM.items() if security.sasl_mechanism in mechanisms}
    if security.uses_tls:
        members |= set(_TLS_MEMBERS)
    return frozenset(members)


def require_consistent(security: KafkaSecurity, given: Collection[str], name: Callable[[str], str] = str) -> None:
    """Raise ValueError when a member is missing, or when a given one does not apply.

    Messages contain no secrets.

    Args:
        security: All members.
        given: The members that were set explicitly; the others have their defaults.
        name: Returns the name of a member for the user, such as that of its setting.
    """
    _require_members(security, name)
    require_applicable(security, given, name)


def require_applicable(security: KafkaSecurity, given: Collection[str], name: Callable[[str], str] = str) -> None:
    """Raise ValueError when a member does not apply to the protocol and the mechanism.

    See `require_consistent` for the parameters.
    """
    for member in sorted(set(given) - applicable_fields(security)):
        if getattr(security, member):
            raise ValueError(_not_applicable(security, member, name))


def _require_members(security: KafkaSecurity, name: Callable[[str], str]) -> None:
    mechanism = security.sasl_mechanism
    if security.uses_sasl:
        if missing := [member for member in _NEEDED[mechanism] if not getattr(security, member)]:
            listed = " and ".join(_alternatives(member, name) for member in missing)
            raise ValueError(f"{name('sasl_mechanism')} {mechanism} needs {listed}: add what is missing")
        if mechanism == "AWS_MSK_IAM" and not security.uses_tls:
            raise ValueError(f"{name('sasl_mechanism')} {mechanism} needs {name('security_protocol')} SASL_SSL")
    if bool(security.certificate_file) != bool(security.key_file):
        raise ValueError(f"{name('certificate_file')} and {name('key_file')} need each other: set both or none")
    if security.key_password and not security.key_file:
        raise ValueError(f"{name('key_password')} needs {name('key_file')}, the file of the key that it opens")


def _alternatives(member: str, name: Callable[[str], str]) -> str:
    return f"{name(member)} (or {name(member + '_file')})" if member in SECRETS else name(member)


def _not_applicable(security: KafkaSecurity, member: str, name: Callable[[str], str]) -> str:
    protocol, mechanism = name("security_protocol"), name("sasl_mechanism")
    if member in _TLS_MEMBERS or not security.uses_sasl:
        wanted = "SSL or SASL_SSL" if member in _TLS_MEMBERS else "SASL_PLAINTEXT or SASL_SSL"
        where = f"{protocol} {wanted}, but {protocol} is {security.security_protocol}"
    else:
        wanted = " or ".join(_BY_MECHANISM[member])
        where = f"{mechanism} {wanted}, but {mechanism} is {security.sasl_mechanism}"
    return f"{name(member)} applies only to {where}: remove the first or change the second"
