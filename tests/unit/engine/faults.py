"""A clock, a source, producers and a metric store with faults that tests inject."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import BrokerUnavailable, RedisUnavailable, TransactionFailed
from headwater.model.metric import MetricsDelta
from headwater.model.record import SourceRecord
from headwater.sinks.base import ProducerFailure
from headwater.sources.base import Gap, Positions
from tests.support.memory.metrics import MemoryMetrics
from tests.support.memory.sinks import MemoryProducer, MemoryTopics, MemoryTransactionalProducer
from tests.support.memory.source import MemoryGroup, MemorySource


class Clock:
    """A clock that moves on only by `sleep`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._alarm: tuple[float, Callable[[], None]] = (float("inf"), lambda: None)

    def __call__(self) -> float:
        return self.now

    def at(self, time: float, call: Callable[[], None]) -> None:
        """Call a function when the clock reaches `time`."""
        self._alarm = (time, call)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= self._alarm[0]:
            self._alarm[1]()


@dataclass
class Faults:
    """The faults that tests inject.

    Attributes:
        commit_polls: How often a transaction is not done when a worker asks whether it is done.
        store_up: Whether Valkey is available.
        metrics_up: False when no write of metrics arrives; None when writes arrive and their replies are lost.
        slowness: How often a transform is asked for a result before it has one.
        scripts_end: Whether a transform has its result when it is waited for.
        acks_per_flush: How many records a flush acknowledges.
        rejections: How many records or transactions Kafka rejects next.
        commits_to_fail: How many of the next commits of the source fail. The next successful one has their positions.
        lost_responses: How many transactions are committed although their producers get an error.
        at_write: Is called once, when metrics are written next.
        killed_at_commit: Whether the next worker that commits is killed instead.
        fatal_records: Partitions and offsets of records. A worker that reads such a record is killed.
    """

    clock: Clock = field(default_factory=Clock)
    commit_polls: int = 0
    store_up: bool = True
    metrics_up: bool | None = True
    slowness: int = 0
    scripts_end: bool = True
    acks_per_flush: int = 1 << 30
    rejections: int = 0
    commits_to_fail: int = 0
    lost_responses: int = 0
    coordinator_up: bool = True
    transaction_s: float = 0.0
    on_rejection: Callable[[], None] = lambda: None
    at_write: Callable[[], None] | None = None
    killed_at_commit: bool = False
    fatal_records: set[tuple[int, int]] = field(default_factory=set)


class Killed(BaseException):
    """A worker is killed in the middle of a step."""


class DelayedFuture(Future[Any]):
    """A future whose call runs when its result is read.

    It is done after `polls` calls of `done`.
    """

    def __init__(self, call: Callable[[], object], polls: int) -> None:
        super().__init__()
        self._call = call
        self._left = polls

    def done(self) -> bool:
        self._left -= 1
        return self._left < 0

    def result(self, timeout: float | None = None) -> Any:
        return self._call()


