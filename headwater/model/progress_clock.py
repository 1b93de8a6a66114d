"""Measures for how long a worker has made no progress."""

from headwater.model.worker_protocol import Heartbeat

QUIET_AFTER_S = 3.0
"""A worker without progress for this time is reported as not ready. A batch normally takes less than 0.5 s."""
STUCK_AFTER_S = 60.0
"""A worker without progress for this time is killed.

Every operation during which a worker may report no progress has a time limit of at most half of this time.
"""


class ProgressClock:
    """Measures for how long a worker has made no progress.

    A heartbeat in the state "ready" shows progress when its value of `progress` has changed. A heartbeat in another
    state always shows progress.

    Attributes:
        last_progress_at: When the worker last made progress.
    """

    def __init__(self, now: float) -> None:
        self.last_progress_at = now
        self._progress: int | None = None

    def on_heartbeat(self, heartbeat: Heartbeat, now: float) -> None:
        """Take note of a heartbeat."""
        if self._progress is None or heartbeat.state != "ready" or heartbeat.progress != self._progress:
            self.last_progress_at = now
        self._progress = heartbeat.progress

    def quiet_s(self, now: float) -> float:
        """Return the seconds since the last progress."""
        return now - self.last_progress_at
