"""State and statistics against the definitions, whatever the order in which ticks come."""

import random
from collections.abc import Iterable, Sequence
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.price import left, state
from headwater.model.price.codec import decode, encode
from headwater.model.price.left import Chunk, Left
from headwater.model.price.series import Tick
from headwater.model.price.state import TokenState
from headwater.model.price.stats import Stats, evaluate, missing
from headwater.model.price.view import read_at
from tests.support.prices import DAY, HOUR, MINUTE, brute_force, figures

START = 1_700_000_000_000
FAR = 1 << 60


class Stored:
    """A state and what left it, as the price store keeps them: as bytes."""

    def __init__(self) -> None:
        self.state: bytes | None = None
        self.left: dict[Chunk, bytes] = {}

    def fold(self, ticks: Iterable[Tick], now: int = FAR) -> None:
        folded = TokenState() if self.state is None else decode(self.state)
        for tick in ticks:
            folded.fold((*tick, 6, b"Mint"[: tick[1] % 5]), now)
        folded.thin()
        for chunk, leaving in folded.left.items():
            self.left[chunk] = left.encode(chunk, [*leaving, *self._stored(chunk).ticks()])
        self.state = encode(folded)

    def _stored(self, chunk: Chunk) -> Left:
        return Left(chunk, self.left.get(chunk, b""))

    def evaluate(self, now: int, *, judge: bool = True) -> Stats | None:
        assert self.state is not None
        read = read_at(self.state, now)
        stored = [self._stored(chunk) for chunk in missing(read, now, judge=judge)]
        stats = evaluate(read, now, stored, judge=judge)
        folded = decode(self.state)
        folded.settle(now)
        assert evaluate(folded, now, stored, judge=judge) == stats
        return stats


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


@given(
    ticks, st.integers(0, 80 * HOUR), st.booleans(), st.randoms(use_true_random=False), st.sampled_from([0, 5, 1024])
)
@settings(max_examples=600)
def test_any_ticks_in_any_order(ticks: list[Tick], wait: int, judge: bool, draw: random.Random, many: int) -> None:
    now = max(time for time, _, _ in ticks) + wait
    told = ticks + draw.sample(ticks, len(ticks) // 10)
    draw.shuffle(told)
    stored = Stored()
    with patch.object(state, "MANY", many):
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


@pytest.mark.parametrize("many", [0, 30, 1024])
@pytest.mark.parametrize("seed", range(4))
def test_three_days_of_trade(seed: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MANY", many)
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
    folded = TokenState()
    folded.fold((START + 5, 0, 1.0, 9, b"So111"), FAR)
    folded.fold((START, 0, 1.0, 6, b""), FAR)
    stats = evaluate(folded, START + 5)
    assert stats is not None
    assert (stats.decimals, stats.mint) == (9, "So111")


def test_a_busy_token_takes_little() -> None:
    stored = Stored()
    ticks = [(START + 20 * n, 0, 100 + n % 17) for n in range(70 * 3_000)]
    for at in range(0, len(ticks), 10_000):
        stored.fold(ticks[at : at + 10_000])
    assert stored.state is not None
    assert len(stored.state) < 3 * 3_000 * 24  # two to three minutes of ticks
    now = ticks[-1][0] + 12_345
    assert figures(stored.evaluate(now)) == brute_force(ticks, now)


def test_no_tick() -> None:
    assert evaluate(TokenState(), START) is None
