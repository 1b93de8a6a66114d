"""librdkafka's settings of authentication and encryption, and the sentences for what a broker refuses there."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

from confluent_kafka import KafkaError

from headwater.errors import SetupError
from headwater.model.worker import KafkaAccess

REFUSALS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL})
"""The errors that `refusal` explains. librdkafka reports them by `error_cb` alone, and tries again by itself."""

_SIGNER: Final = "aws_msk_iam_sasl_signer"
_NO_TOKEN: Final = "Failed to acquire SASL OAUTHBEARER token"  # noqa: S105 - words of librdkafka
_HTTP_STATUS: Final = re.compile(r"\((4\d\d)\)")
_SUPPORTED: Final = re.compile(r"supported mechanisms: ([\w, -]+)")
_REFUSED_CERTIFICATE: Final = re.compile(r"alert (?:bad|unknown|unsupported|certificate|handshake|decrypt|revoked)")

_MEMBERS: Final = {
    "oauth_token_endpoint_url": "sasl.oauthbearer.token.endpoint.url",
    "oauth_client_id": "sasl.oauthbearer.client.id",
    "oauth_client_secret": "sasl.oauthbearer.client.secret",
    "oauth_scope": "sasl.oauthbearer.scope",
    "oauth_extensions": "sasl.oauthbearer.extensions",
    "oauth_ca_file": "https.ca.location",
}
_TLS_MEMBERS: Final = {
    "ca_file": "ssl.ca.location",
    "certificate_file": "ssl.certificate.location",
    "key_file": "ssl.key.location",
    "key_password": "ssl.key.password",
}


def security_settings(access: KafkaAccess) -> dict[str, Any]:
    """The part of a client's settings that says how it authenticates and encrypts.

    Raises SetupError when the signer of AWS MSK is not installed.
    """
    settings: dict[str, Any] = {"security.protocol": access.security_protocol}
    if access.uses_tls:
        settings |= _given(access, _TLS_MEMBERS)
    if not access.uses_sasl:
        return settings
    match access.sasl_mechanism:
        case "OAUTHBEARER":
            oidc = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}
            return settings | oidc | _given(access, _MEMBERS)
        case "AWS_MSK_IAM":
            return settings | {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": iam_tokens(access.aws_region)}
        case mechanism:
            user = {"sasl.username": access.username, "sasl.password": access.password}
            return settings | {"sasl.mechanism": mechanism} | user


def _given(access: KafkaAccess, names: dict[str, str]) -> dict[str, str]:
    return {name: value for member, name in names.items() if (value := getattr(access, member))}


def iam_tokens(region: str) -> Callable[[str], tuple[str, float]]:
    """An `oauth_cb` that signs a token with the AWS credentials of this process.

    It returns the token and the time of its end in seconds since the epoch. librdkafka calls it again after four
    fifths of a token's life. Raises SetupError when the signer is not installed.
    """
    if find_spec(_SIGNER) is None:
        raise SetupError(
            "The SASL mechanism AWS_MSK_IAM needs a package that is not installed: "
            "`.venv/bin/pip install -e '.[msk]'` installs it."
        )
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # an extra of the package

    def token(_config: str) -> tuple[str, float]:
        signed, ends_ms = MSKAuthTokenProvider.generate_auth_token(region)
        return signed, ends_ms / 1000

    return token


def identity(access: KafkaAccess) -> str:
    """Whom the brokers take the client for, as the subject of a sentence."""
    if access.uses_sasl:
        match access.sasl_mechanism:
            case "OAUTHBEARER":
                return f"the client ID {access.oauth_client_id}"
            case "AWS_MSK_IAM":
                return "the AWS credentials of this process"
            case _:
                return f"the user {access.username}"
    return f"the client certificate {access.certificate_file}" if access.certificate_file else "an anonymous client"


def refusal(error: KafkaError, access: KafkaAccess) -> str:
    """The sentence for one of the REFUSALS."""
    said = error.str() or ""
    if error.code() == KafkaError._SSL:
        return _tls_refusal(said, access)
    if _NO_TOKEN in said:
        return _token_refusal(said, access)
    if supported := _SUPPORTED.search(said):
        return (
            f"Kafka at {access.bootstrap_servers} does not take the SASL mechanism {access.sasl_mechanism}, only "
            f"{supported[1]}: choose one of these, or name a listener that takes {access.sasl_mechanism}."
        )
    advice = {
        "OAUTHBEARER": "check that the brokers trust its issuer, and its scope and audience",
        "AWS_MSK_IAM": "check the region, and that their IAM policy allows kafka-cluster:Connect",
    }.get(access.sasl_mechanism, "check the user name and the password")
    return f"Kafka at {access.bootstrap_servers} refuses {identity(access)}: {advice}."


def _tls_refusal(said: str, access: KafkaAccess) -> str:
    if _REFUSED_CERTIFICATE.search(said):
        if access.certificate_file:
            return (
                f"Kafka at {access.bootstrap_servers} refuses {identity(access)}: check that it has not expired, and "
                "that the brokers trust its authority."
            )
        return (
            f"Kafka at {access.bootstrap_servers} wants a client certificate: name the files of one and of its key, or "
            "another listener."
        )
    return (
        f"The TLS handshake with Kafka at {access.bootstrap_servers} failed: check the security protocol and the CA "
        "file."
    )


def _token_refusal(said: str, access: KafkaAccess) -> str:
    if access.sasl_mechanism == "AWS_MSK_IAM":
        return (
            f"No token for Kafka at {access.bootstrap_servers} could be signed: give this process AWS credentials, "
            "by the variables of AWS, a profile or a role."
        )
    if _HTTP_STATUS.search(said):
        return (
            f"The token endpoint {access.oauth_token_endpoint_url} refuses the client ID {access.oauth_client_id}: "
            "check the client ID, its secret and the scope."
        )
    return (
        f"The token endpoint {access.oauth_token_endpoint_url} gives no token: check that it runs, and that the "
        f"address and the CA file are right."
    )
