"""Builds librdkafka's settings for SASL and TLS, and explains their errors."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError

from headwater.extras import require_extra
from headwater.model.access import KafkaAccess

log = structlog.get_logger(__name__)

_CA_FILES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where Linux distributions keep the certificates of public authorities."""

# Patterns in the error texts of librdkafka, confluent-kafka, OpenSSL and curl.
_NO_TOKEN: Final = re.compile("Failed to acquire SASL OAUTHBEARER token: |OAuth token not set")
_TOKEN_TLS: Final = re.compile("SSL|TLS|certificate|trust anchors")
_TOKEN_ENDPOINT_UNREACHABLE: Final = re.compile(
    "Failed to connect|Could not|timed out|[Tt]imeout|reset|refused|Empty reply|failure when"
)
_TOKEN_RESPONSE_INVALID: Final = re.compile("not JSON|Expected JSON|Failed to decode")
_MECHANISMS: Final = re.compile(r"supported mechanisms: (\w[\w, -]*?) *(?:\(|$)")
_ILLEGAL_SASL_STATE: Final = "not valid in current SASL state"
"""Error text of a listener without SASL, and of a listener on which a client re-authenticates twice within a second. It
does not mean that the credentials are wrong."""
_SASL_INTERRUPTED: Final = "failed: Local: "
"""librdkafka uses the code of an authentication failure also when the connection closes or times out during the
handshake; this text tells these cases apart."""
_CLIENT_CERTIFICATE: Final = re.compile(
    "alert (?:bad certificate|unsupported certificate|certificate [a-z]+|unknown ca|handshake failure|access denied)"
)

_OIDC_SETTINGS_BY_FIELD: Final = {
    "oauth_token_endpoint_url": "sasl.oauthbearer.token.endpoint.url",
    "oauth_client_id": "sasl.oauthbearer.client.id",
    "oauth_client_secret": "sasl.oauthbearer.client.secret",
    "oauth_scope": "sasl.oauthbearer.scope",
    "oauth_extensions": "sasl.oauthbearer.extensions",
    "oauth_ca_file": "https.ca.location",
}
_TLS_SETTINGS_BY_FIELD: Final = {
    "ca_file": "ssl.ca.location",
    "certificate_file": "ssl.certificate.location",
    "key_file": "ssl.key.location",
    "key_password": "ssl.key.password",
}


def security_settings(access: KafkaAccess) -> dict[str, Any]:
    """Return the settings of a client that say how it authenticates and encrypts.

    Raises SetupError when the signer of AWS MSK is not installed.
    """
    settings: dict[str, Any] = {"security.protocol": access.security_protocol}
    if access.uses_tls:
        settings |= _configured_settings(access, _TLS_SETTINGS_BY_FIELD)
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
    # The wheel's librdkafka looks for CA certificates only where the system that built the wheel keeps them.
    if ca_file := _public_ca_file():
        settings["https.ca.location"] = ca_file
    return settings | _configured_settings(access, _OIDC_SETTINGS_BY_FIELD)


def _public_ca_file() -> str:
    """Return the file with the certificates of public authorities.

    Returns an empty string when no known file exists on this system.
    """
    return next((file for file in (os.environ.get("SSL_CERT_FILE", ""), *_CA_FILES) if Path(file).is_file()), "")


def _configured_settings(access: KafkaAccess, settings_by_field: dict[str, str]) -> dict[str, str]:
    return {setting: value for field, setting in settings_by_field.items() if (value := getattr(access, field))}


def iam_tokens(region: str) -> Callable[[str], tuple[str, float]]:
    """Return an `oauth_cb` that signs a token with the AWS credentials of this process.

    The callback returns the token and its expiry in seconds since the epoch. librdkafka calls it again after four
    fifths of a token's lifetime. Raises SetupError when the signer is not installed.
    """
    require_extra("msk", "aws_msk_iam_sasl_signer", "The SASL mechanism AWS_MSK_IAM")
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    def token(_config: str) -> tuple[str, float]:
        try:
            signed, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
        except Exception as error:
            # An AdminClient of confluent-kafka reports only that there was an error. All clients ask again later.
            log.warning(
                "signing a token for AWS MSK failed; it is retried", reason=str(error), error=type(error).__name__
            )
            raise
        return signed, expires_ms / 1000

    return token


