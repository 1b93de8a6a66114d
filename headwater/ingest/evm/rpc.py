"""Batches of calls of an EVM node, as large as the node takes them. Used by several threads."""

import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from headwater.errors import NodeLacksMethod, NodeRefusesSize
from headwater.ingest.closing import Closing
from headwater.ingest.jsonrpc import Again, Answer, Error, Node

Call = tuple[str, Sequence[Any]]
"""A method and its parameters."""

CALLS_AT_ONCE: Final = 20
"""Calls in one HTTP request, at first: fewer when the node refuses so many."""
BATCH_S: Final = 0.25
"""With a limited rate a batch has at most the calls of this time, so that no call waits long for others."""

_METHOD_NOT_FOUND: Final = -32601
_BUSY_CODES: Final = frozenset({429, -32007, -32029, -32090, -32097})
# Nodes and providers agree on few codes, so the sentence decides; a limit of the rate comes before one of the size.
_BUSY: Final = re.compile(
    r"\brate\b|per (second|minute|day)|quota|credits|capacity|throughput|too many requests|throttl", re.IGNORECASE
)
_LACKS: Final = re.compile(r"method.*(not|n't|un)|unsupported method|not supported", re.IGNORECASE)
_SIZE: Final = re.compile(
    r"range|batch|too (large|big|many|wide|long)|more than|exceed|limit|max|size|timeout|timed out|aborted",
    re.IGNORECASE,
)


class Rpc:
    """url: of the node. stop: ends all waits. rate: calls a second, 0 for no limit."""

    def __init__(
        self,
        url: str,
        stop: threading.Event,
        *,
        rate: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._closing = Closing(stop)
        self._node = Node(url, rate, self._closing, clock, sleep)
        self._at_once = max(1, min(CALLS_AT_ONCE, int(rate * BATCH_S))) if rate else CALLS_AT_ONCE

    @property
    def retries(self) -> int:
        """How often something was sent again."""
        return self._node.retries

    def close(self) -> None:
        """Close the connections; calls of other threads fail soon, without the rest of their waits."""
        self._closing.set()
        self._node.close()

    def call(self, method: str, *params: Any) -> msgspec.Raw:
        """The result of one call. Raises NodeUnavailable."""
        return self.batch([(method, params)])[0]

    def batch(self, calls: Sequence[Call]) -> list[msgspec.Raw]:
        """The results of calls, in their order. Raises NodeUnavailable, NodeRefusesSize, NodeLacksMethod."""
        results: dict[int, msgspec.Raw] = {}
        self._node.patiently(lambda: self._round(calls, results))
        return [results[place] for place in range(len(calls))]

    def _round(self, calls: Sequence[Call], results: dict[int, msgspec.Raw]) -> None:
        """Ask for what has no result yet. Raises Again when something has none after it."""
        left = [place for place in range(len(calls)) if place not in results]
        failed: list[Again] = []
        while left:
            now, left = left[: self._at_once], left[self._at_once :]
            try:
                failed += self._send(calls, now, results)
            except NodeRefusesSize:
                if len(now) == 1:
                    raise
                self._at_once = len(now) // 2
                left = now + left
        if failed:
            raise max(failed, key=lambda error: error.after_s)

    def _send(self, calls: Sequence[Call], places: Sequence[int], results: dict[int, msgspec.Raw]) -> list[Again]:
        sent = [
            {"jsonrpc": "2.0", "id": place, "method": calls[place][0], "params": calls[place][1]} for place in places
        ]
        answers = self._post(msgspec.json.encode(sent if len(sent) > 1 else sent[0]), len(sent))
        by_id = {answer.id: answer for answer in answers}
        failed: list[Again] = []
        for place in places:
            answer = by_id.get(place)
            if answer is None:
                failed.append(Again("it left out an answer"))
            elif answer.error is None:
                results[place] = answer.result
            else:
                failed.append(self._judge(answer.error))
        return failed

    def _post(self, body: bytes, count: int) -> list[Answer]:
        answers = self._node.post(body, count)
        if isinstance(answers, list):
            return answers
        if count > 1:  # one error in place of all answers
            raise self._judge(answers.error or Error())
        return [answers]

    def _judge(self, error: Error) -> Again:
        """What an error means: returned when it may go better soon, raised otherwise."""
        said = self._node.clean(error.message)
        if error.code in _BUSY_CODES or _BUSY.search(error.message):
            return Again(f"it is busy ({said})")
        if error.code == _METHOD_NOT_FOUND or ("batch" not in error.message and _LACKS.search(error.message)):
            raise NodeLacksMethod(f"The node lacks a method: {said}.")
        if _SIZE.search(error.message):
            raise NodeRefusesSize(f"The node refuses so much at once: {said}.")
        return Again(f"it says {said!r} ({error.code})")
