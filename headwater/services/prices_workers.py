"""Reads in the background whether a prices worker runs."""

import time
from collections.abc import Callable

from headwater.services.optional_reads import OptionalReads

FRESH_S = 10.0
"""The members of the group are not read again before this time has passed."""
KEPT_S = 60.0
"""After this time without a successful read, it is unknown whether a worker runs."""


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
        self._last_read: tuple[bool, float] = False, float("-inf")
        self._reads = OptionalReads[None]("prices workers", clock)

    def any_runs(self) -> bool | None:
        """Return whether a prices worker runs; None when it is not known.

        The members of the consumer group are read in the background.
        """
        has_members, read_at = self._last_read
        age_s = self._clock() - read_at
        if age_s >= FRESH_S:
            self._reads.submit("", self._read)
        return has_members if age_s < KEPT_S else None

    def _read(self) -> None:
        self._last_read = self._has_members(), self._clock()

    def close(self) -> None:
        """End the threads of the reads."""
        self._reads.close()
