"""State and statistics, compared with the definitions, for any order of ticks."""

import random
from collections.abc import Iterable, Sequence
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.price import archive, state, tail
from headwater.model.price.archive import ArchivedTicks, TimeBucket
from headwater.model.price.band import hour_of
from headwater.model.price.codec import decode_state, encode_state
from headwater.model.price.series import Tick
from headwater.model.price.single_band import evaluate_single_band
from headwater.model.price.state import TokenState
from headwater.model.price.stats import EvaluableState, Stats, evaluate, needed_buckets
from headwater.model.price.tick import encode_value
from headwater.model.price.view import view_with_tail
from tests.examples import examples
from tests.support.prices import DAY, HOUR, MINUTE, brute_force, figures

START = 1_700_000_000_000
FAR = 1 << 60


class Stored:
    """A state, its tail and its archived ticks, as bytes like in the price store."""

    def __init__(self, address: bytes = b"Mint") -> None:
        self.address = address
        self.state: bytes | None = None
        self.tail: bytes | None = None
        self.archived: dict[TimeBucket, bytes] = {}

    def append(self, ticks: Iterable[Tick]) -> None:
        packed = [encode_value(*tick, 6) + self.address[: tick[1] % 5] for tick in ticks]
        self.tail = (self.tail or b"") + tail.encode_tail(packed)

    def fold(self, ticks: Iterable[Tick], now: int = FAR) -> None:
        folded = TokenState() if self.state is None else decode_state(self.state)
        packed = [(*tick, 6, self.address[: tick[1] % 5]) for tick in ticks]
        folded.fold_all([*(tail.decode_tail(self.tail) if self.tail else ()), *packed], now)
        folded.archive_excess_ticks()
        for bucket, ticks in folded.to_archive.items():
            self.archived[bucket] = archive.encode_archived(bucket, [*ticks, *self._stored(bucket).ticks()])
        self.state, self.tail = encode_state(folded), None

    def _stored(self, bucket: TimeBucket) -> ArchivedTicks:
        return ArchivedTicks(bucket, self.archived.get(bucket, b""))

    def evaluate(self, now: int, *, filter_outliers: bool = True) -> Stats | None:
        view = view_with_tail(self.state, self.tail, now)
        stats = self._evaluated(view, now, filter_outliers=filter_outliers)
        folded = decode_state(self.state) if self.state else TokenState()
        folded.fold_due(now)
        folded.fold_all(tail.decode_tail(self.tail) if self.tail else (), now)
        assert self._evaluated(folded, now, filter_outliers=filter_outliers) == stats
        hour = TimeBucket(hour_of(now - DAY))
        [plain] = evaluate_single_band([(self.state, self.tail, self.archived.get(hour))], hour.hour, now)
        assert plain in (None, stats)
        return stats

    def _evaluated(self, state: EvaluableState, now: int, *, filter_outliers: bool) -> Stats | None:
        stored = [self._stored(bucket) for bucket in needed_buckets(state, now, filter_outliers=filter_outliers)]
        return evaluate(state, now, stored, filter_outliers=filter_outliers)


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
@settings(max_examples=examples(600))
def test_any_ticks_in_any_order(
    ticks: list[Tick], wait: int, filter_outliers: bool, draw: random.Random, many: int
) -> None:
    now = max(time for time, _, _ in ticks) + wait
    with_repeats = ticks + draw.sample(ticks, len(ticks) // 10)
    draw.shuffle(with_repeats)
    stored = Stored()
    with patch.object(state, "ARCHIVE_ABOVE_TICKS", many):
        for batch in batches(with_repeats, draw):
            if draw.random() < 0.5:
                stored.append(batch)
            else:
                stored.fold(batch)
    assert figures(stored.evaluate(now, filter_outliers=filter_outliers)) == brute_force(
        ticks, now, filter_outliers=filter_outliers
    )


one_band = st.tuples(times.map(lambda t: START + t), st.integers(0, 3), st.sampled_from([1.0, 1.5, 1.75, 1.99]))
one_tick = st.one_of(one_band, one_band, one_band, st.tuples(st.just(START), st.just(0), prices))
tokens = st.lists(st.lists(one_tick, max_size=20), max_size=8)


@given(tokens, st.integers(-HOUR, 80 * HOUR), st.randoms(use_true_random=False), st.sampled_from([0, 1024]))
@settings(max_examples=examples(400))
def test_many_tokens_in_one_call(series: list[list[Tick]], wait: int, draw: random.Random, many: int) -> None:
    all_times = [time for ticks in series for time, _, _ in ticks]
    now = max(all_times, default=START) + wait
    stored_tokens = [Stored(draw.choice([b"", b"", b"", b"Mint"])) for _ in series]
    with patch.object(state, "ARCHIVE_ABOVE_TICKS", many):
        for stored, ticks in zip(stored_tokens, series, strict=True):
            for batch in batches(ticks, draw):
                draw.choice([stored.append, stored.append, stored.fold])(batch)
    hour = TimeBucket(hour_of(now - DAY))
    parts = [(stored.state, stored.tail, stored.archived.get(hour)) for stored in stored_tokens]
    plain = evaluate_single_band(parts, hour.hour, now)
    for stored, ticks, stats in zip(stored_tokens, series, plain, strict=True):
        is_single_band = (
            stored.address == b"" and ticks and all(1 <= price < 2 and time <= now for time, _, price in ticks)
        )
        if is_single_band and many:
            assert stats is not None
        if stats is not None:
            assert stats.decimals == 6
            assert figures(stats) == brute_force(ticks, now)


def walk(draw: random.Random, days: float) -> list[Tick]:
    """Generate trades with gaps, jumps, outliers, and several trades at one time."""
    trades, time, price, order = [], START, draw.uniform(1, 100), 0
    while time < START + days * DAY:
        time += draw.choice([0, 0, draw.randrange(1000), draw.randrange(5 * MINUTE), draw.randrange(20 * MINUTE)])
        time += draw.randrange(9 * HOUR) if draw.random() < 0.003 else 0
        price *= draw.uniform(2, 20) if draw.random() < 0.002 else draw.uniform(0.99, 1.01)
        order += 1
        trades.append((time, order, price * draw.uniform(5, 1e5) if draw.random() < 0.003 else price))
    return trades


@pytest.mark.parametrize("many", [0, 30, 1024])
@pytest.mark.parametrize("seed", range(4))
def test_three_days_of_trade(seed: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "ARCHIVE_ABOVE_TICKS", many)
    draw = random.Random(seed)
    all_ticks = walk(draw, 3)
    for _ in range(8):
        seen = all_ticks[: draw.randint(1, len(all_ticks))]
        with_repeats = seen + draw.sample(seen, len(seen) // 20)
        draw.shuffle(with_repeats)
        stored = Stored()
        for at in range(0, len(with_repeats), 300):
            end = min(at + 300, len(with_repeats)) - draw.randrange(20)
            stored.fold(with_repeats[at:end])
            stored.append(with_repeats[end : at + 300])
        for wait in (0, draw.randrange(HOUR), draw.randrange(2 * DAY)):
            for filter_outliers in (True, False):
                now = seen[-1][0] + wait
                assert figures(stored.evaluate(now, filter_outliers=filter_outliers)) == brute_force(
                    seen, now, filter_outliers=filter_outliers
                )


def test_ticks_ahead_of_the_clock_wait() -> None:
    ticks = [(START, 0, 1.0), (START + 1000, 0, 5.0), (START + 4000, 0, 3.0), (START + 9000, 0, 0.5)]
    stored = Stored()
    stored.fold(reversed(ticks), now=START + 2000)
    for now in (START + 2000, START + 4000, START + 60_000, START + 2 * DAY):
        assert figures(stored.evaluate(now)) == brute_force(ticks, now)


def test_a_rejected_last_tick_never_counts_later() -> None:
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
    assert (stats.decimals, stats.address) == (9, "So111")


@pytest.mark.parametrize(("time", "decimals"), [(START - 1, 6), (START, 9), (START + 1, 9)])
def test_the_newest_tick_of_a_tail_has_the_decimals(time: int, decimals: int) -> None:
    stored = Stored(b"")
    stored.fold([(START, 0, 1.0)])
    stored.tail = tail.encode_tail([encode_value(time, 0, 1.0, 9), encode_value(START - 5, 0, 1.0, 30)])
    now = START + MINUTE
    by_itself = evaluate(view_with_tail(stored.state, stored.tail, now), now)
    [by_columns] = evaluate_single_band([(stored.state, stored.tail, None)], hour_of(now - DAY), now)
    assert by_itself == by_columns
    assert by_columns is not None
    assert by_columns.decimals == decimals


def test_a_busy_token_needs_little_memory() -> None:
    stored = Stored()
    ticks = [(START + 20 * n, 0, 100 + n % 17) for n in range(70 * 3_000)]
    for at in range(0, len(ticks), 10_000):
        stored.fold(ticks[at : at + 10_000])
    assert stored.state is not None
    assert len(stored.state) < 3 * 3_000 * 24  # two to three minutes of ticks
    now = ticks[-1][0] + 12_345
    assert figures(stored.evaluate(now)) == brute_force(ticks, now)


@pytest.mark.parametrize("is_folded", [False, True])
def test_a_tail_ahead_of_the_clock_waits(*, is_folded: bool) -> None:
    ticks = [(START, 0, 1.0), (START + 1000, 0, 5.0), (START + 4000, 0, 3.0), (START + 9000, 0, 0.5)]
    stored = Stored()
    if is_folded:
        stored.fold(ticks[:1])
    stored.append(reversed(ticks))
    for now in (START, START + 2000, START + 4000, START + 60_000, START + 2 * DAY):
        assert figures(stored.evaluate(now)) == brute_force(ticks, now)


@given(st.lists(st.sampled_from([b"", b"0xAA", b"So111", b"x" * 230]), max_size=12))
def test_a_tail_holds_what_is_appended(addresses: list[bytes]) -> None:
    values = [encode_value(START + n, n, 1.5 * n, 6) + address for n, address in enumerate(addresses)]
    packed = b"".join(tail.encode_tail(values[at : at + 5]) for at in range(0, len(values), 5))
    assert (tail.decode_tail(packed) if packed else []) == [
        (START + n, n, 1.5 * n, 6, address) for n, address in enumerate(addresses)
    ]


def test_too_many_ticks_for_a_tail() -> None:
    assert tail.fits_in_tail([b"x" * 25] * 20)
    assert not tail.fits_in_tail([b"x" * 25] * 21)
    assert not tail.fits_in_tail([b"x" * 256])


def test_no_tick() -> None:
    assert evaluate(TokenState(), START) is None
