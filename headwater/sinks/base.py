"""Protocols of a sink, and of the producers that all sinks of a worker share."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

import numpy as np

from headwater.model.record import (
    Failure,
    Headers,
    Numbers,
    RecordBatch,
    Rows,
    SourceNames,
    numbers_at,
    position_names,
)
from headwater.model.transform import MAX_OUTPUT_BYTES
from headwater.native import Texts
from headwater.native.kafka import Header, SourcePositions

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


def source_column(batch: RecordBatch, names: SourceNames = position_names) -> Texts | SourcePositions:
    """The same as a column of a header."""
    if names is position_names:
        return SourcePositions(batch.topic, batch.partitions, batch.offsets, batch.indexes)
    return Texts.of(source_ids(batch, names))


def oversize(value: bytes | None, key: bytes | None, headers: Headers) -> str | None:
    """Why this record is too large for a topic, or None."""
    size = len(value or b"")
    if size > MAX_OUTPUT_BYTES:
        return f"The value has {size} bytes; at most {MAX_OUTPUT_BYTES} are allowed."
    total = size + len(key or b"") + sum(len(name) + len(value) for name, value in headers)
    if total > MAX_RECORD_BYTES:
        return f"Key, value and headers have {total} bytes; at most {MAX_RECORD_BYTES} are allowed."
    return None


@dataclass(slots=True)
class Outputs:
    """Records for one topic, as columns of the same length. Not changed.

    Attributes:
        timestamps: In ms since the epoch; 0 is the present.
        headers: Columns too. The one named SOURCE_HEADER tells which source record each output is made of.
    """

    topic: str
    values: Texts
    keys: Texts
    partitions: Numbers
    timestamps: Numbers
    headers: Sequence[Header] = ()

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
        """From any columns. headers: the same for each record."""
        texts = Texts.of(values)
        columns = [Header(name, Texts.of([value] * len(texts))) for name, value in headers or []]
        if sources:
            columns.append(Header(SOURCE_HEADER, Texts.of(sources)))
        return cls(topic, texts, Texts.of(keys), Numbers("q", partitions), Numbers("q", timestamps), columns)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def sources(self) -> Texts | SourcePositions | None:
        """The column of SOURCE_HEADER."""
        return next((header.values for header in self.headers if header.name == SOURCE_HEADER), None)

    def headers_of(self, row: int) -> Headers:
        """All headers of a record."""
        pairs = [(name, _header_value(values, row)) for name, values in self.headers]
        return [(name, value) for name, value in pairs if value is not None]

    def without(self, partitions: Collection[int]) -> "Outputs":
        """Return the outputs that are not made of records of these source partitions.

        Outputs without SOURCE_HEADER are all returned: a sink that leaves the header out writes records whose repeats
        change nothing. Where the header has names that are no positions, the output's own partition counts. Outputs of
        messages from Pub/Sub, which may be on another partition, never come here: their delivery is at least once.
        """
        sources = self.sources
        if sources is None:
            return self
        origins = sources.partitions if isinstance(sources, SourcePositions) else self.partitions
        rows = Rows("i", [row for row, partition in enumerate(origins) if partition not in partitions])
        return replace(
            self,
            values=self.values.take(rows),
            keys=self.keys.take(rows),
            partitions=numbers_at(self.partitions, rows),
            timestamps=numbers_at(self.timestamps, rows),
            headers=[Header(name, _header_rows(values, rows)) for name, values in self.headers],
        )


def _header_value(values: Texts | SourcePositions, row: int) -> bytes | None:
    return values.value(row) if isinstance(values, SourcePositions) else values[row]


def _header_rows(values: Texts | SourcePositions, rows: Rows) -> Texts | SourcePositions:
    if isinstance(values, Texts):
        return values.take(rows)
    topic, *columns = values
    return SourcePositions(topic, *(numbers_at(column, rows) for column in columns))


class Refusal(NamedTuple):
    """What Kafka did not take. After it, nothing since the last commit may count as delivered: use a new producer.

    Attributes:
        reason: A sentence.
        topic: Of the record; empty when it is no single record's fault.
        source: The value of the record's SOURCE_HEADER.
        scope: "record" when Kafka refuses this record whenever it is sent; "batch" when it refuses the batch of records
            that this one was sent in, and perhaps not this one alone; "none" when the record is not to blame.
    """

    reason: str
    topic: str = ""
    source: bytes = b""
    scope: Literal["record", "batch", "none"] = "none"


class Writer(Protocol):
    """What a sink writes to."""

    def produce(self, outputs: Outputs) -> None:
        """Queue records. Never waits, however many there are. `oversize` must be None for each."""


class Producer(Writer, Protocol):
    """Hands records to the broker. Implementations: sinks/kafka_producer.py, and one in memory for tests."""

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

    def failures(self) -> list[Refusal]:
        """What the broker refused since the last call."""

    def close(self) -> None:
        """Purge what is queued and free the client."""


class TransactionalProducer(Writer, Protocol):
    """Keeps records until `commit` hands them to the broker together with the source's positions: both, or neither.

    Implementations: sinks/transactional.py, and one in memory for tests.
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
        """Drop the records that are made of these source partitions; see `Outputs.without`."""

    def commit(self, positions: Mapping[int, int], membership: Callable[[], object]) -> None:
        """Write all records and the positions, if any, in one transaction. membership: `Source.membership`.

        Raises DeliveryFailed: whether the transaction counts is then unknown; use a new producer, which settles it.
        `failures` tells which records Kafka refused.
        """

    def failures(self) -> list[Refusal]:
        """What the broker refused since the last call."""

    def close(self) -> None:
        """Drop the records, give up an open transaction, and free the client."""


class Sink(Protocol):
    """Where a pipeline's records go. Used by the engine's thread."""

    @property
    def name(self) -> str:
        """The sink's name in the configuration."""

    @property
    def topic(self) -> str:
        """The topic that it writes to."""

    def send(self, batch: RecordBatch, producer: Writer) -> list[Failure]:
        """Queue a batch in order; failures are records that can't be sent (too large), by row."""
