"""A feed from Hyperliquid's WebSocket API: trades by coin, or blocks."""

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
from headwater.ingest.closing import Closing
from headwater.ingest.hyperliquid import websocket_messages as messages
from headwater.ingest.hyperliquid.conversion import REPEATED_BLOCK, REPEATED_TRADE
from headwater.ingest.hyperliquid.options import Entity, HyperliquidOptions
from headwater.ingest.hyperliquid.position import CoinPosition, WebSocketPosition, read_websocket_position
from headwater.ingest.hyperliquid.websocket_messages import ExplorerBlock, WsTrade

log = structlog.get_logger(__name__)

PING_S: Final = 30.0
"""The server ends a connection that was silent for 60 s (its documentation, "Timeouts and heartbeats")."""
SILENT_S: Final = 60.0
ANSWER_S: Final = 10.0
QUIET_S: Final = 1.0
GATHER_S: Final = 0.1
CLOSE_S: Final = 1.0
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
BAD_MESSAGE: Final = "unreadable message"


class WebSocketFeed:
    """Trades of the coins in the options (of all, when they name none), or blocks."""

    def __init__(self, options: HyperliquidOptions, stop: Event) -> None:
        """stop: ends its waits."""
        assert options.ws is not None
        self._closing = Closing(stop)
        self._name = options.name
        self._url = options.ws
        self._coins = options.coins
        self._entity: Entity = options.entities[0] if options.entities else "trade"

    @property
    def streams(self) -> Sequence[str]:
        return (self._entity,)

    def steps(self, position: bytes | None) -> Iterator[Step | None]:
        """See Feed. Raises NodeUnavailable when the connection can't be made, ends, or falls silent."""
        stored = read_websocket_position(position, self._name)
        try:
            with self._closing.result(self._connected) as connection:
                yield from _Session(connection, NewEvents(stored), self._entity, self._coins).steps()
        except (OSError, WebSocketException) as error:
            raise NodeUnavailable(f"The WebSocket API is away: {_why(error)}.") from None  # the cause may name the URL

    def _connected(self) -> ClientConnection:
        return connect(
            self._url.get_secret_value(), max_size=MAX_MESSAGE_BYTES, open_timeout=ANSWER_S, close_timeout=CLOSE_S
        )


def _why(error: Exception) -> str:
    if isinstance(error, InvalidStatus):
        return f"it answers with HTTP status {error.response.status_code}"
    if isinstance(error, ConnectionClosed):
        return f"the connection ended ({error.rcvd.code if error.rcvd else 'cut'})"
    return getattr(error, "strerror", None) or type(error).__name__


class NewEvents:
    """Finds the new trades and blocks of one connection, and gaps between them.

    position: The position after all events so far. gaps, skipped: Counts since the last `take_counts`.
    """

    def __init__(self, position: WebSocketPosition) -> None:
        self.position = position
        self.gaps = 0
        self.skipped: Counter[str] = Counter()
        self._seen_coins: set[str] = set()

    def trades(self, trades: Sequence[WsTrade]) -> list[tuple[WsTrade, int]]:
        """Trades that were not seen before, in order, each with its place among those of its coin and time.

        A snapshot may begin with the newest trade.
        """
        backwards = bool(trades) and trades[0].time > trades[-1].time
        ordered = sorted(trades[::-1] if backwards else trades, key=lambda trade: trade.time)
        for trade in ordered:
            self._check_reaches_back(trade)
        found = [(trade, place) for trade in ordered if (place := self._place(trade)) is not None]
        self.skipped[REPEATED_TRADE] += len(ordered) - len(found)
        return found

    def _check_reaches_back(self, trade: WsTrade) -> None:
        """Count a gap unless the first message of a subscription, its last trades, reaches back to the stored trade."""
        if trade.coin in self._seen_coins:
            return
        self._seen_coins.add(trade.coin)
        stored = self.position.coins.get(trade.coin)
        if stored is not None and trade.time > stored.time:
            self.gaps += 1
            log.warning("trades may be missing", coin=trade.coin, after_ms=stored.time, before_ms=trade.time)

    def _place(self, trade: WsTrade) -> int | None:
        """Note a trade; None when it was seen. Trades of a coin come in the order of their time."""
        newest = self.position.coins.setdefault(trade.coin, CoinPosition(trade.time, []))
        if trade.time > newest.time:
            newest.time, newest.tids = trade.time, []
        elif trade.time < newest.time or trade.tid in newest.tids:
            return None
        newest.tids.append(trade.tid)
        return len(newest.tids) - 1

    def blocks(self, blocks: Iterable[ExplorerBlock]) -> list[ExplorerBlock]:
        """Blocks that were not seen before, in order."""
        found: list[ExplorerBlock] = []
        for block in sorted(blocks, key=lambda block: block.height):
            last = self.position.height
            if block.height <= last:
                self.skipped[REPEATED_BLOCK] += 1
                continue
            if last and block.height > last + 1:
                self.gaps += 1
                log.warning(f"blocks {last + 1} to {block.height - 1} are missing")
            self.position.height = block.height
            found.append(block)
        return found

    def take_counts(self) -> tuple[dict[str, int], int]:
        """Return the counts `skipped` and `gaps`, and reset them."""
        counts = {reason: count for reason, count in self.skipped.items() if count}, self.gaps
        self.skipped, self.gaps = Counter(), 0
        return counts


