"""Detects a producer without acknowledgements on a cluster whose topics have leaders.

librdkafka's producer can hang forever after a broker has restarted (librdkafka issue 4976).
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

CHECK_INTERVAL_S: Final = 1.0
"""How long acknowledgements may be missing before the cluster is checked, and the interval of further checks."""
MIN_TIMEOUT_S: Final = 10.0
MAX_TIMEOUT_S: Final = 160.0


class ClusterCheck(Protocol):
    """Checks whether the cluster is healthy: it answers, and all partitions have leaders.

    Implementation: brokers.leader_check.LeaderCheck.
    """

    def start(self) -> None:
        """Send a request. Never waits."""

    def take_result(self) -> bool | None:
        """Return whether the cluster is healthy; None while the request is pending.

        When the response has arrived, the request is forgotten.
        """

    def close(self) -> None:
        """Close the client that sends the requests."""


class StalledProducerDetector:
    """Detects a stalled producer: no acknowledgements for a timeout on a healthy cluster.

    One object serves all producers that a worker creates one after the other. The timeout doubles with each stalled
    producer. An acknowledgement sets the timeout to twice the time that the acknowledgement took, so that a worker with
    a slow connection does not replace one producer after the other.

    Args:
        check: Checks the cluster.
        clock: Monotonic seconds.
    """

    def __init__(self, check: ClusterCheck, clock: Callable[[], float] = time.monotonic) -> None:
        self._check = check
        self._clock = clock
        self._timeout_s = MIN_TIMEOUT_S
        self.reset()

    def reset(self) -> None:
        """Forget the producer, which is closed. The timeout stays."""
        self._acknowledged = 0
        self._restart(self._clock())

    def _restart(self, now: float) -> None:
        """Start to measure the time without an acknowledgement, and close the client of the check."""
        self._check.close()
        self._checked_at = now
        self._waiting_since: float | None = now
        """Since when records have waited for an acknowledgement by a healthy cluster.

        None after a check has found the cluster unhealthy.
        """
        self._is_checking = self._has_result = False

    def update(self, acknowledged: int, outstanding: int) -> float | None:
        """Process the present counts of the producer, and check the cluster if need be.

        The cluster is checked every CHECK_INTERVAL_S while records are outstanding and none is acknowledged.

        Args:
            acknowledged: How many records of this producer were acknowledged so far.
            outstanding: How many of its records are not acknowledged.

        Returns None, or the timeout in seconds when it has passed: the producer must be replaced now.
        """
        now = self._clock()
        if acknowledged != self._acknowledged or not outstanding:
            self._on_progress(acknowledged, now)
            return None
        self._check_cluster(now)
        return self._on_stalled(now) if self._is_stalled(now) else None

    def _on_progress(self, acknowledged: int, now: float) -> None:
        if acknowledged != self._acknowledged:
            took_s = 0.0 if self._waiting_since is None else now - self._waiting_since
            self._timeout_s = min(MAX_TIMEOUT_S, max(MIN_TIMEOUT_S, 2 * took_s))
            self._acknowledged = acknowledged
        self._restart(now)

    def _check_cluster(self, now: float) -> None:
        is_healthy = self._check.take_result() if self._is_checking else None
        if is_healthy is not None:
            self._is_checking, self._has_result = False, True
            self._waiting_since = (self._waiting_since or self._checked_at) if is_healthy else None
        if not self._is_checking and now - self._checked_at >= CHECK_INTERVAL_S:
            self._check.start()
            self._is_checking, self._checked_at = True, now

    def _is_stalled(self, now: float) -> bool:
        return self._has_result and self._waiting_since is not None and now - self._waiting_since >= self._timeout_s

    def _on_stalled(self, now: float) -> float:
        """Double the timeout, and return the timeout that has passed."""
        timeout_s, self._timeout_s = self._timeout_s, min(MAX_TIMEOUT_S, 2 * self._timeout_s)
        self._restart(now)
        return timeout_s
