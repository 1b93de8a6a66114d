"""All folders of one kind, read as one: what stands in two of them, or twice in one, is told once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from headwater.ingest.hyperliquid.folders import Folder
from headwater.ingest.hyperliquid.lines import BAD_LINE, ELSEWHERE, REPEATED, Convert, Told, Turn, Unwrap, time_of
from headwater.ingest.hyperliquid.records import BadEvent, Block
from headwater.ingest.hyperliquid.seen import SeenBlocks
from headwater.ingest.hyperliquid.spans import Spans, Verdict
from headwater.ingest.hyperliquid.tail import Chunk, FolderTail

log = structlog.get_logger(__name__)

LIVES_S: Final = 60.0
"""A folder that got nothing for so long, and has nothing left to read, gets no more."""


def lives(tail: FolderTail) -> bool:
    """Whether a folder still gets events."""
    return tail.now() - tail.changed_at() < LIVES_S or tail.peek() is not None


@dataclass(slots=True)
class KindReader:
    """folders: the preferred one first, with their tails and turns. spans: of them, and before them of `others` that
    tell the same events and are preferred."""

    folders: list[Folder]
    tails: list[FolderTail]
    turns: list[Turn]
    spans: Spans
    seen: SeenBlocks
    unwrap: Unwrap
    convert: Convert
    others: list[Callable[[], bool]] = field(default_factory=list)

    def read(self) -> Told | None:
        """The next lines of the first folder that has some; None when none has."""
        for rank, tail in enumerate(self.tails):
            if chunk := tail.peek():
                told = Told()
                count = self._lines(rank, chunk, told)
                tail.advance(chunk, count)
                if count:
                    return told
        return None

    def lives(self) -> bool:
        """Whether one of the folders still gets events."""
        return any(lives(tail) for tail in self.tails)

    def lost(self) -> list[tuple[Folder, str]]:
        """What the tails lost since the last call, in sentences."""
        found = [(folder, what) for folder, tail in zip(self.folders, self.tails, strict=True) for what in tail.lost]
        for tail in self.tails:
            tail.lost.clear()
        return found

    def _lines(self, rank: int, chunk: Chunk, told: Told) -> int:
        """Convert lines until one has to wait; returns how many were done."""
        alive = [other() for other in self.others] + [lives(tail) for tail in self.tails[:rank]]
        for count, line in enumerate(chunk.lines):
            known = len(told.errors)
            try:
                if line.strip() and self._line(rank, line, chunk, count, told, alive) == "wait":
                    return count
            except BadEvent as error:
                told.skip(BAD_LINE, error)
            if len(told.errors) > known:
                self._log(rank, chunk, count, list(told.errors.items())[known:])
        return len(chunk.lines)

    def _line(self, rank: int, line: bytes, chunk: Chunk, count: int, told: Told, alive: list[bool]) -> Verdict:
        block = self.unwrap(line, chunk.path, chunk.first_line + count)
        if not block.events and not block.time:
            return "drop"
        time_ms = time_of(self.folders[rank].kind, block)
        verdict = self.spans.judge(len(self.others) + rank, time_ms, alive)
        if verdict == "drop":
            told.skip(ELSEWHERE, count=len(block.events))
        if verdict == "take" and self._begin(rank, block, time_ms, told):
            told.time_ms, told.newest_ms = time_ms, max(time_ms, told.newest_ms)
            self.spans.took(len(self.others) + rank, time_ms)
            self.convert(block, self.turns[rank], told)
        return verdict

    def _begin(self, rank: int, block: Block, time_ms: int, told: Told) -> bool:
        """Note a line's block. False when it was read before: a node that starts again writes some blocks again."""
        turn, name = self.turns[rank], block.number or time_ms
        if name == turn.block and self.folders[rank].form != "block":
            return True
        if block.number is not None and not self.seen.add(block.number):
            told.skip(REPEATED, count=len(block.events))
            return False
        turn.block, turn.events = name, 0
        return True

    def _log(self, rank: int, chunk: Chunk, count: int, errors: list[tuple[str, str]]) -> None:
        file, offset = f"{self.folders[rank].name}/{chunk.path}", chunk.ends[count] - len(chunk.lines[count]) - 1
        for reason, error in errors:
            log.warning("left out; more of this reason in this part of the file are counted", reason=reason,
                        file=file, offset=offset, error=error)  # fmt: skip
