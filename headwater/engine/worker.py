"""The worker, which runs the pipeline of a deployment.

The worker reads batches, passes them through the transforms, delivers them in order, and commits their positions. One
thread runs the loop, and `Worker.run_once` is one iteration. The loop waits for space in the producer's queue, for
acknowledgements, and for Valkey. During a long wait the worker pauses the source and keeps polling it, so that
the worker stays a member of its consumer group. A rebalance can happen within any poll of the source. `on_revoked` then
finishes the batches in flight, commits their positions, and drops the partitions. After
REVOKE_BUDGET_S it no longer waits for another attempt to commit.

Retries do not use tenacity, because the source is polled and acknowledgements are processed during each wait.
"""

import random
import time
from collections.abc import Callable, Sequence

import structlog

from headwater.engine.committer import Committer
from headwater.engine.delivery import Delivery
from headwater.engine.heartbeat import HEARTBEAT_INTERVAL_S, HeartbeatReporter
from headwater.engine.in_flight_batch import InFlightBatch
from headwater.engine.in_flight_batches import InFlightBatches
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics
from headwater.engine.offset_tracker import OffsetTracker
from headwater.engine.partition_isolation import PartitionIsolation
from headwater.engine.status import KAFKA_WAIT_REPORTED_AFTER_S, WorkerStatus
from headwater.engine.waiting import Waiting
from headwater.errors import BrokerUnavailable, RedisUnavailable
from headwater.model.record import RecordBatch
from headwater.sources.base import Positions, Source
from headwater.transforms.base import Transform

log = structlog.get_logger(__name__)

IDLE_POLL_S = 0.5
"""The timeout of a poll of the source while neither acknowledgements nor a commit are outstanding."""
ACK_POLL_S = 0.01
"""The timeout of a poll while acknowledgements or a commit are outstanding.

The timeout is short, because the worker notices acknowledgements only between polls, and measures their time.
"""
PAUSED_POLL_S = 0.1
QUEUE_FULL_WAIT_S = 0.02
FLUSH_TIMEOUT_S = 0.1
DRAIN_SLEEP_S = 0.001
CONNECT_TIMEOUT_S = 10.0
JOIN_POLL_S = 0.2

PAUSE_AFTER_S = 10.0
"""How long a wait may last before the source is paused: pausing discards the records that were fetched ahead.

A wait whose end is known pauses the source at once, such as the wait before a retry of the transforms.
"""
SLOW_TRANSFORMS = f"The transforms have worked on a batch of records for more than {PAUSE_AFTER_S:g} s."
REVOKE_BUDGET_S = 5.0
REVOKED_COMMIT_RETRY_S = 0.5
"""The wait between two attempts to commit the positions of revoked partitions."""
STOP_BUDGET_S = 8.0


