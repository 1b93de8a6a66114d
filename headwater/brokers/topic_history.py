"""The protocol by which services read ranges of records, without a consumer group."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

CALL_TIMEOUT_S: Final = 20.0
"""How long a call may take, unless its caller sets another time limit."""


class OffsetRange(NamedTuple):
    """The offsets [start, end) of a partition."""

    start: int
    end: int


class LogRecord(NamedTuple):
    """A record of a topic with its position and headers.

    Attributes:
        partition: The partition.
        offset: The offset in the partition.
        timestamp: The timestamp in ms since the epoch.
        key: The key.
        value: The value; None is a tombstone.
        headers: The last value of each header.
    """

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None]


def record_bytes(record: LogRecord) -> int:
    """Return the size of a record: of its key, its value and the values of its headers."""
    headers = sum(len(value or b"") for value in record.headers.values())
    return len(record.value or b"") + len(record.key or b"") + headers


class LogChunk(NamedTuple):
    """The committed records in a range of offsets of one partition.

    Attributes:
        start: The offset from which the records are complete. It is above the start of the range when the records of
            the range are too large.
        records: The records from `start` on, in order.
    """

    start: int
    records: Sequence[LogRecord]


class TopicHistory(Protocol):
    """Reads committed records of topics.

    All methods are thread-safe and may block for `timeout_s` seconds. They raise BrokerUnavailable, also when that time
    is not enough.
    """

    def ranges(self, topic: str, timeout_s: float = CALL_TIMEOUT_S) -> Mapping[int, OffsetRange]:
        """Return the range of offsets of each partition, up to the first open transaction.

        Returns nothing when the topic does not exist.
        """

    def offsets_since(self, topic: str, time_ms: int, timeout_s: float = CALL_TIMEOUT_S) -> Mapping[int, int]:
        """Return the offset of the first record of each partition at or after a time.

        The timestamps of the records decide. Partitions without such a record are left out. Returns nothing when the
        topic does not exist.

        Args:
            topic: The topic.
            time_ms: The time, in milliseconds since the epoch.
            timeout_s: How long the call may take.
        """

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
        """Return the committed records in a range of offsets of each partition.

        Args:
            topic: The topic.
            ranges: The range of each partition to read. An end must not be greater than the end that `ranges` returned
                for the partition: the read would wait for records that do not exist.
            max_bytes: How many bytes the records of a partition may have together. If they have more, only the newest
                records that fit are returned, at least one.
            timeout_s: How long the call may take.
            with_values: Whether the records have their values. Otherwise all values are None, and have no bytes.
            with_headers: Whether the records have their headers, which take time to read.
        """
