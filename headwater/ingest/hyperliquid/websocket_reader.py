"""Reads trades by coin, or blocks, from Hyperliquid's WebSocket API."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from threading import Event
from typing import Final

import msgspec
import structlog
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from headwater.errors import NodeUnavailable
from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.cancellation import CancelToken
from headwater.ingest.hyperliquid import websocket_messages as messages
from headwater.ingest.hyperliquid.conversion import REPEATED_BLOCK, REPEATED_TRADE
from headwater.ingest.hyperliquid.options import Entity, HyperliquidOptions
from headwater.ingest.hyperliquid.position import CoinPosition, WebSocketPosition, read_websocket_position
from headwater.ingest.hyperliquid.websocket_messages import ExplorerBlock, WsTrade

log = structlog.get_logger(__name__)

PING_S: Final = 30.0
"""The interval of pings. The server closes a connection after 60 s of silence ("Timeouts and heartbeats")."""
SILENCE_TIMEOUT_S: Final = 60.0
"""A connection without a message for this long counts as broken."""
RESPONSE_TIMEOUT_S: Final = 10.0
IDLE_YIELD_S: Final = 1.0
"""The time without a message after which `steps` yields."""
BATCH_WINDOW_S: Final = 0.1
"""The time after a message for which further messages are collected into the same step."""
CLOSE_TIMEOUT_S: Final = 1.0
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
BAD_MESSAGE: Final = "unreadable message"


class WebSocketReader:
    """Implements ingest.base.ChainReader for the WebSocket API.

    Reads blocks, or the trades of the coins in the options. Without coins in the options, it reads the trades of all
    perpetuals that `meta` lists and that are not delisted.
    """

    def __init__(self, options: HyperliquidOptions, stop: Event) -> None:
        """Create the reader. The event `stop` cancels its waits."""
        assert options.ws is not None
        self._cancel_token = CancelToken(stop)
        self._name = options.name
        self._url = options.ws
        self._coins = options.coins
        self._entity: Entity = options.entities[0] if options.entities else "trade"

    @property
    def streams(self) -> Sequence[str]:
        return (self._entity,)

    def steps(self, position: bytes | None) -> Iterator[Step | None]:
        """Implement ChainReader.steps.

        Raises NodeUnavailable when the connection can't be opened, is closed, or is silent for too long.
        """
        stored = read_websocket_position(position, self._name)
        try:
            with self._cancel_token.run_abandonable(self._connect) as connection:
                yield from _Session(connection, EventDeduplicator(stored), self._entity, self._coins).steps()
        except (OSError, WebSocketException) as error:
            # The cause is omitted, because its text may contain the URL.
            raise NodeUnavailable(f"The WebSocket API is unavailable: {_why(error)}.") from None

    def close(self) -> None:
        """Implement ChainReader.close. `steps` leaves nothing open."""

    def _connect(self) -> ClientConnection:
        return connect(
            self._url.get_secret_value(),
            max_size=MAX_MESSAGE_BYTES,
            open_timeout=RESPONSE_TIMEOUT_S,
            close_timeout=CLOSE_TIMEOUT_S,
        )


def _why(error: Exception) -> str:
    if isinstance(error, InvalidStatus):
        return f"it responds with HTTP status {error.response.status_code}"
    if isinstance(error, ConnectionClosed):
        return f"the connection ended ({error.rcvd.code if error.rcvd else 'cut'})"
    return getattr(error, "strerror", None) or type(error).__name__


class EventDeduplicator:
    """Finds the new trades and blocks of one connection, and the gaps between them.

    Attributes:
        position: The position after all events so far.
        gaps: The number of gaps since the last `take_counts`.
        skipped: The number of repeated events since the last `take_counts`, by reason.
    """

    def __init__(self, position: WebSocketPosition) -> None:
        self.position = position
        self.gaps = 0
        self.skipped: Counter[str] = Counter()
        self._seen_coins: set[str] = set()

    def deduplicate_trades(self, trades: Sequence[WsTrade]) -> list[tuple[WsTrade, int]]:
        """Return the new trades in order, each with its index within its coin and time.

        A snapshot may begin with the newest trade.
        """
        backwards = bool(trades) and trades[0].time > trades[-1].time
        ordered = sorted(trades[::-1] if backwards else trades, key=lambda trade: trade.time)
        for trade in ordered:
            self._check_continuity(trade)
        new = [(trade, index) for trade in ordered if (index := self._add_trade(trade)) is not None]
        self.skipped[REPEATED_TRADE] += len(ordered) - len(new)
        return new

    def _check_continuity(self, trade: WsTrade) -> None:
        """Count a gap when the first message of a subscription begins after the stored position.

        The first message is a snapshot of the latest trades.
        """
        if trade.coin in self._seen_coins:
            return
        self._seen_coins.add(trade.coin)
        stored = self.position.coins.get(trade.coin)
        if stored is not None and trade.time > stored.time:
            self.gaps += 1
            log.warning("trades may be missing", coin=trade.coin, after_ms=stored.time, before_ms=trade.time)

    def _add_trade(self, trade: WsTrade) -> int | None:
        """Add a trade to the position, and return the index of the trade.

        Returns None for a repeated trade. Trades of a coin arrive in the order of time.
        """
        newest = self.position.coins.setdefault(trade.coin, CoinPosition(trade.time, []))
        if trade.time > newest.time:
            newest.time, newest.tids = trade.time, []
        elif trade.time < newest.time or trade.tid in newest.tids:
            return None
        newest.tids.append(trade.tid)
        return len(newest.tids) - 1

    def deduplicate_blocks(self, blocks: Iterable[ExplorerBlock]) -> list[ExplorerBlock]:
        """Return the new blocks, in order."""
        new: list[ExplorerBlock] = []
        for block in sorted(blocks, key=lambda block: block.height):
            last = self.position.height
            if block.height <= last:
                self.skipped[REPEATED_BLOCK] += 1
                continue
            if last and block.height > last + 1:
                self.gaps += 1
                log.warning(f"blocks {last + 1} to {block.height - 1} are missing")
            self.position.height = block.height
            new.append(block)
        return new

    def take_counts(self) -> tuple[dict[str, int], int]:
        """Return the counts `skipped` and `gaps`, and reset them."""
        counts = {reason: count for reason, count in self.skipped.items() if count}, self.gaps
        self.skipped, self.gaps = Counter(), 0
        return counts


class _Session:
    """Handles one connection, from the subscriptions to its end."""

    def __init__(
        self, connection: ClientConnection, deduplicator: EventDeduplicator, entity: Entity, coins: Sequence[str]
    ) -> None:
        self._connection = connection
        self._deduplicator = deduplicator
        self._entity = entity
        self._coins = coins
        self._unconfirmed: set[str] = set()
        self._records: list[StreamRecord] = []
        self._time_ms = 0
        self._unreadable_messages = 0
        self._response_deadline = self._received_at = self._pinged_at = time.monotonic()

    def steps(self) -> Iterator[Step | None]:
        """Yield steps with new records.

        When the connection ends, the last records are yielded before the error.
        """
        self._send_subscriptions()
        while True:
            connection_error = self._gather()
            yield self._step()
            if connection_error is not None:
                raise connection_error
            self._check_and_ping()

    def _send_subscriptions(self) -> None:
        self._response_deadline = time.monotonic() + RESPONSE_TIMEOUT_S
        if self._entity == "block":
            self._subscribe("explorerBlock", [""])
        elif self._coins:
            self._subscribe("trades", self._coins)
        else:
            self._unconfirmed.add("meta")
            self._connection.send(messages.META_REQUEST, text=True)

    def _subscribe(self, kind: str, coins: Sequence[str]) -> None:
        if kind == "trades":  # the API does not confirm a subscription to blocks
            self._unconfirmed |= set(coins)
        for coin in coins:
            self._connection.send(messages.subscribe(kind, coin), text=True)

    def _gather(self) -> ConnectionClosed | None:
        """Read messages for a moment.

        Returns the error of an ended connection; None while the connection is open.
        """
        until, timeout_s = time.monotonic() + IDLE_YIELD_S, IDLE_YIELD_S
        try:
            while timeout_s >= 0:
                text = self._connection.recv(timeout_s)
                self._received_at = time.monotonic()
                self._read(text)
                until = min(until, self._received_at + BATCH_WINDOW_S)
                timeout_s = until - time.monotonic()
        except TimeoutError:
            return None
        except ConnectionClosed as error:
            return error
        return None

    def _read(self, text: str | bytes) -> None:
        try:
            message = messages.read(text)
            if isinstance(message, list):
                blocks = self._deduplicator.deduplicate_blocks(message)
                self._add([messages.block_record(block) for block in blocks], [block.blockTime for block in blocks])
            else:
                self._handle_message(message)
        except (msgspec.DecodeError, RecursionError) as error:
            self._unreadable_messages += 1
            log.warning("skipped an unreadable message", reason=BAD_MESSAGE, error=str(error), begins=str(text[:80]))

    def _handle_message(self, message: messages.Message) -> None:
        match message.channel:
            case "trades":
                trades = self._deduplicator.deduplicate_trades(messages.trades(message.data))
                self._add([messages.trade_record(*trade) for trade in trades], [trade.time for trade, _ in trades])
            case "subscriptionResponse":
                self._unconfirmed.discard(messages.confirmed(message.data)[1])
            case "post":
                coins = messages.perpetual_coins(message.data)
                self._unconfirmed.discard("meta")
                self._response_deadline = time.monotonic() + RESPONSE_TIMEOUT_S
                self._subscribe("trades", coins)
            case "error":
                raise NodeUnavailable(f"The WebSocket API refuses a request: {bytes(message.data).decode()}.")

    def _add(self, records: list[StreamRecord], times_ms: list[int]) -> None:
        self._records += records
        self._time_ms = max([self._time_ms, *times_ms])

    def _step(self) -> Step | None:
        skipped, gaps = self._deduplicator.take_counts()
        if self._unreadable_messages:
            skipped[BAD_MESSAGE] = self._unreadable_messages
        records, self._records, self._unreadable_messages = self._records, [], 0
        if not records and not skipped and not gaps:
            return None
        return Step(records, msgspec.json.encode(self._deduplicator.position), self._time_ms, skipped, gaps)

    def _check_and_ping(self) -> None:
        """Send a ping when it is due.

        Raises NodeUnavailable when a response is overdue, or when the connection is silent.
        """
        now = time.monotonic()
        if self._unconfirmed and now > self._response_deadline:
            names = ", ".join(sorted(self._unconfirmed)[:5])
            raise NodeUnavailable(f"The WebSocket API did not confirm {len(self._unconfirmed)} requests: {names}.")
        if now - self._received_at > SILENCE_TIMEOUT_S:
            raise NodeUnavailable(f"The WebSocket API was silent for {SILENCE_TIMEOUT_S:.0f} s.")
        if now - self._pinged_at > PING_S:
            self._pinged_at = now
            self._connection.send(messages.PING, text=True)
