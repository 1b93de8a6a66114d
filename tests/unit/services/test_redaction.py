"""What belongs to the operator is not in sentences that users read."""

import pytest

from headwater.services.redaction import redactor

REDACT = redactor(["kafka.example:9093", "kafka.example", "evm-logs", "", "hw", "/var/lib/headwater", "log"])


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("Kafka at kafka.example:9093 does not answer.", "Kafka at … does not answer."),
        ("Kafka at kafka.example:9093,kafka.example:1 is away.", "Kafka at …,…:1 is away."),
        ("The source topic evm-logs is not on the broker.", "The source topic … is not on the broker."),
        ("The topic is evm-logs.", "The topic is …."),
        ("The topic evm-logs-fast and my-evm-logs stay.", "The topic evm-logs-fast and my-evm-logs stay."),
        ("It catalogs hw in /var/lib/headwater/workers.", "It catalogs hw in …/workers."),
        ("", ""),
    ],
)
def test_names_are_hidden_where_they_are_words(sentence: str, shown: str) -> None:
    assert REDACT(sentence) == shown


def test_without_names_all_stays() -> None:
    assert redactor([])("Kafka at kafka.example:9093") == "Kafka at kafka.example:9093"
