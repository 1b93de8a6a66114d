"""librdkafka's settings for SASL and TLS, AWS tokens, and authentication errors."""

import base64
import hashlib
import hmac
import sys
import time
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings, consumer_settings, producer_settings
from headwater.brokers.security import is_security_error, security_error_message, security_settings
from headwater.errors import BrokerUnavailable, SetupError
from headwater.model.access import KafkaAccess
from tests.support.ports import free_port

OAUTH = KafkaAccess(
    bootstrap_servers="k:1",
    security_protocol="SASL_SSL",
    sasl_mechanism="OAUTHBEARER",
    oauth_token_endpoint_url="https://idp.example/token",
    oauth_client_id="headwater",
    oauth_client_secret="geheim",
    oauth_scope="kafka",
    oauth_extensions="logicalCluster=lkc-1",
)
IAM = KafkaAccess(
    bootstrap_servers="k:1", security_protocol="SASL_SSL", sasl_mechanism="AWS_MSK_IAM", aws_region="eu-west-1"
)
MTLS = KafkaAccess(
    bootstrap_servers="k:1", security_protocol="SSL", certificate_file="/c.pem", key_file="/c.key", key_password="pw"
)
USER = KafkaAccess(bootstrap_servers="k:1", username="ann", password="geheim")
KEY_ID, SECRET_KEY = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS credentials in the environment, which have priority."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)


