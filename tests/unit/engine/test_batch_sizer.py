"""Batch sizes."""

from dataclasses import replace

import pytest

from headwater.engine.batch_sizer import BatchSizer
from headwater.engine.in_flight_batch import InFlightBatch
from headwater.model.record import RecordBatch
from headwater.native import BytesColumn


def batch(count: int) -> RecordBatch:
    return RecordBatch.of("t", [b""] * count, [None] * count, [0] * count, [0] * count, [*range(count)], [0] * count)


class TestBatchSize:
    def run(self, sizer: BatchSizer, seconds_per_record: float, batches: int, *, cpu_share: float = 1.0) -> float:
        """Update with full batches of a transform with this cost.

        Return how long the last batch took.

        Args:
            sizer: The sizer.
            seconds_per_record: How long a record takes.
            batches: How many batches there are.
            cpu_share: The part of the time in which the worker and its scripts run.
        """
        now = took = 0.0
        for _ in range(batches):
            in_flight = InFlightBatch(batch(sizer.limit), [], now)
            took = len(in_flight.input) * seconds_per_record
            now += took
            sizer.update(in_flight, now, total_wait_s=0.0, total_cpu_s=now * cpu_share)
        return took

    def test_fast_transforms_get_the_largest_batches(self) -> None:
        sizer = BatchSizer()
        self.run(sizer, 5e-6, 12)
        assert sizer.limit == BatchSizer.MAX_RECORDS

    def test_batch_sizes_of_slow_transforms_fit_the_target_time(self) -> None:
        sizer = BatchSizer()
        assert self.run(sizer, 0.001, 20) <= 2 * BatchSizer.TARGET_CPU_S
        assert 100 <= sizer.limit <= 400

    def test_a_busy_machine_does_not_make_batches_small(self) -> None:
        sizer = BatchSizer()
        self.run(sizer, 1e-4, 20, cpu_share=0.05)
        assert sizer.limit == BatchSizer.MAX_RECORDS

    def test_slow_stores_make_smaller_batches(self) -> None:
        sizer = BatchSizer()
        assert self.run(sizer, 0.01, 20, cpu_share=0.01) <= 2 * BatchSizer.TARGET_S
        assert 20 <= sizer.limit <= 80

    def test_batches_that_waited_behind_a_slow_one_do_not_raise_the_limit(self) -> None:
        sizer = BatchSizer()
        sizer.limit = 1000
        for in_flight in [InFlightBatch(batch(1000), [], 0.0) for _ in range(3)]:
            sizer.update(in_flight, 1.0, total_wait_s=0.0, total_cpu_s=1.0)
        assert sizer.limit == 200

    def test_batch_sizes_have_a_minimum_and_recover(self) -> None:
        sizer = BatchSizer()
        self.run(sizer, 2.5, 5)
        assert sizer.limit == BatchSizer.MIN_RECORDS
        self.run(sizer, 5e-6, 20)
        assert sizer.limit == BatchSizer.MAX_RECORDS

    def test_small_batches_change_nothing(self) -> None:
        sizer = BatchSizer()
        sizer.update(InFlightBatch(batch(3), [], 0.0), 0.1, total_wait_s=0.0, total_cpu_s=0.1)
        assert sizer.limit == BatchSizer.MIN_RECORDS

    def test_waits_do_not_count(self) -> None:
        sizer = BatchSizer()
        in_flight = InFlightBatch(batch(BatchSizer.MIN_RECORDS), [], 10.0, total_wait_at_read_s=2.0)
        sizer.update(in_flight, 70.1, total_wait_s=62.0, total_cpu_s=0.1)
        assert sizer.limit == 2 * BatchSizer.MIN_RECORDS

    def test_large_outputs_make_small_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(BatchSizer, "TARGET_BYTES", BatchSizer.TARGET_BYTES // 1000)
        sizer = BatchSizer()
        self.run(sizer, 5e-6, 20)
        for _ in range(10):
            large = replace(batch(sizer.limit), values=BytesColumn.of([bytes(10_000)] * sizer.limit))
            sizer.update(InFlightBatch(large, [], 0.0), 0.0, total_wait_s=0.0, total_cpu_s=0.0)
        assert sizer.limit <= 8
