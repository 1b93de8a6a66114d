"""The position of an ingest: what it has read so far, stored with the records.

The JSON member names are those of older versions, so that their positions can be read.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from headwater.ingest.hyperliquid.records import FillSide
from headwater.ingest.position import read_position

MAX_RANGES: Final = 32
MAX_SPANS: Final = 64


class FilePosition(msgspec.Struct, array_like=True):
    """How far a file was read.

    Attributes:
        inode: The file's inode number.
        offset: Bytes that were read; of a packed file, unpacked bytes.
        lines: Lines that were read.
        head: CRC-32 of the file's first bytes, at most 128 of those that were read.
    """

    inode: int
    offset: int = 0
    lines: int = 0
    head: int = 0


class FolderPosition(msgspec.Struct):
    """How far the files of a folder were read.

    Attributes:
        floor: The last file that is done; this file and all before it are not read again.
        files: The positions of files after it, by path.
    """

    floor: str = ""
    files: dict[str, FilePosition] = msgspec.field(default_factory=dict, name="places")


class BlockCursor(msgspec.Struct, array_like=True):
    """The block that a folder's lines are in.

    Attributes:
        block: The block's number, or its time in ms when lines don't have the number.
        events: How many of its events were read.
    """

    block: int = 0
    events: int = 0


class Span(NamedTuple):
    """A stretch of time whose blocks were taken from one folder. Times are in ms.

    Attributes:
        rank: The folder's place in the order of preference; -1 for a stretch that joins several folders.
        first: The time of the first block.
        last: The time of the last block.
    """

    rank: int
    first: int
    last: int


class NodePosition(msgspec.Struct, forbid_unknown_fields=True):
    """The position of an ingest that reads a node's files.

    Attributes:
        folders: How far each folder was read.
        cursors: The block that each folder is in.
        covered: By kind of event, the stretches of time that were taken, in order, each from one folder.
        spans: What older versions stored in the place of `covered`: one stretch for each folder.
        seen: By kind of event, the ranges of block numbers that were taken.
        halves: Fills whose trade waits for the fill of the other side.
    """

    folders: dict[str, FolderPosition] = msgspec.field(default_factory=dict, name="tails")
    cursors: dict[str, BlockCursor] = msgspec.field(default_factory=dict, name="turns")
    covered: dict[str, list[Span]] = {}
    spans: dict[str, list[tuple[int, int] | None]] = {}
    seen: dict[str, list[tuple[int, int]]] = {}
    halves: list[FillSide] = []

    def coverage(self, kind: str) -> "Coverage":
        """The stretches of time of a kind of event."""
        older = [Span(rank, *span) for rank, span in enumerate(self.spans.get(kind, [])) if span is not None]
        return Coverage([*older, *self.covered.get(kind, [])])


class CoinPosition(msgspec.Struct, array_like=True):
    """The newest trades of a coin over the WebSocket API.

    Attributes:
        time: Their time in ms.
        tids: The tids of all trades of that time, in order.
    """

    time: int
    tids: list[int]


class WebSocketPosition(msgspec.Struct, forbid_unknown_fields=True):
    """The position of an ingest that reads the WebSocket API.

    Attributes:
        coins: The newest trades, by coin.
        height: The height of the newest block.
    """

    coins: dict[str, CoinPosition] = msgspec.field(default_factory=dict, name="marks")
    height: int = 0


def read_node_position(text: bytes | None, name: str) -> NodePosition:
    """The stored position of the ingest of this name. Raises IngestStopped when it is of another kind."""
    return read_position(text, NodePosition, name) if text else NodePosition()


def read_websocket_position(text: bytes | None, name: str) -> WebSocketPosition:
    """The stored position of the ingest of this name. Raises IngestStopped when it is of another kind."""
    return read_position(text, WebSocketPosition, name) if text else WebSocketPosition()


class Coverage:
    """The folder from which each stretch of time was taken, among folders that hold the same events.

    Stretches don't overlap, except those of older versions. When there are too many, the oldest ones are joined, and
    the time between them counts as taken.
    """

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self.spans = sorted(spans, key=lambda span: span.first)

    def has(self, rank: int, time_ms: int) -> bool:
        """Whether the block of this time was taken from another folder than that of this rank."""
        return any(span.first <= time_ms <= span.last for span in self.spans if span.rank != rank)

    def newest(self, rank: int) -> int | None:
        """The time of the newest block, if it was taken from the folder of this rank."""
        return self.spans[-1].last if self.spans and self.spans[-1].rank == rank else None

    def newest_from(self, rank: int) -> int | None:
        """The time of the newest block that was taken from the folder of this rank."""
        return max((span.last for span in self.spans if span.rank == rank), default=None)

    def add(self, rank: int, time_ms: int, follows: bool = True) -> None:
        """Note that the block of this time was taken from a folder.

        follows: no block is missing between this one and the last one that was taken from the folder.
        """
        spans = self.spans
        after = len(spans)
        if after and spans[-1].first > time_ms:
            after = bisect_right(spans, time_ms, key=lambda span: span.first)
        before = spans[after - 1] if after else None
        if before and before.rank == rank and (follows or time_ms <= before.last):
            if time_ms > before.last:
                spans[after - 1] = Span(rank, before.first, time_ms)
            return
        if follows and after < len(spans) and spans[after].rank == rank:
            spans[after] = Span(rank, time_ms, spans[after].last)
            return
        spans.insert(after, Span(rank, time_ms, time_ms))
        if len(spans) > MAX_SPANS:
            spans[:2] = [Span(-1, spans[0].first, max(spans[0].last, spans[1].last))]


class SeenBlocks:
    """The numbers of the blocks that were taken, because a node that restarts writes some blocks again.

    Numbers are kept as ranges. When there are too many, the lowest ranges are joined, and the numbers between them
    count as taken.
    """

    def __init__(self, ranges: Sequence[tuple[int, int]] = ()) -> None:
        self.ranges = list(ranges)
        """First and last number of each range, ascending."""

    def add(self, number: int) -> bool:
        """Note a block. Returns False when it was noted before."""
        ranges = self.ranges
        after = bisect_right(ranges, (number, float("inf")))
        if after and number <= ranges[after - 1][1]:
            return False
        first = last = number
        if after < len(ranges) and ranges[after][0] == number + 1:
            last = ranges.pop(after)[1]
        if after and ranges[after - 1][1] == number - 1:
            after -= 1
            first = ranges.pop(after)[0]
        ranges.insert(after, (first, last))
        if len(ranges) > MAX_RANGES:
            ranges[:2] = [(ranges[0][0], ranges[1][1])]
        return True