class TestSettings:
    def test_oauth(self) -> None:
        settings = security_settings(OAUTH)
        assert settings.pop("https.ca.location", "a file") != ""
        assert settings == {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
            "sasl.oauthbearer.client.id": "headwater",
            "sasl.oauthbearer.client.secret": "geheim",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
        }

    def test_the_ca_file_of_the_token_endpoint(self) -> None:
        own = OAUTH.model_copy(update={"oauth_ca_file": "/idp.pem"})
        assert security_settings(own)["https.ca.location"] == "/idp.pem"

    def test_public_certificates_are_those_of_the_system(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", __file__)
        assert security_settings(OAUTH)["https.ca.location"] == __file__

    def test_a_client_certificate(self) -> None:
        assert security_settings(MTLS) == {
            "security.protocol": "SSL",
            "ssl.certificate.location": "/c.pem",
            "ssl.key.location": "/c.key",
            "ssl.key.password": "pw",
        }

    @pytest.mark.usefixtures("aws")
    @pytest.mark.parametrize("access", [OAUTH, IAM, USER])
    def test_librdkafka_accepts_them(self, access: KafkaAccess) -> None:
        nowhere = access.model_copy(update={"bootstrap_servers": f"127.0.0.1:{free_port()}"})
        errors = ClientErrors(nowhere)
        AdminClient(admin_settings(nowhere, errors))
        Consumer(consumer_settings(nowhere, errors, "group")).close()
        Producer(producer_settings(nowhere, errors, 5))


class TestTokensOfAws:
    @pytest.mark.usefixtures("aws")
    def test_the_signature_is_the_documented_one(self) -> None:
        token, ends = security_settings(IAM)["oauth_cb"]("")
        url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
        query = dict(parse_qsl(url.query, strict_parsing=True))
        assert (url.scheme, url.netloc, url.path) == ("https", "kafka.eu-west-1.amazonaws.com", "/")
        assert (query["Action"], query["X-Amz-Algorithm"]) == ("kafka-cluster:Connect", "AWS4-HMAC-SHA256")
        assert query["X-Amz-Signature"] == signature(url.netloc, query)
        signed_at = time.mktime(time.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ")) - time.timezone
        assert ends == signed_at + int(query["X-Amz-Expires"])

    def test_a_missing_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
        with pytest.raises(SetupError, match=r"AWS_MSK_IAM needs the extra `msk`"):
            security_settings(IAM)


def signature(host: str, query: dict[str, str]) -> str:
    """Return the AWS Signature Version 4 of a presigned GET.

    The user agent is added after signing.
    """
    signed = {name: value for name, value in query.items() if name not in {"X-Amz-Signature", "User-Agent"}}
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in signed.items())
    canonical_query = "&".join(f"{name}={value}" for name, value in pairs)
    canonical = f"GET\n/\n{canonical_query}\nhost:{host}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    key_id, day, region, service, end = query["X-Amz-Credential"].split("/")
    assert (key_id, region, service, end) == (KEY_ID, "eu-west-1", "kafka-cluster", "aws4_request")
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", query["X-Amz-Date"], f"{day}/{region}/{service}/{end}", digest])
    key = f"AWS4{SECRET_KEY}".encode()
    for part in (day, region, service, end):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token: "
ALERT = "ssl://k:1/bootstrap: Receive failed: error:0A00045C:SSL routines::tlsv13 alert certificate required: SSL alert"
HANDSHAKE = (
    "SASL PLAIN mechanism handshake failed: ClusterAdmin: Unsupported SASL mechanism: broker's supported mechanisms: "
)


@pytest.mark.parametrize(
    ("access", "code", "message", "sentence"),
    [
        (USER, KafkaError._AUTHENTICATION, "Invalid username or password", "rejects the user ann: check the user name"),
        (
            OAUTH,
            KafkaError._AUTHENTICATION,
            '{"status":"invalid_token"}',
            "rejects the client ID headwater: check that",
        ),
        (
            IAM,
            KafkaError._AUTHENTICATION,
            "Access denied",
            "rejects the AWS credentials of this process: check the reg",
        ),
        (
            OAUTH,
            KafkaError._AUTHENTICATION,
            NO_TOKEN + '{"error":"invalid_client"}',
            "The token endpoint https://idp.example/token rejects the client ID headwater: check the client ID, the",
        ),
        (OAUTH, KafkaError._AUTHENTICATION, NO_TOKEN + "Could not resolve host: idp.example", "token does not answer"),
        (OAUTH, KafkaError._AUTHENTICATION, NO_TOKEN + "Failed to connect to idp.example:443", "token does not answer"),
        (
            OAUTH,
            KafkaError._AUTHENTICATION,
            NO_TOKEN + "SSL certificate OpenSSL verify result: unable to get local issuer certificate (20)",
            "The TLS handshake with the token endpoint https://idp.example/token failed: check the address and its CA",
        ),
        (
            OAUTH,
            KafkaError._AUTHENTICATION,
            NO_TOKEN + "Response is not JSON encoded: text/html",
            "did not return a token: check the URL",
        ),
        (USER, KafkaError._AUTHENTICATION, HANDSHAKE + "PLAIN (after 1ms)", "on this listener, but PLAIN: use one of"),
        (MTLS, KafkaError._TRANSPORT, ALERT, "rejects the client certificate /c.pem: check that it has not expired"),
        (
            USER,
            KafkaError._TRANSPORT,
            ALERT,
            "requires a client certificate: set the certificate file and the key file",
        ),
        (MTLS, KafkaError._SSL, "certificate verify failed", "TLS handshake with Kafka at k:1 failed: check the sec"),
    ],
)
def test_refusals(access: KafkaAccess, code: int, message: str, sentence: str) -> None:
    error = KafkaError(code, message)
    assert is_security_error(error)
    assert sentence in security_error_message(error, access)
    errors = ClientErrors(access)
    errors(error)
    with pytest.raises(BrokerUnavailable) as raised:
        errors.check()
    assert sentence in raised.value.detail
    assert "geheim" not in raised.value.detail


def test_a_too_early_reauthentication_is_not_a_rejection() -> None:
    """librdkafka reconnects by itself."""
    message = (
        "SASL OAUTHBEARER mechanism handshake failed: ClusterAdmin: Request not valid in current SASL state: broker's"
    )
    assert not is_security_error(KafkaError(KafkaError._AUTHENTICATION, message))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (KafkaError._TRANSPORT, "Disconnected while requesting ApiVersion"),
        (
            KafkaError._AUTHENTICATION,
            "SASL authentication error: SaslAuthenticateRequest failed: Local: Broker transport failure (after 0ms)",
        ),
        (
            KafkaError._AUTHENTICATION,
            "SASL SCRAM-SHA-512 mechanism handshake failed: Local: Timed out: broker's supported mechanisms: (n/a)",
        ),
    ],
)
def test_a_lost_connection_is_not_a_rejection(code: int, message: str) -> None:
    assert not is_security_error(KafkaError(code, message))
