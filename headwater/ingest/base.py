"""The protocol of a chain reader, which converts the events of a chain to stream records.

A chain reader reads a chain for an ingest. It is not a source (`sources/`), which reads a stream for a pipeline.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

NO_COUNTS: Final[Mapping[str, int]] = MappingProxyType({})


class StreamRecord(NamedTuple):
    """A record of a stream.

    Attributes:
        stream: The name of the stream without its chain: `<entity>`, or `<entity>.zerolag` for blocks that are not
            final yet.
        key: The record's natural key, whose hash selects the partition.
        value: The record as JSON.
    """

    stream: str
    key: bytes
    value: bytes


class Step(NamedTuple):
    """Records, and the position of the chain reader after them. One transaction stores both.

    Attributes:
        records: The records.
        position: Opaque bytes from which the chain reader can resume: usually a few kB; with zerolag streams about 100
        bytes for each block of `reorg_depth`.
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


class ChainReader(Protocol):
    """Reads the events of a chain in order, on one thread."""

    @property
    def streams(self) -> Sequence[str]:
        """The streams that the records may belong to, named without their chain as in StreamRecord."""

    def steps(self, position: bytes | None) -> Iterator[Step | None]:
        """Yield the steps after a position, which is None at the very first start.

        The iterator yields None at least every few seconds while the chain has nothing new, and ends after the last
        block of a finite range. It raises NodeError when the node fails; the caller then calls `steps` again. It raises
        IngestStopped for an error that a retry can't solve.
        """

    def close(self) -> None:
        """Close the connections that `steps` left open. `steps` is not called afterwards."""
