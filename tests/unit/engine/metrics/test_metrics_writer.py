"""Metrics are written to the store exactly once, despite failures."""

from collections.abc import Callable

import pytest

from headwater.engine.metrics import metrics_writer as module
from headwater.engine.metrics.metrics_writer import MAX_KEPT_RECORDS, MAX_RETRY_S, MetricsWriter
from headwater.engine.metrics.pending_metrics import PendingMetrics, ProducedBatch
from headwater.engine.transform_work import RecordPositions
from headwater.model.metric import MetricsDelta
from tests.support.columns import numbers
from tests.unit.engine.faults import Faults, FaultyMetrics
from tests.unit.engine.world import DEPLOYMENT, World

GROUP = "group"


class Store(FaultyMetrics):
    """A store that records attempted writes."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(faults)
        self.tried: list[MetricsDelta] = []

    def write(self, deployment_id: str, group: str, writer: str, measured: MetricsDelta) -> frozenset[int]:
        self.tried.append(measured)
        return super().write(deployment_id, group, writer, measured)


class Scene:
    """A store, and workers that write metrics."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.store = Store(self.faults)

    def metrics_writer(self, writer_id: str) -> MetricsWriter:
        return MetricsWriter(
            self.store, deployment_id=DEPLOYMENT, group=GROUP, writer_id=writer_id, clock=self.faults.clock
        )

    def received(self) -> int:
        world = World()
        world.metrics, world.faults = self.store, self.faults
        return world.counted()["messages_received"]


def batch(first: int, end: int, partition: int = 0) -> ProducedBatch:
    offsets = numbers(range(first, end))
    partitions = numbers([partition] * len(offsets))
    positions = RecordPositions(partitions, offsets)
    return ProducedBatch(positions, positions, [], [], 1)


def commit(
    metrics_writer: MetricsWriter, *batches: ProducedBatch, minute: int = 960, ignore_retry_delay: bool = False
) -> None:
    """The counts of delivered batches."""
    metrics = PendingMetrics()
    for counted in batches:
        if metrics_writer.are_all_new(counted.end_offsets()):
            metrics.count(counted.counts(), counted.end_offsets())
        else:
            metrics.kept_batches.append(counted)
    metrics.time_histogram("processing_latency").add(1.0)
    metrics_writer.add(minute, metrics)
    metrics_writer.flush(ignore_retry_delay=ignore_retry_delay)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_records_counted_by_an_earlier_owner_are_not_counted_again(scene: Scene) -> None:
    first, second = scene.metrics_writer("a"), scene.metrics_writer("b")
    first.on_assigned([0])
    commit(first, batch(0, 4))
    second.on_assigned([0])
    commit(second, batch(0, 4))
    second.on_reread({0: 0})
    commit(second, batch(0, 4), batch(4, 5))
    assert scene.received() == 5


def test_records_below_the_mark_are_not_counted_again(scene: Scene) -> None:
    first, second = scene.metrics_writer("a"), scene.metrics_writer("b")
    first.on_assigned([0])
    commit(first, batch(0, 10))
    second.on_assigned([0])
    assert not second.are_all_new([0])
    commit(second, batch(4, 8), batch(8, 15))
    assert second.are_all_new([0])
    commit(second, batch(15, 20))
    assert scene.received() == 20


def test_idle_partitions_do_not_delay_writes(scene: Scene) -> None:
    first, second = scene.metrics_writer("a"), scene.metrics_writer("b")
    first.on_assigned([0, 1])
    commit(first, batch(0, 10, partition=0), batch(0, 10, partition=1))
    second.on_assigned([0, 1])
    commit(second, batch(10, 12, partition=0))
    assert second.are_all_new([0])