class DelayedExecutor(Executor):
    """Runs calls on the thread that reads their results."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return DelayedFuture(lambda: fn(*args, **kwargs), self._faults.commit_polls)


class FaultyProducer(MemoryProducer):
    """A producer with faults.

    After a rejection it delivers no further record, like a producer without gaps.
    """

    def __init__(self, topics: MemoryTopics, faults: Faults, max_queued: int) -> None:
        super().__init__(topics, max_queued=max_queued)
        self.queue = self._queue
        self._faults = faults
        self._broken = False

    def flush(self, timeout_s: float) -> int:
        if not timeout_s:  # sends lingering records, whose acknowledgements come later
            return len(self._queue)
        for _ in range(min(len(self._queue), self._faults.acks_per_flush)):
            if self._faults.rejections or self._broken:
                self._reject()
            else:
                self.deliver(1)
        if self._queue:
            self._faults.clock.sleep(timeout_s)
        return len(self._queue)

    def _reject(self) -> None:
        if not self._broken:
            self._faults.rejections -= 1
            self._faults.on_rejection()
        self._broken = True
        self._queue.popleft()
        self._failed.append(ProducerFailure("rejected"))

    def die(self, survivors: dict[int, int]) -> None:
        """Kill the process. Of each partition, a prefix of the queued records still arrives."""
        for record in () if self._broken else tuple(self._queue):
            if survivors.get(record.partition, 0) > 0:
                survivors[record.partition] -= 1
                self._topics.records[record.topic].append(record)
        self._queue.clear()


class FaultyTransactionalProducer(MemoryTransactionalProducer):
    """A producer whose transactions fail, or whose responses are lost."""

    def __init__(self, topics: MemoryTopics, faults: Faults, transactional_id: str) -> None:
        super().__init__(topics, transactional_id)
        self._faults = faults

    @property
    def queue(self) -> Sequence[object]:
        """A sequence as long as the number of pending records."""
        return range(self.pending_records())

    def init_transactions(self, timeout_s: float) -> None:
        if not self._faults.coordinator_up:
            raise BrokerUnavailable("The coordinator does not answer.")
        super().init_transactions(timeout_s)

    def commit(self, positions: Mapping[int, int], group_metadata: Callable[[], object]) -> None:
        if self._faults.killed_at_commit:
            self._faults.killed_at_commit = False
            raise Killed
        self._faults.clock.sleep(self._faults.transaction_s)
        if self._faults.rejections:
            self._faults.rejections -= 1
            raise TransactionFailed("Kafka rejected a transaction.")
        super().commit(positions, group_metadata)
        if self._faults.lost_responses:
            self._faults.lost_responses -= 1
            raise TransactionFailed("Kafka did not answer.")

    def die(self, survivors: dict[int, int]) -> None:
        """Kill the process: its open transaction is never committed."""
        self._pending.clear()


class FaultyMetrics(MemoryMetrics):
    """A metric store that can be unavailable."""

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults

    def acquire_partitions(
        self, deployment_id: str, group: str, writer: str, partitions: Collection[int]
    ) -> Mapping[int, int]:
        self._check()
        return super().acquire_partitions(deployment_id, group, writer, partitions)

    def write(self, deployment_id: str, group: str, writer: str, delta: MetricsDelta) -> frozenset[int]:
        at_write, self._faults.at_write = self._faults.at_write, None
        if at_write is not None:
            at_write()
        if self._faults.metrics_up is None:
            super().write(deployment_id, group, writer, delta)
        self._check()
        return super().write(deployment_id, group, writer, delta)

    def _check(self) -> None:
        if not self._faults.metrics_up:
            raise RedisUnavailable("Valkey or Redis does not answer.")


class FaultySource(MemorySource):
    """A source whose worker may be killed at a read or a commit.

    `reported_gaps` collects its gaps.
    """

    def __init__(self, group: MemoryGroup, faults: Faults, reported_gaps: list[Gap]) -> None:
        super().__init__(group, faults.clock.sleep)
        self._faults = faults
        self._reported_gaps = reported_gaps
        self._failed_commits: Positions = {}

    def take_gaps(self) -> list[Gap]:
        gaps = super().take_gaps()
        self._reported_gaps += gaps
        return gaps

    def _read(self, partition: int, count: int) -> list[SourceRecord]:
        rows = super()._read(partition, count)
        if not self._faults.fatal_records.isdisjoint((row.partition, row.offset) for row in rows):
            raise Killed
        return rows

    def commit(self, positions: Positions, *, wait: bool) -> None:
        if positions and self._faults.killed_at_commit:
            self._faults.killed_at_commit = False
            raise Killed
        requested, self._failed_commits = self._failed_commits | positions, {}
        if requested and self._faults.commits_to_fail:
            self._faults.commits_to_fail -= 1
            self._failed_commits = requested
            raise BrokerUnavailable("The coordinator does not answer.")
        super().commit(requested, wait=wait)
