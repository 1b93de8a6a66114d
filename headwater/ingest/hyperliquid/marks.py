"""How far a WebSocket feed is: which of its trades and blocks are new, and where some may be missing."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog

from headwater.ingest.hyperliquid.messages import ExplorerBlock, WsTrade

log = structlog.get_logger(__name__)

REPEATED_TRADE: Final = "repeated trade"
REPEATED_BLOCK: Final = "repeated block"


class Mark(msgspec.Struct, array_like=True):
    """The newest trades of a coin: their time in ms, and all of that time."""

    time: int
    tids: list[int]

    def add(self, trade: WsTrade) -> bool:
        """Note a trade; False when it was seen. Trades of a coin come in the order of their time."""
        if trade.time > self.time:
            self.time, self.tids = trade.time, []
        elif trade.time < self.time or trade.tid in self.tids:
            return False
        self.tids.append(trade.tid)
        return True


class MarksState(msgspec.Struct, forbid_unknown_fields=True):
    """The position; those of other kinds have other members. marks: by coin. height: of the newest block."""

    marks: dict[str, Mark] = {}
    height: int = 0


@dataclass(slots=True)
class Marks:
    """One connection's view of the position. gaps, skipped: since the last `take_counts`."""

    state: MarksState
    gaps: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    _met: set[str] = field(default_factory=set)

    def new_trades(self, trades: Sequence[WsTrade]) -> list[WsTrade]:
        """Those not seen before, in order. A snapshot may begin with the newest one."""
        backwards = bool(trades) and trades[0].time > trades[-1].time
        ordered = sorted(trades[::-1] if backwards else trades, key=lambda trade: trade.time)
        for trade in ordered:
            self._meet(trade)
        found = [trade for trade in ordered if self._is_new(trade)]
        self.skipped[REPEATED_TRADE] += len(ordered) - len(found)
        return found

    def _meet(self, trade: WsTrade) -> None:
        """The first message after a subscription has the last trades: do they reach back to what was seen?"""
        if trade.coin in self._met:
            return
        self._met.add(trade.coin)
        mark = self.state.marks.get(trade.coin)
        if mark is not None and trade.time > mark.time:
            self.gaps += 1
            log.warning("trades may be missing", coin=trade.coin, after_ms=mark.time, before_ms=trade.time)

    def _is_new(self, trade: WsTrade) -> bool:
        mark = self.state.marks.setdefault(trade.coin, Mark(trade.time, []))
        return mark.add(trade)

    def new_blocks(self, blocks: Iterable[ExplorerBlock]) -> list[ExplorerBlock]:
        """Those not seen before, in order."""
        found: list[ExplorerBlock] = []
        for block in sorted(blocks, key=lambda block: block.height):
            if block.height <= self.state.height:
                self.skipped[REPEATED_BLOCK] += 1
                continue
            if self.state.height and block.height > self.state.height + 1:
                self.gaps += 1
                log.warning("blocks are missing", after=self.state.height, before=block.height)
            self.state.height = block.height
            found.append(block)
        return found

    def take_counts(self) -> tuple[dict[str, int], int]:
        """skipped and gaps, which begin anew."""
        counts = {reason: count for reason, count in self.skipped.items() if count}, self.gaps
        self.skipped, self.gaps = Counter(), 0
        return counts
