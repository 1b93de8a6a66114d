"""Merges the folders of a node that contain the same events, in the order of their blocks.

Each block is taken once, from the first folder in the order of preference that has it. A node's operator may change the
output format at any time, so folders may follow one another in time, overlap, or be written simultaneously.
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
    REPEATED_BLOCK,
    TAKEN_FROM_OTHER_FOLDER,
    ConvertedBatch,
    Converter,
    Kind,
)
from headwater.ingest.hyperliquid.folder_reader import READ_BYTES, FolderReader, Lines
from headwater.ingest.hyperliquid.options import Entity
from headwater.ingest.hyperliquid.position import BlockCursor, Coverage, SeenBlocks
from headwater.ingest.hyperliquid.records import BAD_EVENT_ERRORS, Block

log = structlog.get_logger(__name__)

FOLDER_IDLE_TIMEOUT_S: Final = 60.0
"""A folder without unread lines counts as finished when it was not written for this long, or when its newest block is
this much older than that of another folder."""
MAX_BLOCK_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of the joined lines of one block."""
MAX_EMPTY_BLOCKS: Final = 10_000
"""In a folder that has no lines for empty blocks, up to this many blocks without a line are not a gap.

On the main network, this many blocks take a quarter of an hour, and some of them always have events.
"""
FROM_FILLS_RANK: Final = 0
"""The rank of trades that are built from fills, in the order of preference of the folders of trades."""

Form = Literal["block", "streaming", "event"]
"""The content of a line: all events of a block, some events with their block's number, or a single event."""


class Folder(NamedTuple):
    """A folder in the node's data.

    Attributes:
        name: The path of the folder.
        kind: The kind of its events.
        form: The content of its lines.
        rank: Its index in the order of preference of its kind.
    """

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

ENTITY_GROUPS: Final[tuple[tuple[frozenset[Entity], tuple[Kind, ...]], ...]] = (
    (frozenset({"trade"}), ("fills", "trades")),
    (frozenset({"fill"}), ("fills",)),
    (frozenset({"order"}), ("orders",)),
    (frozenset({"misc_event"}), ("misc",)),
    (frozenset({"block"}), ("blocks",)),
)
"""The kinds of events that are read together, with the entities that need them: trades are also built from fills."""


def groups_for(entities: frozenset[Entity]) -> list[tuple[Kind, ...]]:
    """Return the kinds of events to read, in groups that contain the same events."""
    needed = [kinds for needs, kinds in ENTITY_GROUPS if needs & entities]
    return [kinds for kinds in needed if not any(set(kinds) < set(others) for others in needed)]


