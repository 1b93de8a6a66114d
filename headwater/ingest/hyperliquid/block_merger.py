"""Merges the folders of a node that contain the same events, in the order of the blocks.

Each block is taken once, from the first folder in the order of preference that has the block. A node's operator may
change the output format at any time, so folders may follow one another in time, overlap, or be written simultaneously.
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
from headwater.ingest.hyperliquid.position import BlockProgress, Coverage, SeenBlocks
from headwater.ingest.hyperliquid.records import BAD_EVENT_ERRORS, BlockPart

log = structlog.get_logger(__name__)

FOLDER_IDLE_TIMEOUT_S: Final = 60.0
"""A folder without unread lines counts as finished when it was not written for this long, or when its newest block is
older by this much than the block that is to be taken next from another folder.
"""
MAX_BLOCK_BYTES: Final = 64 * 1024 * 1024
"""The maximum number of bytes of the joined lines of one block."""
MAX_EMPTY_BLOCKS: Final = 10_000
"""In a folder that has no lines for empty blocks, up to this many blocks without a line are not a gap.

On the main network, this many blocks take a quarter of an hour, and some of them always have events.
"""
BUILT_FROM_FILLS_RANK: Final = 0
"""The rank of trades that are built from fills.

They are preferred, so the folders of trades have the ranks after it.
"""

Form = Literal["block", "streaming", "event"]
"""The content of a line: all events of a block, some events with their block's number, or a single event."""


class FolderSpec(NamedTuple):
    """A folder in the node's data.

    Attributes:
        name: The path of the folder.
        kind: The kind of the events in the folder.
        form: The content of a line.
        rank: The index of the folder in the order of preference among the folders of its kind.
    """

    name: str
    kind: Kind
    form: Form
    rank: int


def _folder_specs(kind: Kind, *names: str, first: int = 0) -> tuple[FolderSpec, ...]:
    """Return the folders with these names, each in every form, the preferred folder first.

    Args:
        kind: The kind of the events in the folders.
        names: The names without the suffix of a form.
        first: The rank of the first folder.
    """
    forms: tuple[tuple[str, Form], ...] = (("_by_block", "block"), ("_streaming", "streaming"), ("", "event"))
    names_with_forms = [(name + suffix, form) for name in names for suffix, form in forms]
    return tuple(FolderSpec(name, kind, form, rank) for rank, (name, form) in enumerate(names_with_forms, first))


FOLDERS: Final[dict[Kind, tuple[FolderSpec, ...]]] = {
    "fills": _folder_specs("fills", "node_fills"),
    "trades": _folder_specs("trades", "node_trades", first=BUILT_FROM_FILLS_RANK + 1),
    "orders": _folder_specs("orders", "node_order_statuses"),
    "misc": _folder_specs("misc", "misc_events", "node_misc_events"),
    "blocks": (FolderSpec("replica_cmds", "blocks", "block", 0),),
}
"""The folders by kind of event, the preferred folder first."""

ENTITY_GROUPS: Final[tuple[tuple[frozenset[Entity], tuple[Kind, ...]], ...]] = (
    (frozenset({"trade"}), ("fills", "trades")),
    (frozenset({"fill"}), ("fills",)),
    (frozenset({"order"}), ("orders",)),
    (frozenset({"misc_event"}), ("misc",)),
    (frozenset({"block"}), ("blocks",)),
)
"""The entities, each group with the kinds of events that it needs. Trades are also built from fills."""


def groups_for(entities: frozenset[Entity]) -> list[tuple[Kind, ...]]:
    """Return the kinds of events to read, in groups.

    The kinds of a group may hold the same events. A group that is a part of another group is left out.
    """
    groups = [kinds for group_entities, kinds in ENTITY_GROUPS if group_entities & entities]
    return [kinds for kinds in groups if not any(set(kinds) < set(other_kinds) for other_kinds in groups)]


