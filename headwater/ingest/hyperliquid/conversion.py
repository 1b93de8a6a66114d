"""Converts the events of blocks into records, by the kind of event."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from headwater.ingest.base import StreamRecord
from headwater.ingest.hyperliquid import records
from headwater.ingest.hyperliquid.options import Entity
from headwater.ingest.hyperliquid.position import BlockCursor
from headwater.ingest.hyperliquid.records import BadEvent, Block, FillSide, NodeTrade

Kind = Literal["fills", "trades", "orders", "misc", "blocks"]
"""Kind of the events in a folder."""

BAD_LINE: Final = "unreadable line"
BAD_EVENT: Final = "unreadable event"
REPEATED_BLOCK: Final = "repeated block"
REPEATED_TRADE: Final = "repeated trade"
OTHER_FOLDER: Final = "told by another folder"
ONE_SIDE: Final = "fill without its other half"


@dataclass(slots=True)
class Batch:
    """The records that were made of lines, and counts.

    Attributes:
        lines: How many lines were read.
        size: Their bytes.
        newest_ms: The time of the newest block, in ms since 1970.
        skipped: How many events became no record, by reason.
        errors: The first error of each reason that is an error.
        gaps: Places where blocks are missing.
    """

    lines: int = 0
    size: int = 0
    newest_ms: int = 0
    records: list[StreamRecord] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    errors: dict[str, str] = field(default_factory=dict)
    gaps: int = 0

    def skip(self, reason: str, error: object = "", count: int = 1) -> None:
        """Count events that become no record."""
        if count:
            self.skipped[reason] += count
        if error:
            self.errors.setdefault(reason, str(error))


class Converter:
    """Makes records of the events of blocks. halves: fills whose trade waits for the fill of the other side."""

    def __init__(self, entities: frozenset[Entity], halves: Iterable[FillSide]) -> None:
        self._writes_fills = "fill" in entities
        self._halves = {half.trade: half for half in halves}
        self._by_kind: dict[Kind, Callable[[Block, BlockCursor, Batch], None]] = {
            "trades": _add_node_trades,
            "orders": _add_orders,
            "misc": _add_misc_events,
            "blocks": _add_blocks,
        }

    @property
    def halves(self) -> list[FillSide]:
        return list(self._halves.values())

    def add(self, kind: Kind, block: Block, cursor: BlockCursor, batch: Batch) -> None:
        """Add the records of events other than fills. cursor: how many events of the block came before these."""
        self._by_kind[kind](block, cursor, batch)

    def add_fills(self, block: Block, time_ms: int, cursor: BlockCursor, batch: Batch, builds_trades: bool) -> None:
        """Add the records of fills, and of the trades that they make."""
        if builds_trades:
            self._give_up_before(time_ms, batch)
        for index, event in enumerate(block.events, cursor.events):
            try:
                record, side = records.fill(event, block.number)
            except BadEvent as error:
                batch.skip(BAD_EVENT, error)
                continue
            if self._writes_fills:
                batch.records.append(record)
            if builds_trades and side.trade[2]:
                self._add_side(side, index, batch)

    def _add_side(self, side: FillSide, index: int, batch: Batch) -> None:
        """Add the trade when this is its second side. A trade is named by time, coin and tid, a hash of two orders."""
        other = self._halves.pop(side.trade, None)
        if other is not None and other.side != side.side:
            batch.records.append(records.trade(side.trade_with(other, index)))
            return
        if other is not None:
            batch.skip(ONE_SIDE, "its trade is left out")
        self._halves[side.trade] = side

    def _give_up_before(self, time_ms: int, batch: Batch) -> None:
        """Drop fills of earlier blocks that still wait for the other side: both fills of a trade are in one block."""
        for trade in [trade for trade in self._halves if trade[0] < time_ms]:
            del self._halves[trade]
            batch.skip(ONE_SIDE, "its trade is left out")


def _add_node_trades(block: Block, cursor: BlockCursor, batch: Batch) -> None:
    """Add node trades. Nodes of 2024 wrote a trade once for each side; the taker is the side with the newer order."""
    found: dict[object, tuple[NodeTrade, msgspec.Raw]] = {}
    for index, event in enumerate(block.events, cursor.events):
        try:
            trade = records.read_node_trade(event)
        except BadEvent as error:
            batch.skip(BAD_EVENT, error)
            continue
        first, _ = found.setdefault(trade.identity or index, (trade, event))
        if first is not trade:
            batch.skip(REPEATED_TRADE)
            if first.side != trade.side:
                first.side = first.newer_side
    for index, (trade, event) in enumerate(found.values(), cursor.events):
        batch.records.append(records.node_trade(trade, event, block.number, index))


def _add_orders(block: Block, _cursor: BlockCursor, batch: Batch) -> None:
    for event in block.events:
        try:
            batch.records.append(records.order(event, block.number))
        except BadEvent as error:
            batch.skip(BAD_EVENT, error)


def _add_blocks(block: Block, _cursor: BlockCursor, batch: Batch) -> None:
    batch.records += [records.block(event, block.number) for event in block.events]


def _add_misc_events(block: Block, cursor: BlockCursor, batch: Batch) -> None:
    """Add misc events, whose unique ids are the block and the event's index in the block."""
    for index, event in enumerate(block.events, cursor.events):
        try:
            batch.records += records.misc_event(event, block.number, f"{cursor.block}-{index}")
        except BadEvent as error:
            batch.skip(BAD_EVENT, error)
