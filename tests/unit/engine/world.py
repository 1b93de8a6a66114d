"""A world in memory for workers that come and go, with transforms that do what a record says."""

import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from headwater.engine.delivery import AtLeastOnce, DeadLetters, Delivery
from headwater.engine.exactly_once import ExactlyOnce
from headwater.engine.heartbeat import HeartbeatReporter, SupervisorChannel
from headwater.engine.metrics.metrics_writer import MetricsWriter
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics
from headwater.engine.worker import Worker
from headwater.errors import SetStoreUnavailable
from headwater.model.metric import TIME_RANGES
from headwater.model.record import Failure, Outcome, RecordBatch, SourceIds
from headwater.model.worker_spec import READ_ALL, ReadingPlan
from headwater.sinks.kafka import KafkaSink
from headwater.sources.base import Gap
from headwater.transforms.base import PendingBatch
from tests.support.memory.message_queue import MemoryQueue, MemoryQueueSource
from tests.support.memory.sinks import MemoryTopics, Produced
from tests.support.memory.source import MemoryGroup, MemoryRecord, MemorySource, MemoryTopic
from tests.unit.engine.weather import (
    LateExecutor,
    Weather,
    WeatherMetrics,
    WeatherProducer,
    WeatherSource,
    WeatherTransactionalProducer,
)

SOURCE, OUTPUTS, DEAD = "stream", ("out-a", "out-b"), "dead"
DEPLOYMENT = "d1"
COPIES = {"pass": 1, "drop": 0, "twice": 2, "bad": 0}
"""Outputs per source record, by the word that its value starts with."""


class PendingBatch:
    """Implements PendingBatch: done after `slowness` questions."""

    def __init__(self, step: "StoryTransform", batch: RecordBatch, weather: Weather) -> None:
        self._step, self._batch, self._weather = step, batch, weather
        self._left = weather.slowness

    def done(self) -> bool:
        self._left -= 1
        return self._left < 0

    def wait(self, timeout_s: float) -> None:
        self._left = min(self._left, 0) if self._weather.scripts_end else self._left
        self._weather.clock.sleep(0 if self._weather.scripts_end else timeout_s)

    def result(self) -> Outcome:
        if self._step.needs_store and not self._weather.store_up:
            raise SetStoreUnavailable("The set store does not answer.")
        assert self._step.started.popleft() is self, "results are taken in the order of the starts"
        return self._step.apply(self._batch)


class StoryTransform:
    """Does to a record what its value says."""

    def __init__(self, uid: str, weather: Weather, *, needs_store: bool) -> None:
        self.uid = uid
        self.needs_store = needs_store
        self.started: deque[PendingBatch] = deque()
        self.closed = False
        self._weather = weather

    def start(self, batch: RecordBatch) -> PendingBatch:
        pending = PendingBatch(self, batch, self._weather)
        self.started.append(pending)
        return pending

    def apply(self, batch: RecordBatch) -> Outcome:
        if self.needs_store:
            keep = [word(value) != "drop" for value in batch.values]
            return Outcome(batch.select(keep))
        rows = [row for row, value in enumerate(batch.values) for _ in range(COPIES[word(value)])]
        bad = [row for row, value in enumerate(batch.values) if word(value) == "bad"]
        kept = RecordBatch.of(
            batch.topic,
            [batch.values[row] for row in rows],
            [batch.keys[row] for row in rows],
            [batch.timestamps[row] for row in rows],
            [batch.partitions[row] for row in rows],
            [batch.offsets[row] for row in rows],
            [sum(1 for r in rows[:at] if r == row) for at, row in enumerate(rows)],
        )
        return Outcome(kept, [Failure(row, "TypeError", "bad", self.uid, 1, 2) for row in bad])

    def close(self) -> None:
        self.closed = True


def word(value: bytes | None) -> str:
    """The first word of a record's value."""
    return (value or b"").split(b" ")[0].decode()


@dataclass
class Member:
    """A running worker and its parts."""

    worker: Worker
    source: MemorySource
    transforms: list[StoryTransform]
    producers: list[WeatherProducer | WeatherTransactionalProducer]
    slot: int