class FolderBlocks:
    """Reads the blocks of one folder, line by line. Used by one thread.

    Attributes:
        spec: The folder.
        reader: Reads the files of the folder.
        last_taken: The last block that was taken from the folder, and the number of its events that were taken.
        part: The events of the current line, or of all lines of its block; None when no line is unread.
        time_ms: The time of the block of `part`, in ms since 1970.
    """

    def __init__(
        self,
        *,
        spec: FolderSpec,
        reader: FolderReader,
        last_taken: BlockProgress,
        newest_ms: int | None,
        quiet_s: float,
    ) -> None:
        """Create the reader.

        Args:
            spec: The folder.
            reader: Reads the files of the folder.
            last_taken: The last block that was taken from the folder.
            newest_ms: The time of the newest block that a previous process read from the folder; None if unknown.
            quiet_s: How long to wait for further lines of a block, for kinds that need all lines of a block.
        """
        self.spec = spec
        self.reader = reader
        self.last_taken = last_taken
        self.part: BlockPart | None = None
        self.time_ms = 0
        self._quiet_s = quiet_s
        # In our recordings the node writes a line for each empty block. There is no long recording of misc events, so
        # such lines are expected in their folder only after the first one was read.
        self._writes_empty_blocks = spec.kind != "misc"
        self._newest_ms = newest_ms
        self._lines = Lines("", 0, [], [])
        self._index = 0
        self._line_count = 1
        self._awaited_size = (0, 0)
        self._last_growth_s = 0.0

    def read_next(self, batch: ConvertedBatch) -> None:
        """Read the events of the next line into `part`, unless `part` is set already.

        Skips lines that can't be parsed.
        """
        while self.part is None and (self._index < len(self._lines.lines) or self._read_next_lines()):
            if not self._lines.lines[self._index].strip():
                self.advance(batch)
                continue
            error_count = len(batch.errors)
            try:
                self.part, self.time_ms = self._part(self._index)
            except BAD_EVENT_ERRORS as error:
                batch.skip(BAD_LINE, error)
                self.log_errors(batch, error_count)
            if self.part is None:
                self.advance(batch)

    def advance(self, batch: ConvertedBatch) -> None:
        """Advance past the lines of `part`."""
        if self.part is not None:
            self._newest_ms = self.time_ms
            self._writes_empty_blocks |= not self.part.events
        after = self._index + self._line_count
        batch.line_count += self._line_count
        batch.size += sum(map(len, self._lines.lines[self._index : after]))
        self._index, self._line_count, self.part = after, 1, None

    def continues_last_block(self) -> bool:
        """Return whether `part` has further events of the last taken block."""
        return self.spec.form != "block" and self._block_key() == self.last_taken.key

    def begin_block(self) -> None:
        """Restart `last_taken` for the block of `part`, with no events taken yet."""
        progress = self.last_taken
        progress.key, progress.events_taken, progress.events_to_skip = self._block_key(), 0, 0

    def _block_key(self) -> int:
        """Return the number of the block of `part`, or its time if the number is unknown."""
        assert self.part is not None
        return self.part.block_number or self.time_ms

    def missing_before(self, number: int) -> range:
        """Return the numbers of the missing blocks before the block of this number.

        The numbers begin after the last taken block. The range is empty when that block has only a time as its key,
        because times in ms are larger than block numbers.
        """
        missing = range(self.last_taken.key + 1, number) if self.last_taken.key else range(0)
        is_exact = self.spec.form == "block" and self._writes_empty_blocks
        return missing if is_exact or len(missing) > MAX_EMPTY_BLOCKS else range(0)

    def advance_reader(self) -> None:
        """Advance the reader's position past the blocks that were taken."""
        self.reader.advance(self._lines, self._index)

    def may_still_receive(self, time_ms: int) -> bool:
        """Return whether this folder may still receive the block of this time.

        The caller asks about the oldest unread block of all folders. A folder with unread lines can't receive this
        block any more: its next block is not older, and the node writes the blocks of a folder in order.
        """
        if self.part is not None or self.reader.now() - self.reader.changed_at() >= FOLDER_IDLE_TIMEOUT_S:
            return False
        return self._newest_ms is None or 0 < time_ms - self._newest_ms < FOLDER_IDLE_TIMEOUT_S * 1000

    def join_lines(self) -> bool:
        """Join the events of all lines of the current block in `part`.

        Returns False while more lines of the block may be written.
        """
        events, after = self._events_of_block()
        while after == len(self._lines.lines) and self._extend_lines():
            events, after = self._events_of_block()
        if after == len(self._lines.lines) and self._may_grow(after - self._index):
            return False
        assert self.part is not None
        self.part, self._line_count = self.part._replace(events=events), after - self._index
        return True

    def log_errors(self, batch: ConvertedBatch, first: int) -> None:
        """Log the errors of the current line, which begin at index `first` of the batch."""
        file = f"{self.spec.name}/{self._lines.path}"
        offset = self._lines.ends[self._index] - len(self._lines.lines[self._index]) - 1
        for reason, error in list(batch.errors.items())[first:]:
            event = "a line or event was skipped; further ones with this reason in this batch are only counted"
            log.warning(event, reason=reason, file=file, offset=offset, error=error)

    def _read_next_lines(self) -> bool:
        """Read the lines after the current lines, which were all taken."""
        self.advance_reader()
        self._lines, self._index = self.reader.peek() or Lines("", 0, [], []), 0
        return bool(self._lines.lines)

    def _part(self, index: int) -> tuple[BlockPart | None, int]:
        """Return the events of a line, and the time of their block in ms.

        The part is None for a line without events and without a time. Raises one of BAD_EVENT_ERRORS.
        """
        line = self._lines.lines[index]
        if self.spec.kind == "blocks":
            part = records.read_replica_line(line, self._lines.path, self._lines.first_line + index)
        else:
            part = records.read_line(line)
        if part.block_time:
            return part, records.to_ms(part.block_time)
        if not part.events:
            return None, 0
        time_of = records.fill_time_ms if self.spec.kind == "fills" else records.event_time_ms
        return part, time_of(part.events[0])

    def _events_of_block(self) -> tuple[list[msgspec.Raw], int]:
        """Return the events of the current block that have been read, and an index.

        The index refers to the first line after the lines of this block.
        """
        assert self.part is not None
        events, index = list(self.part.events), self._index + 1
        while index < len(self._lines.lines):
            try:
                part, time_ms = self._part(index)
            except BAD_EVENT_ERRORS:
                break
            if part is None or time_ms != self.time_ms:
                break
            events += part.events
            index += 1
        return events, index

    def _extend_lines(self) -> bool:
        """Read the untaken lines again, together with further lines.

        Returns False when there are no further lines, or too many lines are untaken.
        """
        untaken = self._lines.lines[self._index :]
        size = 2 * sum(map(len, untaken))
        if size > MAX_BLOCK_BYTES:
            return False
        self.advance_reader()
        lines = self.reader.peek(max(size, READ_BYTES))
        if lines is None or len(lines.lines) <= len(untaken):
            return False
        self._lines, self._index = lines, 0
        return True

    def _may_grow(self, line_count: int) -> bool:
        """Return whether more lines of the last block of a file may be written.

        The block has `line_count` lines now.
        """
        now, size = time.monotonic(), (self.time_ms, line_count)
        if size != self._awaited_size:
            self._awaited_size, self._last_growth_s = size, now
        return now - self._last_growth_s < self._quiet_s


