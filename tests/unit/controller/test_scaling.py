"""The decision how many workers a pipeline needs, also in simulated pipelines."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.controller.load_history import SETTLE_S
from headwater.controller.scaling import Decision, Load, LoadSample, decide
from headwater.model.parallelism import WorkerBounds

EVERY_S = 3.0
START_S = 4.0
"""How long a new worker needs until it is ready."""
COMMIT_S = 1.0
KEPT_SAMPLES = 40
HOUR_S = 3600.0


def bounds(low: int = 1, high: int = 16) -> WorkerBounds:
    return WorkerBounds(min=low, max=high)


def steady(
    *, arriving: float, processed: float, busy: float, lag: float = 0, seconds: float = 70, workers: int = 1
) -> list[LoadSample]:
    """Return the samples of a steady load until the time `seconds`."""
    count = int(seconds / EVERY_S) + 1
    return [
        LoadSample(
            at=step * EVERY_S,
            lag=int(lag + (arriving - processed) * step * EVERY_S),
            total_records=processed * step * EVERY_S,
            busy_s=busy * workers * step * EVERY_S,
        )
        for step in range(count)
    ]


def decision(
    samples: Sequence[LoadSample],
    workers: int = 1,
    limits: WorkerBounds | None = None,
    partitions: int | None = 16,
    since_change_s: float = math.inf,
    capacity: float | None = None,
) -> Decision:
    now = samples[-1].at if samples else 0.0
    return decide(
        Load(
            now=now,
            workers=workers,
            bounds=limits or bounds(),
            partitions=partitions,
            samples=samples,
            since_change_s=since_change_s,
            capacity=capacity,
        )
    )


class TestRaise:
    def test_workers_that_fall_behind(self) -> None:
        made = decision(steady(arriving=30_000, processed=8_000, busy=0.99, seconds=15))
        assert (made.workers, round(made.capacity or 0)) == (6, 8_000)
        assert made.reason.startswith("1 worker fell behind: 30,000 records a second arrived, 8,000 were processed")

    def test_workers_that_fall_behind_without_using_their_cpu(self) -> None:
        assert decision(steady(arriving=1_000, processed=500, busy=0.2, seconds=21)).workers == 3

    def test_not_before_it_is_certain(self) -> None:
        assert decision(steady(arriving=30_000, processed=8_000, busy=0.99, seconds=9)).workers == 1

    def test_nearly_busy_workers(self) -> None:
        made = decision(steady(arriving=9_000, processed=9_000, busy=0.9, seconds=15, workers=4), workers=4)
        assert (made.workers, "little room" in made.reason) == (6, True)

    def test_workers_that_catch_up_soon_are_enough(self) -> None:
        samples = steady(arriving=1_000, processed=8_000, busy=1.0, lag=300_000, seconds=15)
        assert decision(samples).workers == 1

    def test_workers_that_catch_up_late_are_too_few(self) -> None:
        samples = steady(arriving=7_000, processed=8_000, busy=1.0, lag=3_000_000, seconds=15)
        assert decision(samples).workers == 8

    def test_blocked_workers_are_raised_step_by_step(self) -> None:
        assert decision(steady(arriving=1_000, processed=0, busy=0.0, seconds=15)).workers == 8

    def test_a_few_waiting_records_are_no_load(self) -> None:
        assert decision(steady(arriving=1, processed=1, busy=0.0, lag=90, seconds=15)).workers == 1

    def test_a_queue_without_a_lag_follows_the_cpu(self) -> None:
        samples = [
            LoadSample(each.at, None, each.total_records, each.busy_s)
            for each in steady(arriving=100, processed=100, busy=0.95, seconds=15)
        ]
        assert decision(samples, partitions=None).workers == 2


class TestLimits:
    BEHIND = steady(arriving=30_000, processed=8_000, busy=0.99, seconds=15)

    def test_the_maximum(self) -> None:
        assert decision(self.BEHIND, limits=bounds(1, 2)).workers == 2
        made = decision(self.BEHIND, workers=2, limits=bounds(1, 2))
        assert (made.workers, "allows at most 2 workers" in made.reason) == (2, True)

    def test_the_partitions_of_the_source(self) -> None:
        assert decision(self.BEHIND, partitions=2).workers == 2
        made = decision(self.BEHIND, workers=2, partitions=2)
        assert (made.workers, "The source has 2 partitions" in made.reason) == (2, True)

    def test_too_many_or_too_few_workers_are_corrected_at_once(self) -> None:
        assert decision([], workers=9, limits=bounds(2, 8)).workers == 8
        assert decision([], workers=1, limits=bounds(2, 8)).workers == 2
        assert decision([], workers=4, limits=bounds(4, 8), partitions=3).workers == 3


class TestLower:
    def test_idle_workers(self) -> None:
        made = decision(steady(arriving=10, processed=10, busy=0.01, workers=8), workers=8)
        assert made.workers == 4
        assert made.reason.startswith("4 workers can do the work: for 60 s at most 10 records a second arrived")

    def test_not_below_the_minimum(self) -> None:
        idle = steady(arriving=0, processed=0, busy=0.0, workers=8)
        assert decision(idle, workers=8, limits=bounds(6, 8)).workers == 6
        assert decision(idle, workers=6, limits=bounds(6, 8)).workers == 6

    def test_not_soon_after_a_change(self) -> None:
        idle = steady(arriving=0, processed=0, busy=0.0, workers=2)
        assert decision(idle, workers=2, since_change_s=50).workers == 2
        assert decision(idle[:15], workers=2).workers == 2
        assert decision(idle, workers=2, since_change_s=61).workers == 1

    def test_not_when_the_others_would_be_busy(self) -> None:
        assert decision(steady(arriving=900, processed=900, busy=0.45, workers=2), workers=2).workers == 2

    def test_not_when_a_burst_needed_all(self) -> None:
        calm = steady(arriving=10, processed=10, busy=0.01, seconds=60, workers=2)
        burst = [LoadSample(each.at, each.lag, each.total_records, each.busy_s + 20 * (each.at > 30)) for each in calm]
        assert decision(burst, workers=2).workers == 2

    def test_not_to_workers_that_did_not_suffice_before(self) -> None:
        load = steady(arriving=1_000, processed=1_000, busy=0.1, workers=2)
        assert decision(load, workers=2, capacity=1_100).workers == 2
        assert decision(load, workers=2, capacity=1_500).workers == 1


@dataclass
class Simulation:
    """A pipeline whose workers each process `capacity` records per second, with noise."""

    capacity: float
    limits: WorkerBounds
    partitions: int = 64
    noise: float = 0.05
    seed: int = 0
    workers: int = 1
    now: float = 0.0
    lag: float = 0.0
    processed: float = 0.0
    rate: float = 0.0
    busy_s: float = 0.0
    changes: list[tuple[float, int]] = field(default_factory=list)
    _samples: list[LoadSample] = field(default_factory=list)
    _measured: tuple[float, float] | None = None
    _changed_at: float = -math.inf

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def run(self, seconds: float, arriving: Callable[[float], float]) -> None:
        """Let time pass. `arriving` returns the records per second at a time."""
        end = self.now + seconds
        while self.now < end:
            self._advance(arriving(self.now))
            if self.now - self._changed_at > START_S + SETTLE_S:
                self._decide()

    def _advance(self, arriving: float) -> None:
        possible = self.capacity * self.workers * self._noisy() * EVERY_S
        waiting = self.lag + arriving * self._noisy() * EVERY_S
        done = min(waiting, possible)
        self.lag = waiting - done
        self.processed += done
        self.rate = done / EVERY_S
        self.busy_s += done / self.capacity * self._noisy()
        self.now += EVERY_S

    def _noisy(self) -> float:
        return 1 + self._random.uniform(-self.noise, self.noise)

    def _decide(self) -> None:
        del self._samples[:-KEPT_SAMPLES]
        self._samples.append(LoadSample(self.now, int(self.lag + self.rate * COMMIT_S), self.processed, self.busy_s))
        measured = self._measured
        made = decide(
            Load(
                now=self.now,
                workers=self.workers,
                bounds=self.limits,
                partitions=self.partitions,
                samples=self._samples,
                since_change_s=self.now - self._changed_at,
                capacity=None if measured is None or self.now - measured[1] > HOUR_S else measured[0],
            )
        )
        assert 1 <= made.workers <= min(self.limits.max, self.partitions)
        if made.workers != self.workers:
            self.workers, self._changed_at, self._samples = made.workers, self.now, []
            self._measured = (made.capacity, self.now) if made.capacity else self._measured
            self.changes.append((self.now, made.workers))

    @property
    def numbers(self) -> list[int]:
        return [workers for _, workers in self.changes]


class TestSimulatedPipelines:
    @settings(max_examples=20, deadline=None)
    @given(capacity=st.floats(1_500, 29_000), seed=st.integers(0, 2**16))
    def test_a_step_of_the_load_is_followed_within_a_minute(self, capacity: float, seed: int) -> None:
        pipeline = Simulation(capacity, bounds(1, 64), seed=seed)
        pipeline.run(300, lambda _: 1_000)
        assert pipeline.workers <= math.ceil(1_000 / capacity / 0.6)
        pipeline.run(60 - START_S, lambda _: 30_000)
        assert pipeline.workers * capacity > 30_000
        pipeline.run(300, lambda _: 30_000)
        assert pipeline.lag < 30_000 * EVERY_S
        before = pipeline.now
        pipeline.run(600, lambda _: 1_000)
        assert pipeline.workers <= math.ceil(1_000 / capacity / 0.6)
        lowered = [workers for at, workers in pipeline.changes if at > before]
        assert lowered == sorted(lowered, reverse=True)

    @settings(max_examples=20, deadline=None)
    @given(
        capacity=st.floats(100, 20_000),
        needed=st.floats(0.1, 12.0),
        noise=st.floats(0.0, 0.1),
        seed=st.integers(0, 2**16),
    )
    def test_a_steady_load_never_changes_the_number_back_and_forth(
        self, capacity: float, needed: float, noise: float, seed: int
    ) -> None:
        pipeline = Simulation(capacity, bounds(1, 16), noise=noise, seed=seed)
        pipeline.run(HOUR_S, lambda _: capacity * needed)
        assert pipeline.numbers == sorted(pipeline.numbers)

    @pytest.mark.parametrize("share", [0.8, 0.85, 0.9, 0.95, 1.0, 1.05])
    def test_half_an_hour_at_the_edge(self, share: float) -> None:
        pipeline = Simulation(1_000, bounds(1, 16), noise=0.1)
        pipeline.run(HOUR_S / 2, lambda _: 1_000 * share)
        assert len(pipeline.changes) <= 1

    @settings(max_examples=20, deadline=None)
    @given(
        loads=st.lists(st.tuples(st.floats(0, 50_000), st.floats(30, 400)), min_size=1, max_size=6),
        capacity=st.floats(10, 20_000),
        low=st.integers(1, 8),
        partitions=st.integers(1, 20),
    )
    def test_any_load_stays_within_the_limits(
        self, loads: list[tuple[float, float]], capacity: float, low: int, partitions: int
    ) -> None:
        limits = bounds(low, 12)
        pipeline = Simulation(capacity, limits, partitions=partitions, workers=min(low, partitions))
        for arriving, seconds in loads:
            pipeline.run(seconds, lambda _, arriving=arriving: arriving)  # type: ignore[misc]
        least, most = min(low, partitions), min(12, partitions)
        assert all(least <= workers <= most for workers in pipeline.numbers)

    def test_64_idle_workers_are_lowered_to_one_within_ten_minutes(self) -> None:
        pipeline = Simulation(1_000, bounds(1, 64), workers=64)
        pipeline.run(600, lambda _: 0)
        assert pipeline.workers == 1
        assert len(pipeline.changes) == 6
