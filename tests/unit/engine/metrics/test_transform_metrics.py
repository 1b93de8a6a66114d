"""The counts and times of single transforms."""

from collections.abc import Sequence

import pytest

from headwater.engine.in_flight_batch import InFlightBatch
from headwater.engine.metrics import transform_counter
from headwater.engine.metrics.metrics_writer import MetricsWriter
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics
from headwater.model.metric import RELATIVE_ERROR, TIME_RANGES, Interval, parse_transform_metric_name
from headwater.model.record import Failure, RecordBatch, RowIndexes, TransformResult
from headwater.model.worker_protocol import TransformCounters
from headwater.transforms.base import DeferredBatch, PendingBatch, Transform
from tests.support.memory.metrics import MemoryMetrics
from tests.unit.engine.faults import Faults, FaultyMetrics

NOW_S = 1767323040.0


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = NOW_S

    def __call__(self) -> float:
        return self.now


class Copies:
    """A transform that makes as many outputs of a record as its value says; `x` is an error.

    A batch takes `took_s`.
    """

    def __init__(self, uid: str, clock: Clock, took_s: float = 0.0, *, splits: bool = True) -> None:
        self.uid = uid
        self._clock = clock
        self._took_s = took_s
        self._splits = splits

    def start(self, batch: RecordBatch) -> PendingBatch:
        return DeferredBatch(lambda: self._result(batch))

    def _result(self, batch: RecordBatch) -> TransformResult:
        self._clock.now += self._took_s
        values = [(value or b"").decode() for value in batch.values]
        failures = [Failure(row, "Error", "bad", self.uid) for row, value in enumerate(values) if value == "x"]
        rows = RowIndexes("i", [row for row, value in enumerate(values) if value != "x" for _ in range(int(value))])
        return TransformResult(batch.take(rows), failures, [], rows if self._splits else None)

    def close(self) -> None:
        pass


