"""Reads the results of the demo's pipeline, and compares them with the expected ones."""

import contextlib
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from headwater.cli.demo.streams import canonical
from headwater.errors import SetupError


class Results:
    """The results that were read.

    Args:
        consumer: A consumer of the topic of the results.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._results: Counter[str] = Counter()
        self._record_ids: set[str] = set()

    def read_while(self, should_continue: Callable[[], bool], within_s: float) -> list[float]:
        """Read while `should_continue` returns true, at most `within_s` seconds.

        Returns the times in ms between the writing of each record to the stream and its reading.
        """
        latencies = []
        deadline = time.monotonic() + within_s
        while should_continue() and time.monotonic() < deadline:
            for message in self._consumer.consume(500, 0.05):
                error, value = message.error(), message.value()
                if error is not None or value is None:
                    raise SetupError(f"Reading the pipeline's topic failed: {error}.")
                record_id = str(dict(message.headers() or [])["headwater-src"])
                if record_id not in self._record_ids:
                    self._record_ids.add(record_id)
                    latencies.append(time.time() * 1000 - message.timestamp()[1])
                    self._results[canonical(json.loads(value))] += 1
        return latencies

    def read_all(self, required: list[str], within_s: float) -> None:
        """Read until all required results have been read, at most `within_s` seconds."""
        self.read_while(lambda: not self._has_all(required), within_s)

    def _has_all(self, required: list[str]) -> bool:
        return self._results.total() >= len(required) and not Counter(required) - self._results

    def differences(self, required: list[str], optional: set[str]) -> tuple[int, int]:
        """Return how many required results are missing, and how many others are unexpected."""
        missing = Counter(required) - self._results
        unexpected = [result for result in (self._results - Counter(required)) if result not in optional]
        return missing.total(), len(unexpected)


@contextlib.contextmanager
def reading(sink: dict[str, Any]) -> Iterator[Results]:
    """Open the topic of a sink, with the values of the deploy response, from its beginning."""
    values = {
        "bootstrap.servers": sink["bootstrap_servers"],
        "security.protocol": sink["security_protocol"],
        "sasl.mechanism": sink["sasl_mechanism"],
        "sasl.username": sink["username"],
        "sasl.password": sink["password"],
        "group.id": sink["consumer_group"],
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
    }
    consumer = Consumer({name: value for name, value in values.items() if value is not None})
    try:
        partitions = consumer.list_topics(sink["topic"], timeout=15).topics[sink["topic"]].partitions
        consumer.assign([TopicPartition(sink["topic"], number, 0) for number in partitions])
        yield Results(consumer)
    finally:
        consumer.close()


def percentiles(values: list[float]) -> str:
    """Return p50, p99 and the maximum of latencies in ms, as text."""
    if len(values) < 2:
        return "too few records"
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return f"p50 {cuts[49]:.0f} ms, p99 {cuts[98]:.0f} ms, max {max(values):.0f} ms"
