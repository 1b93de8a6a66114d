"""At-least-once delivery: sinks and dead letters share one producer; what it refused is sent again by reading again."""

import hashlib
import json
from collections.abc import Callable, Sequence

from headwater.engine.chain import Flight, Rejected
from headwater.model.record import Failure, Headers, RecordBatch
from headwater.sinks.base import CONFIG_HEADER, SOURCE_HEADER, Producer, Sink, oversize, source_id

MAX_MESSAGE_BYTES = 1024


class DeadLetters:
    """Writes records that could not be processed to the dead-letter topic: the source record's own bytes."""

    def __init__(self, topic: str, revision: int) -> None:
        self._topic = topic
        self._revision = b"%d" % revision

    def send(self, flight: Flight, producer: Producer) -> None:
        """Queue one dead letter per rejected record of the batch."""
        if not flight.rejected:
            return
        rows, source = flight.source_rows(), flight.source
        for rejected in flight.rejected:
            self._send(source, rows[rejected.partition, rejected.offset], rejected, producer)

    def _send(self, source: RecordBatch, row: int, rejected: Rejected, producer: Producer) -> None:
        origin = source_id(source.topic, rejected.partition, rejected.offset, rejected.output)
        headers = [*_headers(rejected.failure), (SOURCE_HEADER, origin), (CONFIG_HEADER, self._revision)]
        value, key = source.values[row], source.keys[row]
        if oversize(value, key, headers) is not None:
            value = _stub(value or b"", key)
            key = None if oversize(value, key, headers) is not None else key
        producer.produce(self._topic, value, key, rejected.partition, source.timestamps[row], headers)


def _stub(value: bytes, key: bytes | None) -> bytes:
    """What stands for a record that is too large for the dead-letter topic."""
    stub = {
        "headwater": "record too large for the dead-letter topic",
        "sha256": hashlib.sha256(value).hexdigest(),
        "bytes": len(value),
        "key_bytes": len(key or b""),
    }
    return json.dumps(stub).encode()


def _headers(failure: Failure) -> Headers:
    texts = {
        "headwater-error": failure.error,
        "headwater-message": failure.message,
        "headwater-transform": failure.transform,
        "headwater-line": failure.line,
        "headwater-column": failure.column,
        "headwater-attempts": failure.attempts,
    }
    return [(name, _text(value)) for name, value in texts.items() if value is not None]


def _text(value: str | int) -> bytes:
    """UTF-8 of at most MAX_MESSAGE_BYTES, cut between characters."""
    data = str(value).encode(errors="replace")
    return data if len(data) <= MAX_MESSAGE_BYTES else data[:MAX_MESSAGE_BYTES].decode(errors="ignore").encode()


class AtLeastOnce:
    """Delivers batches in order. Everything is acknowledged when `unacknowledged` is 0 and `failures` is empty."""

    def __init__(
        self, sinks: Sequence[Sink], dead_letters: DeadLetters, producer_factory: Callable[[], Producer]
    ) -> None:
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._make = producer_factory
        self._producer = producer_factory()

    def connect(self, timeout_s: float) -> None:
        """Return when Kafka answers and has all topics. Raises BrokerUnavailable."""
        self._producer.connect(timeout_s)

    def deliver(self, flight: Flight) -> tuple[int, list[Failure]]:
        """Queue a finished batch for every sink, and its dead letters. Never waits.

        Returns the records queued, counted once per sink, and those that a sink could not take.
        """
        flight.settle()
        refused: list[Failure] = []
        if flight.kept:
            for sink in self._sinks:
                refused += sink.send(flight.kept, self._producer)
        flight.reject(refused)
        self._dead_letters.send(flight, self._producer)
        return len(flight.kept) * len(self._sinks) - len(refused), refused

    def saturated(self) -> bool:
        """True while the producer's queue is full: deliver no further batch."""
        return self._producer.saturated()

    def unacknowledged(self, timeout_s: float) -> int:
        """Wait for acknowledgements; how many records still have none."""
        return self._producer.flush(timeout_s)

    def failures(self) -> list[str]:
        """What Kafka refused since the last call; then nothing delivered since the last commit may be committed."""
        return self._producer.failures()

    def abort(self) -> None:
        """Throw away what is queued, and go on with a new producer."""
        self._producer.close()
        self._producer = self._make()

    def close(self) -> None:
        """Free the producer. Unacknowledged records are read again by the next worker."""
        self._producer.close()
