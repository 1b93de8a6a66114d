"""How the soak test detects growth, and how the copy test orders its actions."""

import os
import random
from itertools import islice

import pytest

from tests.chaos.faults import Action, AppliedAction, shuffled
from tests.chaos.soak import GROWTH_MIB, Series, grown, measure
from tests.chaos.trial import summary

ACTIONS = [Action(victim, how, lambda: AppliedAction(0.0)) for victim in ("a", "b", "c") for how in ("KILL", "STOP")]


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


class TestStrikes:
    def test_every_victim_and_every_action_comes_once_before_any_repeats(self) -> None:
        order = list(islice(shuffled(ACTIONS, random.Random(5)), 12))
        for start in range(0, 12, 3):
            assert {action.victim for action in order[start : start + 3]} == {"a", "b", "c"}
        assert {action.name for action in order[:6]} == {action.name for action in ACTIONS}

    def test_the_same_seed_gives_the_same_order(self) -> None:
        first, again = ([d.name for d in islice(shuffled(ACTIONS, random.Random(7)), 30)] for _ in range(2))
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
