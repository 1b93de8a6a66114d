"""A feed from the files that a Hyperliquid node writes."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import structlog

from headwater.errors import NodeUnavailable
from headwater.ingest.base import Step
from headwater.ingest.hyperliquid.folders import Kind, folders_for
from headwater.ingest.hyperliquid.kinds import KindReader
from headwater.ingest.hyperliquid.lines import (
    Convert,
    FillLines,
    Turn,
    block_lines,
    misc_lines,
    order_lines,
    trade_lines,
    unwrap,
    unwrap_replica,
)
from headwater.ingest.hyperliquid.options import ENTITIES, Entity, HyperliquidOptions
from headwater.ingest.hyperliquid.seen import SeenBlocks
from headwater.ingest.hyperliquid.spans import Span, Spans
from headwater.ingest.hyperliquid.tail import FolderTail, TailState
from headwater.ingest.hyperliquid.trades import Half, Pairs
from headwater.ingest.position import read_position

log = structlog.get_logger(__name__)

SCAN_S: Final = 1.0
POLL_S: Final = 0.05
QUIET_S: Final = 1.0

_CONVERT: Final[dict[Kind, Convert]] = {
    "trades": trade_lines,
    "orders": order_lines,
    "misc": misc_lines,
    "blocks": block_lines,
}


class _State(msgspec.Struct, forbid_unknown_fields=True):
    """The position; those of other kinds have other members.

    tails, turns: by folder. spans, seen: by kind. halves: of trades that wait for the other one.
    """

    tails: dict[str, TailState] = {}
    turns: dict[str, Turn] = {}
    spans: dict[str, list[Span | None]] = {}
    seen: dict[str, list[tuple[int, int]]] = {}
    halves: list[Half] = []


class NodeFeed:
    """Follows the folder that a node writes to. now: seconds since 1970. quiet_s: how soon `steps` says that it is."""

    def __init__(
        self, options: HyperliquidOptions, now: Callable[[], float] = time.time, quiet_s: float = QUIET_S
    ) -> None:
        assert options.node_data is not None
        self._name = options.name
        self._folder = options.node_data
        self._entities: Sequence[Entity] = options.entities or ENTITIES
        self._from_start = options.from_start
        self._now = now
        self._quiet_s = quiet_s

    @property
    def streams(self) -> Sequence[str]:
        return self._entities

    def steps(self, position: bytes | None) -> Iterator[Step | None]:
        """See Feed. Raises NodeUnavailable while the folder is not there or can't be read."""
        if not self._folder.is_dir():
            raise NodeUnavailable(f"There is no folder {self._folder} yet: it is where the node writes its data.")
        state = read_position(position, _State, self._name) if position else _State()
        files = _Files(self._folder, frozenset(self._entities), state, self._now)
        try:
            if position is None and not self._from_start:
                files.skip_to_end()
                log.info("begins at the end of what is there", folder=str(self._folder))
            if position is None:
                yield Step([], files.position(), 0)
            yield from files.steps(self._quiet_s)
        except OSError as error:
            raise NodeUnavailable(f"The node's files can't be read: {error}.") from error
        finally:
            files.close()


class _Files:
    """All folders of a node that tell the wanted entities."""

    def __init__(self, root: Path, entities: frozenset[Entity], state: _State, now: Callable[[], float]) -> None:
        self._folders = folders_for(entities)
        names = [folder.name for folders in self._folders.values() for folder in folders]
        self._tails = {n: FolderTail(root / n, state.tails.get(n) or TailState(), now) for n in names}
        self._turns = {n: state.turns.get(n) or Turn() for n in names}
        self._spans = {kind: Spans(state.spans.get(kind) or [None] * _ranks(kind)) for kind in self._folders}
        self._seen = {kind: SeenBlocks(state.seen.get(kind) or ()) for kind in self._folders}
        self._pairs = Pairs(state.halves)
        fills = FillLines(entities, self._pairs, self._builds)
        self._readers = {kind: self._reader(kind, _CONVERT.get(kind, fills)) for kind in self._folders}
        if trades := self._readers.get("trades"):
            trades.others.append(self._readers["fills"].lives)
        self._scanned = 0.0

    def _reader(self, kind: Kind, convert: Convert) -> KindReader:
        folders = self._folders[kind]
        return KindReader(
            folders,
            [self._tails[folder.name] for folder in folders],
            [self._turns[folder.name] for folder in folders],
            self._spans[kind],
            self._seen[kind],
            unwrap_replica if kind == "blocks" else unwrap,
            convert,
        )

    def _builds(self, time_ms: int) -> bool:
        """Whether trades of this time are built from fills: not when the node's own told them."""
        spans = self._spans["trades"]
        if spans.judge(0, time_ms, ()) != "take":
            return False
        spans.took(0, time_ms)
        return True

    def skip_to_end(self) -> None:
        """Begin behind what is there."""
        for tail in self._tails.values():
            tail.skip_to_end()

    def position(self) -> bytes:
        spans = {str(kind): spans.spans for kind, spans in self._spans.items() if any(spans.spans)}
        seen = {str(kind): seen.ranges for kind, seen in self._seen.items() if seen.ranges}
        tails = {name: tail.state for name, tail in self._tails.items() if tail.state.floor or tail.state.places}
        turns = {name: turn for name, turn in self._turns.items() if turn.block}
        return msgspec.json.encode(_State(tails, turns, spans, seen, self._pairs.halves))

    def steps(self, quiet_s: float) -> Iterator[Step | None]:
        """What comes, kind by kind."""
        quiet_since = time.monotonic()
        while True:
            self._scan()
            told = False
            for kind in self._readers:
                if step := self._step(kind):
                    told = True
                    yield step
            if told:
                quiet_since = time.monotonic()
                continue
            if time.monotonic() - quiet_since >= quiet_s:
                quiet_since = time.monotonic()
                yield None
            time.sleep(POLL_S)

    def _scan(self) -> None:
        if time.monotonic() - self._scanned >= SCAN_S:
            self._scanned = time.monotonic()
            for tail in self._tails.values():
                tail.scan()

    def _step(self, kind: Kind) -> Step | None:
        reader = self._readers[kind]
        told = reader.read()
        lost = [f"{folder.name}/{what}" for folder, what in reader.lost()]
        for what in lost:
            log.warning("a gap", file=what)
        if told is None:
            return Step([], self.position(), 0, gaps=len(lost)) if lost else None
        return Step(told.records, self.position(), told.newest_ms, told.skipped, len(lost))

    def close(self) -> None:
        for tail in self._tails.values():
            tail.close()


def _ranks(kind: Kind) -> int:
    """The folders of a kind; trades are told by fills too, which come first."""
    return len(folders_for(frozenset(ENTITIES))[kind]) + (kind == "trades")
