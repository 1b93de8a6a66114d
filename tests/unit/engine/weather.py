"""What tests of the worker turn: a clock, a source, producers and metrics that can be away, refuse or die."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import BrokerUnavailable, DeliveryFailed, SetStoreUnavailable
from headwater.model.metric import MetricsDelta
from headwater.model.record import SourceRecord
from headwater.sinks.base import RecordRejection
from headwater.sources.base import Gap, Positions
from tests.support.memory.metrics import MemoryMetrics
from tests.support.memory.sinks import MemoryProducer, MemoryTopics, MemoryTransactionalProducer
from tests.support.memory.source import MemoryGroup, MemorySource


class Clock:
    """Time that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._alarm: tuple[float, Callable[[], None]] = (float("inf"), lambda: None)

    def __call__(self) -> float:
        return self.now

    def at(self, time: float, call: Callable[[], None]) -> None:
        """Call once it is `time`."""
        self._alarm = (time, call)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= self._alarm[0]:
            self._alarm[1]()


@dataclass
class Weather:
    """What the tests turn: the stores, the transforms' slowness, the broker's acknowledgements and refusals.

    commits_asked: how often a worker asks whether a transaction has ended before it has.
    lost_answers: transactions that are committed, but whose producers don't hear of it. metrics_up: False: no write of
    metrics arrives; None: writes arrive, and their answers are lost. at_write: called once, when metrics are written
    next. killed_at_commit: the next worker that commits dies instead. bombs: partitions and offsets; a worker that
    reads one of them dies.
    """

    clock: Clock = field(default_factory=Clock)
    commits_asked: int = 0
    store_up: bool = True
    metrics_up: bool | None = True
    slowness: int = 0
    scripts_end: bool = True
    acks_per_flush: int = 1 << 30
    refuse: int = 0
    lost_answers: int = 0
    coordinator_up: bool = True
    transaction_s: float = 0.0
    on_refusal: Callable[[], None] = lambda: None
    at_write: Callable[[], None] | None = None
    killed_at_commit: bool = False
    bombs: set[tuple[int, int]] = field(default_factory=set)


class Killed(BaseException):
    """The end of a worker in the middle of a step."""


class LateFuture(Future[Any]):
    """Of a call that is made when somebody waits for it, or has asked `asked` times whether it is done."""

    def __init__(self, call: Callable[[], object], asked: int) -> None:
        super().__init__()
        self._call = call
        self._left = asked

    def done(self) -> bool:
        self._left -= 1
        return self._left < 0

    def result(self, timeout: float | None = None) -> Any:
        return self._call()


class LateExecutor(Executor):
    """Makes calls later, as the weather says, on the thread that asks for their results."""

    def __init__(self, weather: Weather) -> None:
        self._weather = weather

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return LateFuture(lambda: fn(*args, **kwargs), self._weather.commits_asked)


class WeatherProducer(MemoryProducer):
    """Acknowledges as fast as the weather allows. After a refusal it delivers nothing more, as a gapless one."""

    def __init__(self, topics: MemoryTopics, weather: Weather, max_queued: int) -> None:
        super().__init__(topics, max_queued=max_queued)
        self.queue = self._queue
        self._weather = weather
        self._max = max_queued
        self._broken = False

    def is_queue_full(self) -> bool:
        return len(self._queue) > self._max

    def flush(self, timeout_s: float) -> int:
        for _ in range(min(len(self._queue), self._weather.acks_per_flush)):
            if self._weather.refuse or self._broken:
                self._refuse()
            else:
                self.deliver(1)
        if self._queue:
            self._weather.clock.sleep(timeout_s)
        return len(self._queue)

    def _refuse(self) -> None:
        if not self._broken:
            self._weather.refuse -= 1
            self._weather.on_refusal()
        self._broken = True
        self._queue.popleft()
        self._failed.append(RecordRejection("refused"))

    def die(self, survivors: dict[int, int]) -> None:
        """The process is killed: of each partition's queue a prefix still arrives."""
        for record in () if self._broken else tuple(self._queue):
            if survivors.get(record.partition, 0) > 0:
                survivors[record.partition] -= 1
                self._topics.records[record.topic].append(record)
        self._queue.clear()


class WeatherTransactionalProducer(MemoryTransactionalProducer):
    """Its transactions fail, or end without an answer, when the weather says so."""

    def __init__(self, topics: MemoryTopics, weather: Weather, transactional_id: str) -> None:
        super().__init__(topics, transactional_id)
        self._weather = weather

    @property
    def queue(self) -> Sequence[object]:
        """As many as there are records that wait for a commit."""
        return range(self.pending_records())

    def init_transactions(self, timeout_s: float) -> None:
        if not self._weather.coordinator_up:
            raise BrokerUnavailable("The coordinator does not answer.")
        super().init_transactions(timeout_s)

    def commit(self, positions: Mapping[int, int], group_metadata: Callable[[], object]) -> None:
        if self._weather.killed_at_commit:
            self._weather.killed_at_commit = False
            raise Killed
        self._weather.clock.sleep(self._weather.transaction_s)
        if self._weather.refuse:
            self._weather.refuse -= 1
            raise DeliveryFailed("Kafka did not take a transaction.")
        super().commit(positions, group_metadata)
        if self._weather.lost_answers:
            self._weather.lost_answers -= 1
            raise DeliveryFailed("Kafka did not answer.")

    def die(self, survivors: dict[int, int]) -> None:
        """The process is killed: a transaction that was not committed never is."""
        self._held.clear()


class WeatherMetrics(MemoryMetrics):
    """Metrics that can be away."""

    def __init__(self, weather: Weather) -> None:
        super().__init__()
        self._weather = weather

    def acquire_partitions(self, deployment_id: str, group: str, owner: str, partitions: Collection[int]) -> Mapping[int, int]:
        self._check()
        return super().acquire_partitions(deployment_id, group, owner, partitions)

    def write(self, deployment_id: str, group: str, owner: str, delta: MetricsDelta) -> frozenset[int]:
        at_write, self._weather.at_write = self._weather.at_write, None
        if at_write is not None:
            at_write()
        if self._weather.metrics_up is None:
            super().write(deployment_id, group, owner, delta)
        self._check()
        return super().write(deployment_id, group, owner, delta)

    def _check(self) -> None:
        if not self._weather.metrics_up:
            raise SetStoreUnavailable("The set store does not answer.")


class WeatherSource(MemorySource):
    """A source whose worker may die at a commit. told: takes its gaps."""

    def __init__(self, group: MemoryGroup, weather: Weather, told: list[Gap]) -> None:
        super().__init__(group, weather.clock.sleep)
        self._weather = weather
        self._told = told

    def gaps(self) -> list[Gap]:
        gaps = super().gaps()
        self._told += gaps
        return gaps

    def _read(self, partition: int, count: int) -> list[SourceRecord]:
        rows = super()._read(partition, count)
        if not self._weather.bombs.isdisjoint((row.partition, row.offset) for row in rows):
            raise Killed
        return rows

    def commit(self, positions: Positions, *, wait: bool) -> None:
        if positions and self._weather.killed_at_commit:
            self._weather.killed_at_commit = False
            raise Killed
        super().commit(positions, wait=wait)
