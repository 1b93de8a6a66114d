"""The consistency of the security settings of a Kafka cluster in a bindings file."""

from typing import Any

import pytest
from pydantic import ValidationError

from headwater.model.access import KafkaAccess
from headwater.model.binding import KafkaTopic, parse_bindings

TOPIC = {"topic": "t", "bootstrap_servers": "b:1"}
USER = {"username": "ann", "password": "geheim"}
OAUTH = {
    "sasl_mechanism": "OAUTHBEARER",
    "oauth_token_endpoint_url": "https://idp.example/token",
    "oauth_client_id": "headwater",
    "oauth_client_secret": "geheim",
}
IAM = {"sasl_mechanism": "AWS_MSK_IAM", "aws_region": "eu-west-1"}
CERTIFICATE = {"security_protocol": "SSL", "certificate_file": "/c.pem", "key_file": "/c.key"}


def parsed(**fields: str) -> KafkaAccess:
    binding = parse_bindings({"base.log": {"kafka": TOPIC | fields}}).find("base", "log")
    assert isinstance(binding, KafkaTopic)
    assert binding.access is not None
    return binding.access


@pytest.mark.parametrize(
    "fields",
    [
        USER,
        USER | {"sasl_mechanism": "PLAIN"},
        USER | {"sasl_mechanism": "SCRAM-SHA-256", "security_protocol": "SASL_PLAINTEXT"},
        USER | {"certificate_file": "/c.pem", "key_file": "/c.key", "ca_file": "/ca.pem"},
        OAUTH,
        OAUTH | {"oauth_scope": "s", "oauth_extensions": "a=b", "oauth_ca_file": "/ca.pem"},
        IAM,
        {"security_protocol": "PLAINTEXT"},
        {"security_protocol": "SSL"},
        CERTIFICATE,
        CERTIFICATE | {"key_password": "geheim", "ca_file": "/ca.pem"},
    ],
)
def test_accepted(fields: dict[str, str]) -> None:
    access = parsed(**fields)
    assert {name: getattr(access, name) for name in fields} == fields
    assert "geheim" not in repr(access)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"username": "ann"}, r"sasl_mechanism SCRAM-SHA-512 needs password \(or password_file\): add"),
        ({"sasl_mechanism": "PLAIN"}, r"PLAIN needs username and password \(or password_file\)"),
        (OAUTH | {"oauth_client_secret": ""}, r"needs oauth_client_secret \(or oauth_client_secret_file\)"),
        (OAUTH | {"oauth_token_endpoint_url": ""}, "OAUTHBEARER needs oauth_token_endpoint_url"),
        ({"sasl_mechanism": "AWS_MSK_IAM"}, "AWS_MSK_IAM needs aws_region"),
        (IAM | {"security_protocol": "SASL_PLAINTEXT"}, "AWS_MSK_IAM needs security_protocol SASL_SSL"),
        (
            USER | {"oauth_scope": "s"},
            "oauth_scope applies only to sasl_mechanism OAUTHBEARER, but sasl_mechanism is SCRAM-SHA-512: remove",
        ),
        (
            OAUTH | USER,
            "password applies only to sasl_mechanism PLAIN or SCRAM-SHA-256 or SCRAM-SHA-512, but .* OAUTHBEARER",
        ),
        (IAM | {"oauth_client_id": "x"}, "oauth_client_id applies only to sasl_mechanism OAUTHBEARER"),
        (
            {"security_protocol": "PLAINTEXT", "sasl_mechanism": "PLAIN"},
            "sasl_mechanism applies only to security_protocol SASL_PLAINTEXT or SASL_SSL, but .* is PLAINTEXT",
        ),
        (
            {"security_protocol": "SSL", "username": "ann"},
            "username applies only to security_protocol SASL_PLAINTEXT or",
        ),
        (
            USER | {"security_protocol": "SASL_PLAINTEXT", "ca_file": "/ca.pem"},
            "ca_file applies only to security_protocol SSL or SASL_SSL, but security_protocol is SASL_PLAINTEXT",
        ),
        (CERTIFICATE | {"key_file": ""}, "certificate_file and key_file need each other"),
        ({"security_protocol": "SSL", "key_password": "geheim"}, "key_password needs key_file"),
        (
            USER | {"sasl_mechanism": "GSSAPI"},
            r"GSSAPI \(Kerberos\) is not supported, .* Use a listener with SCRAM-SHA-512, OAUTHBEARER or client cert",
        ),
        (USER | {"sasl_mechanism": "DIGEST"}, "Input should be 'PLAIN'"),
    ],
)
def test_rejected(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence) as raised:
        parsed(**fields)
    assert "geheim" not in str(raised.value)