class _Session:
    """One connection, from the subscriptions to its end."""

    def __init__(self, connection: ClientConnection, new: NewEvents, entity: Entity, coins: Sequence[str]) -> None:
        self._connection = connection
        self._new = new
        self._entity = entity
        self._coins = coins
        self._unanswered: set[str] = set()
        self._records: list[StreamRecord] = []
        self._time_ms = 0
        self._bad = 0
        self._answer_by = self._heard = self._pinged = time.monotonic()

    def steps(self) -> Iterator[Step | None]:
        """Steps of new records. When the connection ends, the records before its end come first, then the error."""
        self._begin()
        while True:
            ended = self._gather()
            yield self._step()
            if ended is not None:
                raise ended
            self._check()

    def _begin(self) -> None:
        self._answer_by = time.monotonic() + ANSWER_S
        if self._entity == "block":
            self._subscribe("explorerBlock", [""])
        elif self._coins:
            self._subscribe("trades", self._coins)
        else:
            self._unanswered.add("meta")
            self._connection.send(messages.META_REQUEST, text=True)

    def _subscribe(self, kind: str, coins: Sequence[str]) -> None:
        self._unanswered |= set(coins) if kind == "trades" else set()  # blocks come without a confirmation
        for coin in coins:
            self._connection.send(messages.subscribe(kind, coin), text=True)

    def _gather(self) -> ConnectionClosed | None:
        """Read messages for a moment. Returns how the connection ended; None while it is open."""
        until, timeout_s = time.monotonic() + QUIET_S, QUIET_S
        try:
            while timeout_s >= 0:
                text = self._connection.recv(timeout_s)
                self._heard = time.monotonic()
                self._read(text)
                until = min(until, self._heard + GATHER_S)
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
                blocks = self._new.blocks(message)
                self._add([messages.block_record(block) for block in blocks], [block.blockTime for block in blocks])
            else:
                self._hear(message)
        except (msgspec.DecodeError, RecursionError) as error:
            self._bad += 1
            log.warning("left out", reason=BAD_MESSAGE, error=str(error), begins=str(text[:80]))

    def _hear(self, message: messages.Message) -> None:
        match message.channel:
            case "trades":
                trades = self._new.trades(messages.trades(message.data))
                self._add([messages.trade_record(*trade) for trade in trades], [trade.time for trade, _ in trades])
            case "subscriptionResponse":
                self._unanswered.discard(messages.confirmed(message.data)[1])
            case "post":
                coins = messages.markets(message.data)
                self._unanswered.discard("meta")
                self._answer_by = time.monotonic() + ANSWER_S
                self._subscribe("trades", coins)
            case "error":
                raise NodeUnavailable(f"The WebSocket API refuses a request: {bytes(message.data).decode()}.")

    def _add(self, records: list[StreamRecord], times_ms: list[int]) -> None:
        self._records += records
        self._time_ms = max([self._time_ms, *times_ms])

    def _step(self) -> Step | None:
        skipped, gaps = self._new.take_counts()
        if self._bad:
            skipped[BAD_MESSAGE] = self._bad
        records, self._records, self._bad = self._records, [], 0
        if not records and not skipped and not gaps:
            return None
        return Step(records, msgspec.json.encode(self._new.position), self._time_ms, skipped, gaps)

    def _check(self) -> None:
        """Raises NodeUnavailable when the server owes an answer, or is silent."""
        now = time.monotonic()
        if self._unanswered and now > self._answer_by:
            some = ", ".join(sorted(self._unanswered)[:5])
            raise NodeUnavailable(f"The WebSocket API did not confirm {len(self._unanswered)} requests: {some}.")
        if now - self._heard > SILENT_S:
            raise NodeUnavailable(f"The WebSocket API was silent for {SILENT_S:.0f} s.")
        if now - self._pinged > PING_S:
            self._pinged = now
            self._connection.send(messages.PING, text=True)
