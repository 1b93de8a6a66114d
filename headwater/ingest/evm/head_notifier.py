"""Waits for new heads of a chain, by a WebSocket subscription or by polling."""

import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec
import structlog
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from headwater.backoff import Backoff

SUBSCRIBE: Final = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]})
SILENCE_TIMEOUT_S: Final = 30.0
"""A subscription that is silent for this long is renewed. The head is also read at this interval."""
OPEN_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 1.0
"""How long `close` waits for the end of the subscription's thread. A connection attempt may last longer."""


class _Message(msgspec.Struct):
    error: msgspec.Raw | None = None


_ERROR: Final = msgspec.json.Decoder(_Message)

log = structlog.get_logger(__name__)


class HeadNotifier:
    """Waits for new heads of a chain, by a subscription on a thread of its own or by polling.

    Args:
        url: The WebSocket URL, or None to poll only.
        poll_s: The poll interval without a subscription.
        clock: Returns monotonic seconds.

    Attributes:
        failures: The number of failed subscriptions.
    """

    def __init__(self, url: str | None, poll_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._poll_s = poll_s
        self._clock = clock
        self._next_poll_at = 0.0
        self.failures = 0
        self._new_head = threading.Event()
        self._stop = threading.Event()
        self._subscribed = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="new heads", daemon=True)
        if url is not None:
            self._thread.start()

    @property
    def is_subscribed(self) -> bool:
        """Whether a subscription is active."""
        return self._subscribed.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for a new head, at most for `timeout_s` or until the next poll is due.

        Returns whether the head should be read now.
        """
        is_new = self._new_head.wait(max(0.0, min(timeout_s, self._next_poll_at - self._clock())))
        if not is_new and self._clock() < self._next_poll_at:
            return False
        self._new_head.clear()
        self._next_poll_at = self._clock() + (SILENCE_TIMEOUT_S if self.is_subscribed else self._poll_s)
        return True

    def close(self) -> None:
        """End the subscription."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_TIMEOUT_S)

    def _listen(self) -> None:
        backoff = Backoff(0.5, 30.0)
        while not self._stop.is_set():
            try:
                self._subscribe(backoff)
            except Exception as error:  # noqa: BLE001  # after any error, the next subscription may work
                self.failures += 1
                # The text of an error may contain the URL, which may contain a key.
                log.warning("no new heads by WebSocket; the node is polled", reason=type(error).__name__)
            finally:
                self._subscribed.clear()
                self._new_head.set()
            self._stop.wait(backoff.next_delay_s())

    def _subscribe(self, backoff: Backoff) -> None:
        assert self._url is not None
        with connect(self._url, open_timeout=OPEN_TIMEOUT_S, close_timeout=1.0, max_size=4 << 20) as socket:
            socket.send(SUBSCRIBE)
            while not self._stop.is_set():
                if not self._receive(socket):
                    return
                backoff.reset()

    def _receive(self, socket: ClientConnection) -> bool:
        """Wait for a message. Returns False after SILENCE_TIMEOUT_S without a message."""
        waited_s = 0.0
        while waited_s < SILENCE_TIMEOUT_S and not self._stop.is_set():
            try:
                message = socket.recv(timeout=1.0)
            except TimeoutError:
                waited_s += 1.0
                continue
            if _ERROR.decode(message).error is not None:
                raise WebSocketException("the node refuses the subscription")
            self._subscribed.set()
            self._new_head.set()
            return True
        return False