class FolderBlocks:
    """Reads the blocks of one folder, one after the other. Used by one thread.

    Attributes:
        block: The current block, or the part of it in one line; None when there is nothing to read.
        time_ms: The time of that block, in ms since 1970.
        cursor: The last block that was taken, and the number of its events.
    """

    def __init__(
        self, *, folder: Folder, reader: FolderReader, cursor: BlockCursor, newest_ms: int | None, quiet_s: float
    ) -> None:
        """Create the reader.

        Args:
            folder: The folder.
            reader: Reads the files of the folder.
            cursor: The last block that was taken from the folder.
            newest_ms: The time of the newest block that a previous process read from the folder; None if unknown.
            quiet_s: How long to wait for further lines of a block, for kinds that need all lines of a block.
        """
        self.folder = folder
        self.reader = reader
        self.cursor = cursor
        self.block: Block | None = None
        self.time_ms = 0
        self._quiet_s = quiet_s
        # All kinds in our recordings have empty blocks, except for misc events, of which there is no long recording.
        self._has_empty_blocks = folder.kind != "misc"
        self._newest_ms = newest_ms
        self._lines = Lines("", 0, [], [])
        self._next = 0
        self._count = 1
        self._last_growth = (0, 0.0)

    def read_next(self, batch: ConvertedBatch) -> None:
        """Read the next block, unless it is read already. Lines that can't be parsed are skipped."""
        while self.block is None and (self._next < len(self._lines.lines) or self._read_on()):
            if not self._lines.lines[self._next].strip():
                self.advance(batch)
                continue
            known = len(batch.errors)
            try:
                self.block, self.time_ms = self._block(self._next)
            except BAD_EVENT_ERRORS as error:
                batch.skip(BAD_LINE, error)
                self.log_errors(batch, known)
            if self.block is None:
                self.advance(batch)

    def advance(self, batch: ConvertedBatch) -> None:
        """Advance past the current block."""
        if self.block is not None:
            self._newest_ms = self.time_ms
            self._has_empty_blocks |= not self.block.events
        after = self._next + self._count
        batch.lines += self._count
        batch.size += sum(map(len, self._lines.lines[self._next : after]))
        self._next, self._count, self.block = after, 1, None

    def missing_before(self, number: int) -> range:
        """Return the numbers of the missing blocks between the last block and this one."""
        missing = range(self.cursor.block + 1, number) if self.cursor.block else range(0)
        is_exact = self.folder.form == "block" and self._has_empty_blocks
        return missing if is_exact or len(missing) > MAX_EMPTY_BLOCKS else range(0)

    def commit(self) -> None:
        """Advance the reader's position past the blocks that were taken."""
        self.reader.advance(self._lines, self._next)

    def may_still_receive(self, time_ms: int) -> bool:
        """Return whether the folder may still receive the block of this time.

        The folder has nothing to read now.
        """
        if self.block is not None or self.reader.now() - self.reader.changed_at() >= FOLDER_IDLE_TIMEOUT_S:
            return False
        return self._newest_ms is None or 0 < time_ms - self._newest_ms < FOLDER_IDLE_TIMEOUT_S * 1000

    def join_lines(self) -> bool:
        """Join all lines of the current block. Returns False while more lines of it may be written."""
        while True:
            events, after = self._same_block()
            if after == len(self._lines.lines) and self._read_more():
                continue
            if after == len(self._lines.lines) and self._may_grow(after - self._next):
                return False
            assert self.block is not None
            self.block, self._count = self.block._replace(events=events), after - self._next
            return True

    def log_errors(self, batch: ConvertedBatch, known: int) -> None:
        """Log the errors of the current line: those of the batch after the first `known` ones."""
        file = f"{self.folder.name}/{self._lines.path}"
        offset = self._lines.ends[self._next] - len(self._lines.lines[self._next]) - 1
        for reason, error in list(batch.errors.items())[known:]:
            log.warning("skipped; more for this reason in this part of the file are only counted", reason=reason,
                        file=file, offset=offset, error=error)  # fmt: skip

    def _read_on(self) -> bool:
        """Read further lines after all read lines were taken."""
        self.commit()
        self._lines, self._next = self.reader.peek() or Lines("", 0, [], []), 0
        return bool(self._lines.lines)

    def _block(self, at: int) -> tuple[Block | None, int]:
        """Return a line's block and its time in ms.

        Returns None for a line without events and without a time. Raises one of BAD_EVENT_ERRORS.
        """
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
        """Return the read events of the current block, and the index of the first line after."""
        assert self.block is not None
        events, at = list(self.block.events), self._next + 1
        while at < len(self._lines.lines):
            try:
                block, time_ms = self._block(at)
            except BAD_EVENT_ERRORS:
                break
            if block is None or time_ms != self.time_ms:
                break
            events += block.events
            at += 1
        return events, at

    def _read_more(self) -> bool:
        """Read more lines after the read ones.

        Returns False when there are none, or too many were read already.
        """
        read = self._lines.lines[self._next :]
        size = 2 * sum(map(len, read))
        if size > MAX_BLOCK_BYTES:
            return False
        self.commit()
        lines = self.reader.peek(max(size, READ_BYTES))
        if lines is None or len(lines.lines) <= len(read):
            return False
        self._lines, self._next = lines, 0
        return True

    def _may_grow(self, lines: int) -> bool:
        """Return whether more lines of the last block of a file may be written.

        `lines` is their number now.
        """
        now = time.monotonic()
        if lines != self._last_growth[0]:
            self._last_growth = (lines, now)
        return now - self._last_growth[1] < self._quiet_s