class Scene:
    """The metrics of a worker, and their store."""

    def __init__(self, store: MemoryMetrics | None = None) -> None:
        self.clock = Clock()
        self.store = store or MemoryMetrics()
        self.metrics = self.new_worker("a")

    def new_worker(self, writer_id: str) -> PipelineMetrics:
        writer = MetricsWriter(self.store, deployment_id="d1", group="group", writer_id=writer_id, clock=self.clock)
        self.metrics = PipelineMetrics(writer, epoch_s=self.clock)
        self.metrics.on_assigned([0, 1])
        return self.metrics

    def process(
        self, values: str, transforms: Sequence[Transform], *, first: int = 0, dropped: Sequence[int] = ()
    ) -> None:
        """Process one record per word, of the partitions 0 and 1 in turn."""
        words = values.split()
        rows = range(len(words))
        positions = [row % 2 for row in rows], [first + row // 2 for row in rows]
        read = RecordBatch.of(
            "s", [word.encode() for word in words], [None] * len(rows), [0] * len(rows), *positions, rows
        )
        in_flight = InFlightBatch(read, transforms, self.clock.now, clock=self.clock)
        while not in_flight.is_finished:
            assert in_flight.advance(wait=True)
        in_flight.drop(dropped)
        in_flight.exclude_dropped()
        self.metrics.on_produced(in_flight, in_flight.next_offsets(), len(in_flight.output), [], 0.1)

    def commit(self) -> None:
        self.metrics.on_acknowledged(0)
        self.metrics.before_commit(ignore_retry_delay=True)
        self.metrics.after_commit(write_now=True)

    def interval(self) -> Interval:
        (interval,) = self.store.read("d1", TIME_RANGES[0], self.clock.now).values()
        return interval

    def counts(self, uid: str) -> dict[str, int]:
        parsed = (
            (parse_transform_metric_name(name), count) for name, count in self.interval().transform_counts.items()
        )
        return {key[1]: count for key, count in parsed if key is not None and key[0] == uid and count}

    def committed(self, uid: str) -> dict[str, int]:
        parsed = ((parse_transform_metric_name(name), count) for name, count in self.metrics.transform_totals.items())
        return {key[1]: count for key, count in parsed if key is not None and key[0] == uid and count}


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_each_transform_counts_what_it_receives(scene: Scene) -> None:
    scene.process("1 0 x 2 3", [Copies("first", scene.clock), Copies("second", scene.clock)])
    scene.commit()
    assert scene.counts("first") == {"received": 5, "sent": 6, "dropped": 1, "errors": 1}
    assert scene.counts("second") == {"received": 6, "sent": 14}
    assert scene.committed("first") == scene.counts("first")


def test_a_transform_that_gets_no_record_counts_nothing(scene: Scene) -> None:
    scene.process("0 0", [Copies("first", scene.clock, splits=False), Copies("second", scene.clock)])
    scene.commit()
    assert scene.counts("first") == {"received": 2, "dropped": 2}
    assert scene.counts("second") == {}


def test_batches_with_and_without_split_records_are_counted_together(scene: Scene) -> None:
    for first, splits, values in ((0, False, "1 0 1"), (2, True, "3 0 x"), (4, False, "1 1 x")):
        scene.process(values, [Copies("t", scene.clock, splits=splits)], first=first)
    scene.commit()
    assert scene.counts("t") == {"received": 9, "sent": 7, "dropped": 2, "errors": 2}


def test_the_latency_of_a_transform_weighs_a_batch_by_its_records(scene: Scene) -> None:
    transforms = [Copies("quick", scene.clock, 0.002), Copies("slow", scene.clock, 0.5)]
    scene.process("1 0 1", transforms)
    scene.commit()
    times = scene.interval().transform_times
    assert times["transform/quick/processing_latency"].total() == 3
    assert times["transform/slow/processing_latency"].total() == 2
    assert times["transform/slow/processing_latency"].percentile(50) == pytest.approx(500, rel=RELATIVE_ERROR)
    assert scene.metrics.transform_times_ms == {"quick": pytest.approx(6, rel=0.01), "slow": pytest.approx(1000)}


def test_the_heartbeat_has_the_totals_of_committed_records(scene: Scene) -> None:
    scene.process("1 0 x 2", [Copies("t", scene.clock, 0.5)])
    assert scene.metrics.heartbeat_fields()["transforms"] == {}
    scene.commit()
    totals = scene.metrics.heartbeat_fields()["transforms"]["t"]
    assert totals == TransformCounters(received=4, sent=3, dropped=1, errors=1, processing_ms=2000.0)


def test_partitions_lost_before_the_commit_are_not_counted(scene: Scene) -> None:
    scene.process("1 0 1 1", [Copies("t", scene.clock)])
    scene.metrics.remove_partitions([1])
    scene.commit()
    assert scene.counts("t") == scene.committed("t") == {"received": 2, "sent": 2}


def test_partitions_lost_in_flight_are_not_counted(scene: Scene) -> None:
    scene.process("2 0 x 1", [Copies("t", scene.clock)], dropped=[0])
    scene.commit()
    assert scene.counts("t") == {"received": 2, "sent": 1, "dropped": 1}


def test_repeats_are_counted_once(scene: Scene) -> None:
    transforms = [Copies("t", scene.clock)]
    scene.process("1 2 x 0", transforms)
    scene.metrics.on_reread({0: 0, 1: 0})
    scene.process("1 2 x 0", transforms)
    scene.commit()
    assert scene.counts("t") == scene.committed("t") == {"received": 4, "sent": 3, "dropped": 1, "errors": 1}


def test_records_that_an_earlier_worker_has_counted_are_not_counted_again(scene: Scene) -> None:
    scene.process("1 2 x 0", [Copies("t", scene.clock)])
    scene.metrics.before_commit(ignore_retry_delay=True)  # the worker is killed before the commit
    scene.new_worker("b")
    scene.process("1 2 x 0 3 1", [Copies("t", scene.clock), Copies("u", scene.clock)])
    scene.commit()
    assert scene.counts("t") == {"received": 6, "sent": 7, "dropped": 1, "errors": 1}
    assert scene.counts("u") == {"received": 4, "sent": 10}
    assert scene.committed("t")["received"] == 6


def test_counts_wait_while_the_store_is_unavailable() -> None:
    faults = Faults()
    scene = Scene(FaultyMetrics(faults))
    faults.metrics_up = False
    scene.process("1 0", [Copies("t", scene.clock)])
    scene.commit()
    scene.process("1 1", [Copies("t", scene.clock)], first=1)
    faults.metrics_up = True
    scene.commit()
    assert scene.counts("t") == {"received": 4, "sent": 3, "dropped": 1}


def test_many_rows_are_counted_before_the_commit(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transform_counter, "MAX_COLLECTED_ROWS", 5)
    for first in range(0, 20, 2):
        scene.process("1 0 1", [Copies("t", scene.clock)], first=first)
    scene.metrics.remove_partitions([1])
    scene.commit()
    assert scene.counts("t") == scene.committed("t") == {"received": 20, "sent": 20}