def test_counts_are_kept_in_memory_while_the_store_is_unavailable(scene: Scene) -> None:
    metrics_writer = scene.metrics_writer("a")
    metrics_writer.on_assigned([0])
    scene.faults.metrics_up = False
    for number in range(5):
        commit(metrics_writer, batch(number, number + 1), minute=960 + 60 * (number // 3))
    assert len(scene.store.tried) == 1
    scene.faults.metrics_up = True
    metrics_writer.flush()
    assert scene.received() == 0
    scene.faults.clock.sleep(MAX_RETRY_S)
    metrics_writer.flush()
    assert scene.received() == 5
    assert [written.minute for written in scene.store.tried[1:]] == [960, 960, 1020]


def test_writes_to_an_unavailable_store_back_off(scene: Scene) -> None:
    metrics_writer = scene.metrics_writer("a")
    metrics_writer.on_assigned([0])
    scene.faults.metrics_up = False
    commit(metrics_writer, batch(0, 3))
    tried_at = [0]
    for second in range(1, 40):
        scene.faults.clock.sleep(1)
        before = len(scene.store.tried)
        metrics_writer.flush()
        tried_at += [second] * (len(scene.store.tried) - before)
    assert tried_at == [0, 1, 3, 7, 15, 25, 35]


def test_a_stopping_worker_writes_without_waiting(scene: Scene) -> None:
    metrics_writer = scene.metrics_writer("a")
    metrics_writer.on_assigned([0])
    scene.faults.metrics_up = False
    commit(metrics_writer, batch(0, 3))
    scene.faults.metrics_up = True
    commit(metrics_writer, batch(3, 5), ignore_retry_delay=True)
    assert scene.received() == 5


def test_a_write_without_a_response_is_repeated_unchanged(scene: Scene) -> None:
    metrics_writer = scene.metrics_writer("a")
    metrics_writer.on_assigned([0])
    scene.faults.metrics_up = None
    commit(metrics_writer, batch(0, 3))
    commit(metrics_writer, batch(3, 5))
    assert scene.received() == 3
    scene.faults.metrics_up = True
    scene.faults.clock.sleep(MAX_RETRY_S)
    metrics_writer.flush()
    assert scene.received() == 5


@pytest.mark.parametrize("limit", [MAX_KEPT_RECORDS, 3])
def test_counts_are_exact_after_a_start_without_the_store(
    scene: Scene, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_KEPT_RECORDS", limit)
    first, second = scene.metrics_writer("a"), scene.metrics_writer("b")
    first.on_assigned([0])
    commit(first, batch(0, 10))
    scene.faults.metrics_up = False
    second.on_assigned([0])
    commit(second, batch(4, 12))
    commit(second, batch(12, 15))
    scene.faults.metrics_up = True
    scene.faults.clock.sleep(MAX_RETRY_S)
    second.flush()
    assert scene.received() == 15


def test_only_the_first_records_of_a_partition_wait_for_its_mark(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT_RECORDS", 5)
    first, second = scene.metrics_writer("a"), scene.metrics_writer("b")
    first.on_assigned([0, 1])
    commit(first, batch(0, 4, partition=0), batch(0, 5, partition=1))
    scene.faults.metrics_up = False
    second.on_assigned([0, 1])
    for at in range(0, 30, 2):
        commit(second, batch(at, at + 2, partition=0))
    for at in range(0, 30, 2):
        commit(second, batch(at, at + 2, partition=1), batch(30 + at, 32 + at, partition=0))
    kept = [counted for _, metrics in second._pending for counted in metrics.kept_batches]
    assert sum(counted.record_count for counted in kept) == 2 * (5 + 1)
    assert len(kept) == 2 * 3
    scene.faults.metrics_up = True
    scene.faults.clock.sleep(MAX_RETRY_S)
    second.flush()
    commit(second, batch(60, 64, partition=0))
    assert scene.received() == 64 + 30


@pytest.mark.parametrize("up_after", range(4))
@pytest.mark.parametrize("ends", [(2, 6, 6), (2, 6, 9), (6, 8, 9)])
def test_repeats_in_a_partition_with_many_unknown_records(
    scene: Scene, ends: tuple[int, int, int], up_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_KEPT_RECORDS", 5)
    first, second = scene.metrics_writer("a"), scene.metrics_writer("b")
    first.on_assigned([0])
    commit(first, batch(0, 4))
    scene.faults.metrics_up = False
    second.on_assigned([0])
    steps: list[Callable[[], None]] = [
        lambda: commit(second, batch(0, ends[0]), batch(ends[0], ends[1])),
        lambda: commit(second, batch(ends[1], ends[2])),
        lambda: second.on_reread({0: ends[0]}),
        lambda: commit(second, batch(ends[0], ends[2] + 1), batch(ends[2] + 1, 14)),
    ]
    for number, step in enumerate(steps):
        step()
        if number == up_after:
            scene.faults.metrics_up = True
            scene.faults.clock.sleep(MAX_RETRY_S)
            second.flush()
    commit(second, batch(14, 15))
    assert scene.received() == 15


def test_a_known_mark_holds_while_another_partition_waits_for_its_own(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_KEPT_RECORDS", 5)
    first, second = scene.metrics_writer("a"), scene.metrics_writer("b")
    first.on_assigned([0])
    commit(first, batch(0, 10))
    second.on_assigned([0])
    scene.faults.metrics_up = False
    second.on_assigned([1])
    commit(second, batch(4, 12), batch(0, 6, partition=1))
    scene.faults.metrics_up = True
    scene.faults.clock.sleep(MAX_RETRY_S)
    second.flush()
    assert scene.received() == 12 + 6


def test_a_reassigned_partition_is_not_counted_again(scene: Scene) -> None:
    """The partition's offsets are committed, but its counts are not written yet."""
    metrics_writer = scene.metrics_writer("a")
    metrics_writer.on_assigned([0])
    scene.faults.metrics_up = False
    commit(metrics_writer, batch(0, 10))
    metrics_writer.remove_partitions([0])
    metrics_writer.on_assigned([0])
    commit(metrics_writer, batch(5, 12))
    scene.faults.metrics_up = True
    scene.faults.clock.sleep(MAX_RETRY_S)
    metrics_writer.flush()
    assert scene.received() == 12


def test_a_reassigned_partition_with_many_kept_records_is_counted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition is lost before its records are committed, so they are read again."""
    monkeypatch.setattr(module, "MAX_KEPT_RECORDS", 5)
    metrics_writer = scene.metrics_writer("a")
    scene.faults.metrics_up = False
    metrics_writer.on_assigned([0])
    commit(metrics_writer, batch(0, 6))
    metrics_writer.remove_partitions([0])
    scene.faults.metrics_up = True
    scene.faults.clock.sleep(MAX_RETRY_S)
    metrics_writer.on_assigned([0])
    commit(metrics_writer, batch(0, 6))
    assert scene.received() == 6


def test_a_reassigned_partition_is_counted_from_its_mark(scene: Scene) -> None:
    """A batch may end below the counted offset.

    Then some records of the next batch are not new.
    """
    metrics_writer = scene.metrics_writer("a")
    metrics_writer.on_assigned([0])
    scene.faults.metrics_up = False
    commit(metrics_writer, batch(0, 3))
    commit(metrics_writer, batch(3, 10))
    metrics_writer.remove_partitions([0])
    metrics_writer.on_assigned([0])
    commit(metrics_writer, batch(5, 8))
    scene.faults.metrics_up = True
    scene.faults.clock.sleep(MAX_RETRY_S)
    metrics_writer.flush()
    commit(metrics_writer, batch(8, 12))
    commit(metrics_writer, batch(12, 14))
    assert scene.received() == 14


def test_repeats_while_another_partition_waits_for_its_mark(scene: Scene) -> None:
    metrics_writer = scene.metrics_writer("a")
    metrics_writer.on_assigned([1])
    scene.faults.metrics_up = False
    metrics_writer.on_assigned([0])
    commit(metrics_writer, batch(0, 10, partition=1))
    metrics_writer.on_reread({1: 4})
    commit(metrics_writer, batch(4, 12, partition=1))
    scene.faults.metrics_up = True
    scene.faults.clock.sleep(MAX_RETRY_S)
    metrics_writer.flush()
    assert scene.received() == 12


@pytest.mark.parametrize("up_at_first", [True, False])
def test_a_transaction_that_failed_after_its_records_were_counted(scene: Scene, up_at_first: bool) -> None:
    scene.faults.metrics_up = up_at_first
    metrics_writer = scene.metrics_writer("a")
    metrics_writer.on_assigned([0])
    commit(metrics_writer, batch(0, 4))
    commit(metrics_writer, batch(4, 10))
    metrics_writer.on_reread({0: 4})
    scene.faults.metrics_up = True
    commit(metrics_writer, batch(4, 8))
    scene.faults.clock.sleep(MAX_RETRY_S)
    commit(metrics_writer, batch(8, 15))
    assert scene.received() == 15


def test_writes_of_a_replaced_worker_are_rejected(scene: Scene) -> None:
    zombie, successor = scene.metrics_writer("a"), scene.metrics_writer("b")
    zombie.on_assigned([0, 1])
    commit(zombie, batch(0, 10))
    successor.on_assigned([0])
    commit(zombie, batch(10, 20), batch(0, 5, partition=1))
    commit(successor, batch(10, 18))
    assert scene.received() == 18 + 5


def test_batches_before_and_after_the_marks_are_known(scene: Scene) -> None:
    metrics_writer = scene.metrics_writer("a")
    metrics = PendingMetrics()
    metrics.kept_batches.append(batch(0, 3))
    metrics.count(batch(3, 6).counts(), {0: 6})
    metrics_writer.on_assigned([0])
    metrics_writer.add(960, metrics)
    metrics_writer.flush()
    commit(metrics_writer, batch(6, 8))
    assert scene.store.tried[0].partitions[0].end == 6
    assert scene.received() == 8


def test_nothing_is_written_without_changes(scene: Scene) -> None:
    metrics_writer = scene.metrics_writer("a")
    metrics_writer.on_assigned([0])
    commit(metrics_writer, batch(0, 1))
    for _ in range(5):
        metrics_writer.flush()
    assert len(scene.store.tried) == 1


def test_counts_of_a_long_outage_are_written_in_chunks(scene: Scene) -> None:
    metrics_writer = scene.metrics_writer("a")
    metrics_writer.on_assigned([0])
    scene.faults.metrics_up = False
    for minute in range(250):
        commit(metrics_writer, batch(minute, minute + 1), minute=60 * minute)
    scene.faults.metrics_up = True
    flushes: list[Callable[[], None]] = [metrics_writer.flush] * 3
    for flush in flushes:
        scene.faults.clock.sleep(MAX_RETRY_S)
        flush()
    assert scene.store.last_progress(DEPLOYMENT) == 60 * 249
