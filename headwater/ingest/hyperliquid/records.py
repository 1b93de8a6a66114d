"""Converts the lines of a node to records of the streams.

Members that the node wrote keep their bytes. Keys are equal to the keys of `model.natural_key`, but are built without
parsing the record again. A line has one event, or `{local_time, block_time, block_number, events}`. The README of
hyperliquid-dex/node and the page "L1 data schemas" of Hyperliquid's documentation describe the format.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import msgspec

from headwater.ingest.base import StreamRecord

Side = Literal["A", "B"]
"""`A` (ask) sells; `B` (bid) buys."""

_CHAIN: Final = "hyperliquid"
MAX_FUNDING_BYTES: Final = 500_000
"""A larger funding event is split into several records, because it may exceed the size limit of a record."""


class BlockPart(NamedTuple):
    """All events of a block, or some of them: the events of one line, or of several lines.

    Attributes:
        block_number: The number of the block; None if the line does not have it.
        block_time: The time of the block as the node wrote it; may be empty.
        events: The events.
    """

    block_number: int | None
    block_time: str
    events: list[msgspec.Raw]


class Trade(msgspec.Struct):
    """A record of the stream `trade`.

    Attributes:
        side: The taker's side.
        time: Milliseconds since 1970.
        tid: The id of the trade; None in a trade from `node_trades`, which does not have the id.
        users: The buyer, then the seller.
        trade_index: A number that increases in the order of execution: within the block in trades of a node's files,
            and within the trades of one coin and time in trades of the WebSocket API. The numbers may have gaps.
    """

    coin: str
    side: Side
    px: str
    sz: str
    time: int
    hash: str
    tid: int | None
    users: tuple[str, str]
    block_number: int | None = None
    trade_index: int | None = None


class FillSide(msgspec.Struct, array_like=True):
    """One user's side of a trade.

    Attributes:
        side: Whether the user sold or bought.
        crossed: Whether the user is the taker.
        trade_key: The time in ms, the coin and the tid, which are equal for both sides. The tid is a hash of the two
            orders, and 0 when the node did not write it.
    """

    user: str
    side: Side
    crossed: bool
    trade_key: tuple[int, str, int]
    px: str
    sz: str
    hash: str
    block: int | None

    @property
    def has_tid(self) -> bool:
        """Whether the fill has a tid other than 0; without one it belongs to no trade."""
        return self.trade_key[2] != 0

    def trade_with(self, other: "FillSide", trade_index: int) -> Trade:
        """Return the trade of this side and the other side."""
        taker = self if self.crossed else other
        buyer, seller = (self, other) if self.side == "B" else (other, self)
        time, coin, tid = self.trade_key
        users = (buyer.user, seller.user)
        return Trade(coin, taker.side, taker.px, taker.sz, time, taker.hash, tid, users, taker.block, trade_index)


class _Line(msgspec.Struct):
    block_number: int | None = None
    block_time: str = ""
    events: list[msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET


class _Fill(msgspec.Struct):
    coin: str
    px: str
    sz: str
    side: Side
    time: int
    hash: str
    oid: int
    crossed: bool
    tid: int | None = None
    startPosition: str | None = None  # noqa: N815  # the node's spelling


class _Time(msgspec.Struct):
    time: str


class _OrderId(msgspec.Struct):
    oid: int


class _Order(msgspec.Struct):
    time: str
    user: str
    status: str
    order: _OrderId


class _Misc(msgspec.Struct):
    time: str
    hash: str
    inner: msgspec.Raw


class _Deltas(msgspec.Struct):
    deltas: list[msgspec.Raw]


class _Funding(msgspec.Struct):
    Funding: _Deltas


class _TradeSide(msgspec.Struct):
    user: str
    oid: int | None = None


class NodeTrade(msgspec.Struct):
    """A trade that the node wrote itself.

    `side_info` has the buyer's order, then the seller's order.
    """

    coin: str
    side: Side
    time: str
    px: str
    sz: str
    hash: str
    side_info: tuple[_TradeSide, _TradeSide]

    @property
    def identity(self) -> tuple[object, ...] | None:
        """The identity of a trade, which is equal for both sides.

        It is None if the node did not write the orders.
        """
        oids = [side.oid for side in self.side_info]
        return None if None in oids else (self.coin, self.px, self.sz, self.hash, frozenset(oids))

    @property
    def newer_side(self) -> Side:
        """The side of the order that was placed later."""
        buyer, seller = self.side_info
        return "B" if (buyer.oid or 0) > (seller.oid or 0) else "A"


class _Bundle(msgspec.Struct):
    signed_actions: list[msgspec.Raw]


class _AbciBlock(msgspec.Struct):
    time: str
    proposer: str
    signed_action_bundles: list[tuple[msgspec.Raw, _Bundle]]


class _ReplicaLine(msgspec.Struct):
    abci_block: _AbciBlock


class BlockRecord(msgspec.Struct):
    """A record of the stream `block`.

    `hash` is None in records from a node's files, which don't contain it.
    """

    height: int
    blockTime: int  # noqa: N815  # the record's own spelling
    hash: str | None
    proposer: str
    numTxs: int  # noqa: N815


BAD_EVENT_ERRORS = (msgspec.DecodeError, ValueError, RecursionError)
"""The exceptions that the functions of this module raise for an event of an unexpected form."""

_LINE = msgspec.json.Decoder(_Line)
_PAIR = msgspec.json.Decoder(tuple[msgspec.Raw, msgspec.Raw])
_FILL = msgspec.json.Decoder(_Fill)
_ORDER = msgspec.json.Decoder(_Order)
_MISC = msgspec.json.Decoder(_Misc)
_TIME = msgspec.json.Decoder(_Time)
_TRADE = msgspec.json.Decoder(NodeTrade)
_REPLICA = msgspec.json.Decoder(_ReplicaLine)
_FUNDING = msgspec.json.Decoder(_Funding)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODE = msgspec.json.Encoder().encode


def read_line(line: bytes) -> BlockPart:
    """Return the events of a line of either form. Raises one of BAD_EVENT_ERRORS."""
    if line.startswith(b"["):
        return BlockPart(None, "", [msgspec.Raw(line)])
    decoded = _LINE.decode(line)
    if decoded.events is msgspec.UNSET:
        return BlockPart(None, "", [msgspec.Raw(line)])
    return BlockPart(decoded.block_number, decoded.block_time, decoded.events)


def read_replica_line(line: bytes, path: str, number: int) -> BlockPart:
    """Return the block in line `number`, counted from 0, of a file of `replica_cmds`.

    Raises one of BAD_EVENT_ERRORS. The only event is the record of the block. The node does not write the height.
    The name of a file is the height before the first line, and each line is a block, as operators of nodes observed
    (bufrr/hyperstream, hl-agent/DATA_FLOW.md). numTxs counts the signed actions of all bundles.
    """
    height = int(path.rpartition("/")[2]) + 1 + number
    block = _REPLICA.decode(line).abci_block
    actions = sum(len(bundle.signed_actions) for _, bundle in block.signed_action_bundles)
    value = _ENCODE(BlockRecord(height, to_ms(block.time), None, block.proposer, actions))
    return BlockPart(height, block.time, [msgspec.Raw(value)])


@lru_cache(maxsize=256)
def to_ms(time: str) -> int:
    """Convert a time of the node to milliseconds since 1970. Raises ValueError.

    The time is in ISO 8601 in UTC, without a zone, with up to nanoseconds. Digits beyond milliseconds are cut off.
    """
    whole = int(datetime.fromisoformat(time[:19]).replace(tzinfo=UTC).timestamp())
    return whole * 1000 + int(time[20:23].ljust(3, "0"))


def fill_time_ms(event: msgspec.Raw) -> int:
    """Return the time of a fill. Raises one of BAD_EVENT_ERRORS."""
    return _FILL.decode(_PAIR.decode(event)[1]).time


def event_time_ms(event: msgspec.Raw) -> int:
    """Return the time of an event other than a fill. Raises one of BAD_EVENT_ERRORS."""
    return to_ms(_TIME.decode(event).time)


def _json_number(block: int | None) -> bytes:
    return b"null" if block is None else b"%d" % block


def fill_record(event: msgspec.Raw, block: int | None) -> tuple[StreamRecord, FillSide]:
    """Convert a fill, `[user, fill]`, to a record and to one side of a trade.

    Raises one of BAD_EVENT_ERRORS.
    """
    user, rest = _PAIR.decode(event)
    decoded, quoted = _FILL.decode(rest), bytes(user)
    if quoted[:1] != b'"':
        raise ValueError("the user of a fill is not a string")
    value = b'{"user":%b,%b,"block_number":%b}' % (quoted, bytes(rest).strip()[1:-1], _json_number(block))
    name = quoted[1:-1].decode()
    ids = f"{decoded.oid}" if decoded.tid is None else f"{decoded.oid}:{decoded.tid}"
    key = f"{_CHAIN}:{name}:{decoded.coin}:{ids}:{decoded.hash}:{decoded.time}"
    if decoded.startPosition is not None:  # without a tid, the position and the size distinguish the fills of one order
        key = f"{key}:{decoded.startPosition}:{decoded.sz}"
    trade_key = (decoded.time, decoded.coin, decoded.tid or 0)
    side = FillSide(name, decoded.side, decoded.crossed, trade_key, decoded.px, decoded.sz, decoded.hash, block)
    return StreamRecord("fill", key.encode(), value), side


def trade_record(trade: Trade) -> StreamRecord:
    """Convert a trade with a tid to a record."""
    return StreamRecord("trade", f"{_CHAIN}:{trade.coin}:{trade.tid}:{trade.time}".encode(), _ENCODE(trade))


def read_node_trade(event: msgspec.Raw) -> NodeTrade:
    """Decode a trade that the node wrote itself. Raises one of BAD_EVENT_ERRORS."""
    decoded = _TRADE.decode(event)
    to_ms(decoded.time)
    return decoded


def node_trade_record(trade: NodeTrade, event: msgspec.Raw, block: int | None, trade_index: int) -> StreamRecord:
    """Convert a trade that the node wrote itself to a record.

    The record has `side_info` with the orders, but no tid.
    """
    time_ms, members = to_ms(trade.time), _MEMBERS.decode(event)
    buyer, seller = trade.side_info
    users = (buyer.user, seller.user)
    common = Trade(trade.coin, trade.side, trade.px, trade.sz, time_ms, trade.hash, None, users, block, trade_index)
    rest = {name: members[name] for name in ("trade_dir_override", "side_info") if name in members}
    value = _ENCODE(common)[:-1] + b"," + _ENCODE(rest)[1:]
    names = (trade.hash, *users) if trade.identity is None else (buyer.oid, seller.oid)
    key = f"{_CHAIN}:{trade.coin}:{':'.join(map(str, names))}:{time_ms}"
    return StreamRecord("trade", key.encode(), value)


def order_record(event: msgspec.Raw, block: int | None) -> StreamRecord:
    """Convert an order status to a record. Raises one of BAD_EVENT_ERRORS.

    An order can have several statuses in one block.
    """
    decoded = _ORDER.decode(event)
    value = b'%b,"block_number":%b}' % (bytes(event).strip()[:-1], _json_number(block))
    key = f"{_CHAIN}:{decoded.user}:{decoded.order.oid}:{decoded.status}:{decoded.time}".encode()
    return StreamRecord("order", key, value)


def misc_records(event: msgspec.Raw, block: int | None, unique_id: str) -> list[StreamRecord]:
    """Convert a misc event to one record, or to several records.

    An event with too many funding payments becomes several records. Raises one of BAD_EVENT_ERRORS.
    """
    inner, body = _MISC.decode(event).inner, bytes(event).strip()
    if len(body) <= MAX_FUNDING_BYTES or "Funding" not in _MEMBERS.decode(inner):
        return [_misc_record(body, block, unique_id)]
    members, parts = _MEMBERS.decode(event), _split_deltas(_FUNDING.decode(inner).Funding.deltas)
    return [
        _misc_record(
            _ENCODE(members | {"inner": {"Funding": {"deltas": deltas}}}),
            block,
            f"{unique_id}-{part}" if part else unique_id,
        )
        for part, deltas in enumerate(parts)
    ]


def _misc_record(body: bytes, block: int | None, unique_id: str) -> StreamRecord:
    value = b'%b,"block_number":%b,"unique_id":"%b"}' % (body[:-1], _json_number(block), unique_id.encode())
    return StreamRecord("misc_event", f"{_CHAIN}:{unique_id}".encode(), value)


def _split_deltas(deltas: list[msgspec.Raw]) -> Iterator[list[msgspec.Raw]]:
    size, part = 0, list[msgspec.Raw]()
    for delta in deltas:
        if part and size + len(bytes(delta)) > MAX_FUNDING_BYTES:
            yield part
            size, part = 0, []
        size += len(bytes(delta)) + 1
        part.append(delta)
    yield part


def block_record(event: msgspec.Raw, height: int | None) -> StreamRecord:
    """Convert the encoded record of a block to a record of the stream."""
    return StreamRecord("block", f"{_CHAIN}:{height}".encode(), bytes(event))
