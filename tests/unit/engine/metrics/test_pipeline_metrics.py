"""Where the times of batches start and end."""

import json
from collections import deque

import pytest

from headwater.engine.in_flight_batch import InFlightBatch
from headwater.engine.metrics.event_time import EventTime
from headwater.engine.metrics.metrics_writer import MetricsWriter
from headwater.engine.metrics.pipeline_metrics import AGES_PER_BATCH, PipelineMetrics, TimedLookup
from headwater.model.metric import RELATIVE_ERROR, TIME_RANGES, DurationType, Interval
from headwater.model.record import Failure, RecordBatch
from headwater.model.value_sets import dataset_set_id
from tests.support.memory.metrics import MemoryMetrics
from tests.support.memory.sets import MemorySetStore

NOW_S = 1767323040.0
NOW_MS = 1000 * NOW_S


class Clock:
    """Seconds since the epoch."""

    def __init__(self) -> None:
        self.now = NOW_S

    def __call__(self) -> float:
        return self.now


def batch(count: int, *, age_ms: float = 0, first: int = 0, told_ms: float | None = None) -> RecordBatch:
    """Return records of two partitions alternately, with equal offsets.

    The timestamps are `age_ms` ago.
    """
    value = b"" if told_ms is None else json.dumps({"time": told_ms}).encode()
    return RecordBatch.of(
        "stream",
        [value] * count,
        [None] * count,
        [int(NOW_MS - age_ms)] * count,
        [row % 2 for row in range(count)],
        [first + row // 2 for row in range(count)],
        [0] * count,
    )


class Scene:
    """Metrics and their store."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryMetrics()
        self.lookup_times: deque[float] = deque()
        metrics_writer = MetricsWriter(self.store, deployment_id="d1", group="group", writer_id="a")
        self.metrics = PipelineMetrics(metrics_writer, EventTime("time"), self.lookup_times, self.clock)
        self.metrics.on_assigned([0, 1])

    def deliver(self, read: RecordBatch, *, sinks: int = 1, took_s: float = 0.0, rejected: int = 0) -> None:
        in_flight = InFlightBatch(read, [], 0.0)
        failures = [Failure(row, "TooLarge", "too large", "out") for row in range(rejected)]
        in_flight.add_failures(failures)
        self.metrics.on_produced(in_flight, in_flight.next_offsets(), len(read) * sinks - rejected, failures, took_s)

    def commit(self) -> None:
        self.metrics.on_acknowledged(0)
        self.metrics.before_commit(ignore_retry_delay=False)
        self.metrics.after_commit(write_now=False)

    def written(self) -> Interval:
        (interval,) = self.store.read("d1", TIME_RANGES[0], self.clock.now).values()
        return interval

    def median(self, name: DurationType) -> float | None:
        return self.written().times[name].percentile(50)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_total_latency_ends_with_the_acknowledgement(scene: Scene) -> None:
    scene.deliver(batch(4, age_ms=10), sinks=2)
    scene.deliver(batch(2, age_ms=10, first=2), sinks=2)
    scene.clock.now += 0.030
    scene.metrics.on_acknowledged(4)
    awaits = [scene.metrics.awaits_acknowledgements]
    scene.clock.now += 1.0
    scene.commit()
    assert [*awaits, scene.metrics.awaits_acknowledgements] == [True, False]
    times = scene.written().times["total_latency"]
    assert times.total() == 6
    assert times.percentile(50) == pytest.approx(40, rel=RELATIVE_ERROR)
    assert times.percentile(99) == pytest.approx(1040, rel=RELATIVE_ERROR)


def test_outputs_acknowledged_by_the_commit_are_timed_after_it(scene: Scene) -> None:
    """The next iteration of the loop writes the metrics of a transaction.

    No other event may follow.
    """
    scene.deliver(batch(2, age_ms=10))
    scene.metrics.on_acknowledged(2)
    scene.metrics.before_commit(ignore_retry_delay=False)
    assert "total_latency" not in scene.written().times
    scene.clock.now += 1.0
    scene.metrics.after_commit(write_now=False)
    scene.metrics.flush()
    assert scene.median("total_latency") == pytest.approx(1010, rel=RELATIVE_ERROR)


def test_a_reread_keeps_the_times_of_committed_records(scene: Scene) -> None:
    scene.deliver(batch(2, age_ms=10))
    scene.metrics.before_commit(ignore_retry_delay=False)
    scene.metrics.after_commit(write_now=False)
    scene.metrics.on_reread({0: 1, 1: 1})
    scene.metrics.flush()
    assert scene.written().times["total_latency"].total() == 2


def test_processing_latency_weighs_a_batch_by_its_records(scene: Scene) -> None:
    scene.deliver(batch(9), took_s=0.005)
    scene.deliver(batch(1, first=9), took_s=0.5)
    scene.commit()
    assert scene.written().times["processing_latency"].total() == 10
    assert scene.median("processing_latency") == pytest.approx(5, rel=RELATIVE_ERROR)


def test_data_age_is_by_the_records_own_time(scene: Scene) -> None:
    scene.deliver(batch(1000, age_ms=10, told_ms=NOW_MS - 2000))
    scene.commit()
    ages = scene.written().times["data_age"]
    assert ages.total() == 1000
    assert ages.mean() == pytest.approx(2000, rel=RELATIVE_ERROR)


def test_data_age_counts_every_record_of_batches_of_any_size(scene: Scene) -> None:
    scene.deliver(batch(203, told_ms=NOW_MS - 100_000))
    for first in range(1000, 1010):
        scene.deliver(batch(AGES_PER_BATCH, first=first * 10, told_ms=NOW_MS - 1000))
    scene.commit()
    ages = scene.written().times["data_age"]
    assert ages.total() == 203 + 80
    assert ages.mean() == pytest.approx((203 * 100_000 + 80 * 1000) / 283, rel=RELATIVE_ERROR)
    assert ages.percentile(50) == pytest.approx(100_000, rel=RELATIVE_ERROR)


def test_data_age_is_by_the_brokers_time_where_a_record_does_not_tell(scene: Scene) -> None:
    scene.deliver(batch(3, age_ms=10))
    scene.commit()
    assert scene.median("data_age") == pytest.approx(10, rel=RELATIVE_ERROR)


def test_errors_are_counted_by_transform_or_sink(scene: Scene) -> None:
    scene.deliver(batch(4), rejected=1)
    scene.commit()
    assert dict(scene.written().counts) == {"messages_received": 4, "messages_sent": 3, "output_error": 1}
    assert scene.metrics.totals == scene.written().counts


def test_repeats_are_counted_once(scene: Scene) -> None:
    scene.deliver(batch(4))
    scene.metrics.on_reread({0: 0, 1: 0})
    scene.deliver(batch(4))
    scene.commit()
    assert scene.written().counts["messages_received"] == 4
    assert scene.metrics.totals["messages_received"] == 4


def test_partitions_lost_before_the_commit_are_not_counted(scene: Scene) -> None:
    scene.deliver(batch(4))
    scene.metrics.remove_partitions([1])
    scene.commit()
    assert scene.written().counts["messages_received"] == scene.metrics.totals["messages_received"] == 2


def test_lookups_are_timed_for_the_worker_alone(scene: Scene) -> None:
    ticks = iter([0.0, 0.004])
    lookup = TimedLookup(MemorySetStore(), scene.lookup_times, lambda: next(ticks))
    assert lookup.contains_many(dataset_set_id("d"), ["a"]) == [False]
    scene.deliver(batch(1))
    scene.commit()
    assert scene.metrics.times["lookup_latency"].percentile(99) == pytest.approx(4, rel=RELATIVE_ERROR)
    assert "lookup_latency" not in scene.written().times
