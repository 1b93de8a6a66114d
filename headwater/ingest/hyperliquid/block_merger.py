"""Merges the folders of a node that hold the same events, in the order of their blocks; each block is taken once.

A block is taken from the first folder, in the order of preference, that has it. A node may change the form of its
files at any time, so folders take turns, overlap, and may be written at once.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
import structlog

from headwater.ingest.hyperliquid import records
from headwater.ingest.hyperliquid.conversion import (
    BAD_LINE,
    OTHER_FOLDER,
    REPEATED_BLOCK,
    Batch,
    Converter,
    Kind,
)
from headwater.ingest.hyperliquid.node_files import READ_BYTES, FolderReader, Lines
from headwater.ingest.hyperliquid.options import Entity
from headwater.ingest.hyperliquid.position import BlockCursor, Coverage, SeenBlocks
from headwater.ingest.hyperliquid.records import BadEvent, Block

log = structlog.get_logger(__name__)

FOLDER_IDLE_S: Final = 60.0
"""A folder without unread lines counts as ended after so long without a write, or so far behind the other folders."""
MAX_GROUP_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of lines of one block that are joined."""
MAX_EMPTY_BLOCKS: Final = 10_000
"""In a folder that has no lines for blocks without events, so many blocks without a line are no gap. On the main
network, so many blocks take a quarter of an hour and are never all without events."""
FROM_FILLS_RANK: Final = 0
"""The rank of trades that are built from fills, among the folders of trades."""

Form = Literal["block", "streaming", "event"]
"""What a line holds: all events of a block, some events with their block's number, or one event alone."""


class Folder(NamedTuple):
    """A folder in the node's data. rank: its place in the order of preference, among those of its kind."""

    name: str
    kind: Kind
    form: Form
    rank: int


def _forms(kind: Kind, *names: str, first: int = 0) -> tuple[Folder, ...]:
    forms: tuple[tuple[str, Form], ...] = (("_by_block", "block"), ("_streaming", "streaming"), ("", "event"))
    found = [(name + suffix, form) for name in names for suffix, form in forms]
    return tuple(Folder(name, kind, form, rank) for rank, (name, form) in enumerate(found, first))


FOLDERS: Final[dict[Kind, tuple[Folder, ...]]] = {
    "fills": _forms("fills", "node_fills"),
    "trades": _forms("trades", "node_trades", first=FROM_FILLS_RANK + 1),
    "orders": _forms("orders", "node_order_statuses"),
    "misc": _forms("misc", "misc_events", "node_misc_events"),
    "blocks": (Folder("replica_cmds", "blocks", "block", 0),),
}
"""The folders by kind of event, the preferred folder first."""

GROUPS: Final[tuple[tuple[frozenset[Entity], tuple[Kind, ...]], ...]] = (
    (frozenset({"trade"}), ("fills", "trades")),
    (frozenset({"fill"}), ("fills",)),
    (frozenset({"order"}), ("orders",)),
    (frozenset({"misc_event"}), ("misc",)),
    (frozenset({"block"}), ("blocks",)),
)
"""Kinds of events that are read together, with the entities that need them: fills make trades too."""


def groups_for(entities: frozenset[Entity]) -> list[tuple[Kind, ...]]:
    """The kinds of events to read, in groups that hold the same events."""
    needed = [kinds for needs, kinds in GROUPS if needs & entities]
    return [kinds for kinds in needed if not any(set(kinds) < set(others) for others in needed)]