class BlockMerger:
    """Merges the blocks of folders that contain the same events, in the order of time.

    Args:
        folders: The folders, in the order of preference.
        coverage: The stretches of time that were taken so far, by kind of event.
        seen: The numbers of the blocks that were taken so far, by kind of event.
        converter: Converts the events of blocks to records.
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

    def read(self) -> ConvertedBatch | None:
        """Convert the next blocks, about READ_BYTES of lines; None when no block can be taken now."""
        batch = ConvertedBatch()
        while batch.size < READ_BYTES and (folder := self._next(batch)) and self._take_run(folder, batch):
            pass
        for folder in self._folders:
            folder.commit()
        return batch if batch.lines else None

    def _next(self, batch: ConvertedBatch) -> FolderBlocks | None:
        """Return the folder with the oldest block; among several, the preferred one."""
        for folder in self._folders:
            folder.read_next(batch)
        found = [folder for folder in self._folders if folder.block is not None]
        return min(found, key=lambda folder: folder.time_ms, default=None)

    def _take_run(self, folder: FolderBlocks, batch: ConvertedBatch) -> bool:
        """Take blocks of a folder up to the next block of another folder.

        Returns False when the folder must wait.
        """
        others = (other.time_ms for other in self._folders if other is not folder and other.block is not None)
        until = min(others, default=math.inf)
        while self._take_block(folder, batch):
            folder.read_next(batch)
            if folder.block is None or folder.time_ms >= until or batch.size >= READ_BYTES:
                return True
        return False

    def _take_block(self, folder: FolderBlocks, batch: ConvertedBatch) -> bool:
        """Take a folder's current block, unless another folder had it.

        Returns False when the folder must wait.
        """
        _, kind, form, rank = folder.folder
        assert folder.block is not None
        if self._coverage[kind].is_taken_from_other(rank, folder.time_ms):
            batch.skip(TAKEN_FROM_OTHER_FOLDER, count=len(folder.block.events))
        elif self._is_awaited(folder) or (kind == "trades" and form != "block" and not folder.join_lines()):
            return False
        else:
            self._convert(folder, folder.block, batch)
        folder.advance(batch)
        return True

    def _is_awaited(self, folder: FolderBlocks) -> bool:
        """Return whether a preferred folder may still receive the folder's current block."""
        preferred = self._folders[: self._folders.index(folder)]
        return any(other.may_still_receive(folder.time_ms) for other in preferred)

    def _convert(self, folder: FolderBlocks, block: Block, batch: ConvertedBatch) -> None:
        """Convert a block, unless it was taken before.

        A restarted node writes some blocks again.
        """
        (_, kind, form, rank), cursor, time_ms = folder.folder, folder.cursor, folder.time_ms
        block_key, is_contiguous = block.number or time_ms, True
        if block_key != cursor.block or form == "block":
            if block.number is not None and not self._seen[kind].add(block.number):
                batch.skip(REPEATED_BLOCK, count=len(block.events))
                return
            is_contiguous = not self._is_behind_gap(folder, block, batch)
            cursor.block, cursor.events = block_key, 0
        self._coverage[kind].record(rank, time_ms, is_contiguous)
        known, batch.newest_ms = len(batch.errors), max(time_ms, batch.newest_ms)
        if kind == "fills":
            self._converter.add_fills(block, time_ms, cursor, batch, self._builds_trades(time_ms, is_contiguous))
        else:
            self._converter.add(kind, block, cursor, batch)
        cursor.events += len(block.events)
        if len(batch.errors) > known:
            folder.log_errors(batch, known)

    def _is_behind_gap(self, folder: FolderBlocks, block: Block, batch: ConvertedBatch) -> bool:
        """Return whether blocks are missing between a folder's last block and this one.

        Logs and counts the gap.
        """
        name, kind, _, rank = folder.folder
        missing = range(0) if block.number is None else folder.missing_before(block.number)
        if not missing or self._coverage[kind].newest_if_last(rank) is None:  # another folder may have these blocks
            return False
        log.warning(f"blocks {missing[0]} to {missing[-1]} are missing", folder=name)
        batch.gaps += 1
        return True

    def _builds_trades(self, time_ms: int, is_contiguous: bool) -> bool:
        """Return whether to build trades from the fills of a block.

        `node_trades` may have contained them already.
        """
        trades = self._coverage.get("trades")
        if trades is None or trades.is_taken_from_other(FROM_FILLS_RANK, time_ms):
            return False
        trades.record(FROM_FILLS_RANK, time_ms, is_contiguous)
        return True
