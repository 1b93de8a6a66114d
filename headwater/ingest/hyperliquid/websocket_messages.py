"""Encodes and decodes the messages of Hyperliquid's WebSocket API.

The pages "Websocket" and "Subscriptions" of its documentation describe the messages. Blocks of the subscription
`explorerBlock` arrive as arrays without a channel.
"""

from typing import Final

import msgspec

from headwater.ingest.base import StreamRecord
from headwater.ingest.hyperliquid import records
from headwater.ingest.hyperliquid.records import Side, Trade

META_REQUEST: Final = b'{"method":"post","id":1,"request":{"type":"info","payload":{"type":"meta"}}}'
PING: Final = b'{"method":"ping"}'


class Message(msgspec.Struct):
    """A message of a channel."""

    channel: str
    data: msgspec.Raw = msgspec.Raw(b"null")


class ExplorerBlock(msgspec.Struct):
    """A block, whose JSON is also the record of the stream `block`."""

    height: int
    blockTime: int  # noqa: N815  # the API's spelling
    hash: str
    proposer: str
    numTxs: int  # noqa: N815


class WsTrade(msgspec.Struct):
    """A trade of the channel `trades`.

    Attributes:
        side: The taker's side.
        time: Milliseconds since 1970.
        users: The buyer, then the seller.
    """

    coin: str
    side: Side
    px: str
    sz: str
    time: int
    hash: str
    tid: int
    users: tuple[str, str]


class _Perpetual(msgspec.Struct):
    name: str
    isDelisted: bool = False  # noqa: N815


class _Meta(msgspec.Struct):
    universe: list[_Perpetual]


class _Payload(msgspec.Struct):
    data: _Meta


class _Response(msgspec.Struct):
    type: str
    payload: msgspec.Raw


class _Post(msgspec.Struct):
    response: _Response


class _Subscription(msgspec.Struct):
    type: str
    coin: str = ""


class _Confirmation(msgspec.Struct):
    subscription: _Subscription


_MESSAGE = msgspec.json.Decoder(Message)
_BLOCKS = msgspec.json.Decoder(list[ExplorerBlock])
_TRADES = msgspec.json.Decoder(list[WsTrade])
_CONFIRMATION = msgspec.json.Decoder(_Confirmation)
_POST = msgspec.json.Decoder(_Post)
_META = msgspec.json.Decoder(_Payload)


def subscribe(kind: str, coin: str = "") -> bytes:
    """Return the request to subscribe to a channel."""
    subscription = {"type": kind, "coin": coin} if coin else {"type": kind}
    return msgspec.json.encode({"method": "subscribe", "subscription": subscription})


def read(text: str | bytes) -> Message | list[ExplorerBlock]:
    """Decode a message. Raises msgspec.DecodeError."""
    data = text.encode() if isinstance(text, str) else text
    if data.lstrip()[:1] == b"[":
        return _BLOCKS.decode(data)
    return _MESSAGE.decode(data)


def trades(data: msgspec.Raw) -> list[WsTrade]:
    """Decode the data of the channel `trades`. Raises msgspec.DecodeError."""
    return _TRADES.decode(data)


def confirmed(data: msgspec.Raw) -> tuple[str, str]:
    """Return the type and coin that `subscriptionResponse` confirms.

    Raises msgspec.DecodeError.
    """
    subscription = _CONFIRMATION.decode(data).subscription
    return subscription.type, subscription.coin


def perpetual_coins(data: msgspec.Raw) -> list[str]:
    """Return the coins of all traded perpetuals from the response to META_REQUEST.

    Raises msgspec.DecodeError.
    """
    response = _POST.decode(data).response
    if response.type != "info":
        raise msgspec.ValidationError(f"the response to the request for meta is {response.type}")
    return [coin.name for coin in _META.decode(response.payload).data.universe if not coin.isDelisted]


def trade_record(trade: WsTrade, trade_index: int) -> StreamRecord:
    """Convert a trade to a record, without the number of the block, which the API omits.

    `trade_index` is the index among the trades of its coin and time.
    """
    return records.trade_record(
        Trade(trade.coin, trade.side, trade.px, trade.sz, trade.time, trade.hash, trade.tid, trade.users,
              trade_index=trade_index)
    )  # fmt: skip


def block_record(block: ExplorerBlock) -> StreamRecord:
    """Convert a block to a record."""
    return records.block_record(msgspec.Raw(msgspec.json.encode(block)), block.height)
