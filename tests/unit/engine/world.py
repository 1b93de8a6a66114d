"""A source topic, output topics and workers in memory.

The value of a record says what the transforms do with it.
"""

import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from headwater.engine.at_least_once import AtLeastOnce
from headwater.engine.dead_letter_writer import DeadLetterWriter
from headwater.engine.delivery import Delivery
from headwater.engine.exactly_once import ExactlyOnce
from headwater.engine.heartbeat import HeartbeatReporter
from headwater.engine.metrics.metrics_writer import MetricsWriter
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics
from headwater.engine.orchestrator_channel import NoOrchestrator, OrchestratorChannel
from headwater.engine.worker import Worker
from headwater.errors import RedisUnavailable
from headwater.model.metric import TIME_RANGES
from headwater.model.reading_plan import READ_ALL, ReadingPlan
from headwater.model.record import Failure, RecordBatch, TransformResult
from headwater.sinks.kafka import KafkaSink
from headwater.sources.base import Gap, Source
from headwater.transforms.base import PendingBatch
from tests.support.memory.message_queue import MemoryQueue, MemoryQueueSource
from tests.support.memory.sinks import MemoryTopics, Produced
from tests.support.memory.source import MemoryGroup, MemoryRecord, MemorySource, MemoryTopic
from tests.unit.engine.faults import (
    DelayedExecutor,
    Faults,
    FaultyMetrics,
    FaultyProducer,
    FaultySource,
    FaultyTransactionalProducer,
)

SOURCE, OUTPUTS, DEAD = "stream", ("out-a", "out-b"), "dead"
DEPLOYMENT = "d1"
COPIES = {"pass": 1, "drop": 0, "twice": 2, "bad": 0}
"""Outputs per source record, by the word that its value starts with."""


class SlowBatch:
    """Implements PendingBatch: done after `slowness` questions."""

    def __init__(self, step: "ScriptedTransform", batch: RecordBatch, faults: Faults) -> None:
        self._step, self._batch, self._faults = step, batch, faults
        self._left = faults.slowness

    def done(self) -> bool:
        self._left -= 1
        return self._left < 0

    def wait(self, timeout_s: float) -> None:
        self._left = min(self._left, 0) if self._faults.scripts_end else self._left
        self._faults.clock.sleep(0 if self._faults.scripts_end else timeout_s)

    def result(self) -> TransformResult:
        if self._step.needs_store and not self._faults.store_up:
            raise RedisUnavailable("Valkey or Redis does not answer.")
        assert self._step.started.popleft() is self, "results are taken in the order of the starts"
        return self._step.apply(self._batch)


class ScriptedTransform:
    """A transform that does with a record what the first word of its value says."""

    def __init__(self, uid: str, faults: Faults, *, needs_store: bool) -> None:
        self.uid = uid
        self.needs_store = needs_store
        self.started: deque[SlowBatch] = deque()
        self.closed = False
        self._faults = faults

    def start(self, batch: RecordBatch) -> PendingBatch:
        pending = SlowBatch(self, batch, self._faults)
        self.started.append(pending)
        return pending

    def apply(self, batch: RecordBatch) -> TransformResult:
        if self.needs_store:
            keep = [word(value) != "drop" for value in batch.values]
            return TransformResult(batch.select(keep))
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
        return TransformResult(kept, [Failure(row, "TypeError", "bad", self.uid, 1, 2) for row in bad])

    def close(self) -> None:
        self.closed = True


def word(value: bytes | None) -> str:
    """Return the first word of a record's value."""
    return (value or b"").split(b" ")[0].decode()


@dataclass
class Member:
    """A running worker and its parts."""

    worker: Worker
    source: MemorySource
    transforms: list[ScriptedTransform]
    producers: list[FaultyProducer | FaultyTransactionalProducer]
    slot: int


