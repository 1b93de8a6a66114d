"""The request that reads batches, and its answer, in which they stay where they came.

Version 12, in which topics have names: https://kafka.apache.org/protocol#The_Messages_Fetch. Its fields are those of a
flexible version (protocol.FlexibleReader).
"""

import struct
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, NamedTuple

from headwater.brokers.wire.protocol import FlexibleReader, Parts, header, unsigned_varint

_LIMITS: Final = struct.Struct(">iiiibii")
"""Replica, longest wait in ms, least and most bytes, isolation level, id and epoch of the session."""
_NO_REPLICA, _READ_COMMITTED, _NO_SESSION, _NO_SESSION_EPOCH = -1, 1, 0, -1
_PARTITION: Final = struct.Struct(">iiqiqi")
"""Its number, current leader epoch, offset, last fetched epoch, start of the log (of followers), most bytes."""
_NO_LOG_START: Final = -1
_NO_TAGS: Final = b"\0"
_REST: Final = b"\1" + b"\1" + _NO_TAGS
"""No partitions to forget, no rack."""

_ANSWER: Final = struct.Struct(">ihi")
"""Throttled for how many ms, error, session."""
_ANSWERED: Final = struct.Struct(">ihqqq")
"""Partition, error, high watermark, last stable offset, start of the log."""
_ABORTED: Final = struct.Struct(">qq")
_REPLICA: Final = struct.Struct(">i")
_DIVERGING_TAG: Final = 0
_DIVERGING: Final = struct.Struct(">iq")

UNKNOWN_EPOCH: Final = -1


class Wanted(NamedTuple):
    """Where to read from. leader_epoch: the broker refuses if it knows another (FENCED_, UNKNOWN_LEADER_EPOCH).

    last_epoch: of the last record read: the broker tells if its log had another there. Both may be UNKNOWN_EPOCH.
    """

    partition: int
    leader_epoch: int
    offset: int
    last_epoch: int


class Aborted(NamedTuple):
    """A transaction that was aborted: its first offset in this partition."""

    producer_id: int
    first_offset: int


class Fetched(NamedTuple):
    """The answer for a partition. error: a code of Kafka. Offsets are -1 where the broker does not know them.

    aborted: the transactions that `records` may have records of. diverging: the last epoch up to the wanted one that
    the broker's log has, and where it ends: what was read from there on has gone. records: batches, the last of which
    may be cut off.
    """

    partition: int
    error: int
    high_watermark: int
    last_stable: int
    log_start: int
    aborted: list[Aborted]
    diverging: tuple[int, int] | None
    records: memoryview


class Answer(NamedTuple):
    """error: a code of Kafka for the whole. throttle_ms: for so long the broker does not listen to this client."""

    error: int
    throttle_ms: int
    partitions: list[Fetched]


class Fetch:
    """Implements protocol.Message: what readers of committed records may see of one topic."""

    key: ClassVar[int] = 1
    version: ClassVar[int] = 12

    def __init__(
        self,
        topic: str,
        wanted: Sequence[Wanted],
        max_wait_s: float,
        *,
        max_bytes: int,
        partition_max_bytes: int,
        min_bytes: int = 1,
    ) -> None:
        """max_wait_s: for `min_bytes`. Most bytes are exceeded by a first batch that is larger (KIP-74)."""
        self._topic = topic
        self._wanted = wanted
        self._max_wait_ms = int(max_wait_s * 1000)
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes

    def parts(self, number: int) -> Parts:
        """The request, header included."""
        topic = self._topic.encode()
        parts: Parts = [header(self, number), _NO_TAGS, self._limits()]
        parts += [unsigned_varint(1 + 1), unsigned_varint(len(topic) + 1), topic]
        parts.append(unsigned_varint(len(self._wanted) + 1))
        parts += [self._partition(wanted) for wanted in self._wanted]
        return [b"".join([*parts, _NO_TAGS, _REST])]

    def answer(self, payload: memoryview) -> Answer:
        """An answer, from what is behind its number. The records are views of it."""
        return _answer(FlexibleReader(payload), self._topic)

    def _limits(self) -> bytes:
        sizes = self._max_wait_ms, self._min_bytes, self._max_bytes
        return _LIMITS.pack(_NO_REPLICA, *sizes, _READ_COMMITTED, _NO_SESSION, _NO_SESSION_EPOCH)

    def _partition(self, wanted: Wanted) -> bytes:
        return _PARTITION.pack(*wanted, _NO_LOG_START, self._partition_max_bytes) + _NO_TAGS


def _answer(reader: FlexibleReader, topic: str) -> Answer:
    reader.tags()  # of the header
    throttle_ms, error, _ = reader.numbers(_ANSWER)
    partitions = [fetched for _ in reader.items() for fetched in _topic(reader, topic)]
    reader.tags()
    reader.end()
    return Answer(error, throttle_ms, partitions)


def _topic(reader: FlexibleReader, topic: str) -> Iterator[Fetched]:
    if reader.view() != topic.encode():
        raise ValueError(f"an answer for another topic than {topic}")
    for _ in reader.items():
        yield _fetched(reader)
    reader.tags()


def _fetched(reader: FlexibleReader) -> Fetched:
    partition, error, high_watermark, last_stable, log_start = reader.numbers(_ANSWERED)
    aborted = [_aborted(reader) for _ in reader.items()]
    reader.numbers(_REPLICA)  # which one to read from: for clients that say where they are
    records, tags = reader.view(), reader.tags()
    return Fetched(partition, error, high_watermark, last_stable, log_start, aborted, _diverging(tags), records)


def _aborted(reader: FlexibleReader) -> Aborted:
    aborted = Aborted(*reader.numbers(_ABORTED))
    reader.tags()
    return aborted


def _diverging(tags: dict[int, FlexibleReader]) -> tuple[int, int] | None:
    """None too if the broker says that it does not know."""
    if _DIVERGING_TAG not in tags:
        return None
    epoch, end = tags[_DIVERGING_TAG].numbers(_DIVERGING)
    return None if epoch < 0 else (epoch, end)
