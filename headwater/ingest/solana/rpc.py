"""A Solana node's JSON-RPC interface over HTTP. Used by several threads.

The URL carries a key as a rule: no error and no log line has it, and what the node says is cleaned of its parts.
"""

import email.utils
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec
import tenacity

from headwater.errors import NodeUnavailable
from headwater.ingest.solana.blocks import BLOCK, LINK, Block, Link

_T = TypeVar("_T")
Sleep = Callable[[float], Any]

TIMEOUT: Final = httpx.Timeout(15.0, connect=5.0)
ATTEMPTS: Final = 6
PATIENCE_S: Final = 10.0
"""How long one call is tried again here. Beyond it the ingest's loop waits, which a signal can end."""
AGAIN_S: Final = 0.25
MOST_SLOTS: Final = 500_000
"""That getBlocks takes at once."""
SHOWN_CHARS: Final = 200
_SECRET_CHARS: Final = 6

_HELP: Final = {
    -32001: "it no longer keeps so old blocks: use a node with more history, or begin anew under another name",
    -32007: "it lacks this block: use a node with more history",
    -32009: "it lacks this block: use a node with more history",
    -32011: "it keeps no history of transactions: use a node that does (--enable-rpc-transaction-history)",
    -32015: "the block has a transaction of a version that is not supported yet",
}
"""By error code (rpc_custom_error of the Solana client library): what trying again won't mend soon."""


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Answer(msgspec.Struct):
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None


_ANSWER: Final = msgspec.json.Decoder(_Answer)
_SLOT: Final = msgspec.json.Decoder(int)
_SLOTS: Final = msgspec.json.Decoder(list[int])


class _Again(Exception):
    """What may go better soon. after_s: what the node asked for."""

    def __init__(self, reason: str, after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after_s = after_s


class Pace:
    """Spaces calls out evenly. rate: calls a second, 0 for no limit."""

    def __init__(self, rate: float, sleep: Sleep, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = 1 / rate if rate else 0.0
        self._sleep, self._clock = sleep, clock
        self._free_at = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Return when the next call may be sent."""
        if self._interval_s:
            with self._lock:
                now = self._clock()
                begin = max(now, self._free_at)
                self._free_at = begin + self._interval_s
            self._sleep(begin - now)


class Rpc:
    """url: of the node. closing: when it is set, nothing waits and nothing is tried again."""

    def __init__(self, url: str, commitment: str, encoding: str, rate: float, closing: threading.Event) -> None:
        self._url = url
        self._commitment = {"commitment": commitment}
        self._whole = {
            **self._commitment,
            "encoding": encoding,
            "transactionDetails": "full",
            "maxSupportedTransactionVersion": 0,
            "rewards": False,
        }
        self._http = httpx.Client(timeout=TIMEOUT)
        self._pace = Pace(rate, closing.wait)
        self._closing = closing
        self._secrets = _secrets(url)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def newest(self) -> int:
        """The newest slot of the commitment. Raises NodeUnavailable, as all of these."""
        return self._ask(_SLOT, "getSlot", self._commitment)

    def slots(self, first: int, last: int) -> list[int]:
        """The slots between these, both included, that have a block; a node that is behind leaves out the newest."""
        return self._ask(_SLOTS, "getBlocks", first, last, self._commitment)

    def slot_from(self, first: int) -> int | None:
        """The first slot from this one on that has a block; None when there is none yet."""
        slots = self._ask(_SLOTS, "getBlocksWithLimit", first, 1, self._commitment)
        return slots[0] if slots else None

    def block(self, slot: int) -> Block:
        """The block of a slot that has one."""
        block: Block = self._block(BLOCK, slot, self._whole)
        return block

    def parent_of(self, slot: int) -> int:
        """The slot of the block before that of a slot that has one."""
        link: Link = self._block(LINK, slot, {**self._whole, "transactionDetails": "none"})
        return link.parent_slot

    def _block(self, decoder: "msgspec.json.Decoder[_T | None]", slot: int, options: dict[str, Any]) -> _T:
        block = self._ask(decoder, "getBlock", slot, options)
        if block is None:
            raise NodeUnavailable(f"The node does not have the block of slot {slot} yet.")
        return block

    def _ask(self, decoder: "msgspec.json.Decoder[_T]", method: str, *params: Any) -> _T:
        try:
            found: _T = self._attempts()(self._once, decoder, method, params)
            return found
        except _Again as error:
            raise NodeUnavailable(f"The node does not answer {method}: {error.reason}.", int(error.after_s)) from None

    def _attempts(self) -> tenacity.Retrying:
        jitter = tenacity.wait_random_exponential(AGAIN_S, PATIENCE_S / 2)

        def stop(state: tenacity.RetryCallState) -> bool:
            spent_s = (state.seconds_since_start or 0.0) + _after_s(state)
            return state.attempt_number >= ATTEMPTS or spent_s > PATIENCE_S or self._closing.is_set()

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Again),
            stop=stop,
            wait=lambda state: max(jitter(state), _after_s(state)),
            sleep=self._wait,
            reraise=True,
        )

    def _wait(self, seconds: float) -> None:
        self._closing.wait(seconds)

    def _once(self, decoder: "msgspec.json.Decoder[_T]", method: str, params: tuple[Any, ...]) -> _T:
        self._pace.wait()
        answer = self._post(msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        if answer.error is not None:
            raise self._judged(answer.error)
        try:
            return decoder.decode(answer.result)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _Again(f"what it sends is no answer to the question ({error})") from None

    def _post(self, body: bytes) -> _Answer:
        try:
            response = self._http.post(self._url, content=body, headers={"Content-Type": "application/json"})
        except httpx.HTTPError as error:
            raise _Again(f"the connection failed ({type(error).__name__})") from None
        status = response.status_code
        if status in (408, 429) or status >= 500:
            raise _Again(f"HTTP {status}", _retry_after_s(response))
        try:
            answer = _ANSWER.decode(response.content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if response.is_success:
                raise _Again("what it sends is no JSON-RPC") from None
            answer = _Answer()
        if not response.is_success and answer.error is None:
            raise NodeUnavailable(f"The node refuses requests (HTTP {status}): check the URL and the key in it.")
        return answer

    def _judged(self, error: _Error) -> Exception:
        """What may go better soon, or what takes longer."""
        said = error.message
        for secret in self._secrets:
            said = said.replace(secret, "…")
        said = said[:SHOWN_CHARS].strip().rstrip(".")
        if error.code in _HELP:
            return NodeUnavailable(f"The node refuses: {_HELP[error.code]} ({said}).")
        return _Again(f"it says {said!r} ({error.code})")


def _secrets(url: str) -> list[str]:
    """The parts of a URL that may be keys, longest first."""
    parts = urlsplit(url)
    found = [parts.username, parts.password, parts.path, parts.query, *parts.path.split("/")]
    found += [value for _, value in parse_qsl(parts.query)]
    return sorted({part for part in found if part and len(part) >= _SECRET_CHARS}, key=len, reverse=True)


def _after_s(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    return error.after_s if isinstance(error, _Again) else 0.0


def _retry_after_s(response: httpx.Response) -> float:
    """RFC 9110, section 10.2.3: seconds, or a date."""
    text = response.headers.get("Retry-After", "")
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return 0.0
