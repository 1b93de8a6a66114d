"""Decides how many workers a pipeline needs for its load, by pure functions.

The number is raised quickly, as soon as the workers fall behind or are busy for most of their time. It is lowered
slowly, when fewer workers would have sufficed for the last minute. Three rules keep it from changing back and forth
under a steady load:

- It is lowered only when the remaining workers would be busy for less than BUSY_AFTER_LOWERING, which is far below
  BUSY_BEFORE_RAISING.
- Each raise measures how much a worker can process. For an hour, the number is not lowered so far that a worker
  would have to process more than CAPACITY_SHARE of this.
- Workers that will have caught up within CATCH_UP_S need no help.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.model.parallelism import WorkerBounds

RAISE_WINDOW_S = 12.0
"""For how long the workers must be behind or busy before their number is raised."""
LOWER_WINDOW_S = 60.0
"""For how long fewer workers must suffice, and the number must not have changed, before it is lowered."""
BEHIND_S = 3.0
"""Workers are behind when they need longer than this for the records that wait."""
MIN_BACKLOG = 100
"""Workers are not behind with fewer waiting records than this."""
CATCH_UP_S = 60.0
"""In how many seconds the workers should process a backlog."""
BUSY_BEFORE_RAISING = 0.85
"""The number is raised when the workers need more than this share of their time for the records that arrive."""
BUSY_AFTER_RAISING = 0.65
BUSY_AFTER_LOWERING = 0.6
CAPACITY_SHARE = 0.7
MAX_RAISE_FACTOR = 8
"""By which factor the number is raised at most in one step."""
MAX_LOWER_FACTOR = 2
"""By which factor the number is lowered at most in one step."""


@dataclass(frozen=True, slots=True)
class LoadSample:
    """The load of a pipeline at one time. The totals begin at the same time for all samples.

    Attributes:
        at: The time, in monotonic seconds.
        lag: How many records of the source are not processed yet; None for a source without offsets.
        total_records: How many records the workers have processed.
        busy_s: How long the workers were busy: the sum of their CPU seconds. For each worker, either its own process
            counts or the process of its scripts, whichever uses more.
    """

    at: float
    lag: int | None
    total_records: float
    busy_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The facts on which a decision depends.

    Attributes:
        now: The present time, in monotonic seconds.
        workers: The present number of workers.
        bounds: The range of `parallelism` in the configuration.
        partitions: The number of partitions of the source; None when it does not limit the number of workers.
        samples: The samples since the last change, oldest first, while all workers were ready.
        since_change_s: The seconds since the last change of the number; infinite when there was none.
        capacity: How many records per second one worker processed when the number was last raised; None when that is
            longer ago than an hour or another revision ran.
    """

    now: float
    workers: int
    bounds: WorkerBounds
    partitions: int | None
    samples: Sequence[LoadSample]
    since_change_s: float = math.inf
    capacity: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """How many workers a pipeline should have.

    Attributes:
        workers: The number of workers.
        reason: Why, in sentences.
        capacity: The measured records per second of one worker; None when nothing was measured.
    """

    workers: int
    reason: str
    capacity: float | None = None


@dataclass(frozen=True, slots=True)
class _Rates:
    """The rates between two samples.

    Attributes:
        processed_per_s: The records per second that were processed.
        arriving_per_s: The records per second that arrived.
        busy_share: The share of their time for which the workers were busy.
        lag: The lag at the end.
        catch_up_s: In how many seconds the lag will be 0; infinite when it does not shrink.
        steady_busy_share: The share of their time that the workers need for the arriving records alone, without a
            backlog.
    """

    processed_per_s: float
    arriving_per_s: float
    busy_share: float
    lag: int
    catch_up_s: float
    steady_busy_share: float

    @classmethod
    def between(cls, first: LoadSample, last: LoadSample, workers: int) -> "_Rates":
        seconds = last.at - first.at
        processed_per_s = (last.total_records - first.total_records) / seconds
        lag = last.lag or 0
        growth = (lag - (first.lag or 0)) / seconds
        arriving_per_s = max(0.0, processed_per_s + growth)
        busy_share = (last.busy_s - first.busy_s) / seconds / workers
        arriving_share = min(1.0, arriving_per_s / processed_per_s) if processed_per_s > 0 else 1.0
        return cls(
            processed_per_s=processed_per_s,
            arriving_per_s=arriving_per_s,
            busy_share=busy_share,
            lag=lag,
            catch_up_s=lag / -growth if growth < 0 else math.inf,
            steady_busy_share=busy_share * arriving_share,
        )


