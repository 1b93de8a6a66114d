"""State and statistics against the definitions, whatever the order in which ticks come."""

import random
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.price.codec import decode, decode_hour, encode, encode_hour
from headwater.model.price.series import Tick
from headwater.model.price.state import TokenState
from headwater.model.price.stats import Stats, edge_hour, evaluate
from tests.support.prices import DAY, HOUR, MINUTE, brute_force, figures

START = 1_700_000_000_000
FAR = 1 << 60


class Stored:
    """A state and what left it, as the price store keeps them: as bytes."""

    def __init__(self) -> None:
        self.state: bytes | None = None
        self.hours: dict[int, bytes] = {}

    def fold(self, ticks: Iterable[Tick], now: int = FAR) -> None:
        state = TokenState() if self.state is None else decode(self.state)
        for tick in ticks:
            state.fold((*tick, 6, b""), now)
        for hour, left in state.left.items():
            self.hours[hour] = encode_hour(hour, [*left, *decode_hour(hour, self.hours.get(hour, b""))])
        self.state = encode(state)

    def evaluate(self, now: int, *, judge: bool = True) -> Stats | None:
        assert self.state is not None
        state = decode(self.state)
        state.settle(now)
        hour = edge_hour(state, now)
        edge = [] if hour is None else decode_hour(hour, self.hours.get(hour, b""))
        return evaluate(state, now, edge, judge=judge)


def batches(ticks: Sequence[Tick], draw: random.Random) -> Iterable[Sequence[Tick]]:
    at = 0
    while at < len(ticks):
        count = draw.randint(1, 40)
        yield ticks[at : at + count]
        at += count


times = st.one_of(
    st.integers(0, 2 * HOUR),
    st.integers(0, 70 * HOUR),
    st.integers(0, 70).map(lambda hour: hour * HOUR),
    st.integers(0, 200).map(lambda minute: minute * MINUTE),
)
prices = st.one_of(st.floats(0.9, 4.1), st.floats(1e-12, 1e12), st.sampled_from([0.5, 1.0, 2.0, 4.0]))
ticks = st.lists(st.tuples(times.map(lambda t: START + t), st.integers(0, 3), prices), min_size=1, max_size=60)


@given(ticks, st.integers(0, 80 * HOUR), st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=400)
def test_any_ticks_in_any_order(ticks: list[Tick], wait: int, judge: bool, draw: random.Random) -> None:
    now = max(time for time, _, _ in ticks) + wait
    told = ticks + draw.sample(ticks, len(ticks) // 10)
    draw.shuffle(told)
    stored = Stored()
    for batch in batches(told, draw):
        stored.fold(batch)
    assert figures(stored.evaluate(now, judge=judge)) == brute_force(ticks, now, judge=judge)


def walk(draw: random.Random, days: float) -> list[Tick]:
    """Trades with gaps, jumps, prints that are far off, and several at one moment."""
    found, time, price, order = [], START, draw.uniform(1, 100), 0
    while time < START + days * DAY:
        time += draw.choice([0, 0, draw.randrange(1000), draw.randrange(5 * MINUTE), draw.randrange(20 * MINUTE)])
        time += draw.randrange(9 * HOUR) if draw.random() < 0.003 else 0
        price *= draw.uniform(2, 20) if draw.random() < 0.002 else draw.uniform(0.99, 1.01)
        order += 1
        found.append((time, order, price * draw.uniform(5, 1e5) if draw.random() < 0.003 else price))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_three_days_of_trade(seed: int) -> None:
    draw = random.Random(seed)
    all_ticks = walk(draw, 3)
    for _ in range(8):
        seen = all_ticks[: draw.randint(1, len(all_ticks))]
        told = seen + draw.sample(seen, len(seen) // 20)
        draw.shuffle(told)
        stored = Stored()
        for at in range(0, len(told), 300):
            stored.fold(told[at : at + 300])
        for wait in (0, draw.randrange(HOUR), draw.randrange(2 * DAY)):
            for judge in (True, False):
                now = seen[-1][0] + wait
                assert figures(stored.evaluate(now, judge=judge)) == brute_force(seen, now, judge=judge)


def test_ticks_ahead_of_the_clock_wait() -> None:
    ticks = [(START, 0, 1.0), (START + 1000, 0, 5.0), (START + 4000, 0, 3.0), (START + 9000, 0, 0.5)]
    stored = Stored()
    stored.fold(reversed(ticks), now=START + 2000)
    for now in (START + 2000, START + 4000, START + 60_000, START + 2 * DAY):
        assert figures(stored.evaluate(now)) == brute_force(ticks, now)


def test_a_rejected_last_print_changes_nothing_by_waiting() -> None:
    ticks = [(START + minute * MINUTE, 0, 100 + minute / 100) for minute in range(60)]
    stored = Stored()
    stored.fold([*ticks, (START + HOUR, 0, 9e6)])
    for wait in (0, 26 * HOUR, 3 * DAY):
        stats = stored.evaluate(START + HOUR + wait)
        assert stats is not None
        assert (stats.time_ms, stats.latest) == (ticks[-1][0], ticks[-1][2])


def test_the_newest_tick_tells_decimals_and_address() -> None:
    state = TokenState()
    state.fold((START + 5, 0, 1.0, 9, b"So111"), FAR)
    state.fold((START, 0, 1.0, 6, b""), FAR)
    stats = evaluate(state, START + 5)
    assert stats is not None
    assert (stats.decimals, stats.mint) == (9, "So111")


def test_no_tick() -> None:
    assert evaluate(TokenState(), START) is None
