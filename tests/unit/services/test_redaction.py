"""Names of internal systems are redacted from messages to users."""

import pytest

from headwater.services.redaction import redactor

REDACT = redactor(["kafka.example:9093", "kafka.example", "evm-logs", "", "hw", "/var/lib/headwater", "log"])


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("Kafka at kafka.example:9093 does not answer.", "Kafka at … does not answer."),
        ("Kafka at kafka.example:9093,kafka.example:1 is away.", "Kafka at …,…:1 is away."),
        ("The source topic evm-logs does not exist.", "The source topic … does not exist."),
        ("The topic is evm-logs.", "The topic is …."),
        ("The topic evm-logs-fast and my-evm-logs stay.", "The topic evm-logs-fast and my-evm-logs stay."),
        ("It catalogs hw in /var/lib/headwater/workers.", "It catalogs hw in …/workers."),
        ("can't start: [Errno 2] No such file: '/opt/hw/bin/python'", "can't start: [Errno 2] No such file: '…'"),
        ("File /etc/keys/sa.json was not found.", "File … was not found."),
        ("10.2.3.4:6379, 10.2.3.4 and [fe80::1]:9092 are away.", "…, … and … are away."),
        ("Kafka 3.9.0 is read/write; see POST …/deploy.", "Kafka 3.9.0 is read/write; see POST …/deploy."),
        ("The user sa-1@project-x.iam.gserviceaccount.com may not.", "The user … may not."),
        ("certificate is not valid for 'b-3.internal'. (_ssl.c:1)", "certificate is not valid for '…'. (_ssl.c:1)"),
        ("At 12:34:56 of 2026-01-02, 1.5 of 3/4 in base.log.", "At 12:34:56 of 2026-01-02, 1.5 of 3/4 in base.…."),
        ("", ""),
    ],
)
def test_names_are_redacted_as_whole_words(sentence: str, shown: str) -> None:
    assert REDACT(sentence) == shown


def test_without_names_nothing_is_redacted() -> None:
    assert redactor([])("Kafka at kafka.example:9093") == "Kafka at kafka.example:9093"