class Worker:
    """Runs a pipeline, and implements sources.base.RebalanceListener.

    `run` repeats `run_once` until `stop` is called.

    Args:
        source: The source of the records.
        transforms: The transforms, in order.
        delivery: Delivers the outputs.
        metrics: Counts and times the records.
        reporter: Sends the heartbeats.
        clock: Returns monotonic seconds.
        sleep: Sleeps for a number of seconds.
        rng: Returns a random number from 0 to 1.
        idle_poll_s: How long a poll of an idle source lasts.
        can_isolate_partitions: Whether the source can read a part of its partitions.
    """

    def __init__(
        self,
        source: Source,
        transforms: Sequence[Transform],
        delivery: Delivery,
        metrics: PipelineMetrics,
        *,
        reporter: HeartbeatReporter | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        rng: Callable[[], float] = random.random,
        idle_poll_s: float = IDLE_POLL_S,
        can_isolate_partitions: bool = True,
    ) -> None:
        self.metrics = metrics
        self._source = source
        self._transforms = transforms
        self._delivery = delivery
        self._reporter = reporter or HeartbeatReporter()
        self._clock = clock
        self._sleep = sleep
        self._idle_poll_s = idle_poll_s
        self._can_isolate_partitions = can_isolate_partitions
        self._batches = InFlightBatches(transforms, clock)
        self._offsets = OffsetTracker()
        self._committer = Committer(
            source=source,
            delivery=delivery,
            offsets=self._offsets,
            metrics=metrics,
            on_committed=self._on_committed,
            clock=clock,
        )
        self._waiting = Waiting(clock, rng)
        self._isolation = PartitionIsolation(source, clock)
        self._status = WorkerStatus(self._isolation)
        self._reread_reasons: list[str] = []
        """Why the records since the last commit must be read again. `_reread` does that, and clears the list."""
        self._is_waiting_to_join = self._is_source_paused = self._is_stopping = False
        self._progress = 0
        """The number of iterations, polls of the source and records read.

        The orchestrator kills a worker in the state "ready" whose number does not grow.
        """

    # Lifecycle

    def run(self) -> bool:
        """Work until `stop` is called.

        Return whether all records that were read are delivered and committed. Raises NoValidOffset, SandboxFailed and
        other WorkerErrors; nothing more is committed then.
        """
        try:
            self.start()
            while not self._is_stopping:
                self.run_once()
            return self.finish()
        finally:
            self.close()

    def stop(self) -> None:
        """Ask `run` to finish and commit the batches in flight, and to end.

        Safe in a signal handler.
        """
        self._is_stopping = True

    def start(self) -> None:
        """Connect to Kafka, however long that takes, and join the group.

        The worker joins as soon as the orchestrator allows it.
        """
        self._retry_until_connected(self._delivery.connect)
        while not self._is_stopping and not self._may_join():
            self._is_waiting_to_join = True
            self._report()
        self._is_waiting_to_join = False
        self._retry_until_connected(self._delivery.start)
        if not self._is_stopping:
            self._status.assignment.on_joining(self._clock())
            if self._can_isolate_partitions:
                self._isolation.start(self._reporter.channel.reading_plan)
            self._source.join(self)

    def _may_join(self) -> bool:
        return self._reporter.channel.may_join(JOIN_POLL_S if self._is_waiting_to_join else 0)

    def _retry_until_connected(self, call: Callable[[float], None]) -> None:
        while not self._is_stopping:
            self._report()
            try:
                call(CONNECT_TIMEOUT_S)
            except BrokerUnavailable as error:
                self._waiting.reason = error.detail
                self._sleep_and_report(self._waiting.kafka_backoff.next_delay_s())
            else:
                self._waiting.reason = ""
                return

    def _sleep_and_report(self, seconds: float) -> None:
        while seconds > 0 and not self._is_stopping:
            self._report()
            self._sleep(min(seconds, HEARTBEAT_INTERVAL_S))
            seconds -= HEARTBEAT_INTERVAL_S

    def finish(self) -> bool:
        """Deliver and commit the batches in flight.

        After STOP_BUDGET_S it no longer waits for another attempt to commit. Return whether every batch is committed.
        """
        self._report()
        deadline = self._clock() + STOP_BUDGET_S
        is_acknowledged = self._drain(STOP_BUDGET_S)
        is_complete = not self._batches
        return is_acknowledged and self._commit_last(deadline) and is_complete

    def _commit_last(self, deadline: float) -> bool:
        """Commit the last positions.

        Kafka rejects a commit while the group rebalances, for example because another worker ends at the same time. The
        polls let this member join the next generation of its group.
        """

        def rejoin() -> None:
            self._poll_paused("The last positions are not committed yet.", PAUSED_POLL_S)

        return self._commit_until(deadline, rejoin)

    def _commit_until(self, deadline: float, wait_before_retry: Callable[[], None]) -> bool:
        """Commit the positions, and return whether they are committed.

        A commit that fails is repeated after `wait_before_retry()`, until the deadline or until records must be read
        again.
        """
        is_committed = self._committer.start(wait=True)
        while not is_committed and self._clock() < deadline and not self._must_reread():
            wait_before_retry()
            is_committed = self._committer.retry(wait=True)
        return is_committed

    def close(self) -> None:
        """Free all resources. The next worker reads the uncommitted records again."""
        for transform in self._transforms:
            transform.close()
        self._delivery.close()
        self._source.close(leave_group=self._reporter.channel.must_leave_group())

    def run_once(self) -> None:
        """Run one iteration of the loop.

        An iteration reads a batch, transforms the batches in flight, delivers the finished ones, and commits if a
        commit is due.
        """
        self._progress += 1
        if not self._waiting.may_continue:
            self._wait_for_retry()
        elif self._must_reread():
            self._reread()
        else:
            has_read = self._read()
            self._transform(wait=not has_read)
            self._deliver_finished()
        if self._committer.is_due():
            self._commit()
        self._report()

    # Reading

    def _read(self) -> bool:
        """Read the next batch and start its transforms.

        Return False when there are no records or no capacity.
        """
        self._advance_isolation()
        limit = 0 if self._is_source_paused else self._batch_capacity()
        if not limit:
            return False
        batch = self._poll_source(limit)
        if batch is not None:
            self._isolation.on_polled(is_busy=bool(batch) or self._is_busy())
        if not batch:
            return False
        self._offsets.on_read(batch)
        self._batches.start(batch, self._clock(), self._waiting.total_s)
        return True

    def _poll_source(self, limit: int) -> RecordBatch | None:
        """Poll the source, and wait for records unless a batch in flight needs the loop.

        While a commit is running, no batch is delivered. So the poll may then wait even with batches in flight, for
        ACK_POLL_S at most. Returns None when Kafka is unavailable.
        """
        if self._batches or self._awaits_kafka():
            batch = self._poll(limit, 0)
            if batch is None or batch or (self._batches and not self._committer.is_running):
                return batch
        self._delivery.flush(0)
        return self._poll(limit, ACK_POLL_S if self._awaits_kafka() else self._idle_poll_s)

    def _awaits_kafka(self) -> bool:
        """Return whether acknowledgements or a commit are outstanding."""
        return self.metrics.awaits_acknowledgements or self._committer.is_running

    def _advance_isolation(self) -> None:
        try:
            self._isolation.advance(self._send_heartbeat, is_busy=self._is_busy())
        except BrokerUnavailable as error:
            self._waiting.schedule_retry(error.detail, self._waiting.kafka_backoff)

    def _is_busy(self) -> bool:
        """Return whether records that were read are not committed yet."""
        return bool(self._batches or self._offsets.pending)

    def _batch_capacity(self) -> int:
        """Return how many records the next batch may have.

        Returns 0 when no further batch may be in flight.
        """
        return self._batches.capacity(self._delivery.backpressure().capacity, is_committing=self._committer.is_running)

    def _poll(self, max_records: int, timeout_s: float) -> RecordBatch | None:
        try:
            batch = self._source.poll(max_records, timeout_s)
        except BrokerUnavailable as error:
            self._waiting.schedule_retry(error.detail, self._waiting.kafka_backoff)
            return None
        self._progress += 1 + len(batch)
        for gap in self._source.take_gaps():
            self._status.unread.record_gap(gap, self._clock())
            self._offsets.set_starts({gap.partition: gap.start})
            self._skip_to({gap.partition: gap.end})
            self._report()
        self._status.unread.set_unreadable(self._source.unreadable())
        if batch.end_positions and not batch:
            self._skip_to(batch.end_positions)
        return batch

    def _skip_to(self, positions: Positions) -> None:
        """Record that these positions must be committed, after all records before them.

        See InFlightBatch.set_end_positions.
        """
        if not self._batches.set_end_positions(positions):
            self._offsets.on_produced(positions)

    # Transforming

    def _transform(self, *, wait: bool) -> None:
        """Advance the batches in flight, and pause or resume the source.

        Args:
            wait: Whether to wait for the next result of the first batch.
        """
        is_store_available = self._advance_batches(wait=wait)
        if self._batches.is_slower_than(PAUSE_AFTER_S, self._clock()):
            self._poll_paused(self._waiting.reason or SLOW_TRANSFORMS, 0)
        elif is_store_available and self._waiting.may_continue:
            self._resume()

    def _advance_batches(self, *, wait: bool) -> bool:
        """Advance the batches in flight. Return False when Valkey is unavailable."""
        try:
            self._batches.advance(wait=wait)
        except RedisUnavailable as error:
            self._waiting.schedule_retry(error.detail, self._waiting.store_backoff)
            return False
        return True

    # Delivery

    def _deliver_finished(self) -> None:
        """Deliver the finished batches, in the order in which they were read.

        While a commit is running nothing is delivered. The worker waits for the commit when it can't read on.
        """
        if self._committer.is_running and not self._committer.try_finish(wait=not self._batch_capacity()):
            return
        while self._batches.is_first_finished and self._wait_for_queue():
            if self._batches.is_first_finished:  # a rebalance during the wait may have delivered the batch
                self._deliver(self._batches.pop_first())

    def _deliver(self, in_flight: InFlightBatch) -> None:
        for line in in_flight.logs:
            self._reporter.log.add_script_line(line)
        produced, failures = self._delivery.deliver(in_flight)
        now = self._clock()
        self._batches.sizer.update(
            in_flight, now, total_wait_s=self._waiting.total_s, total_cpu_s=self._reporter.total_cpu_s()
        )
        if pause_s := self._status.crashes.record(in_flight.failed_records, now):
            self._waiting.schedule_next_attempt(pause_s)
        positions = in_flight.next_offsets()
        self._offsets.on_produced(positions)
        self.metrics.on_produced(in_flight, positions, produced, failures, now - in_flight.read_at)

    # Commits

    def _commit(self) -> None:
        """Commit the pending positions after all their records are acknowledged.

        If there is nothing to commit, the commit stays due, so that the first batch after an idle period is committed
        at once.
        """
        if not self._committer.try_finish(wait=False) or self._must_reread():
            return
        if not self._offsets.pending:
            self._committer.retry()
            return
        if self._wait_for_acknowledgements():
            self._committer.start(wait=False)
        self._committer.schedule()

    def _on_committed(self, positions: Positions) -> None:
        self._isolation.on_committed(positions)
        self._waiting.kafka_backoff.reset()

    # Recovery

    def _must_reread(self) -> bool:
        """Return whether the records since the last commit must be read again.

        Then nothing may be delivered or committed before `_reread`.
        """
        self._reread_reasons += self._delivery.take_reread_reasons()
        return bool(self._reread_reasons)

    def _reread(self) -> None:
        """Replace the producer, and read all records since the last commit again."""
        self._batches.drop_all()
        try:
            stored = self._source.committed() if self._delivery.recover() else {}
        except BrokerUnavailable as error:
            self._waiting.schedule_retry(error.detail, self._waiting.recovery_backoff)
            return
        self._waiting.recovery_backoff.reset()
        count, first = len(self._reread_reasons), self._reread_reasons[0]
        log.warning("records are read again", failures=count, first=first)
        positions = self._offsets.reread(stored)
        self._source.seek(positions)
        self.metrics.on_reread(positions)
        self._reread_reasons.clear()
        self._waiting.schedule_retry(f"Records are read again. {first}", self._waiting.kafka_backoff)

    # Waits

    def _wait_for_retry(self) -> None:
        since = self._clock()
        self._poll_paused(self._waiting.reason, PAUSED_POLL_S)
        self._waiting.add_wait(since)

    def _poll_paused(self, reason: str, timeout_s: float) -> None:
        """Pause the source and poll it, so that the worker stays a member of its consumer group."""
        self._waiting.reason = reason
        self._isolation.on_paused()
        if not self._is_source_paused:
            self._source.pause()
            self._is_source_paused = True
        batch = self._poll(1, timeout_s)
        assert not batch, "a paused source has returned records, which would be lost"
        self._report()

    def _resume(self) -> None:
        self._waiting.reason = ""
        self._waiting.store_backoff.reset()
        if self._is_source_paused:
            self._source.resume()
            self._is_source_paused = False

    def _wait_until(self, condition: Callable[[], bool], reason: str) -> bool:
        """Wait until `condition()` is true. A call of `condition` may block briefly.

        Returns False when the worker is stopping, or when the records since the last commit must be read again.
        """
        since, reason_before = self._clock(), self._waiting.reason
        while not (is_met := condition()) and not self._is_stopping and not self._must_reread():
            waited_s = self._clock() - since
            if waited_s >= PAUSE_AFTER_S:
                self._poll_paused(reason, 0)
            elif waited_s >= KAFKA_WAIT_REPORTED_AFTER_S:
                self._waiting.reason = reason
            self._report()
        if not reason_before and self._waiting.may_continue:
            self._resume()
        self._waiting.add_wait(since)
        return is_met and not self._must_reread()

    def _wait_for_queue(self) -> bool:
        return self._wait_until(
            self._make_queue_space, "Kafka accepts records more slowly than the pipeline produces them."
        )

    def _make_queue_space(self) -> bool:
        """Return whether the producer's queue has space. If it is full, flush it for a moment."""
        if not self._delivery.backpressure().is_queue_full:
            return True
        self._delivery.flush(QUEUE_FULL_WAIT_S)
        return False

    def _wait_for_acknowledgements(self) -> bool:
        return self._wait_until(
            lambda: not self._delivery.flush(FLUSH_TIMEOUT_S), "Kafka does not acknowledge records."
        )

    # Rebalances: called by the source from within `poll`

    def on_assigned(self, partitions: list[int]) -> None:
        log.debug("partitions assigned", partitions=partitions)
        self._status.assignment.on_assigned(partitions)
        self._isolation.on_assigned(partitions)
        self.metrics.on_assigned(partitions)

    def on_revoked(self, partitions: list[int]) -> None:
        deadline = self._clock() + REVOKE_BUDGET_S
        if self._drain(REVOKE_BUDGET_S):
            # The source can't be polled inside the callback of its rebalance.
            self._commit_until(deadline, lambda: self._sleep(REVOKED_COMMIT_RETRY_S))
        self._remove_partitions(partitions)

    def on_lost(self, partitions: list[int]) -> None:
        log.warning("partitions lost; another worker may own them already", partitions=partitions)
        self._remove_partitions(partitions)
        self._status.assignment.on_lost()

    def _remove_partitions(self, partitions: list[int]) -> None:
        self._committer.try_finish(wait=True)
        self._status.assignment.remove_partitions(partitions)
        self._isolation.remove_partitions(partitions)
        self._offsets.remove_partitions(partitions)
        self._delivery.remove_partitions(partitions)
        self.metrics.remove_partitions(partitions)
        self._batches.remove_partitions(partitions)

    def _drain(self, budget_s: float) -> bool:
        """Wait for the running commit, and then finish and deliver the batches in flight.

        The latter takes at most `budget_s` seconds. Returns whether all produced records are acknowledged, so that
        their positions may be committed.
        """
        self._committer.try_finish(wait=True)
        deadline = self._clock() + budget_s
        while self._batches and self._clock() < deadline and not self._must_reread():
            if not self._advance_batches(wait=False):
                break
            while self._batches.is_first_finished and not self._must_reread():
                self._deliver(self._batches.pop_first())
            if self._batches:
                self._sleep(DRAIN_SLEEP_S)
        while unacknowledged := self._delivery.flush(FLUSH_TIMEOUT_S):
            if self._must_reread() or self._clock() >= deadline:
                break
        return not unacknowledged and not self._must_reread()

    # Heartbeats

    def _state(self) -> tuple[str, str]:
        phase = "draining" if self._is_stopping else "prepared" if self._is_waiting_to_join else ""
        return self._status.state(self._clock(), self._waiting.reason, phase)

    def _report(self) -> None:
        """Measure new acknowledgements, and send a heartbeat if one is due."""
        if self.metrics.awaits_acknowledgements:
            self.metrics.on_acknowledged(self._delivery.outstanding())
        if self._reporter.is_due(*self._state()):
            self._send_heartbeat()

    def _send_heartbeat(self) -> bool:
        """Send a heartbeat. Return what `OrchestratorChannel.send` returns."""
        fields = self.metrics.heartbeat_fields() | self._isolation.heartbeat_fields()
        return self._reporter.report(*self._state(), progress=self._progress, **fields)
