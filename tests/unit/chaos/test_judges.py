"""What the soak takes for growth, and how the copy test deals its strikes."""

import os
import random
from itertools import islice

import pytest

from tests.chaos.faults import Deed, Done, shuffled
from tests.chaos.soak import GROWTH_MIB, Series, grown, measure
from tests.chaos.trial import summary

DEEDS = [Deed(victim, how, lambda: Done(0.0)) for victim in ("a", "b", "c") for how in ("KILL", "STOP")]


def series(mib: list[float]) -> Series:
    return Series([10.0 * n for n in range(len(mib))], mib, [], [])


class TestSoak:
    def test_a_leak_is_seen_under_noise(self) -> None:
        draw = random.Random(1)
        flat = [100 + draw.uniform(-1, 1) for _ in range(720)]
        leaking = [value + 10 * n / 3600 * 2 for n, value in enumerate(flat)]  # 2 MiB an hour
        assert abs(series(flat).growth()) < GROWTH_MIB / 2
        assert series(leaking).growth() == pytest.approx(1.0, abs=0.2)

    def test_the_first_third_does_not_count(self) -> None:
        assert series([10.0 * n for n in range(30)] + [300.0] * 60).growth() == 0

    def test_growth_of_counts(self) -> None:
        assert not grown([10.0] * 30)
        assert not grown([10.0] * 20 + [11.0] * 10)
        assert grown([10.0] * 20 + [12.0] * 10)
        assert not grown([5.0, 10.0])  # too few to tell

    def test_a_process_is_measured(self) -> None:
        mib, descriptors, threads = measure([os.getpid()]) or (0, 0, 0)
        assert mib > 10
        assert descriptors > 2
        assert threads >= 1

    def test_a_process_that_is_gone(self) -> None:
        assert measure([2**22 + 1]) is None


class TestStrikes:
    def test_every_victim_has_its_turn_and_every_deed_its_own(self) -> None:
        dealt = list(islice(shuffled(DEEDS, random.Random(5)), 12))
        for start in range(0, 12, 3):
            assert {deed.victim for deed in dealt[start : start + 3]} == {"a", "b", "c"}
        assert {deed.name for deed in dealt[:6]} == {deed.name for deed in DEEDS}

    def test_the_same_number_deals_the_same(self) -> None:
        first, again = ([d.name for d in islice(shuffled(DEEDS, random.Random(7)), 30)] for _ in range(2))
        assert first == again


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ({}, {"count": 0}),
        ({5: 1}, {"count": 1, "p50": 5, "p99": 5, "max": 5}),
        ({1: 98, 7: 1, 9: 1}, {"count": 100, "p50": 1, "p99": 7, "max": 9}),
    ],
)
def test_percentiles(counts: dict[int, int], found: dict[str, int]) -> None:
    assert summary(counts) == found
