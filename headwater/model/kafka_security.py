"""How a client authenticates to a Kafka cluster: one model for the installation's cluster and for stream bindings."""

from collections.abc import Callable, Collection
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

ScramMechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]

SECRETS: Final = ("password", "oauth_client_secret", "key_password")
"""The members that are secrets. Each may be given as the path of a file, by its name with `_file` at its end."""
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
    """Plain values, so that a worker's spec can carry them. `require_consistent` says which belong together."""

    model_config = ConfigDict(frozen=True)

    security_protocol: SecurityProtocol = "SASL_PLAINTEXT"
    sasl_mechanism: SaslMechanism = "SCRAM-SHA-512"  # without meaning unless the security protocol begins with SASL_

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
        """True when the client authenticates by a SASL mechanism."""
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """True when the connection to the brokers is encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_scram(self) -> bool:
        """True when the client authenticates as a SCRAM user."""
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
"""The mechanisms that each of these members belongs to."""
_TLS_MEMBERS: Final = ("ca_file", "certificate_file", "key_file", "key_password")
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(_PASSWORD_MECHANISMS, ("username", "password")),
    "OAUTHBEARER": ("oauth_token_endpoint_url", "oauth_client_id", "oauth_client_secret"),
    "AWS_MSK_IAM": ("aws_region",),
}


def members_of(security: KafkaSecurity) -> frozenset[str]:
    """The members that have a meaning with this security protocol and this mechanism."""
    members = {"security_protocol"}
    if security.uses_sasl:
        members |= {"sasl_mechanism"}
        members |= {member for member, mechanisms in _BY_MECHANISM.items() if security.sasl_mechanism in mechanisms}
    if security.uses_tls:
        members |= set(_TLS_MEMBERS)
    return frozenset(members)


def require_consistent(security: KafkaSecurity, given: Collection[str], name: Callable[[str], str] = str) -> None:
    """Raise ValueError when a member is missing, or when a given one has no meaning beside the others.

    given: the members that somebody wrote; the others have their defaults. name: what a member is called where it was
    written. No sentence shows a value that may be a secret.
    """
    _require_members(security, name)
    require_fitting(security, given, name)


def require_fitting(security: KafkaSecurity, given: Collection[str], name: Callable[[str], str] = str) -> None:
    """Raise ValueError when a given member has no meaning beside the others: see `require_consistent`."""
    for member in sorted(set(given) - members_of(security)):
        if getattr(security, member):
            raise ValueError(_misfit(security, member, name))


def _require_members(security: KafkaSecurity, name: Callable[[str], str]) -> None:
    mechanism = security.sasl_mechanism
    if security.uses_sasl:
        if missing := [member for member in _NEEDED[mechanism] if not getattr(security, member)]:
            listed = " and ".join(_alternatives(member, name) for member in missing)
            raise ValueError(f"{name('sasl_mechanism')} {mechanism} needs {listed}: add what is missing")
        if mechanism == "AWS_MSK_IAM" and not security.uses_tls:
            raise ValueError(f"{name('sasl_mechanism')} {mechanism} needs {name('security_protocol')} SASL_SSL")
    if bool(security.certificate_file) != bool(security.key_file):
        raise ValueError(f"{name('certificate_file')} and {name('key_file')} need each other: give both or none")
    if security.key_password and not security.key_file:
        raise ValueError(f"{name('key_password')} needs {name('key_file')}, the file of the key that it opens")


def _alternatives(member: str, name: Callable[[str], str]) -> str:
    return f"{name(member)} (or {name(member + '_file')})" if member in SECRETS else name(member)


def _misfit(security: KafkaSecurity, member: str, name: Callable[[str], str]) -> str:
    protocol, mechanism = name("security_protocol"), name("sasl_mechanism")
    if member in _TLS_MEMBERS or not security.uses_sasl:
        wanted = "SSL or SASL_SSL" if member in _TLS_MEMBERS else "SASL_PLAINTEXT or SASL_SSL"
        where = f"{protocol} {wanted}, and {protocol} is {security.security_protocol}"
    else:
        wanted = " or ".join(_BY_MECHANISM[member])
        where = f"{mechanism} {wanted}, and {mechanism} is {security.sasl_mechanism}"
    return f"{name(member)} belongs to {where}: remove the one or change the other"
