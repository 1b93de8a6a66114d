"""What a node tells, as records of the streams. Members that the node wrote keep their bytes.

Keys are those of `model.natural_key`, made without reading the record again.

Lines are either one event each, or `{local_time, block_time, block_number, events}`. Layout: README of
hyperliquid-dex/node and the page "L1 data schemas" of Hyperliquid's documentation.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from headwater.ingest.base import StreamRecord
from headwater.ingest.hyperliquid.times import to_ms
from headwater.ingest.hyperliquid.trades import Half, Side, Trade

_CHAIN: Final = "hyperliquid"
MAX_FUNDING_BYTES: Final = 500_000
"""A funding event of all positions at once is larger than a topic takes: it becomes several records."""


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
    tid: int = 0


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
    inner: dict[str, msgspec.Raw]


class _User(msgspec.Struct):
    user: str


class _NodeTrade(msgspec.Struct):
    coin: str
    side: Side
    time: str
    px: str
    sz: str
    hash: str
    side_info: tuple[_User, _User]


class _Bundle(msgspec.Struct):
    signed_actions: list[msgspec.Raw]


class _AbciBlock(msgspec.Struct):
    time: str
    proposer: str
    signed_action_bundles: list[tuple[msgspec.Raw, _Bundle]]


class _ReplicaLine(msgspec.Struct):
    abci_block: _AbciBlock


class _Block(msgspec.Struct):
    """A record of the stream `block`. The node tells no hash."""

    height: int
    blockTime: int  # noqa: N815  # the record's own spelling
    hash: str | None
    proposer: str
    numTxs: int  # noqa: N815


class Block(NamedTuple):
    """A line: its events, and their block where the line names it. time: as the node wrote it."""

    number: int | None
    time: str
    events: list[msgspec.Raw]


BadEvent = (msgspec.DecodeError, ValueError, RecursionError)
"""What the functions of this module raise for an event that is not what it should be."""

_LINE = msgspec.json.Decoder(_Line)
_PAIR = msgspec.json.Decoder(tuple[msgspec.Raw, msgspec.Raw])
_FILL = msgspec.json.Decoder(_Fill)
_ORDER = msgspec.json.Decoder(_Order)
_MISC = msgspec.json.Decoder(_Misc)
_TIME = msgspec.json.Decoder(_Time)
_TRADE = msgspec.json.Decoder(_NodeTrade)
_REPLICA = msgspec.json.Decoder(_ReplicaLine)
_DELTAS = msgspec.json.Decoder(dict[str, list[msgspec.Raw]])
_ENCODE = msgspec.json.Encoder().encode


def unwrap(line: bytes) -> Block:
    """The events of a line of either form."""
    if line.startswith(b"["):
        return Block(None, "", [msgspec.Raw(line)])
    told = _LINE.decode(line)
    if told.events is msgspec.UNSET:
        return Block(None, "", [msgspec.Raw(line)])
    return Block(told.block_number, told.block_time, told.events)


def _number(block: int | None) -> bytes:
    return b"null" if block is None else b"%d" % block


def fill(event: msgspec.Raw, block: int | None) -> tuple[StreamRecord, Half]:
    """`[user, fill]` as a record, and as one half of a trade."""
    user, rest = _PAIR.decode(event)
    told, who = _FILL.decode(rest), bytes(user)
    if who[:1] != b'"':
        raise ValueError("the user of a fill is no string")
    value = b'{"user":%b,%b,"block_number":%b}' % (who, bytes(rest).strip()[1:-1], _number(block))
    name = who[1:-1].decode()
    key = f"{_CHAIN}:{name}:{told.coin}:{told.oid}:{told.tid}:{told.hash}:{told.time}".encode()
    trade = (told.time, told.coin, told.tid)
    half = Half(name, told.side, told.crossed, trade, told.px, told.sz, told.hash, block)
    return StreamRecord("fill", key, value), half


def trade(told: Trade) -> StreamRecord:
    """A trade as a record."""
    return StreamRecord("trade", f"{_CHAIN}:{told.coin}:{told.tid}:{told.time}".encode(), _ENCODE(told))


def node_trade(event: msgspec.Raw, block: int | None) -> StreamRecord:
    """A trade that the node told, as a record: it has no tid, but `side_info` with the orders."""
    told = _TRADE.decode(event)
    time_ms = to_ms(told.time)
    members = msgspec.json.decode(event, type=dict[str, msgspec.Raw])
    users = (told.side_info[0].user, told.side_info[1].user)
    common = Trade(told.coin, told.side, told.px, told.sz, time_ms, told.hash, None, users, block)
    rest = {name: members[name] for name in ("trade_dir_override", "side_info") if name in members}
    value = _ENCODE(common)[:-1] + b"," + _ENCODE(rest)[1:]
    key = f"{_CHAIN}:{told.coin}:{told.hash}:{':'.join(users)}:{time_ms}".encode()
    return StreamRecord("trade", key, value)


def order(event: msgspec.Raw, block: int | None) -> StreamRecord:
    """An order status as a record. One order can have two statuses in one block."""
    told = _ORDER.decode(event)
    value = b'%b,"block_number":%b}' % (bytes(event).strip()[:-1], _number(block))
    key = f"{_CHAIN}:{told.user}:{told.order.oid}:{told.status}:{told.time}".encode()
    return StreamRecord("order", key, value)


def event_time(event: msgspec.Raw) -> str:
    """The time of an event other than a fill, as the node wrote it."""
    return _TIME.decode(event).time


def misc_event(event: msgspec.Raw, block: int | None, unique_id: str) -> Iterator[StreamRecord]:
    """A misc event as a record; as several, when it has more funding payments than one record takes."""
    for part, body in enumerate(_parts(event)):
        name = f"{unique_id}-{part}" if part else unique_id
        value = b'%b,"block_number":%b,"unique_id":"%b"}' % (body[:-1], _number(block), name.encode())
        yield StreamRecord("misc_event", f"{_CHAIN}:{name}".encode(), value)


def _parts(event: msgspec.Raw) -> Iterator[bytes]:
    body = bytes(event).strip()
    if len(body) <= MAX_FUNDING_BYTES:
        yield body
        return
    told = _MISC.decode(event)
    if "Funding" not in told.inner:
        yield body
        return
    members = msgspec.json.decode(event, type=dict[str, msgspec.Raw])
    for deltas in _slices(_DELTAS.decode(told.inner["Funding"])["deltas"]):
        yield _ENCODE(members | {"inner": {"Funding": {"deltas": deltas}}})


def _slices(deltas: list[msgspec.Raw]) -> Iterator[list[msgspec.Raw]]:
    size, part = 0, list[msgspec.Raw]()
    for delta in deltas:
        if part and size + len(bytes(delta)) > MAX_FUNDING_BYTES:
            yield part
            size, part = 0, []
        size += len(bytes(delta)) + 1
        part.append(delta)
    yield part


def unwrap_replica(line: bytes, height: int) -> Block:
    """A line of replica_cmds: its only event is the record. numTxs counts the signed actions of all bundles."""
    told = _REPLICA.decode(line).abci_block
    actions = sum(len(bundle.signed_actions) for _, bundle in told.signed_action_bundles)
    value = _ENCODE(_Block(height, to_ms(told.time), None, told.proposer, actions))
    return Block(height, told.time, [msgspec.Raw(value)])


def block(event: msgspec.Raw, height: int | None) -> StreamRecord:
    """What `unwrap_replica` made."""
    return StreamRecord("block", f"{_CHAIN}:{height}".encode(), bytes(event))
