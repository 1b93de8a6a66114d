"""Lines of one folder of a node as records, by the kind of the folder."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from headwater.ingest.base import StreamRecord
from headwater.ingest.hyperliquid import records
from headwater.ingest.hyperliquid.options import Entity
from headwater.ingest.hyperliquid.records import BadEvent, Block
from headwater.ingest.hyperliquid.times import to_ms
from headwater.ingest.hyperliquid.trades import Half, Pairs

BAD_LINE: Final = "unreadable line"
BAD_EVENT: Final = "unreadable event"
REPEATED: Final = "repeated block"
ELSEWHERE: Final = "told by another folder"
NO_PAIR: Final = "fill without its other half"


class Turn(msgspec.Struct, array_like=True):
    """Where a folder is: its block (its time in ms, when lines don't name it), and how many events of it were read."""

    block: int = 0
    events: int = 0


@dataclass(slots=True)
class Told:
    """What lines became. skipped: by reason. errors: the first of each reason that is one.

    time_ms, newest_ms: of the last line, and of the newest one.
    """

    records: list[StreamRecord] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    errors: dict[str, str] = field(default_factory=dict)
    time_ms: int = 0
    newest_ms: int = 0

    def skip(self, reason: str, error: object = "", count: int = 1) -> None:
        """Count what became no record."""
        if count:
            self.skipped[reason] += count
        if error:
            self.errors.setdefault(reason, str(error))


_Event = TypeVar("_Event")
Unwrap = Callable[[bytes, str, int], Block]
"""The events of a line, of this file, with this number from 0. Raises BadEvent."""
Convert = Callable[[Block, Turn, Told], None]
"""Adds the records of a line."""


def unwrap(line: bytes, _path: str, _number: int) -> Block:
    """A line of events."""
    return records.unwrap(line)


def unwrap_replica(line: bytes, path: str, number: int) -> Block:
    """A line of replica_cmds. The node writes no height: the file is named by the block before its first one, and each
    line is a block, as operators of nodes observed (bufrr/hyperstream, hl-agent/DATA_FLOW.md)."""
    return records.unwrap_replica(line, int(path.rpartition("/")[2]) + 1 + number)


def time_of(kind: str, block: Block) -> int:
    """When the events of a line happened, in ms since 1970. Raises BadEvent."""
    if block.time:
        return to_ms(block.time)
    event = block.events[0]
    if kind == "fills":
        return records.fill(event, None)[1].trade[0]
    return to_ms(records.event_time(event))


@dataclass(frozen=True, slots=True)
class FillLines:
    """Fills, and the trades that they make. builds: whether a block's trades are built, by its time."""

    entities: frozenset[Entity]
    pairs: Pairs
    builds: Callable[[int], bool]

    def __call__(self, block: Block, _turn: Turn, told: Told) -> None:
        fills = _converted(block, told, lambda event: records.fill(event, block.number))
        if "fill" in self.entities:
            told.records += [record for record, _ in fills]
        if "trade" in self.entities and self.builds(told.time_ms):
            self._trades((half for _, half in fills), told)

    def _trades(self, halves: Iterable[Half], told: Told) -> None:
        if given_up := self.pairs.give_up_before(told.time_ms):
            told.skip(NO_PAIR, "its trade is left out", given_up)
        for half in halves:
            if trade := self.pairs.add(half):
                told.records.append(records.trade(trade))


def order_lines(block: Block, _turn: Turn, told: Told) -> None:
    """Order statuses."""
    told.records += _converted(block, told, lambda event: records.order(event, block.number))


def trade_lines(block: Block, _turn: Turn, told: Told) -> None:
    """Trades that the node itself told."""
    told.records += _converted(block, told, lambda event: records.node_trade(event, block.number))


def block_lines(block: Block, _turn: Turn, told: Told) -> None:
    """Blocks."""
    told.records += _converted(block, told, lambda event: records.block(event, block.number))


def misc_lines(block: Block, turn: Turn, told: Told) -> None:
    """Misc events; the turn numbers them within their block."""
    for event in block.events:
        try:
            told.records += records.misc_event(event, block.number, f"{turn.block}-{turn.events}")
        except BadEvent as error:
            told.skip(BAD_EVENT, error)
        turn.events += 1


def _converted(block: Block, told: Told, convert: Callable[[msgspec.Raw], _Event]) -> list[_Event]:
    found: list[_Event] = []
    for event in block.events:
        try:
            found.append(convert(event))
        except BadEvent as error:
            told.skip(BAD_EVENT, error)
    return found
