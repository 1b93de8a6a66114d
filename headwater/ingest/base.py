"""The protocol of a chain feed, which converts a chain's events to stream records.

A feed reads a chain for an ingest. It is not a source (`sources/`), which reads a stream for a pipeline.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

NO_COUNTS: Final[Mapping[str, int]] = MappingProxyType({})


class StreamRecord(NamedTuple):
    """A record of a stream.

    Attributes:
        stream: The entity, or `<entity>.zerolag`.
        key: The record's natural key, whose hash selects the partition.
        value: The record as JSON.
    """

    stream: str
    key: bytes
    value: bytes


class Step(NamedTuple):
    """Records, and the feed's position after them. Both are stored in one transaction.

    Attributes:
        records: The records.
        position: Opaque bytes from which the feed can resume, a few kB at most.
        time_ms: The chain time of the newest event.
        skipped: The number of source events that were not converted, by reason.
        gaps: The number of places where source data is missing.
        counts: Further metrics, by a name in `ingest.runner.COUNTS`.
    """

    records: Sequence[StreamRecord]
    position: bytes
    time_ms: int
    skipped: Mapping[str, int] = NO_COUNTS
    gaps: int = 0
    counts: Mapping[str, int] = NO_COUNTS


class Feed(Protocol):
    """Reads the events of a chain in order. Used by one thread."""

    @property
    def streams(self) -> Sequence[str]:
        """The names of all streams that the feed's records may belong to."""

    def steps(self, position: bytes | None) -> Iterator[Step | None]:
        """Yield the steps after a position (None at the very first start).

        Yields None about once a second while there is nothing new. Returns at the end of a finite range. Raises
        NodeUnavailable when the node fails; the caller then calls `steps` again. Raises IngestStopped when a retry
        can't help.
        """
