"""Converts the events of blocks to records, in a different way for each kind of event."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from headwater.ingest.base import StreamRecord
from headwater.ingest.hyperliquid import records
from headwater.ingest.hyperliquid.options import Entity
from headwater.ingest.hyperliquid.position import BlockProgress
from headwater.ingest.hyperliquid.records import BAD_EVENT_ERRORS, BlockPart, FillSide, NodeTrade

Kind = Literal["fills", "trades", "orders", "misc", "blocks"]
"""The kind of events in a folder."""

BAD_LINE: Final = "unreadable line"
BAD_EVENT: Final = "unreadable event"
REPEATED_BLOCK: Final = "repeated block"
REPEATED_TRADE: Final = "repeated trade"
TAKEN_FROM_OTHER_FOLDER: Final = "taken from another folder"
UNMATCHED_FILL: Final = "fill without the fill of the other side"


@dataclass(slots=True, kw_only=True)
class ConvertedBatch:
    """Records that were converted from lines, with counters.

    Attributes:
        line_count: The number of lines that were read.
        size: The number of bytes of these lines.
        records: The records.
        newest_ms: The time of the newest block, in ms since 1970.
        skipped: The number of events that were not converted, by reason.
        errors: The first error message of each reason that is an error.
        gaps: The number of places where blocks are missing.
    """

    line_count: int = 0
    size: int = 0
    newest_ms: int = 0
    records: list[StreamRecord] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    errors: dict[str, str] = field(default_factory=dict)
    gaps: int = 0

    def skip(self, reason: str, error: object = "", count: int = 1) -> None:
        """Count events that are not converted, and remember the first error of the reason."""
        if count:
            self.skipped[reason] += count
        if error:
            self.errors.setdefault(reason, str(error))


class Converter:
    """Converts the events of blocks to records.

    Args:
        entities: The requested entities.
        unmatched_fills: The fills that wait for the matching fill of the other side, to form a trade.
    """

    def __init__(self, entities: frozenset[Entity], unmatched_fills: Iterable[FillSide]) -> None:
        self._writes_fills = "fill" in entities
        self._unmatched_fills = {fill.trade_key: fill for fill in unmatched_fills}
        self._by_kind: dict[Kind, Callable[[BlockPart, BlockProgress, ConvertedBatch], None]] = {
            "trades": _add_node_trades,
            "orders": _add_orders,
            "misc": _add_misc_events,
            "blocks": _add_blocks,
        }

    @property
    def unmatched_fills(self) -> list[FillSide]:
        return list(self._unmatched_fills.values())

    def add(self, kind: Kind, part: BlockPart, progress: BlockProgress, batch: ConvertedBatch) -> None:
        """Add the records of events other than fills.

        `progress` counts the earlier events of the block.
        """
        self._by_kind[kind](part, progress, batch)

    def add_fills(
        self, part: BlockPart, time_ms: int, progress: BlockProgress, batch: ConvertedBatch, builds_trades: bool
    ) -> None:
        """Add the records of fills, and of the trades that they form.

        `progress` counts the earlier events of the block.
        """
        if builds_trades:
            self._drop_unmatched_before(time_ms, batch)
        for index, event in enumerate(part.events, progress.events_taken):
            try:
                record, side = records.fill_record(event, part.block_number)
            except BAD_EVENT_ERRORS as error:
                batch.skip(BAD_EVENT, error)
                continue
            if self._writes_fills:
                batch.records.append(record)
            if builds_trades and side.has_tid:  # without a tid, nothing identifies the fill of the other side
                self._match_side(side, index, batch)

    def _match_side(self, side: FillSide, index: int, batch: ConvertedBatch) -> None:
        """Match a fill with the fill of the other side, and add their trade."""
        other = self._unmatched_fills.pop(side.trade_key, None)
        if other is not None and other.side != side.side:
            batch.records.append(records.trade_record(side.trade_with(other, index)))
            return
        if other is not None:
            batch.skip(UNMATCHED_FILL, "its trade is skipped")
        self._unmatched_fills[side.trade_key] = side

    def _drop_unmatched_before(self, time_ms: int, batch: ConvertedBatch) -> None:
        """Drop unmatched fills of earlier blocks, because both fills of a trade are in one block."""
        for trade_key in [key for key in self._unmatched_fills if key[0] < time_ms]:
            del self._unmatched_fills[trade_key]
            batch.skip(UNMATCHED_FILL, "its trade is skipped")


def _add_node_trades(part: BlockPart, progress: BlockProgress, batch: ConvertedBatch) -> None:
    """Add the records of trades that the node wrote itself.

    Nodes of 2024 wrote each trade once per side. The taker is the side with the newer order.
    """
    unique: dict[object, tuple[NodeTrade, msgspec.Raw]] = {}
    for index, event in enumerate(part.events, progress.events_taken):
        try:
            trade = records.read_node_trade(event)
        except BAD_EVENT_ERRORS as error:
            batch.skip(BAD_EVENT, error)
            continue
        first, _ = unique.setdefault(trade.identity or index, (trade, event))
        if first is not trade:
            batch.skip(REPEATED_TRADE)
            if first.side != trade.side:
                first.side = first.newer_side
    for index, (trade, event) in enumerate(unique.values(), progress.events_taken):
        batch.records.append(records.node_trade_record(trade, event, part.block_number, index))


def _add_orders(part: BlockPart, _progress: BlockProgress, batch: ConvertedBatch) -> None:
    for event in part.events:
        try:
            batch.records.append(records.order_record(event, part.block_number))
        except BAD_EVENT_ERRORS as error:
            batch.skip(BAD_EVENT, error)


def _add_blocks(part: BlockPart, _progress: BlockProgress, batch: ConvertedBatch) -> None:
    batch.records += [records.block_record(event, part.block_number) for event in part.events]


def _add_misc_events(part: BlockPart, progress: BlockProgress, batch: ConvertedBatch) -> None:
    """Add the records of misc events.

    The unique id of an event consists of the block and the index in the block.
    """
    for index, event in enumerate(part.events, progress.events_taken):
        try:
            batch.records += records.misc_records(event, part.block_number, f"{progress.key}-{index}")
        except BAD_EVENT_ERRORS as error:
            batch.skip(BAD_EVENT, error)
