"""Batch sizes and batches in flight."""

from dataclasses import replace

import pytest

from headwater.engine.pipeline import BatchSizer, InFlightBatch, output_to_script
from headwater.model.record import RecordBatch
from headwater.model.transforms import Transform
from headwater.model.transforms.redis_set_filter import RedisSetFilterTransform
from headwater.model.transforms.v8 import V8Transform
from headwater.native import BytesColumn


def batch(count: int) -> RecordBatch:
    return RecordBatch.of("t", [b""] * count, [None] * count, [0] * count, [0] * count, [*range(count)], [0] * count)


class TestBatchSize:
    def run(self, size: BatchSizer, seconds_per_record: float, batches: int) -> float:
        """Update with full batches of a transform with this cost. Return how long the last batch took."""
        now = took = 0.0
        for _ in range(batches):
            in_flight = InFlightBatch(batch(size.limit), [], now)
            took = len(in_flight.input) * seconds_per_record
            now += took
            size.update(in_flight, now, 0.0)
        return took

    def test_fast_transforms_get_the_largest_batches(self) -> None:
        size = BatchSizer()
        self.run(size, 5e-6, 10)
        assert size.limit == BatchSizer.MAX_RECORDS

    def test_batch_sizes_of_slow_transforms_fit_the_target_time(self) -> None:
        size = BatchSizer()
        assert self.run(size, 0.001, 20) <= 2 * BatchSizer.TARGET_S
        assert 100 <= size.limit <= 400

    def test_batch_sizes_have_a_minimum_and_recover(self) -> None:
        size = BatchSizer()
        self.run(size, 2.5, 5)
        assert size.limit == BatchSizer.MIN_RECORDS
        self.run(size, 5e-6, 20)
        assert size.limit == BatchSizer.MAX_RECORDS

    def test_small_batches_change_nothing(self) -> None:
        size = BatchSizer()
        size.update(InFlightBatch(batch(3), [], 0.0), 0.1, 0.0)
        assert size.limit == BatchSizer.MIN_RECORDS

    def test_waits_do_not_count(self) -> None:
        size = BatchSizer()
        in_flight = InFlightBatch(batch(BatchSizer.MIN_RECORDS), [], 10.0, waited_s=2.0)
        size.update(in_flight, 70.1, waited_s=62.0)
        assert size.limit == 2 * BatchSizer.MIN_RECORDS

    def test_large_outputs_make_small_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(BatchSizer, "TARGET_BYTES", BatchSizer.TARGET_BYTES // 1000)
        size = BatchSizer()
        self.run(size, 5e-6, 20)
        for _ in range(10):
            large = replace(batch(size.limit), values=BytesColumn.of([bytes(10_000)] * size.limit))
            size.update(InFlightBatch(large, [], 0.0), 0.0, 0.0)
        assert size.limit <= 8


def test_a_flight_without_transforms_is_finished() -> None:
    assert InFlightBatch(batch(1), [], 0.0).is_finished


def test_a_script_feeds_the_next_one_also_through_filters() -> None:
    script = V8Transform(uid="a", type="v8", script="")
    filter_ = RedisSetFilterTransform(uid="b", type="redis_set_filter", filter_expr="root = this.a")
    chain: list[Transform] = [filter_, script, filter_, script, filter_]
    assert [output_to_script(chain, position) for position in range(5)] == [True, True, True, False, False]
