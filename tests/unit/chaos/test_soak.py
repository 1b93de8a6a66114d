"""The soak test detects growth, and measures processes."""

import os
import random

import pytest

from tests.chaos.soak import GROWTH_MIB, Series, grown, measure


def series(mib: list[float]) -> Series:
    return Series([10.0 * n for n in range(len(mib))], mib, [], [])


class TestSoak:
    def test_a_leak_is_detected_under_noise(self) -> None:
        draw = random.Random(1)
        flat = [100 + draw.uniform(-1, 1) for _ in range(720)]
        leaking = [value + 10 * n / 3600 * 2 for n, value in enumerate(flat)]  # 2 MiB an hour
        assert abs(series(flat).growth()) < GROWTH_MIB / 2
        assert series(leaking).growth() == pytest.approx(1.0, abs=0.2)

    def test_the_first_third_does_not_count(self) -> None:
        assert series([10.0 * n for n in range(30)] + [300.0] * 60).growth() == 0

    def test_counts_grow_if_the_last_third_exceeds_the_second(self) -> None:
        assert not grown([10.0] * 30)
        assert not grown([10.0] * 20 + [11.0] * 10)
        assert grown([10.0] * 20 + [12.0] * 10)
        assert not grown([5.0, 10.0])  # too few samples

    def test_a_process_is_measured(self) -> None:
        mib, descriptors, threads = measure([os.getpid()]) or (0, 0, 0)
        assert mib > 10
        assert descriptors > 2
        assert threads >= 1

    def test_an_ended_process_has_no_measurements(self) -> None:
        assert measure([2**22 + 1]) is None