def decide(load: Load) -> Decision:
    """Return how many workers a pipeline should have now, and why."""
    least, most = _limits(load)
    if load.workers > most:
        return Decision(most, _limit_reason(load, most))
    if load.workers < least:
        return Decision(least, f"The configuration asks for at least {_workers(least)}.")
    recent = _since(load.samples, load.now - RAISE_WINDOW_S)
    if recent is None:
        return Decision(load.workers, "The load is being measured.")
    rates = _Rates.between(recent[0], recent[-1], load.workers)
    raised = _raised(load, recent, rates)
    if raised is not None and load.workers < most:
        return raised if raised.workers <= most else Decision(most, raised.reason, raised.capacity)
    if raised is not None:
        return Decision(load.workers, f"{raised.reason} {_limit_reason(load, most)}")
    return _lowered(load, least) or Decision(load.workers, f"The number is right: {_describe(rates)}.")


def _limits(load: Load) -> tuple[int, int]:
    """Return the least and the greatest allowed number of workers.

    More workers than partitions would have nothing to read.
    """
    usable = load.bounds.max if load.partitions is None else max(1, load.partitions)
    return min(load.bounds.min, usable), min(load.bounds.max, usable)


def _limit_reason(load: Load, most: int) -> str:
    if most < load.bounds.max:
        return f"The source has {most} partition{'s' * (most > 1)}, and more workers would have nothing to read."
    return f"The configuration allows at most {_workers(most)}."


def _since(samples: Sequence[LoadSample], start: float) -> Sequence[LoadSample] | None:
    """Return the samples from a time on, with the last one before this time.

    Return None when there is none before it, or no other sample.
    """
    first = next((index for index in reversed(range(len(samples))) if samples[index].at <= start), None)
    if first is None or first == len(samples) - 1:
        return None
    return samples[first:]


def _raised(load: Load, recent: Sequence[LoadSample], rates: _Rates) -> Decision | None:
    """Return the decision to raise the number; None when the workers suffice."""
    workers = load.workers
    capacity = rates.processed_per_s / workers
    behind = [_is_behind(sample, rates.processed_per_s) for sample in recent]
    if all(behind) and rates.catch_up_s > CATCH_UP_S:
        needed_rate = max(rates.arriving_per_s / CAPACITY_SHARE, rates.arriving_per_s + rates.lag / CATCH_UP_S)
        needed = needed_rate / capacity if capacity > 0 else math.inf
        reason = f"{_workers(workers)} fell behind: {_describe(rates)}, and {rates.lag:,} waited."
    elif not any(behind) and rates.steady_busy_share > BUSY_BEFORE_RAISING:
        needed = workers * rates.steady_busy_share / BUSY_AFTER_RAISING
        reason = f"{_workers(workers)} had little room left: {_describe(rates)}."
    else:
        return None
    return Decision(math.ceil(max(workers + 1, min(needed, workers * MAX_RAISE_FACTOR))), reason, capacity)


def _lowered(load: Load, least: int) -> Decision | None:
    """Return the decision to lower the number; None when all workers are needed."""
    calm = _since(load.samples, load.now - LOWER_WINDOW_S)
    if calm is None or load.since_change_s < LOWER_WINDOW_S:
        return None
    processed_per_s = _Rates.between(calm[0], calm[-1], load.workers).processed_per_s
    if any(_is_behind(sample, processed_per_s) for sample in calm):
        return None
    periods = list(_periods(calm, load.workers))
    busy, arriving = max(period.busy_share for period in periods), max(period.arriving_per_s for period in periods)
    for fewer in range(max(least, math.ceil(load.workers / MAX_LOWER_FACTOR)), load.workers):
        has_room = busy * load.workers / fewer <= BUSY_AFTER_LOWERING
        is_within_capacity = load.capacity is None or arriving <= CAPACITY_SHARE * fewer * load.capacity
        if has_room and is_within_capacity:
            return Decision(
                fewer,
                f"{_workers(fewer)} can do the work: for {LOWER_WINDOW_S:.0f} s at most {arriving:,.0f} records a "
                f"second arrived, and {_workers(load.workers)} used at most {busy:.0%} of a CPU core each on average.",
            )
    return None


def _periods(samples: Sequence[LoadSample], workers: int) -> Iterator[_Rates]:
    """Return the rates of parts of a window that are long enough to measure rates in them."""
    first = samples[0]
    for sample in samples[1:]:
        if sample.at - first.at >= RAISE_WINDOW_S:
            yield _Rates.between(first, sample, workers)
            first = sample


def _is_behind(sample: LoadSample, processed_per_s: float) -> bool:
    return sample.lag is not None and sample.lag > max(MIN_BACKLOG, BEHIND_S * processed_per_s)


def _describe(rates: _Rates) -> str:
    arrived = f"{rates.arriving_per_s:,.0f} records a second arrived"
    used = f"the workers used {rates.busy_share:.0%} of a CPU core each on average"
    return f"{arrived}, {rates.processed_per_s:,.0f} were processed, {used}"


def _workers(number: int) -> str:
    return f"{number} worker{'s' * (number > 1)}"
