"""In-memory implementation of the history of topics, for tests."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.brokers.topic_history import CALL_TIMEOUT_S, LogChunk, LogRecord, OffsetRange, record_bytes
from headwater.errors import BrokerUnavailable


class MemoryTopicHistory:
    """Implements TopicHistory.

    Attributes:
        away: While this is true, every call raises BrokerUnavailable.
        records_read: How many records all reads have returned.
    """

    def __init__(self) -> None:
        self.away = False
        self.records_read = 0
        self._starts: dict[str, dict[int, int]] = defaultdict(dict)
        self._ends: dict[str, dict[int, int]] = defaultdict(dict)
        self._records: dict[str, list[LogRecord]] = defaultdict(list)

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic without records."""
        self._starts[topic] = dict.fromkeys(range(partitions), 0)
        self._ends[topic] = dict.fromkeys(range(partitions), 0)

    def append(
        self,
        topic: str,
        partition: int,
        timestamp: int,
        value: bytes | None,
        headers: Mapping[str, bytes | None] | None = None,
        key: bytes | None = None,
    ) -> None:
        """Append a record."""
        offset = self._ends[topic][partition]
        self._records[topic].append(LogRecord(partition, offset, timestamp, key, value, headers or {}))
        self._ends[topic][partition] = offset + 1

    def skip(self, topic: str, partition: int, offsets: int) -> None:
        """Append offsets without records, as control records have them."""
        self._ends[topic][partition] += offsets

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """Remove the records before an offset, as retention does."""
        self._starts[topic][partition] = before
        self._records[topic] = [
            record for record in self._records[topic] if record.partition != partition or record.offset >= before
        ]

    def ranges(self, topic: str, timeout_s: float = CALL_TIMEOUT_S) -> Mapping[int, OffsetRange]:
        """See TopicHistory."""
        self._check()
        ends = self._ends.get(topic, {})
        return {number: OffsetRange(self._starts[topic][number], end) for number, end in ends.items()}

    def offsets_since(self, topic: str, time_ms: int, timeout_s: float = CALL_TIMEOUT_S) -> Mapping[int, int]:
        """See TopicHistory."""
        self._check()
        offsets: dict[int, int] = {}
        for record in self._records.get(topic, []):
            if record.timestamp >= time_ms:
                offsets.setdefault(record.partition, record.offset)
        return offsets

    def read(
        self,
        topic: str,
        ranges: Mapping[int, OffsetRange],
        max_bytes: int,
        timeout_s: float = CALL_TIMEOUT_S,
        *,
        with_values: bool = True,
        with_headers: bool = True,
    ) -> Mapping[int, LogChunk]:
        """See TopicHistory."""
        self._check()
        nonempty = {number: each for number, each in ranges.items() if each.start < each.end}
        chunks = {number: self._chunk(topic, number, each, max_bytes) for number, each in nonempty.items()}
        left_out: dict[str, Any] = ({} if with_values else {"value": None}) | ({} if with_headers else {"headers": {}})
        return {
            number: LogChunk(chunk.start, [record._replace(**left_out) for record in chunk.records])
            for number, chunk in chunks.items()
        }

    def _chunk(self, topic: str, partition: int, offsets: OffsetRange, max_bytes: int) -> LogChunk:
        records = [
            each for each in self._records[topic] if each.partition == partition and each.offset in range(*offsets)
        ]
        self.records_read += len(records)
        start, kept = offsets.start, _newest(records, max_bytes)
        return LogChunk(start if len(kept) == len(records) else kept[0].offset, kept)

    def _check(self) -> None:
        if self.away:
            raise BrokerUnavailable("Kafka is away.")


def _newest(records: Sequence[LogRecord], max_bytes: int) -> Sequence[LogRecord]:
    """Return the newest records that have at most `max_bytes` together, at least one."""
    kept, left = list[LogRecord](), max_bytes
    for record in reversed(records):
        left -= record_bytes(record)
        if left < 0 and kept:
            break
        kept.insert(0, record)
    return kept
