"""The worker: reads batches, moves them through the transforms, delivers them in order, commits from time to time.

One thread does everything. It waits in three places: for room in the producer, for acknowledgements, and for the set
store; when that takes long the paused source is polled, so that the group keeps this member. A rebalance can happen
within any poll of the source; `revoked` then finishes what is in flight within its budget, commits, and lets the
partitions go.
"""

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from headwater.children import Backoff
from headwater.engine.chain import MAX_IN_FLIGHT, BatchSize, InFlightBatch
from headwater.engine.delivery import Delivery
from headwater.engine.health import BEAT_S, Reporter
from headwater.engine.isolation import Isolation
from headwater.engine.metrics.observer import Observer
from headwater.engine.offset_tracker import OffsetTracker
from headwater.engine.status import KAFKA_WAIT_SHOWN_S, WorkerStatus
from headwater.errors import BrokerUnavailable, DeliveryFailed, SetStoreUnavailable
from headwater.model.record import RecordBatch
from headwater.model.worker import READ_ALL, ReadingPlan
from headwater.sources.base import Positions, Source
from headwater.transforms.base import Transform

log = structlog.get_logger(__name__)

IDLE_POLL_S = 0.4
AWAITING_POLL_S = 0.01
"""The same while acknowledgements are awaited: they are seen between polls, and their time is measured."""
HOLD_POLL_S = 0.1
ROOM_S = 0.02
FLUSH_S = 0.1
SETTLE_SLEEP_S = 0.001
MAX_BESIDE_COMMIT = 16
BYTES_BESIDE_COMMIT = 64 << 20
"""While a commit goes on, so many batches may be in flight in place of MAX_IN_FLIGHT, and so many bytes of them: where
transforms are cheap, and batches as large as they get for that.
"""
CONNECT_S = 10.0
JOIN_POLL_S = 0.2

PAUSE_AFTER_S = 10.0
"""How long a wait may last before the source is paused and polled: pausing throws away what was fetched ahead."""
REVOKE_BUDGET_S = 5.0
STOP_BUDGET_S = 8.0


class _Commit(NamedTuple):
    """A commit that goes on. is_stored: false when the positions could not be stored, and the next commit is to try."""

    positions: Positions
    is_stored: bool