def identity(access: KafkaAccess) -> str:
    """Return a phrase that names the client's identity, for use in messages ("the user x")."""
    if access.uses_sasl:
        match access.sasl_mechanism:
            case "OAUTHBEARER":
                return f"the client ID {access.oauth_client_id}"
            case "AWS_MSK_IAM":
                return "the AWS credentials of this process"
            case _:
                return f"the user {access.username}"
    return f"the client certificate {access.certificate_file}" if access.certificate_file else "an anonymous client"


def is_security_error(error: KafkaError) -> bool:
    """Return True for an authentication or TLS error, which `security_error_message` explains.

    librdkafka reports these errors only through `error_cb`, and retries by itself.
    """
    message = error.str() or ""
    match error.code():
        case KafkaError._AUTHENTICATION | KafkaError.SASL_AUTHENTICATION_FAILED | KafkaError._SSL:
            return _ILLEGAL_SASL_STATE not in message and _SASL_INTERRUPTED not in message
        case KafkaError._TRANSPORT:  # with TLS 1.3 a broker rejects a client's certificate after the handshake
            return _CLIENT_CERTIFICATE.search(message) is not None
        case _:
            return False


def security_error_message(error: KafkaError, access: KafkaAccess) -> str:
    """Return the message for an error for which `is_security_error` is true."""
    message = error.str() or ""
    if error.code() in {KafkaError._SSL, KafkaError._TRANSPORT}:
        return _tls_error_message(message, access)
    if _NO_TOKEN.match(message):
        return _token_error_message(message, access)
    if mechanisms := _MECHANISMS.search(message):
        return _mechanism_error_message(mechanisms[1], access)
    advice = {
        "OAUTHBEARER": "check that the brokers trust the issuer of its tokens, and the scope and the audience",
        "AWS_MSK_IAM": "check the region, and that their IAM policy allows kafka-cluster:Connect",
    }.get(access.sasl_mechanism, "check the user name and the password")
    return f"Kafka at {access.bootstrap_servers} rejects {identity(access)}: {advice}."


def _tls_error_message(message: str, access: KafkaAccess) -> str:
    kafka = f"Kafka at {access.bootstrap_servers}"
    if not _CLIENT_CERTIFICATE.search(message):
        return f"The TLS handshake with {kafka} failed: check the security protocol and the CA file."
    if access.certificate_file:
        return (
            f"{kafka} rejects the client certificate {access.certificate_file}: check that it has not expired, and "
            "that the brokers trust its authority."
        )
    return f"{kafka} requires a client certificate: set the certificate file and the key file, or use another listener."


def _mechanism_error_message(offered: str, access: KafkaAccess) -> str:
    kafka, mechanism = f"Kafka at {access.bootstrap_servers}", access.sasl_mechanism
    return (
        f"{kafka} does not accept the SASL mechanism {mechanism} on this listener, but {offered}: use one of these, or "
        f"a listener that accepts {mechanism}."
    )


def _token_error_message(message: str, access: KafkaAccess) -> str:
    if access.sasl_mechanism == "AWS_MSK_IAM":
        return (
            f"No token for Kafka at {access.bootstrap_servers} can be signed: give this process AWS credentials by the "
            "variables of AWS, a profile or a role. The log has the reason."
        )
    endpoint = f"The token endpoint {access.oauth_token_endpoint_url}"
    if _TOKEN_TLS.search(message):
        return f"The TLS handshake with {endpoint[0].lower()}{endpoint[1:]} failed: check the address and its CA file."
    if _TOKEN_ENDPOINT_UNREACHABLE.search(message):
        return f"{endpoint} does not answer: check that it runs and that the address is right."
    if _TOKEN_RESPONSE_INVALID.search(message):
        return f"{endpoint} did not return a token: check the URL."
    return (
        f"{endpoint} rejects the client ID {access.oauth_client_id}: check the client ID, the client secret and the "
        "scope."
    )