class World:
    """One source topic, its group, the output topics, and workers that come and go.

    appended: all records that the source ever had, by partition. told: all gaps that workers told of.
    """

    def __init__(self, partitions: int = 3, max_queued: int = 1 << 30, *, exactly_once: bool = False) -> None:
        self.weather = Weather()
        self.source = MemoryTopic(SOURCE, [[] for _ in range(partitions)])
        self.group = MemoryGroup(self.source, dict.fromkeys(range(partitions), 0))
        self.appended: list[list[MemoryRecord]] = [[] for _ in range(partitions)]
        self.told: list[Gap] = []
        self.topics = MemoryTopics([*OUTPUTS, DEAD])
        self.metrics = WeatherMetrics(self.weather)
        self.watching: Callable[[], AbstractContextManager[None]] = nullcontext
        self._owners = itertools.count()
        self._max_queued = max_queued
        self._exactly_once = exactly_once

    def member(
        self, probe: SupervisorChannel | None = None, *, start: bool = True, slot: int = 0, plan: ReadingPlan = READ_ALL
    ) -> Member:
        """A worker that has started, and not yet made a step; with start=False, one for `run`."""
        producers: list[WeatherProducer | WeatherTransactionalProducer] = []
        clock = self.weather.clock
        source = self._source()
        transforms = [
            StoryTransform("filter", self.weather, needs_store=True),
            StoryTransform("script", self.weather, needs_store=False),
        ]
        delivery = self._delivery(producers, slot, source.source_ids)
        metrics_writer = MetricsWriter(self.metrics, DEPLOYMENT, "group", f"owner {next(self._owners)}", clock)
        metrics = PipelineMetrics(metrics_writer, now=clock)
        worker = Worker(
            source,
            transforms,
            delivery,
            metrics,
            reporter=HeartbeatReporter(probe),
            clock=clock,
            sleep=clock.sleep,
            rng=lambda: 0.5,
            plan=plan,
        )
        if start:
            worker.start()
        return Member(worker, source, transforms, producers, slot)

    def _source(self) -> Any:
        return WeatherSource(self.group, self.weather, self.told)

    def _delivery(
        self, producers: list[WeatherProducer | WeatherTransactionalProducer], slot: int, names: SourceIds
    ) -> Delivery:
        def producer(one_record_per_batch: bool) -> WeatherProducer:
            made = WeatherProducer(self.topics, self.weather, self._max_queued)
            producers.append(made)
            return made

        def transactional_producer(one_record_per_batch: bool) -> WeatherTransactionalProducer:
            made = WeatherTransactionalProducer(self.topics, self.weather, f"slot-{slot}")
            producers.append(made)
            return made

        sinks, dead_letters = [KafkaSink(name, name, names) for name in OUTPUTS], DeadLetters(DEAD, 7, names)
        if self._exactly_once:
            return ExactlyOnce(
                sinks,
                dead_letters,
                transactional_producer,
                names,
                self.watching,
                self.weather.clock,
                LateExecutor(self.weather),
            )
        return AtLeastOnce(sinks, dead_letters, producer, names)

    def append(self, partition: int, *kinds: str) -> None:
        """Add records to the source, each with its offset in its value."""
        for kind in kinds:
            offset = self.source.ends[partition]
            self.source.append(partition, b"%b %d/%d" % (kind.encode(), partition, offset), b"key", 5)
            self.appended[partition].append(self.source.partitions[partition][-1])

    def arrived(self, topic: str) -> list[Produced]:
        """The records of an output topic, in order."""
        return self.topics.records[topic]

    def counted(self) -> Counter[str]:
        """All counts in the metric store."""
        weeks = range(0, 1 + int(self.weather.clock.now), TIME_RANGES[-1].seconds)
        found = (self.metrics.read(DEPLOYMENT, TIME_RANGES[-1], end) for end in [*weeks, self.weather.clock.now])
        intervals = {start: interval for some in found for start, interval in some.items()}
        return sum((Counter[str](interval.counts) for interval in intervals.values()), Counter())

    def total(self) -> int:
        """Records on all output topics."""
        return sum(map(len, self.topics.records.values()))

    def expected(self, partition: int, before: int) -> dict[str, list[str]]:
        """Per output topic the `headwater-src` of all records of a partition, in order; see `owed`."""
        owed: dict[str, list[str]] = {name: [] for name in (*OUTPUTS, DEAD)}
        for record in self.appended[partition]:
            if record.offset < before:
                origin = f"{SOURCE}/{partition}/{record.offset}"
                kind = word(record.value)
                for name in OUTPUTS:
                    owed[name] += [f"{origin}/{output}" for output in range(COPIES[kind])]
                owed[DEAD] += [f"{origin}/0"] * (kind == "bad")
        return owed

    def may_be_missing(self) -> set[str]:
        """The sources, `<topic>/<partition>/<offset>`, of the records that workers have told are deleted."""
        return {f"{SOURCE}/{gap.partition}/{n}" for gap in self.told for n in range(gap.start, gap.end)}

    def owed(self, origins: Iterable[str]) -> list[str]:
        """Those of these `headwater-src` whose records are not told to be deleted."""
        missing = self.may_be_missing()
        return [each for each in origins if each.rpartition("/")[0] not in missing]


def origin(record: Produced) -> str:
    """The record's `headwater-src`."""
    return dict(record.headers)["headwater-src"].decode()


def without_repeats(records: Iterable[Produced]) -> list[str]:
    """The ids of the records, first occurrences only."""
    return list(dict.fromkeys(map(origin, records)))


class QueueWorld(World):
    """The same with a queue as the source. published: id and value of all messages, by ordering key."""

    def __init__(self, max_queued: int = 1 << 30) -> None:
        super().__init__(max_queued=max_queued)
        self.queue = MemoryQueue(SOURCE, self.weather.clock)
        self.published: dict[str, list[tuple[str, bytes]]] = {}

    def _source(self) -> Any:
        clock = self.weather.clock
        return MemoryQueueSource(self.queue, clock.sleep, lambda: int(clock.now * 1000))

    def publish(self, ordering_key: str, *kinds: str) -> None:
        """Add messages of one ordering key."""
        for kind in kinds:
            message_id = self.queue.publish(kind.encode(), ordering_key, 5)
            self.published.setdefault(ordering_key, []).append((message_id, kind.encode()))