class World:
    """One source topic, its consumer group, the output topics, and workers that start and end.

    Attributes:
        appended: All records that were ever added to the source, by partition.
        reported_gaps: All gaps that the sources have reported to workers.
    """

    def __init__(self, partitions: int = 3, max_queued: int = 1 << 30, *, exactly_once: bool = False) -> None:
        self.faults = Faults()
        self.source = MemoryTopic(SOURCE, [[] for _ in range(partitions)])
        self.group = MemoryGroup(self.source, dict.fromkeys(range(partitions), 0))
        self.appended: list[list[MemoryRecord]] = [[] for _ in range(partitions)]
        self.reported_gaps: list[Gap] = []
        self.topics = MemoryTopics([*OUTPUTS, DEAD])
        self.metrics = FaultyMetrics(self.faults)
        self.watching: Callable[[], AbstractContextManager[None]] = nullcontext
        self._writer_numbers = itertools.count()
        self._max_queued = max_queued
        self._exactly_once = exactly_once

    def member(
        self,
        channel: OrchestratorChannel | None = None,
        *,
        start: bool = True,
        slot: int = 0,
        reading_plan: ReadingPlan = READ_ALL,
    ) -> Member:
        """Return a worker that has started and not made a step yet.

        With start=False it has not started.
        """
        producers: list[FaultyProducer | FaultyTransactionalProducer] = []
        clock = self.faults.clock
        source = self._source()
        transforms = [
            ScriptedTransform("filter", self.faults, needs_store=True),
            ScriptedTransform("script", self.faults, needs_store=False),
        ]
        delivery = self._delivery(producers, slot, source)
        metrics_writer = MetricsWriter(
            self.metrics,
            deployment_id=DEPLOYMENT,
            group="group",
            writer_id=f"writer {next(self._writer_numbers)}",
            clock=clock,
        )
        metrics = PipelineMetrics(metrics_writer, epoch_s=clock)
        worker = Worker(
            source,
            transforms,
            delivery,
            metrics,
            reporter=HeartbeatReporter(channel or NoOrchestrator(reading_plan), clock=clock),
            clock=clock,
            sleep=clock.sleep,
            rng=lambda: 0.5,
        )
        if start:
            worker.start()
        return Member(worker, source, transforms, producers, slot)

    def _source(self) -> Any:
        return FaultySource(self.group, self.faults, self.reported_gaps)

    def _delivery(
        self, producers: list[FaultyProducer | FaultyTransactionalProducer], slot: int, source: Source
    ) -> Delivery:
        def producer(one_record_per_batch: bool) -> FaultyProducer:
            made = FaultyProducer(self.topics, self.faults, self._max_queued)
            producers.append(made)
            return made

        def transactional_producer(one_record_per_batch: bool) -> FaultyTransactionalProducer:
            made = FaultyTransactionalProducer(self.topics, self.faults, f"slot-{slot}")
            producers.append(made)
            return made

        names = source.source_ids
        sinks, dead_letters = [KafkaSink(name, name, names) for name in OUTPUTS], DeadLetterWriter(DEAD, 7, names)
        if self._exactly_once:
            return ExactlyOnce(
                sinks,
                dead_letters,
                transactional_producer,
                group_metadata=source.group_metadata,
                source_ids=names,
                watching=self.watching,
                clock=self.faults.clock,
                executor=DelayedExecutor(self.faults),
            )
        return AtLeastOnce(sinks, dead_letters, producer, names)

    def append(self, partition: int, *kinds: str) -> None:
        """Add records to the source. The value of each contains its offset."""
        for kind in kinds:
            offset = self.source.ends[partition]
            self.source.append(partition, b"%b %d/%d" % (kind.encode(), partition, offset), b"key", 5)
            self.appended[partition].append(self.source.partitions[partition][-1])

    def arrived(self, topic: str) -> list[Produced]:
        """Return the records of an output topic, in order."""
        return self.topics.records[topic]

    def counted(self) -> Counter[str]:
        """Return all counts in the metric store."""
        weeks = range(0, 1 + int(self.faults.clock.now), TIME_RANGES[-1].seconds)
        found = (self.metrics.read(DEPLOYMENT, TIME_RANGES[-1], end) for end in [*weeks, self.faults.clock.now])
        intervals = {start: interval for some in found for start, interval in some.items()}
        return sum((Counter[str](interval.counts) for interval in intervals.values()), Counter())

    def total(self) -> int:
        """Return the number of records in all output topics."""
        return sum(map(len, self.topics.records.values()))

    def expected(self, partition: int, before: int) -> dict[str, list[str]]:
        """Return the expected `headwater-src` of all records of a partition, in order.

        They are by output topic; see `owed`.
        """
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
        """Return the ids of the source records that were reported as deleted.

        An id is `<topic>/<partition>/<offset>`.
        """
        return {f"{SOURCE}/{gap.partition}/{n}" for gap in self.reported_gaps for n in range(gap.start, gap.end)}

    def owed(self, origins: Iterable[str]) -> list[str]:
        """Return each `headwater-src` of these whose record was not reported as deleted."""
        missing = self.may_be_missing()
        return [each for each in origins if each.rpartition("/")[0] not in missing]


def origin(record: Produced) -> str:
    """Return the record's `headwater-src`."""
    return dict(record.headers)["headwater-src"].decode()


def without_repeats(records: Iterable[Produced]) -> list[str]:
    """Return the `headwater-src` of the records, without repeats."""
    return list(dict.fromkeys(map(origin, records)))


class QueueWorld(World):
    """A World with a queue as the source.

    `published` has the id and value of all messages, by ordering key.
    """

    def __init__(self, max_queued: int = 1 << 30) -> None:
        super().__init__(max_queued=max_queued)
        self.queue = MemoryQueue(SOURCE, self.faults.clock)
        self.published: dict[str, list[tuple[str, bytes]]] = {}

    def _source(self) -> Any:
        clock = self.faults.clock
        return MemoryQueueSource(self.queue, clock.sleep, lambda: int(clock.now * 1000))

    def publish(self, ordering_key: str, *kinds: str) -> None:
        """Add messages of one ordering key."""
        for kind in kinds:
            message_id = self.queue.publish(kind.encode(), ordering_key, 5)
            self.published.setdefault(ordering_key, []).append((message_id, kind.encode()))
