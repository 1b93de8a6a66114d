"""Knows whether a prices worker runs."""

import time
from collections.abc import Callable

from headwater.services.optional_reads import OptionalReads

FRESH_S = 10.0
"""Kafka is not asked again before this time has passed."""
KEPT_S = 60.0
"""After this time without an answer of Kafka, nothing is known."""


class PricesWorkers:
    """Returns whether a prices worker runs, without waiting for Kafka. Thread-safe.

    Args:
        has_members: Returns whether the consumer group of the prices workers has members. It may block and raises
            BrokerUnavailable.
        clock: Returns monotonic seconds.
    """

    def __init__(self, has_members: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._has_members = has_members
        self._clock = clock
        self._answer: tuple[bool, float] = False, float("-inf")
        self._reads = OptionalReads[None]("prices workers", clock)

    def any_runs(self) -> bool | None:
        """Return whether a prices worker runs; None when it is not known.

        Kafka is asked in the background.
        """
        has_members, read_at = self._answer
        age_s = self._clock() - read_at
        if age_s >= FRESH_S:
            self._reads.submit("", self._read)
        return has_members if age_s < KEPT_S else None

    def _read(self) -> None:
        self._answer = self._has_members(), self._clock()

    def close(self) -> None:
        """End the threads of the reads."""
        self._reads.close()
