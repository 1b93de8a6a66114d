"""Commits the positions of produced records.

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
    """Commits the positions of produced records, one commit at a time.

    The delivery commits the records, perhaps together with the positions in a transaction. Otherwise the source commits
    the positions next.

    Args:
        source: Commits positions that the delivery has not committed.
        delivery: Commits the records.
        offsets: Has the positions that are to be committed.
        metrics: Is called before and after each commit.
        on_committed: Is called with the positions of each commit that the delivery has made or the source has accepted.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        source: Source,
        delivery: Delivery,
        offsets: OffsetTracker,
        metrics: PipelineMetrics,
        on_committed: Callable[[Positions], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._delivery = delivery
        self._offsets = offsets
        self._metrics = metrics
        self._on_committed = on_committed
        self._clock = clock
        self._due_at = float("-inf")
        self._pending: PendingCommit | None = None
        self._positions: Positions = {}

    @property
    def is_running(self) -> bool:
        """Whether a PendingCommit of the delivery is running.

        The worker may read and transform meanwhile, but not deliver.
        A commit that the source makes without waiting does not count.
        """
        return self._pending is not None

    def is_due(self) -> bool:
        """Return whether it is time for a commit.

        A commit is also due when the delivery can take no more records before it.
        """
        return self._clock() >= self._due_at or not self._delivery.backpressure().capacity

    def schedule(self) -> None:
        """Make the next commit due in `Delivery.commit_interval_s` seconds."""
        self._due_at = self._clock() + self._delivery.commit_interval_s

    def start(self, *, wait: bool) -> bool:
        """Start to commit the positions of all produced records.

        `Delivery.flush` must have returned 0 before.

        Args:
            wait: Whether to wait for the end of the commit.

        Returns whether the positions are committed. Without `wait`, it returns True already when the source has
        accepted the commit, which may still fail.
        """
        self._metrics.on_acknowledged(self._delivery.outstanding())
        self._metrics.before_commit(ignore_retry_delay=wait)
        self._positions = self._offsets.pending
        has_succeeded = self._commit(self._positions, wait=wait)
        if self._pending is None:
            self._report_end(has_succeeded=has_succeeded, wait=wait)
            return has_succeeded
        return self.try_finish(wait=wait)

    def _commit(self, positions: Positions, *, wait: bool) -> bool:
        """Commit positions.

        Return False when that fails. If the delivery fails, it commits the positions itself with its next commit, so
        they are not passed to the source. If the source fails, it commits the positions with its next commit.
        """
        try:
            self._pending = self._delivery.commit(positions)
            if self._pending is None:
                self._source.commit(positions, wait=wait)
        except (BrokerUnavailable, RedisUnavailable) as error:
            log.warning("positions not committed; records may be repeated", reason=error.detail)
            return False
        return True

    def _report_end(self, *, has_succeeded: bool, wait: bool) -> None:
        """Report the end of a commit.

        This is also called after an error in `_commit`, because the source or the delivery then commits the positions
        with its next commit. It is not called after a PendingCommit has failed: its records are read again.
        """
        self._offsets.on_commit_ended(self._positions)
        if has_succeeded:
            self._on_committed(self._positions)
        self._metrics.after_commit(write_now=wait)

    def try_finish(self, *, wait: bool) -> bool:
        """Finish the running commit if its outcome is known.

        Returns False while the commit is running, and once when it has failed. Otherwise returns True.

        Args:
            wait: Whether to wait for the end of the commit.
        """
        if self._pending is None:
            return True
        if not (wait or self._pending.done()):
            return False
        pending, self._pending = self._pending, None
        if not pending.result():
            return False
        self._report_end(has_succeeded=True, wait=wait)
        return True

    def retry(self, *, wait: bool = False) -> bool:
        """Write metrics, and commit the positions of failed commits.

        Call it when there are no new positions.

        Args:
            wait: Whether to wait for the end of the commit.

        Returns whether the positions are committed.
        """
        self._metrics.flush()
        self._positions = {}
        is_committed = self._commit({}, wait=wait)
        if self._pending is not None:
            return self.try_finish(wait=wait)
        if not is_committed:
            self.schedule()
        return is_committed
