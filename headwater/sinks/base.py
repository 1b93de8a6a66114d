"""Protocols of a sink, and of the producers that all sinks of a worker share."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np

from headwater.model.record import (
    Failure,
    Headers,
    Numbers,
    RecordBatch,
    Rows,
    SourceNames,
    numbers_at,
    occurrences,
    position_names,
)
from headwater.model.transform import MAX_OUTPUT_BYTES
from headwater.native import Texts

SOURCE_HEADER = "headwater-src"
CONFIG_HEADER = "headwater-cfg"
MAX_RECORD_BYTES = 1_040_000
"""Limit of key, value and headers together; the topics take 1,048,588 bytes with Kafka's framing."""

MAX_AGE_MS = 3_600_000
MAX_AHEAD_MS = 600_000


def times_to_write(timestamps: Numbers, now: Callable[[], float] = time.time, max_age_ms: int = MAX_AGE_MS) -> Numbers:
    """Times of outputs, in ms since the epoch: their source's, or the present where that is far from it.

    Kafka counts retention from a record's time, so outputs of old records would be gone within minutes; and it refuses
    times that are more than an hour ahead (`message.timestamp.after.max.ms`). max_age_ms: the age of an old record.
    """
    now_ms = int(now() * 1000)
    first, last = now_ms - max_age_ms, now_ms + MAX_AHEAD_MS
    times = np.frombuffer(timestamps, np.int64)
    if times.min(initial=now_ms) >= first and times.max(initial=now_ms) <= last:
        return timestamps
    return Numbers("q", [at if first <= at <= last else now_ms for at in timestamps])


def source_ids(batch: RecordBatch, names: SourceNames = position_names) -> list[bytes]:
    """The value of `headwater-src` for each row: removes repeats after a failure."""
    named = names(batch)
    if not any(batch.indexes):  # of most batches: a third of the time
        return [name + b"/0" for name in named]
    return [b"%b/%d" % pair for pair in zip(named, batch.indexes, strict=True)]


def oversize(value: bytes | None, key: bytes | None, headers: Headers) -> str | None:
    """Why this record is too large for a topic, or None."""
    size = len(value or b"")
    if size > MAX_OUTPUT_BYTES:
        return f"The value has {size} bytes; at most {MAX_OUTPUT_BYTES} are allowed."
    total = size + len(key or b"") + sum(len(name) + len(value) for name, value in headers)
    if total > MAX_RECORD_BYTES:
        return f"Key, value and headers have {total} bytes; at most {MAX_RECORD_BYTES} are allowed."
    return None


NONE: Final = Numbers("q")
"""A column that is not there."""


