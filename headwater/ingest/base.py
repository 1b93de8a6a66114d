"""Protocol of an ingest: what happens on a chain becomes records of its streams, step by step."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

NO_COUNTS: Final[Mapping[str, int]] = MappingProxyType({})


class StreamRecord(NamedTuple):
    """A record for a stream. stream: an entity, or `<entity>.zerolag`. The natural key picks the partition."""

    stream: str
    key: bytes
    value: bytes


class Step(NamedTuple):
    """Records, and the position behind them: both are stored, or neither.

    position: whatever the feed needs to go on; at most some kB. time_ms: when the newest of this happened on the chain.
    skipped: what of the source became no record, by reason. gaps: places where something of the source was missed.
    counts: what else the metrics tell, by a name of `ingest.runner.COUNTS`.
    """

    records: Sequence[StreamRecord]
    position: bytes
    time_ms: int
    skipped: Mapping[str, int] = NO_COUNTS
    gaps: int = 0
    counts: Mapping[str, int] = NO_COUNTS


class Feed(Protocol):
    """A chain's events, in order. Used by one thread."""

    @property
    def streams(self) -> Sequence[str]:
        """All that its records may name."""

    def steps(self, position: bytes | None) -> Iterator[Step | None]:
        """What comes behind a position (None: nothing was ever stored); None when nothing came for about a second.

        Ends when there will be no more. Raises NodeUnavailable when the node fails: called again, it goes on.
        Raises IngestStopped when that would not help.
        """
