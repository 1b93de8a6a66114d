"""The stored position of a Hyperliquid ingest.

The names of the JSON members are the names of older versions, so that positions of older versions can be read.
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
    """The position in a file.

    Attributes:
        inode: The file's inode number.
        offset: The number of bytes that were read, after decompression.
        line_count: The number of lines that were read.
        head_crc: The CRC-32 of the first bytes that were read, at most 128 bytes.
    """

    inode: int
    offset: int = 0
    line_count: int = 0
    head_crc: int = 0


class FolderPosition(msgspec.Struct):
    """The position in the files of a folder.

    Attributes:
        floor: The path of the last finished file. This file and all files before it are not read again.
        files: The positions of the files after `floor`, by path.
    """

    floor: str = ""
    files: dict[str, FilePosition] = msgspec.field(default_factory=dict, name="places")


class BlockProgress(msgspec.Struct, array_like=True):
    """The last block that was taken from a folder, and how many of its events were taken.

    A block is taken when its events are converted to records. If several folders have a block, it is taken from one.

    Attributes:
        key: The block's number, or its time in ms when lines don't have the number; 0 before the first block.
        events_taken: The number of events of the block that were taken.
        events_to_skip: The number of taken events that a restarted node is about to write again.
    """

    key: int = 0
    events_taken: int = 0
    events_to_skip: int = 0


class Span(NamedTuple):
    """A span of time whose blocks were taken from one folder.

    Attributes:
        rank: The index of the folder in the order of preference; -1 for a joined span of several folders.
        first: The time of the first block, in ms.
        last: The time of the last block, in ms.
    """

    rank: int
    first: int
    last: int


class NodePosition(msgspec.Struct, forbid_unknown_fields=True):
    """The position of an ingest that reads a node's files.

    Attributes:
        folders: The position in each folder.
        last_blocks: The progress within the last block that was taken from each folder.
        spans: The spans of time that were taken, in order, by kind of event.
        spans_of_old_versions: The span of time of each folder, which older versions stored instead.
        seen: The ranges of block numbers that were taken, by kind of event.
        unmatched_fills: Fills that wait for the matching fill of the other side, to form a trade.
    """

    folders: dict[str, FolderPosition] = msgspec.field(default_factory=dict, name="tails")
    last_blocks: dict[str, BlockProgress] = msgspec.field(default_factory=dict, name="turns")
    spans: dict[str, list[Span]] = msgspec.field(default_factory=dict, name="covered")
    spans_of_old_versions: dict[str, list[tuple[int, int] | None]] = msgspec.field(default_factory=dict, name="spans")
    seen: dict[str, list[tuple[int, int]]] = {}
    unmatched_fills: list[FillSide] = msgspec.field(default_factory=list, name="halves")

    def coverage(self, kind: str) -> "Coverage":
        """Return the spans of time of a kind of event."""
        old_spans = enumerate(self.spans_of_old_versions.get(kind, []))
        return Coverage(
            [*(Span(rank, *span) for rank, span in old_spans if span is not None), *self.spans.get(kind, [])]
        )


class CoinPosition(msgspec.Struct, array_like=True):
    """The newest trades of a coin from the WebSocket API.

    Attributes:
        time: The time of the newest trades, in ms.
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


def read_node_position(stored: bytes | None, name: str) -> NodePosition:
    """Decode the stored position of an ingest.

    Raises IngestStopped when another kind of ingest, or an ingest of another source, stored it.
    """
    return read_position(stored, NodePosition, name) if stored else NodePosition()


def read_websocket_position(stored: bytes | None, name: str) -> WebSocketPosition:
    """Decode the stored position of an ingest.

    Raises IngestStopped when another kind of ingest, or an ingest of another source, stored it.
    """
    return read_position(stored, WebSocketPosition, name) if stored else WebSocketPosition()


class Coverage:
    """The spans of time that were taken, each with the folder that its blocks came from.

    Several folders may hold the same events. Spans don't overlap, except for spans that older versions stored. When
    there are too many spans, the oldest two are joined, and the time between them counts as taken.
    """

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self.spans = sorted(spans, key=lambda span: span.first)

    def is_taken_from_other(self, rank: int, time_ms: int) -> bool:
        """Return whether the block of this time was taken from a folder of another rank."""
        return any(span.first <= time_ms <= span.last for span in self.spans if span.rank != rank)

    def is_newest_from(self, rank: int) -> bool:
        """Return whether the newest block was taken from the folder of this rank."""
        return bool(self.spans) and self.spans[-1].rank == rank

    def newest_of(self, rank: int) -> int | None:
        """Return the time of the newest block that was taken from the folder of this rank."""
        return max((span.last for span in self.spans if span.rank == rank), default=None)

    def record(self, rank: int, time_ms: int, is_contiguous: bool = True) -> None:
        """Record that the block of this time was taken from the folder of this rank.

        `is_contiguous` says whether no block is missing after the last block that was taken from the folder.
        """
        spans = self.spans
        next_index = bisect_right(spans, time_ms, key=lambda span: span.first)
        previous = spans[next_index - 1] if next_index else None
        following = spans[next_index] if next_index < len(spans) else None
        if previous and previous.rank == rank and (is_contiguous or time_ms <= previous.last):
            spans[next_index - 1] = previous._replace(last=max(previous.last, time_ms))
        elif following and following.rank == rank and is_contiguous:
            spans[next_index] = following._replace(first=time_ms)
        else:
            spans.insert(next_index, Span(rank, time_ms, time_ms))
        if len(spans) > MAX_SPANS:
            spans[:2] = [Span(-1, spans[0].first, max(spans[0].last, spans[1].last))]


class SeenBlocks:
    """The numbers of the blocks that were taken.

    A restarted node writes some blocks again, and the numbers show which ones. Numbers are kept as ranges. When there
    are too many ranges, the lowest two are joined, and the numbers between them count as taken.
    """

    def __init__(self, ranges: Sequence[tuple[int, int]] = ()) -> None:
        self.ranges = list(ranges)
        """The first and last number of each range, ascending."""

    def add(self, number: int) -> bool:
        """Add the number of a block. Returns False if the number was added before."""
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
