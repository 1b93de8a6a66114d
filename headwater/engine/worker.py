"""The worker: reads, transforms and delivers batches in order, and commits positions.

One thread runs the loop. It waits for space in the producer's queue, for acknowledgements, and for the set store.
During a long wait it pauses the source and keeps polling it, so that the worker stays a member of its consumer group.
A rebalance can happen within any poll of the source. `revoked` then finishes the batches in flight within
REVOKE_BUDGET_S, commits their positions, and releases the partitions.
"""

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from headwater.backoff import Backoff
from headwater.engine.delivery import Delivery
from headwater.engine.heartbeat import HEARTBEAT_INTERVAL_S, HeartbeatReporter
from headwater.engine.isolation import PartitionIsolation
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics
from headwater.engine.offset_tracker import OffsetTracker
from headwater.engine.pipeline import MAX_IN_FLIGHT, BatchSizer, InFlightBatch
from headwater.engine.status import KAFKA_WAIT_SHOWN_S, WorkerStatus
from headwater.errors import BrokerUnavailable, DeliveryFailed, SetStoreUnavailable
from headwater.model.record import RecordBatch
from headwater.model.worker_spec import READ_ALL, ReadingPlan
from headwater.sources.base import Positions, Source
from headwater.transforms.base import Transform

log = structlog.get_logger(__name__)

IDLE_POLL_S = 0.4
"""The timeout of a poll of the source while no acknowledgements are outstanding."""
ACK_POLL_S = 0.01
"""The timeout of a poll while acknowledgements are outstanding.

It is short, because the worker notices acknowledgements only between polls, and measures their time.
"""
PAUSED_POLL_S = 0.1
QUEUE_FULL_WAIT_S = 0.02
FLUSH_TIMEOUT_S = 0.1
DRAIN_SLEEP_S = 0.001
MAX_IN_FLIGHT_DURING_COMMIT = 16
MAX_BYTES_DURING_COMMIT = 64 << 20
"""While a commit is running, up to MAX_IN_FLIGHT_DURING_COMMIT batches with up to this many bytes may be in flight.

These limits replace MAX_IN_FLIGHT only when batches have reached their maximum size, that is when transforms are cheap.
"""
CONNECT_TIMEOUT_S = 10.0
JOIN_POLL_S = 0.2

PAUSE_AFTER_S = 10.0
"""How long a wait may last before the source is paused: pausing discards the records that were fetched ahead."""
SLOW_TRANSFORMS = f"The transforms have worked on a batch of records for more than {PAUSE_AFTER_S:g} s."
REVOKE_BUDGET_S = 5.0
STOP_BUDGET_S = 8.0


class _Commit(NamedTuple):
    """A running commit.

    Attributes:
        positions: The positions that are being committed.
        is_stored: False when the positions could not be stored; the next commit stores them.
    """

    positions: Positions
    is_stored: bool