class FolderBlocks:
    """Reads the blocks of one folder, one after the other. Used by one thread.

    Attributes:
        block: The next block, or the part of it that one line has; None when there is nothing to read.
        time_ms: The time of that block, in ms since 1970.
        cursor: The block that was taken last, and how many of its events.
    """

    def __init__(
        self, folder: Folder, reader: FolderReader, cursor: BlockCursor, newest_ms: int | None, quiet_s: float
    ) -> None:
        """newest_ms: the time of the newest block that an earlier process took from the folder, where it is known.

        quiet_s: how long further lines of a block are waited for, where a block needs all of its lines.
        """
        self.folder = folder
        self.reader = reader
        self.cursor = cursor
        self.block: Block | None = None
        self.time_ms = 0
        self._quiet_s = quiet_s
        self._has_empty_blocks = folder.kind != "misc"  # as recorded; nobody recorded many blocks of misc events
        self._newest_ms = newest_ms
        self._lines = Lines("", 0, [], [])
        self._next = 0
        self._count = 1
        self._grew = (0, 0.0)

    def read_next(self, batch: Batch) -> None:
        """Read the next block, if that is not done yet. Lines that can't be read are left out."""
        while self.block is None and (self._next < len(self._lines.lines) or self._read_on()):
            if not self._lines.lines[self._next].strip():
                self.advance(batch)
                continue
            known = len(batch.errors)
            try:
                self.block, self.time_ms = self._block(self._next)
            except BadEvent as error:
                batch.skip(BAD_LINE, error)
                self.log_errors(batch, known)
            if self.block is None:
                self.advance(batch)

    def advance(self, batch: Batch) -> None:
        """Go on behind the next block."""
        if self.block is not None:
            self._newest_ms = self.time_ms
            self._has_empty_blocks |= not self.block.events
        after = self._next + self._count
        batch.lines += self._count
        batch.size += sum(map(len, self._lines.lines[self._next : after]))
        self._next, self._count, self.block = after, 1, None

    def missing_before(self, number: int) -> range:
        """The blocks that are missing between the last one and the one of this number."""
        missing = range(self.cursor.block + 1, number) if self.cursor.block else range(0)
        is_exact = self.folder.form == "block" and self._has_empty_blocks
        return missing if is_exact or len(missing) > MAX_EMPTY_BLOCKS else range(0)

    def commit(self) -> None:
        """Move the reader's position behind the blocks that were taken."""
        self.reader.advance(self._lines, self._next)

    def may_still_get(self, time_ms: int) -> bool:
        """Whether the folder, which has nothing to read, may still get the block of this time. Times ascend in it."""
        if self.block is not None or self.reader.now() - self.reader.changed_at() >= FOLDER_IDLE_S:
            return False
        return self._newest_ms is None or 0 < time_ms - self._newest_ms < FOLDER_IDLE_S * 1000

    def join_lines(self) -> bool:
        """Join all lines of the next block. False while more lines of that block may be written."""
        while True:
            events, after = self._same_block()
            if after == len(self._lines.lines) and self._read_more():
                continue
            if after == len(self._lines.lines) and self._may_grow(after - self._next):
                return False
            assert self.block is not None
            self.block, self._count = self.block._replace(events=events), after - self._next
            return True

    def log_errors(self, batch: Batch, known: int) -> None:
        """Log the errors of the next line: those of the batch that are not among the first so many."""
        file = f"{self.folder.name}/{self._lines.path}"
        offset = self._lines.ends[self._next] - len(self._lines.lines[self._next]) - 1
        for reason, error in list(batch.errors.items())[known:]:
            log.warning("left out; more of this reason in this part of the file are counted", reason=reason,
                        file=file, offset=offset, error=error)  # fmt: skip

    def _read_on(self) -> bool:
        """Read further lines, when all that were read are taken."""
        self.commit()
        self._lines, self._next = self.reader.peek() or Lines("", 0, [], []), 0
        return bool(self._lines.lines)

    def _block(self, at: int) -> tuple[Block | None, int]:
        """A line's block and its time in ms; None when the line has neither events nor a time. Raises BadEvent."""
        line = self._lines.lines[at]
        if self.folder.kind == "blocks":
            block = records.read_replica_line(line, self._lines.path, self._lines.first_line + at)
        else:
            block = records.read_line(line)
        if block.time:
            return block, records.to_ms(block.time)
        if not block.events:
            return None, 0
        time_of = records.fill_time_ms if self.folder.kind == "fills" else records.event_time_ms
        return block, time_of(block.events[0])

    def _same_block(self) -> tuple[list[msgspec.Raw], int]:
        """The events of all lines of the next block that were read, and the index of the first line after them."""
        assert self.block is not None
        events, at = list(self.block.events), self._next + 1
        while at < len(self._lines.lines):
            try:
                block, time_ms = self._block(at)
            except BadEvent:
                break
            if block is None or time_ms != self.time_ms:
                break
            events += block.events
            at += 1
        return events, at

    def _read_more(self) -> bool:
        """Read more lines behind those that were read. False when there are none, or very many were read already."""
        read = self._lines.lines[self._next :]
        size = 2 * sum(map(len, read))
        if size > MAX_GROUP_BYTES:
            return False
        self.commit()
        lines = self.reader.peek(max(size, READ_BYTES))
        if lines is None or len(lines.lines) <= len(read):
            return False
        self._lines, self._next = lines, 0
        return True

    def _may_grow(self, lines: int) -> bool:
        """Whether more lines may be written of the last block of a file, which has so many lines now."""
        now = time.monotonic()
        if lines != self._grew[0]:
            self._grew = (lines, now)
        return now - self._grew[1] < self._quiet_s