class BlockMerger:
    """Merges the blocks of folders that contain the same events, in the order of time.

    Args:
        folders: The folders, in the order of preference.
        coverage: The spans of time that were taken so far, by kind of event.
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
        """Return the records of the next blocks, about READ_BYTES of lines.

        Returns None when no block can be taken now.
        """
        batch = ConvertedBatch()
        while batch.size < READ_BYTES:
            next_folder = self._folder_with_oldest_block(batch)
            if next_folder is None or not self._take_run(next_folder, batch):
                break
        for folder in self._folders:
            folder.advance_reader()
        return batch if batch.line_count else None

    def _folder_with_oldest_block(self, batch: ConvertedBatch) -> FolderBlocks | None:
        """Return the folder with unread lines of the oldest block.

        Among several folders with this block, the preferred one is returned.
        """
        for folder in self._folders:
            folder.read_next(batch)
        unread = [folder for folder in self._folders if folder.part is not None]
        return min(unread, key=lambda folder: folder.time_ms, default=None)

    def _take_run(self, folder: FolderBlocks, batch: ConvertedBatch) -> bool:
        """Take blocks of a folder up to the next block of another folder.

        Returns False when the folder must wait.
        """
        other_times = (other.time_ms for other in self._folders if other is not folder and other.part is not None)
        next_other_ms = min(other_times, default=math.inf)
        while self._take_part(folder, batch):
            folder.read_next(batch)
            if folder.part is None or folder.time_ms >= next_other_ms or batch.size >= READ_BYTES:
                return True
        return False

    def _take_part(self, folder: FolderBlocks, batch: ConvertedBatch) -> bool:
        """Take a folder's current events, unless their block was taken from another folder.

        Returns False when the folder must wait.
        """
        _, kind, form, rank = folder.spec
        assert folder.part is not None
        if self._coverage[kind].is_taken_from_other(rank, folder.time_ms):
            batch.skip(TAKEN_FROM_OTHER_FOLDER, count=len(folder.part.events))
        elif self._must_wait(folder) or (kind == "trades" and form != "block" and not folder.join_lines()):
            return False
        else:
            self._convert(folder, folder.part, batch)
        folder.advance(batch)
        return True

    def _must_wait(self, folder: FolderBlocks) -> bool:
        """Return whether a preferred folder may still receive the folder's current block."""
        preferred = self._folders[: self._folders.index(folder)]
        return any(other.may_still_receive(folder.time_ms) for other in preferred)

    def _convert(self, folder: FolderBlocks, part: BlockPart, batch: ConvertedBatch) -> None:
        """Convert the events of a part that were not taken before.

        A restarted node may write the newest blocks again, the last taken one included. After the repeated events of
        that block, it may write further ones.
        """
        _, kind, _, rank = folder.spec
        progress, time_ms = folder.last_taken, folder.time_ms
        is_contiguous = True
        if folder.continues_last_block():
            part = _without_repeated_events(part, progress, batch)
        elif part.block_number is not None and not self._seen[kind].add(part.block_number):
            batch.skip(REPEATED_BLOCK, count=len(part.events))
            progress.events_to_skip = progress.events_taken  # the node will also repeat the last taken block
            return
        else:
            is_contiguous = not self._record_gap(folder, part.block_number, batch)
            folder.begin_block()
        self._coverage[kind].record(rank, time_ms, is_contiguous)
        error_count, batch.newest_ms = len(batch.errors), max(time_ms, batch.newest_ms)
        if kind == "fills":
            self._converter.add_fills(part, time_ms, progress, batch, self._claim_trades(time_ms, is_contiguous))
        else:
            self._converter.add(kind, part, progress, batch)
        progress.events_taken += len(part.events)
        if len(batch.errors) > error_count:
            folder.log_errors(batch, error_count)

    def _record_gap(self, folder: FolderBlocks, block_number: int | None, batch: ConvertedBatch) -> bool:
        """Log and count the gap between a folder's last block and the block of this number.

        Returns whether there is a gap.
        """
        name, kind, _, rank = folder.spec
        missing = range(0) if block_number is None else folder.missing_before(block_number)
        if not missing or not self._coverage[kind].is_newest_from(rank):  # another folder may have these blocks
            return False
        log.warning(f"blocks {missing[0]} to {missing[-1]} are missing", folder=name)
        batch.gaps += 1
        return True

    def _claim_trades(self, time_ms: int, is_contiguous: bool) -> bool:
        """Record that the trades of a block are built from fills.

        Returns False when trades are not requested, or when these trades were taken from `node_trades`.
        """
        trades = self._coverage.get("trades")
        if trades is None or trades.is_taken_from_other(BUILT_FROM_FILLS_RANK, time_ms):
            return False
        trades.record(BUILT_FROM_FILLS_RANK, time_ms, is_contiguous)
        return True


def _without_repeated_events(part: BlockPart, progress: BlockProgress, batch: ConvertedBatch) -> BlockPart:
    """Return further events of the last taken block.

    Events that the node writes again are left out.
    """
    repeated = min(progress.events_to_skip, len(part.events))
    progress.events_to_skip -= repeated
    batch.skip(REPEATED_BLOCK, count=repeated)
    return part._replace(events=part.events[repeated:])
