"""The consumer that docs/consuming.md shows."""

import re
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import consumer_settings
from headwater.sinks.idempotent_producer import IdempotentKafkaProducer
from headwater.sinks.outputs import OutputBatch
from tests.support.kafka import KafkaServer

PAGE = Path(__file__).parents[3] / "docs" / "consuming.md"
MAX_LINES = 14


class Done(Exception):
    """Raised when the last record was consumed."""


def test_the_documented_consumer_drops_repeats(kafka: KafkaServer) -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert program.count("\n") <= MAX_LINES
    topic = kafka.create_topic(kafka.unique("out"), 1)
    names = [b"in/0/0/0", b"in/0/1/0", b"in/0/0/0", b"in/0/1/0", b"in/0/2/0", b"in/0/1/0", b"in/0/3/0"]
    producer = IdempotentKafkaProducer(kafka.access, [topic])
    nothing: list[bytes | None] = [None] * len(names)
    producer.produce(OutputBatch.of(topic, names, nothing, [0] * len(names), [1] * len(names), names))
    assert producer.flush(60) == 0
    producer.close()
    handled: list[bytes] = []

    def handle(value: bytes) -> None:
        handled.append(value)
        if value == names[-1]:
            raise Done

    group = kafka.unique("reader")
    settings = consumer_settings(kafka.access, ClientErrors(kafka.access), group) | {"auto.offset.reset": "earliest"}
    scope: dict[str, Any] = {"Consumer": Consumer, "settings": settings, "topic": topic, "handle": handle}
    try:
        exec(program, scope)
    except Done:
        scope["consumer"].close()
    assert handled == [b"in/0/0/0", b"in/0/1/0", b"in/0/2/0", b"in/0/3/0"]