@dataclass(slots=True)
class Outputs:
    """Records for one topic, as columns of the same length. Not changed.

    timestamps: in ms since the epoch; 0 is the present. headers: of each record. Those of a source have one more,
    SOURCE_HEADER: its values are `sources` or, when `origin` names a topic, tell the record on it, by partition, offset
    and index. source_partitions: where the records come from, when that is another number than in `partitions`.
    """

    topic: str
    values: Texts
    keys: Texts
    partitions: Numbers
    timestamps: Numbers
    sources: Texts | None = None
    headers: Headers = field(default_factory=list)
    origin: str = ""
    offsets: Numbers = field(default_factory=lambda: NONE)
    indexes: Numbers = field(default_factory=lambda: NONE)
    source_partitions: Numbers | None = None

    @classmethod
    def of(
        cls,
        topic: str,
        values: Iterable[bytes | None],
        keys: Iterable[bytes | None],
        partitions: Iterable[int],
        timestamps: Iterable[int],
        sources: Sequence[bytes] = (),
        headers: Headers | None = None,
    ) -> "Outputs":
        """From any columns."""
        numbers = Numbers("q", partitions), Numbers("q", timestamps)
        named = Texts.of(sources) if sources else None
        return cls(topic, Texts.of(values), Texts.of(keys), *numbers, named, headers or [])

    def __len__(self) -> int:
        return len(self.values)

    def headers_of(self, row: int) -> Headers:
        """All headers of a record."""
        if self.origin:
            position = (self.partitions[row], self.offsets[row], self.indexes[row])
            return [*self.headers, (SOURCE_HEADER, b"%b/%d/%d/%d" % (self.origin.encode(), *position))]
        return [*self.headers, (SOURCE_HEADER, self.sources[row] or b"")] if self.sources else self.headers

    def without(self, partitions: Collection[int]) -> "Outputs":
        """The outputs of other partitions of the source than these."""
        sources = self.partitions if self.source_partitions is None else self.source_partitions
        rows = Rows("i", [row for row, partition in enumerate(sources) if partition not in partitions])
        return replace(
            self,
            values=self.values.take(rows),
            keys=self.keys.take(rows),
            partitions=numbers_at(self.partitions, rows),
            timestamps=numbers_at(self.timestamps, rows),
            sources=self.sources and self.sources.take(rows),
            offsets=numbers_at(self.offsets, rows) if self.origin else NONE,
            indexes=numbers_at(self.indexes, rows) if self.origin else NONE,
            source_partitions=None if self.source_partitions is None else numbers_at(sources, rows),
        )

    def by_partition(self) -> Iterator[tuple[int, Rows]]:
        """The rows of each partition, in order."""
        partitions = np.frombuffer(self.partitions, np.int64)
        for partition in sorted(occurrences(self.partitions)):
            yield partition, Rows("i", np.flatnonzero(partitions == partition).astype(np.int32).tobytes())


class Writer(Protocol):
    """What a sink writes to."""

    def produce(self, outputs: Outputs) -> None:
        """Queue records. Never waits, however many there are. `oversize` must be None for each."""


class Producer(Writer, Protocol):
    """Hands records to the broker. Implementations: sinks/kafka.py, and sinks/memory.py for tests."""

    def connect(self, timeout_s: float) -> None:
        """Return when the broker answers and has all topics. Raises BrokerUnavailable."""

    def append(self, topic: str, value: bytes, key: bytes | None, partition: int) -> None:
        """Queue one record, with the present time and no headers, as `produce` does. For records that come singly."""

    def push(self) -> None:
        """Send what waits for company. Returns within a few ms, acknowledged or not."""

    def saturated(self) -> bool:
        """True while records wait for room in the queue: hand over no further batch."""

    def outstanding(self) -> int:
        """The number of records without an acknowledgement. Never waits."""

    def flush(self, timeout_s: float) -> int:
        """Wait for acknowledgements; the number of records that still have none."""

    def failures(self) -> list[str]:
        """What the broker refused since the last call. After a failure nothing may be committed: use a new producer."""

    def close(self) -> None:
        """Purge what is queued and free the client."""


class TransactionalProducer(Writer, Protocol):
    """Keeps records until `commit` hands them to the broker together with the source's positions: both, or neither.

    Implementations: sinks/transactional.py, and sinks/memory.py for tests.
    """

    def connect(self, timeout_s: float) -> None:
        """Return when the broker answers and has all topics. Raises BrokerUnavailable."""

    def begin(self, timeout_s: float) -> None:
        """Take over the transactional id: ends what its last user left open, and shuts that one out.

        Called once, before the first `commit`. Raises BrokerUnavailable; use a new producer then.
        """

    def held(self) -> int:
        """How many records wait for `commit`."""

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop the records of these partitions of the source, but for ticks, which may come twice."""

    def commit(self, positions: Mapping[int, int], membership: Callable[[], object]) -> None:
        """Write all records and the positions, if any, in one transaction. membership: `Source.membership`.

        Raises DeliveryFailed: whether the transaction counts is then unknown; use a new producer, which settles it.
        """

    def close(self) -> None:
        """Drop the records, give up an open transaction, and free the client."""


class Sink(Protocol):
    """Where a pipeline's records go. Used by the engine's thread."""

    @property
    def name(self) -> str:
        """The sink's name in the configuration."""

    def send(self, batch: RecordBatch, producer: Writer) -> list[Failure]:
        """Queue a batch in order; failures are records that can't be sent (too large), by row."""
