"""Protocols of a sink, and of the producer that all sinks of a worker share."""

from typing import Protocol

from headwater.model.record import Failure, Headers, RecordBatch


class Producer(Protocol):
    """Hands records to the broker. Implementations: sinks/kafka.py, and sinks/memory.py for tests."""

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp_ms: int,
        headers: Headers,
    ) -> None:
        """Queue one record. Waits while the queue is full, keeping the source alive. Raises TooLarge."""

    def flush(self, timeout_s: float) -> int:
        """Wait for acknowledgements; the number of records that still have none."""

    def failures(self) -> list[str]:
        """What the broker refused since the last call. After a failure nothing may be committed: use a new producer."""

    def close(self) -> None:
        """Purge what is queued and free the client."""


class Sink(Protocol):
    """Where a pipeline's records go. Used by the engine's thread."""

    @property
    def name(self) -> str:
        """The sink's name in the configuration."""

    def send(self, batch: RecordBatch, producer: Producer) -> list[Failure]:
        """Queue a batch in order; failures are records that can't be sent (too large), by row."""
