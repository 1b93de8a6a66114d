"""Finds a producer that gets no acknowledgement although the cluster answers and its topics have leaders.

librdkafka's producer can stand still for good after a restart of a broker (librdkafka issue 4976).
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

ASK_AFTER_S: Final = 1.0
"""How long acknowledgements may fail to come before the cluster is asked, and how often it is asked then."""
FIRST_PATIENCE_S: Final = 10.0
MOST_PATIENCE_S: Final = 160.0


class Leaders(Protocol):
    """Tells whether the cluster answers: `brokers.topic_watch.LeaderQuestion`."""

    def ask(self) -> None:
        """Send a question. Never waits."""

    def answer(self) -> bool | None:
        """Whether the cluster answered and all partitions have leaders; None before the outcome is known."""

    def close(self) -> None:
        """Free the client that asks."""


class AcknowledgementGuard:
    """Serves all producers that a worker makes one after the other, so that its patience outlives each of them.

    The patience doubles with each producer that is given up. An acknowledgement sets it to twice the time that the
    acknowledgement took, so that a worker on a slow link does not give up one producer after the other.

    clock: monotonic seconds.
    """

    def __init__(self, leaders: Leaders, clock: Callable[[], float] = time.monotonic) -> None:
        self._leaders = leaders
        self._clock = clock
        self._patience_s = FIRST_PATIENCE_S
        self.reset()

    def reset(self) -> None:
        """Forget the producer, which is closed. The patience stays."""
        self._acknowledged = 0
        self._count_from(self._clock())

    def _count_from(self, now: float) -> None:
        """Count the time without an acknowledgement anew, and free the client that asks.

        `_answers_since` is None while the last question had no good answer.
        """
        self._leaders.close()
        self._asked_at = now
        self._answers_since: float | None = now
        self._is_asking = self._has_answer = False

    def given_up_after_s(self, acknowledged: int, outstanding: int) -> float:
        """Return after how many seconds without an acknowledgement to give the producer up now; 0 is not to.

        Args:
            acknowledged: How many records brokers have acknowledged to this producer so far.
            outstanding: How many of its records have no acknowledgement.
        """
        now = self._clock()
        if acknowledged != self._acknowledged or not outstanding:
            self._note_progress(acknowledged, now)
            return 0.0
        self._take_answer()
        self._ask(now)
        if not self._has_answer or self._answers_since is None or now - self._answers_since < self._patience_s:
            return 0.0
        patience_s, self._patience_s = self._patience_s, min(MOST_PATIENCE_S, 2 * self._patience_s)
        self._count_from(now)
        return patience_s

    def _note_progress(self, acknowledged: int, now: float) -> None:
        if acknowledged != self._acknowledged:
            took_s = 0.0 if self._answers_since is None else now - self._answers_since
            self._patience_s = min(MOST_PATIENCE_S, max(FIRST_PATIENCE_S, 2 * took_s))
            self._acknowledged = acknowledged
        self._count_from(now)

    def _take_answer(self) -> None:
        answer = self._leaders.answer() if self._is_asking else None
        if answer is not None:
            self._is_asking, self._has_answer = False, True
            self._answers_since = (self._answers_since or self._asked_at) if answer else None

    def _ask(self, now: float) -> None:
        if not self._is_asking and now - self._asked_at >= ASK_AFTER_S:
            self._leaders.ask()
            self._is_asking, self._asked_at = True, now