class Worker:
    """Implements sources.base.RebalanceListener. `run` repeats `step` until `stop` is called."""

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
        plan: ReadingPlan = READ_ALL,
    ) -> None:
        self.metrics = metrics
        self._source = source
        self._transforms = transforms
        self._delivery = delivery
        self._reporter = reporter or HeartbeatReporter()
        self._clock = clock
        self._sleep = sleep
        self._store_backoff = Backoff(0.1, 0.5, rng)
        self._kafka_backoff = Backoff(1.0, 30.0, rng)
        self._in_flight: deque[InFlightBatch] = deque()
        self._batch_sizer = BatchSizer()
        self._offsets = OffsetTracker()
        self._rejections: list[str] = []
        """Why Kafka has rejected records since the last commit."""
        self._committing: _Commit | None = None
        self._isolation = PartitionIsolation(plan, source, clock)
        self._status = WorkerStatus(self._isolation)
        self._is_waiting_to_join = self._paused = self._stopping = False
        self._reason = ""
        self._retry_at = self._checkpoint_at = float("-inf")
        self._waited_s, self._progress, self._idle_poll_s = 0.0, 0, idle_poll_s

    # Lifecycle

    def run(self) -> bool:
        """Work until `stop` is called.

        Return whether all records that were read are delivered and committed. Raises SourceGap, SandboxFailed and other
        WorkerErrors; nothing more is committed then.
        """
        try:
            self.start()
            while not self._stopping:
                self.step()
            return self.finish()
        finally:
            self.close()

    def stop(self) -> None:
        """Ask `run` to finish and commit the batches in flight, and to end.

        Safe in a signal handler.
        """
        self._stopping = True

    def start(self) -> None:
        """Connect to Kafka, however long that takes, and join the group when it is allowed.

        The supervisor allows it.
        """
        self._retry_until_connected(self._delivery.connect)
        while not self._stopping and not self._may_join():
            self._is_waiting_to_join = True
            self._report()
        self._is_waiting_to_join = False
        self._retry_until_connected(self._delivery.begin)
        if not self._stopping:
            self._status.assignment.joining(self._clock())
            self._isolation.start()
            self._source.join(self)

    def _may_join(self) -> bool:
        return self._reporter.channel.may_join(JOIN_POLL_S if self._is_waiting_to_join else 0)

    def _retry_until_connected(self, call: Callable[[float], None]) -> None:
        while not self._stopping:
            self._report()
            try:
                call(CONNECT_TIMEOUT_S)
            except BrokerUnavailable as error:
                self._reason = error.detail
                self._sleep_and_report(self._kafka_backoff.next_delay_s())
            else:
                self._reason = ""
                return

    def _sleep_and_report(self, seconds: float) -> None:
        while seconds > 0 and not self._stopping:
            self._report()
            self._sleep(min(seconds, HEARTBEAT_INTERVAL_S))
            seconds -= HEARTBEAT_INTERVAL_S

    def finish(self) -> bool:
        """Deliver and commit the batches in flight, within STOP_BUDGET_S.

        Return whether none of them is left.
        """
        self._report()
        is_acknowledged = self._drain(STOP_BUDGET_S)
        is_complete = not self._in_flight
        return is_acknowledged and self._commit(wait=True) and is_complete

    def close(self) -> None:
        """Free all resources. The next worker reads the records again that are not committed."""
        for transform in self._transforms:
            transform.close()
        self._delivery.close()
        self._source.close(leave=self._reporter.channel.may_leave())

    # The loop

    def step(self) -> None:
        """Run one iteration: read a batch, advance all, deliver finished ones, commit if due."""
        now = self._clock()
        self._progress += 1
        if now < self._retry_at:
            self._poll_paused(self._reason, PAUSED_POLL_S)
            self._waited_s += self._clock() - now
        elif self._has_rejections():
            self._rewind()
        else:
            self._process()
        if self._clock() >= self._checkpoint_at or not self._delivery.capacity():
            self._checkpoint()
        self._report()

    def _process(self) -> None:
        self._isolate()
        has_read = not self._paused and self._read()
        is_store_available = self._advance(wait=not has_read)
        if self._is_transform_slow():
            self._poll_paused(self._reason or SLOW_TRANSFORMS, 0)
        elif is_store_available and self._clock() >= self._retry_at:
            self._resume()
        if self._end_commit(wait=not self._batch_capacity()):
            self._deliver_finished()

    def _is_transform_slow(self) -> bool:
        if not self._in_flight or self._is_first_finished():
            return False
        return self._clock() - self._in_flight[0].read_at >= PAUSE_AFTER_S

    def _isolate(self) -> None:
        try:
            self._isolation.advance(self._send, is_busy=self._is_busy())
        except BrokerUnavailable as error:
            self._back_off(error.detail, self._kafka_backoff)

    def _is_busy(self) -> bool:
        """Return whether records that were read are not committed yet."""
        return bool(self._in_flight or self._offsets.pending)

    def _read(self) -> bool:
        """Read the next batch and start its transforms.

        Return False when there are no records or no capacity.
        """
        limit = self._batch_capacity()
        if not limit:
            return False
        batch = self._poll(limit, 0)
        if batch is not None and not batch and (not self._in_flight or self._committing is not None):
            self._delivery.send_lingering()
            awaits_acks = self.metrics.awaits_acknowledgements or self._committing is not None
            batch = self._poll(limit, ACK_POLL_S if awaits_acks else self._idle_poll_s)
        if batch is not None:
            self._isolation.polled(is_busy=bool(batch) or self._is_busy())
        if not batch:
            return False
        self._offsets.read(batch)
        self._in_flight.append(InFlightBatch(batch, self._transforms, self._clock(), self._waited_s))
        return True

    def _batch_capacity(self) -> int:
        """Return how many records the next batch may have.

        Returns 0 when no further batch may be in flight.
        """
        if len(self._in_flight) >= (MAX_IN_FLIGHT_DURING_COMMIT if self._may_read_ahead() else MAX_IN_FLIGHT):
            return 0
        in_flight_records = sum(len(each.input) for each in self._in_flight)
        return max(0, min(self._batch_sizer.limit, self._delivery.capacity() - in_flight_records))

    def _may_read_ahead(self) -> bool:
        if self._committing is None or self._batch_sizer.limit < BatchSizer.MAX_RECORDS:
            return False
        batches = [columns for each in self._in_flight for columns in (each.input.values, each.input.keys)]
        outputs = sum(each.output_bytes() for each in self._in_flight)
        return sum(len(columns.buffer) for columns in batches) + outputs < MAX_BYTES_DURING_COMMIT

    def _poll(self, max_records: int, timeout_s: float) -> RecordBatch | None:
        try:
            batch = self._source.poll(max_records, timeout_s)
        except BrokerUnavailable as error:
            self._back_off(error.detail, self._kafka_backoff)
            return None
        self._progress += 1 + len(batch)
        for gap in self._source.gaps():
            self._status.unread.record_gap(gap, self._clock())
            self._offsets.set_starts({gap.partition: gap.start})
            self._skip_to({gap.partition: gap.end})
            self._report()
        self._status.unread.set_unreadable(self._source.unreadable())
        if batch.next_offsets and not batch:
            self._skip_to(batch.next_offsets)
        return batch

    def _skip_to(self, positions: Positions) -> None:
        """Let positions after a gap or control records be committed, with the records before."""
        if self._in_flight:
            self._in_flight[-1].set_end_offsets(positions)
        else:
            self._offsets.delivered(positions)

    def _advance(self, *, wait: bool) -> bool:
        """Advance the batches in flight. No batch overtakes an earlier one.

        wait: whether to wait for the next result of the first batch.
        Returns False when the set store is unavailable. The batches stay in flight, in their order.
        """
        max_finished = len(self._transforms)
        try:
            for in_flight in self._in_flight:
                while in_flight.finished_transforms < max_finished and in_flight.step(wait=wait):
                    wait = False
                wait = False
                max_finished = in_flight.finished_transforms
        except SetStoreUnavailable as error:
            self._back_off(error.detail, self._store_backoff)
            return False
        return True

    def _deliver_finished(self) -> None:
        """Deliver the finished batches, in the order in which they were read."""
        while self._is_first_finished() and self._wait_for_queue():
            if self._is_first_finished():  # a rebalance during the wait may have delivered the batch
                self._deliver(self._in_flight.popleft())

    def _is_first_finished(self) -> bool:
        return bool(self._in_flight) and self._in_flight[0].is_finished

    def _deliver(self, in_flight: InFlightBatch) -> None:
        for line in in_flight.logs:
            self._reporter.log.add_script_line(line)
        sent, failures = self._delivery.deliver(in_flight)
        now = self._clock()
        self._batch_sizer.update(in_flight, now, self._waited_s)
        if pause_s := self._status.crashes.record(in_flight.failed_records, now):
            self._retry_at = now + pause_s
        positions = in_flight.next_offsets()
        self._offsets.delivered(positions)
        self.metrics.delivered(in_flight, positions, sent, failures, now - in_flight.read_at)

    # Waiting

    def _back_off(self, reason: str, backoff: Backoff) -> None:
        """Record that a dependency is unavailable, and schedule the next attempt."""
        if reason != self._reason:
            log.warning("waiting", reason=reason)
        self._reason = reason
        self._retry_at = self._clock() + backoff.next_delay_s()

    def _poll_paused(self, reason: str, timeout_s: float) -> None:
        """Pause the source and poll it, so that the worker stays a member of its consumer group."""
        self._reason = reason
        self._isolation.paused()
        if not self._paused:
            self._source.pause()
            self._paused = True
        self._poll(1, timeout_s)
        self._report()

    def _resume(self) -> None:
        self._reason = ""
        self._store_backoff.reset()
        if self._paused:
            self._source.resume()
            self._paused = False

    def _wait_until(self, condition: Callable[[], bool], reason: str) -> bool:
        """Wait until `condition()` is true; each call of it may block briefly.

        Returns False when the worker is stopping, or when Kafka has rejected a record.
        """
        since, reason_before = self._clock(), self._reason
        while not (is_met := condition()) and not self._stopping and not self._has_rejections():
            waited_s = self._clock() - since
            if waited_s >= PAUSE_AFTER_S:
                self._poll_paused(reason, 0)
            elif waited_s >= KAFKA_WAIT_SHOWN_S:
                self._reason = reason
            self._report()
        if not reason_before and self._clock() >= self._retry_at:
            self._resume()
        self._waited_s += self._clock() - since
        return is_met and not self._has_rejections()

    def _wait_for_queue(self) -> bool:
        return self._wait_until(
            self._has_queue_space, "Kafka accepts records more slowly than the pipeline produces them."
        )

    def _has_queue_space(self) -> bool:
        if not self._delivery.is_queue_full():
            return True
        self._delivery.flush(QUEUE_FULL_WAIT_S)
        return False

    def _wait_for_acknowledgements(self) -> bool:
        return self._wait_until(
            lambda: not self._delivery.flush(FLUSH_TIMEOUT_S), "Kafka does not acknowledge records."
        )

    # Positions

    def _checkpoint(self) -> None:
        """Commit the delivered positions after all their records are acknowledged.

        Without pending positions the time of the next checkpoint stays in the past, so that the positions of the first
        batch after an idle period are committed immediately.
        """
        if not self._end_commit(wait=False):
            return
        if not self._offsets.pending:
            self.metrics.flush()
            self._store({}, wait=False)
            return
        if self._wait_for_acknowledgements():
            self._commit(wait=False)
        self._checkpoint_at = self._clock() + self._delivery.checkpoint_s

    def _commit(self, *, wait: bool) -> bool:
        self.metrics.acknowledged(self._delivery.outstanding())
        self.metrics.before_commit(at_once=wait)
        positions = self._offsets.pending
        stored = self._store(positions, wait=wait)
        self._committing = _Commit(positions, stored)
        return self._end_commit(wait=wait) and stored

    def _store(self, positions: Positions, *, wait: bool) -> bool:
        try:
            self._delivery.commit(self._source, positions, wait=wait)
        except (BrokerUnavailable, SetStoreUnavailable) as error:
            log.warning("positions not stored; records may be repeated", reason=error.detail)
            return False
        return True

    def _end_commit(self, *, wait: bool) -> bool:
        """Finish the running commit if it has ended.

        Return False while it is running, and when Kafka has rejected it.

        wait: whether to wait for the end of the commit.
        """
        if self._committing is None:
            return not self._rejections
        try:
            if not self._delivery.end_commit(wait=wait):
                return False
        except DeliveryFailed as error:
            self._rejections.append(error.detail)
            self._committing = None
            return False
        ended, self._committing = self._committing, None
        self._offsets.acknowledge(ended.positions)
        if ended.is_stored:
            self._isolation.committed(ended.positions)
        self.metrics.after_commit(at_once=wait)
        self._kafka_backoff.reset()
        return True

    def _has_rejections(self) -> bool:
        """Return whether Kafka has rejected a record since the last commit.

        Then nothing may be delivered or committed before `_rewind`.
        """
        self._rejections += self._delivery.failures()
        return bool(self._rejections)

    def _rewind(self) -> None:
        """Replace the producer, and read all records since the last commit again."""
        for in_flight in self._in_flight:
            in_flight.drop(in_flight.next_offsets())
        try:
            stored = self._delivery.recover(self._source)
        except BrokerUnavailable as error:
            self._back_off(error.detail, self._store_backoff)
            return
        count, first = len(self._rejections), self._rejections[0]
        log.warning("Kafka rejected records; they are read again", count=count, first=first)
        positions = self._offsets.rewind(stored)
        self._source.seek(positions)
        self.metrics.rewound(positions)
        self._rejections.clear()
        self._back_off(f"Kafka rejected records: {first}", self._kafka_backoff)

    # Rebalances: called by the source from within `poll`

    def assigned(self, partitions: list[int]) -> None:
        log.debug("partitions assigned", partitions=partitions)
        self._status.assignment.add(partitions)
        self._isolation.assigned(partitions)
        self.metrics.assigned(partitions)

    def revoked(self, partitions: list[int]) -> None:
        if self._drain(REVOKE_BUDGET_S):
            self._commit(wait=True)
        self._release(partitions)

    def lost(self, partitions: list[int]) -> None:
        log.warning("partitions lost; another worker may own them already", partitions=partitions)
        self._release(partitions)
        self._status.assignment.lost()

    def _release(self, partitions: list[int]) -> None:
        self._end_commit(wait=True)
        self._status.assignment.remove(partitions)
        self._isolation.dropped(partitions)
        self._offsets.drop(partitions)
        self._delivery.forget(partitions)
        self.metrics.dropped(partitions)
        for in_flight in self._in_flight:
            in_flight.drop(partitions)

    def _drain(self, budget_s: float) -> bool:
        """Finish and deliver the batches in flight, for at most `budget_s` seconds.

        Returns whether all delivered records are acknowledged, so that their positions may be committed.
        """
        self._end_commit(wait=True)
        deadline = self._clock() + budget_s
        while self._in_flight and self._clock() < deadline and not self._has_rejections():
            if not self._advance(wait=False):
                break
            while self._is_first_finished():
                self._deliver(self._in_flight.popleft())
            if self._in_flight:
                self._sleep(DRAIN_SLEEP_S)
        while unacknowledged := self._delivery.flush(FLUSH_TIMEOUT_S):
            if self._has_rejections() or self._clock() >= deadline:
                break
        return not unacknowledged and not self._has_rejections()

    # Heartbeats

    def _state(self) -> tuple[str, str]:
        phase = "draining" if self._stopping else "prepared" if self._is_waiting_to_join else ""
        return self._status.state(self._clock(), self._reason, phase)

    def _report(self) -> None:
        if self.metrics.awaits_acknowledgements:
            self.metrics.acknowledged(self._delivery.outstanding())
        if self._reporter.due(*self._state()):
            self._send()

    def _send(self) -> bool:
        """Send a heartbeat. Return whether the supervisor will read it."""
        fields = self.metrics.heartbeat_fields() | self._isolation.heartbeat_fields()
        return self._reporter.report(*self._state(), progress=self._progress, **fields)
