"""librdkafka's settings of authentication and encryption, and the sentences for what a broker refuses there."""

import os
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError

from headwater.errors import SetupError
from headwater.model.worker import KafkaAccess

log = structlog.get_logger(__name__)

_SIGNER: Final = "aws_msk_iam_sasl_signer"
_CA_FILES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where distributions keep the certificates of public authorities."""

# What librdkafka, the client's binding and the libraries below write into an error's text.
_NO_TOKEN: Final = re.compile("Failed to acquire SASL OAUTHBEARER token: |OAuth token not set")
_TOKEN_TLS: Final = re.compile("SSL|TLS|certificate|trust anchors")
_TOKEN_AWAY: Final = re.compile(
    "Failed to connect|Could not|timed out|[Tt]imeout|reset|refused|Empty reply|failure when"
)
_TOKEN_STRANGE: Final = re.compile("not JSON|Expected JSON|Failed to decode")
_MECHANISMS: Final = re.compile(r"supported mechanisms: (\w[\w, -]*?) *(?:\(|$)")
_OUT_OF_TURN: Final = "not valid in current SASL state"
"""A listener without SASL says this, and so does one where a client renews a short session twice in a second."""
_UNANSWERED: Final = "failed: Local: "
"""librdkafka gives a connection that ended, or a broker that was silent, within the handshake the same code."""
_CLIENT_CERTIFICATE: Final = re.compile(
    "alert (?:bad certificate|unsupported certificate|certificate [a-z]+|unknown ca|handshake failure|access denied)"
)

_OIDC_MEMBERS: Final = {
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
            return settings | _oidc_settings(access)
        case "AWS_MSK_IAM":
            return settings | {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": iam_tokens(access.aws_region)}
        case mechanism:
            user = {"sasl.username": access.username, "sasl.password": access.password}
            return settings | {"sasl.mechanism": mechanism} | user


def _oidc_settings(access: KafkaAccess) -> dict[str, str]:
    settings = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}
    # The client's wheel knows no other place of public authorities than that of the system it was built on.
    if ca_file := _public_ca_file():
        settings["https.ca.location"] = ca_file
    return settings | _given(access, _OIDC_MEMBERS)


def _public_ca_file() -> str:
    """The file with the certificates of public authorities; empty when this system has none in a known place."""
    return next((file for file in (os.environ.get("SSL_CERT_FILE", ""), *_CA_FILES) if Path(file).is_file()), "")


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
        try:
            signed, ends_ms = MSKAuthTokenProvider.generate_auth_token(region)
        except Exception as error:
            # The client reports no more than that there was an error, and asks again after ten seconds.
            log.warning("no token for AWS MSK could be signed", reason=str(error), error=type(error).__name__)
            raise
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


def is_refusal(error: KafkaError) -> bool:
    """True for an error of authentication or encryption, which `refusal` explains.

    librdkafka reports these by `error_cb` alone, and tries again by itself.
    """
    said = error.str() or ""
    match error.code():
        case KafkaError._AUTHENTICATION | KafkaError.SASL_AUTHENTICATION_FAILED | KafkaError._SSL:
            return _OUT_OF_TURN not in said and _UNANSWERED not in said
        case KafkaError._TRANSPORT:  # with TLS 1.3 a broker refuses a client's certificate after the handshake
            return _CLIENT_CERTIFICATE.search(said) is not None
        case _:
            return False


def refusal(error: KafkaError, access: KafkaAccess) -> str:
    """The sentence for an error that `is_refusal`."""
    said = error.str() or ""
    if error.code() in {KafkaError._SSL, KafkaError._TRANSPORT}:
        return _tls_refusal(said, access)
    if _NO_TOKEN.match(said):
        return _token_refusal(said, access)
    if mechanisms := _MECHANISMS.search(said):
        return _mechanism_refusal(mechanisms[1], access)
    advice = {
        "OAUTHBEARER": "check that the brokers trust the issuer of its tokens, and the scope and the audience",
        "AWS_MSK_IAM": "check the region, and that their IAM policy allows kafka-cluster:Connect",
    }.get(access.sasl_mechanism, "check the user name and the password")
    return f"Kafka at {access.bootstrap_servers} refuses {identity(access)}: {advice}."


def _tls_refusal(said: str, access: KafkaAccess) -> str:
    kafka = f"Kafka at {access.bootstrap_servers}"
    if not _CLIENT_CERTIFICATE.search(said):
        return f"The TLS handshake with {kafka} failed: check the security protocol and the CA file."
    if access.certificate_file:
        return (
            f"{kafka} refuses the client certificate {access.certificate_file}: check that it has not expired, and "
            "that the brokers trust its authority."
        )
    return f"{kafka} demands a client certificate: set the certificate file and the key file, or use another listener."


def _mechanism_refusal(taken: str, access: KafkaAccess) -> str:
    kafka, mechanism = f"Kafka at {access.bootstrap_servers}", access.sasl_mechanism
    return (
        f"{kafka} does not take the SASL mechanism {mechanism} at this listener, but {taken}: use one of these, or "
        f"a listener that takes {mechanism}."
    )


def _token_refusal(said: str, access: KafkaAccess) -> str:
    if access.sasl_mechanism == "AWS_MSK_IAM":
        return (
            f"No token for Kafka at {access.bootstrap_servers} can be signed: give this process AWS credentials by the "
            "variables of AWS, a profile or a role. The log has the reason."
        )
    endpoint = f"The token endpoint {access.oauth_token_endpoint_url}"
    if _TOKEN_TLS.search(said):
        return f"The TLS handshake with {endpoint[0].lower()}{endpoint[1:]} failed: check the address and its CA file."
    if _TOKEN_AWAY.search(said):
        return f"{endpoint} does not answer: check that it runs and that the address is right."
    if _TOKEN_STRANGE.search(said):
        return f"{endpoint} answers without a token: check the address."
    return (
        f"{endpoint} refuses the client ID {access.oauth_client_id}: check the client ID, the client secret and the "
        "scope."
    )
