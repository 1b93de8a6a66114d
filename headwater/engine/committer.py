"""Commits the positions of delivered records.

The committer decides when a commit is due, runs the commit, and reports its end.
"""

import time
from collections.abc import Callable

import structlog

from headwater.engine.delivery import Delivery, PendingCommit
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics
from headwater.engine.offset_tracker import OffsetTracker
from headwater.errors import BrokerUnavailable, RedisUnavailable
from headwater.sources.base import Positions, Source

log = structlog.get_logger(__name__)


class Committer:
    """Commits the positions of delivered records, one commit at a time.

    The delivery commits the records, perhaps together with the positions in a transaction. Otherwise the source commits
    the positions next.

    Args:
        source: Commits positions that the delivery has not committed.
        delivery: Commits the records.
        offsets: Has the positions that are to be committed.
        metrics: Is called before and after each commit.
        on_commit: Is called with the positions of each successful commit.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        source: Source,
        delivery: Delivery,
        offsets: OffsetTracker,
        metrics: PipelineMetrics,
        on_commit: Callable[[Positions], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._delivery = delivery
        self._offsets = offsets
        self._metrics = metrics
        self._on_commit = on_commit
        self._clock = clock
        self._due_at = float("-inf")
        self._pending: PendingCommit | None = None
        self._positions: Positions = {}

    @property
    def is_running(self) -> bool:
        """Whether a commit is running: the worker may then read and transform, but not deliver."""
        return self._pending is not None

    def is_due(self) -> bool:
        """Return whether it is time for a commit, or no record may be read before one."""
        return self._clock() >= self._due_at or not self._delivery.backpressure().capacity

    def schedule(self) -> None:
        """Make the next commit due in `Delivery.commit_interval_s` seconds."""
        self._due_at = self._clock() + self._delivery.commit_interval_s

    def start(self, *, wait: bool) -> bool:
        """Start to commit the positions of all delivered records, which must be acknowledged.

        wait: whether to wait for the end of the commit.
        Returns whether the positions are committed.
        """
        self._metrics.acknowledged(self._delivery.backpressure().outstanding)
        self._metrics.before_commit(at_once=wait)
        self._positions = self._offsets.pending
        is_stored = self._store(self._positions, wait=wait)
        if self._pending is None:
            self._finish(is_stored=is_stored, wait=wait)
            return is_stored
        return self.end(wait=wait)

    def _store(self, positions: Positions, *, wait: bool) -> bool:
        """Return False when the positions are not stored; they are stored with a later commit then."""
        try:
            self._pending = self._delivery.commit(positions)
            if self._pending is None:
                self._source.commit(positions, wait=wait)
        except (BrokerUnavailable, RedisUnavailable) as error:
            log.warning("positions not stored; records may be repeated", reason=error.detail)
            return False
        return True

    def _finish(self, *, is_stored: bool, wait: bool) -> None:
        self._offsets.acknowledge(self._positions)
        if is_stored:
            self._on_commit(self._positions)
        self._metrics.after_commit(at_once=wait)

    def end(self, *, wait: bool) -> bool:
        """End the running commit if it has finished.

        Return False while it is running, and when it has failed.

        wait: whether to wait for the end of the commit.
        """
        if self._pending is None:
            return True
        if not (wait or self._pending.done()):
            return False
        pending, self._pending = self._pending, None
        if not pending.result():
            return False
        self._finish(is_stored=True, wait=wait)
        return True

    def retry(self) -> None:
        """Write metrics and positions that could not be written before.

        Call it when there are no new positions.
        """
        self._metrics.flush()
        self._store({}, wait=False)