class BlockMerger:
    """Merges the blocks of folders that hold the same events, in the order of time.

    folders: in the order of preference. coverage, seen: by kind of event, what was taken so far.
    """

    def __init__(
        self,
        folders: Sequence[FolderBlocks],
        coverage: Mapping[Kind, Coverage],
        seen: Mapping[Kind, SeenBlocks],
        converter: Converter,
    ) -> None:
        self._folders = folders
        self._coverage = coverage
        self._seen = seen
        self._converter = converter

    def read(self) -> Batch | None:
        """The records of the next blocks, about READ_BYTES of lines; None when no block can be taken now."""
        batch = Batch()
        while batch.size < READ_BYTES and (folder := self._next(batch)) and self._take_some(folder, batch):
            pass
        for folder in self._folders:
            folder.commit()
        return batch if batch.lines else None

    def _next(self, batch: Batch) -> FolderBlocks | None:
        """The folder that has the oldest block; of several, the preferred one."""
        for folder in self._folders:
            folder.read_next(batch)
        found = [folder for folder in self._folders if folder.block is not None]
        return min(found, key=lambda folder: folder.time_ms, default=None)

    def _take_some(self, folder: FolderBlocks, batch: Batch) -> bool:
        """Take blocks of a folder up to the next one of another folder. False when the folder has to wait."""
        others = (other.time_ms for other in self._folders if other is not folder and other.block is not None)
        until = min(others, default=math.inf)
        while self._take(folder, batch):
            folder.read_next(batch)
            if folder.block is None or folder.time_ms >= until or batch.size >= READ_BYTES:
                return True
        return False

    def _take(self, folder: FolderBlocks, batch: Batch) -> bool:
        """Take a folder's next block, unless another folder had it. False when the folder has to wait."""
        _, kind, form, rank = folder.folder
        assert folder.block is not None
        if self._coverage[kind].has(rank, folder.time_ms):
            batch.skip(OTHER_FOLDER, count=len(folder.block.events))
        elif self._is_awaited(folder) or (kind == "trades" and form != "block" and not folder.join_lines()):
            return False
        else:
            self._convert(folder, folder.block, batch)
        folder.advance(batch)
        return True

    def _is_awaited(self, folder: FolderBlocks) -> bool:
        """Whether a preferred folder may still get the folder's next block."""
        preferred = self._folders[: self._folders.index(folder)]
        return any(other.may_still_get(folder.time_ms) for other in preferred)

    def _convert(self, folder: FolderBlocks, block: Block, batch: Batch) -> None:
        """Make records of a block, unless it was taken before: a node that starts again writes some blocks again."""
        (_, kind, form, rank), cursor, time_ms = folder.folder, folder.cursor, folder.time_ms
        name, follows = block.number or time_ms, True
        if name != cursor.block or form == "block":
            if block.number is not None and not self._seen[kind].add(block.number):
                batch.skip(REPEATED_BLOCK, count=len(block.events))
                return
            follows = not self._is_behind_gap(folder, block, batch)
            cursor.block, cursor.events = name, 0
        self._coverage[kind].add(rank, time_ms, follows)
        known, batch.newest_ms = len(batch.errors), max(time_ms, batch.newest_ms)
        if kind == "fills":
            self._converter.add_fills(block, time_ms, cursor, batch, self._builds_trades(time_ms, follows))
        else:
            self._converter.add(kind, block, cursor, batch)
        cursor.events += len(block.events)
        if len(batch.errors) > known:
            folder.log_errors(batch, known)

    def _is_behind_gap(self, folder: FolderBlocks, block: Block, batch: Batch) -> bool:
        """Whether blocks are missing between a folder's last block and this one; logs and counts that."""
        name, kind, _, rank = folder.folder
        missing = range(0) if block.number is None else folder.missing_before(block.number)
        if not missing or self._coverage[kind].newest(rank) is None:  # another folder may have the blocks between
            return False
        log.warning(f"blocks {missing[0]} to {missing[-1]} are missing", folder=name)
        batch.gaps += 1
        return True

    def _builds_trades(self, time_ms: int, follows: bool) -> bool:
        """Whether the fills of a block make trades: not where `node_trades` had them already."""
        trades = self._coverage.get("trades")
        if trades is None or trades.has(FROM_FILLS_RANK, time_ms):
            return False
        trades.add(FROM_FILLS_RANK, time_ms, follows)
        return True
