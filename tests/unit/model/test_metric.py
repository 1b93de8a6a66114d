"""Histograms and ranges of time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.metric import FLOOR_MS, RELATIVE_ERROR, TIME_RANGES, Histogram, bin_value, upper_bound

times = st.floats(FLOOR_MS, 1e10)


def exact(values: list[float], percent: int) -> float:
    """Return the percentile by its rank in the sorted list."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


class TestHistogram:
    @given(st.lists(times, min_size=1, max_size=200), st.sampled_from([50, 90, 99]))
    def test_percentiles_are_within_the_error(self, values: list[float], percent: int) -> None:
        histogram = Histogram()
        for value in values:
            histogram.add(value)
        assert histogram.percentile(percent) == pytest.approx(
            exact(values, percent), rel=RELATIVE_ERROR * 1.001, abs=FLOOR_MS
        )

    @given(st.lists(st.tuples(times, st.integers(1, 9)), min_size=1, max_size=50))
    def test_many_values_together_equal_single_ones(self, values: list[tuple[float, int]]) -> None:
        one_by_one, at_once = Histogram(), Histogram()
        for value, weight in values:
            one_by_one.add(value, weight)
        at_once.add_many(np.array([v for v, _ in values]), np.array([w for _, w in values]))
        assert at_once.total() == one_by_one.total()
        for percent in (50, 99):
            assert at_once.percentile(percent) == pytest.approx(one_by_one.percentile(percent), rel=3 * RELATIVE_ERROR)

    @given(st.lists(times, min_size=1), st.lists(times))
    def test_merged_histograms_equal_one_histogram(self, first: list[float], second: list[float]) -> None:
        apart, together = [Histogram(), Histogram()], Histogram()
        for histogram, values in zip(apart, (first, second), strict=True):
            for value in values:
                histogram.add(value)
                together.add(value)
        apart[0].update(apart[1])
        assert apart[0] == together

    def test_the_mean(self) -> None:
        histogram = Histogram()
        histogram.add(10.0, 3)
        histogram.add(50.0)
        assert histogram.mean() == pytest.approx(20, rel=RELATIVE_ERROR)

    def test_negative_times_count_as_zero(self) -> None:
        histogram = Histogram()
        histogram.add(-5.0)
        histogram.add_many(np.array([-7.0, 0.0]), np.array([1, 1]))
        assert histogram == {0: 3}
        assert histogram.percentile(99) == 0

    def test_empty(self) -> None:
        assert Histogram().percentile(50) is None
        assert Histogram().mean() is None

    def test_a_percentile_is_a_value_in_its_bin(self) -> None:
        for bin_ in (1, 100, 600):
            assert upper_bound(bin_ - 1) < bin_value(bin_) < upper_bound(bin_)


@pytest.mark.parametrize("now_s", [1767323045.678, 1767323100.0])
def test_ranges(now_s: float) -> None:
    for time_range in TIME_RANGES:
        starts = time_range.starts(now_s)
        assert len(starts) == time_range.points
        assert starts[-1] <= now_s < starts[-1] + time_range.resolution_s
        assert all(start % time_range.resolution_s == 0 for start in starts)