class Worker:
    """Implements sources.base.RebalanceListener. `step` is one turn of the loop; `run` turns it until `stop`."""

    def __init__(
        self,
        source: Source,
        transforms: Sequence[Transform],
        delivery: Delivery,
        observer: Observer,
        *,
        reporter: Reporter | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        rng: Callable[[], float] = random.random,
        idle_poll_s: float = IDLE_POLL_S,
        plan: ReadingPlan = READ_ALL,
    ) -> None:
        self.observer = observer
        self._source = source
        self._transforms = transforms
        self._delivery = delivery
        self._reporter = reporter or Reporter()
        self._clock = clock
        self._sleep = sleep
        self._away_backoff = Backoff(0.1, 0.5, rng)
        self._broker_backoff = Backoff(1.0, 30.0, rng)
        self._batches: deque[InFlightBatch] = deque()
        self._size = BatchSize()
        self._offsets = OffsetTracker()
        self._refusals: list[str] = []
        self._committing: _Commit | None = None
        self._isolation = Isolation(plan, source, clock)
        self._status = WorkerStatus(self._isolation)
        self._prepared = self._paused = self._stopping = False
        self._reason = ""
        self._retry_at = self._checkpoint_at = float("-inf")
        self._waited_s, self._progress, self._idle_poll_s = 0.0, 0, idle_poll_s

    # Life.

    def run(self) -> bool:
        """Work until `stop`. True when all that was read is delivered and committed.

        Raises SourceGap, SandboxFailed and other WorkerErrors: nothing more is committed then.
        """
        try:
            self.start()
            while not self._stopping:
                self.step()
            return self.finish()
        finally:
            self.close()

    def stop(self) -> None:
        """Ask `run` to end: what was read is finished and committed first. Safe in a signal handler."""
        self._stopping = True

    def start(self) -> None:
        """Connect, waiting for Kafka as long as it takes; join the group when the supervisor lets it."""
        self._until_kafka_answers(self._delivery.connect)
        while not self._stopping and not self._reporter.probe.may_join(JOIN_POLL_S if self._prepared else 0):
            self._prepared = True
            self._report()
        self._prepared = False
        self._until_kafka_answers(self._delivery.begin)
        if not self._stopping:
            self._status.assignment.joining(self._clock())
            self._isolation.start()
            self._source.join(self)

    def _until_kafka_answers(self, call: Callable[[float], None]) -> None:
        while not self._stopping:
            self._report()
            try:
                call(CONNECT_S)
            except BrokerUnavailable as error:
                self._reason = error.detail
                self._rest(self._broker_backoff.next_s())
            else:
                self._reason = ""
                return

    def _rest(self, seconds: float) -> None:
        while seconds > 0 and not self._stopping:
            self._report()
            self._sleep(min(seconds, BEAT_S))
            seconds -= BEAT_S

    def finish(self) -> bool:
        """Deliver and commit what was read, within STOP_BUDGET_S. True when nothing of it is left."""
        self._report()
        settled = self._settle(STOP_BUDGET_S)
        complete = not self._batches
        return settled and self._commit(wait=True) and complete

    def close(self) -> None:
        """Free everything. What was not committed is read again by the next worker."""
        for transform in self._transforms:
            transform.close()
        self._delivery.close()
        self._source.close(leave=self._reporter.probe.may_leave())

    # The loop.

    def step(self) -> None:
        """One turn: read, move batches on, deliver those that are finished, commit when it is time."""
        now = self._clock()
        self._progress += 1
        if now < self._retry_at:
            self._hold(self._reason, HOLD_POLL_S)
            self._waited_s += self._clock() - now
        elif self._refused():
            self._rewind()
        else:
            self._turn()
        if self._clock() >= self._checkpoint_at or not self._delivery.room():
            self._checkpoint()
        self._report()

    def _turn(self) -> None:
        self._isolate()
        read = not self._paused and self._read()
        moved = self._advance(wait=not read)
        if self._batches and not self._head_finished() and self._clock() - self._batches[0].read_at >= PAUSE_AFTER_S:
            self._hold(self._reason or "The transforms need long for a batch of records.", 0)
        elif moved and self._clock() >= self._retry_at:
            self._go_on()
        if self._end_commit(wait=not self._place()):
            self._emit()

    def _isolate(self) -> None:
        try:
            self._isolation.advance(self._send, is_busy=self._is_busy())
        except BrokerUnavailable as error:
            self._wait(error.detail, self._broker_backoff)

    def _is_busy(self) -> bool:
        """Whether records that were read are not committed yet."""
        return bool(self._batches or self._offsets.pending)

    def _read(self) -> bool:
        """Start the next batch; False when there was none, or no place for one."""
        limit = self._place()
        if not limit:
            return False
        batch = self._poll(limit, 0)
        if batch is not None and not batch and (not self._batches or self._committing is not None):
            self._delivery.push()
            awaits = self.observer.awaits or self._committing is not None
            batch = self._poll(limit, AWAITING_POLL_S if awaits else self._idle_poll_s)
        if batch is not None:
            self._isolation.polled(is_busy=bool(batch) or self._is_busy())
        if not batch:
            return False
        self._offsets.read(batch)
        self._batches.append(InFlightBatch(batch, self._transforms, self._clock(), self._waited_s))
        return True

    def _place(self) -> int:
        """How many records the next batch may have; 0 when there is no place for one."""
        if len(self._batches) >= (MAX_BESIDE_COMMIT if self._may_hold_more() else MAX_IN_FLIGHT):
            return 0
        return max(0, min(self._size.limit, self._delivery.room() - sum(len(each.source) for each in self._batches)))

    def _may_hold_more(self) -> bool:
        if self._committing is None or self._size.limit < BatchSize.MOST:
            return False
        batches = [columns for each in self._batches for columns in (each.source.values, each.source.keys)]
        outputs = sum(each.output_bytes() for each in self._batches)
        return sum(len(columns.text) for columns in batches) + outputs < BYTES_BESIDE_COMMIT

    def _poll(self, max_records: int, timeout_s: float) -> RecordBatch | None:
        try:
            batch = self._source.poll(max_records, timeout_s)
        except BrokerUnavailable as error:
            self._wait(error.detail, self._broker_backoff)
            return None
        self._progress += 1 + len(batch)
        for gap in self._source.gaps():
            self._status.readability.record_gap(gap, self._clock())
            self._offsets.begin({gap.partition: gap.start})
            self._skip_to({gap.partition: gap.end})
            self._report()
        self._status.readability.set_unreadable(self._source.not_read())
        if batch.ends and not batch:
            self._skip_to(batch.ends)
        return batch

    def _skip_to(self, positions: Positions) -> None:
        """Commit positions behind gaps or control records, after the records that were read before them."""
        if self._batches:
            self._batches[-1].end_at(positions)
        else:
            self._offsets.delivered(positions)

    def _advance(self, *, wait: bool) -> bool:
        """Move the batches on, none past the one before it. wait: for the first one's next result.

        False when the set store is away: the batches are kept, and nothing passes them.
        """
        ahead = len(self._transforms)
        try:
            for in_flight in self._batches:
                while in_flight.stage < ahead and in_flight.step(wait=wait):
                    wait = False
                wait = False
                ahead = in_flight.stage
        except SetStoreUnavailable as error:
            self._wait(error.detail, self._away_backoff)
            return False
        return True

    def _emit(self) -> None:
        """Deliver the finished batches, in the order in which they were read."""
        while self._head_finished() and self._wait_for_room():
            if self._head_finished():  # a rebalance during the wait may have delivered it
                self._deliver(self._batches.popleft())

    def _head_finished(self) -> bool:
        return bool(self._batches) and self._batches[0].finished

    def _deliver(self, in_flight: InFlightBatch) -> None:
        for line in in_flight.logs:
            self._reporter.log.write(line)
        sent, refused = self._delivery.deliver(in_flight)
        now = self._clock()
        self._size.learn(in_flight, now, self._waited_s)
        if pause_s := self._status.crashes.record(in_flight.rejected, now):
            self._retry_at = now + pause_s
        positions = in_flight.positions()
        self._offsets.delivered(positions)
        self.observer.delivered(in_flight, positions, sent, refused, now - in_flight.read_at)

    # Waiting.

    def _wait(self, reason: str, backoff: Backoff) -> None:
        """Something is away: hold until the next try."""
        if reason != self._reason:
            log.warning("waiting", reason=reason)
        self._reason = reason
        self._retry_at = self._clock() + backoff.next_s()

    def _hold(self, reason: str, timeout_s: float) -> None:
        """Pause the source and poll it, so that the group keeps this member."""
        self._reason = reason
        self._isolation.interrupted()
        if not self._paused:
            self._source.pause()
            self._paused = True
        self._poll(1, timeout_s)
        self._report()

    def _go_on(self) -> None:
        self._reason = ""
        self._away_backoff.reset()
        if self._paused:
            self._source.resume()
            self._paused = False

    def _until(self, done: Callable[[], bool], reason: str) -> bool:
        """Wait until `done`, which itself waits a moment. False when stopped, or when Kafka refused a record."""
        since, reason_before = self._clock(), self._reason
        while not (came := done()) and not self._stopping and not self._refused():
            waited_s = self._clock() - since
            if waited_s >= PAUSE_AFTER_S:
                self._hold(reason, 0)
            elif waited_s >= KAFKA_WAIT_SHOWN_S:
                self._reason = reason
            self._report()
        if not reason_before and self._clock() >= self._retry_at:
            self._go_on()
        self._waited_s += self._clock() - since
        return came and not self._refused()

    def _wait_for_room(self) -> bool:
        return self._until(self._has_room, "Kafka takes records more slowly than they come.")

    def _has_room(self) -> bool:
        if not self._delivery.saturated():
            return True
        self._delivery.unacknowledged(ROOM_S)
        return False

    def _wait_for_acknowledgements(self) -> bool:
        return self._until(lambda: not self._delivery.unacknowledged(FLUSH_S), "Kafka does not acknowledge records.")

    # Positions.

    def _checkpoint(self) -> None:
        """Commit what is delivered, once all of it is acknowledged. After a quiet time that is due at once."""
        if not self._end_commit(wait=False):
            return
        if not self._offsets.pending:
            self.observer.flush()
            self._store({}, wait=False)
            return
        if self._wait_for_acknowledgements():
            self._commit(wait=False)
        self._checkpoint_at = self._clock() + self._delivery.checkpoint_s

    def _commit(self, *, wait: bool) -> bool:
        self.observer.acknowledged(self._delivery.outstanding())
        self.observer.record(at_once=wait)
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
        """What follows a commit. wait: for its end. False while it goes on, and when Kafka refused it."""
        if self._committing is None:
            return not self._refusals
        try:
            if not self._delivery.end_commit(wait=wait):
                return False
        except DeliveryFailed as error:
            self._refusals.append(error.detail)
            self._committing = None
            return False
        ended, self._committing = self._committing, None
        self._offsets.acknowledge(ended.positions)
        if ended.is_stored:
            self._isolation.committed(ended.positions)
        self.observer.committed(at_once=wait)
        self._broker_backoff.reset()
        return True

    def _refused(self) -> bool:
        """True when Kafka refused a record since the last commit: nothing may be delivered or committed then."""
        self._refusals += self._delivery.failures()
        return bool(self._refusals)

    def _rewind(self) -> None:
        """Read everything again since the last commit, with a new producer."""
        for in_flight in self._batches:
            in_flight.drop(in_flight.positions())
        try:
            stored = self._delivery.recover(self._source)
        except BrokerUnavailable as error:
            self._wait(error.detail, self._away_backoff)
            return
        count, first = len(self._refusals), self._refusals[0]
        log.warning("Kafka refused records; they are read again", count=count, first=first)
        positions = self._offsets.rewind(stored)
        self._source.seek(positions)
        self.observer.rewound(positions)
        self._refusals.clear()
        self._wait(f"Kafka refused records: {first}", self._broker_backoff)

    # Rebalances: called by the source from within poll.

    def assigned(self, partitions: list[int]) -> None:
        log.debug("partitions assigned", partitions=partitions)
        self._status.assignment.add(partitions)
        self._isolation.assigned(partitions)
        self.observer.assigned(partitions)

    def revoked(self, partitions: list[int]) -> None:
        if self._settle(REVOKE_BUDGET_S):
            self._commit(wait=True)
        self._forget(partitions)

    def lost(self, partitions: list[int]) -> None:
        log.warning("partitions lost; their records are another worker's", partitions=partitions)
        self._forget(partitions)
        self._status.assignment.lost()

    def _forget(self, partitions: list[int]) -> None:
        self._end_commit(wait=True)
        self._status.assignment.remove(partitions)
        self._isolation.dropped(partitions)
        self._offsets.drop(partitions)
        self._delivery.forget(partitions)
        self.observer.dropped(partitions)
        for in_flight in self._batches:
            in_flight.drop(partitions)

    def _settle(self, budget_s: float) -> bool:
        """Finish and deliver what is in flight, as far as it goes in `budget_s`. True when all delivered is
        acknowledged: then its positions may be committed.
        """
        self._end_commit(wait=True)
        deadline = self._clock() + budget_s
        while self._batches and self._clock() < deadline and not self._refused():
            if not self._advance(wait=False):
                break
            while self._head_finished():
                self._deliver(self._batches.popleft())
            if self._batches:
                self._sleep(SETTLE_SLEEP_S)
        while left := self._delivery.unacknowledged(FLUSH_S):
            if self._refused() or self._clock() >= deadline:
                break
        return not left and not self._refused()

    # Health.

    def _state(self) -> tuple[str, str]:
        stage = "draining" if self._stopping else "prepared" if self._prepared else ""
        return self._status.state(self._clock(), self._reason, stage)

    def _report(self) -> None:
        if self.observer.awaits:
            self.observer.acknowledged(self._delivery.outstanding())
        if self._reporter.due(*self._state()):
            self._send()

    def _send(self) -> bool:
        """Send a heartbeat. Returns whether the supervisor will read it."""
        figures = self.observer.figures() | self._isolation.figures()
        return self._reporter.report(*self._state(), progress=self._progress, **figures)
