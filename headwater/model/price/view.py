"""Read-only views of a stored state and its tail, from which the statistics are computed.

The views read the encoded bytes directly. The state is decoded, and its tail is folded, only when the tail has ticks in
the future, or when ticks of the state that were in the future have to be folded now.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import NamedTuple

from headwater.model.price.archive import TimeBucket
from headwater.model.price.band import Extremes, band_of
from headwater.model.price.codec import BAND_HEAD, Head, columns_size, decode_head, decode_state
from headwater.model.price.series import Tick
from headwater.model.price.state import TokenState, TokenTick, horizon_of, window_start_of
from headwater.model.price.stats import EvaluableBand, EvaluableState
from headwater.model.price.tail import decode_tail

_UNSIGNED = (1 << 64) - 1
_NO_HEAD = Head(
    window_start=0, recent_start=0, hours_archived_by_minute=set(), band_count=0, newest=None, ahead=[], bands_offset=0
)


class StateView(NamedTuple):
    """A stored state without its future ticks. It implements stats.EvaluableState."""

    newest: TokenTick | None
    recent_start: int
    horizon: int
    hours_archived_by_minute: set[int]
    bands: Mapping[int, EvaluableBand]
    to_archive: Mapping[TimeBucket, Sequence[Tick]] = MappingProxyType({})


class BandView:
    """A band of a stored state. It implements stats.EvaluableBand.

    Args:
        words: The whole encoded state as integers.
        doubles: The whole encoded state as floats.
        start: The word index of the first column of the band.
        counts: The lengths in the head of the band.
    """

    __slots__ = ("_closes", "_counts", "_doubles", "_highs", "_hours", "_lows", "_recent", "_words")

    def __init__(
        self, words: "memoryview[int]", doubles: "memoryview[float]", start: int, counts: tuple[int, int, int, int, int]
    ) -> None:
        self._words, self._doubles, self._counts = words, doubles, counts
        lows, highs, recent, closes, _ = counts
        self._lows = start
        self._highs = start + 3 * lows
        self._recent = self._highs + 3 * highs
        self._closes = self._recent + 3 * recent
        self._hours = self._closes + 3 * closes

    @property
    def last(self) -> Tick:
        _, _, recent, closes, _ = self._counts
        return self._tick(self._recent, recent, recent - 1) if recent else self._tick(self._closes, closes, closes - 1)

    @property
    def minutes_by_hour(self) -> dict[int, int]:
        start, count = self._hours, self._counts[4]
        hours, bits = self._words[start : start + count], self._words[start + count : start + 2 * count]
        return dict(zip(hours, bits, strict=True))

    @property
    def active_minutes(self) -> int:
        start, count = self._hours, self._counts[4]
        return sum(map(int.bit_count, self._words[start + count : start + 2 * count]))

    def extremes_after(self, time: int) -> Extremes | None:
        words, (lows, highs, *_) = self._words, self._counts
        at = bisect_right(words, time, self._lows, self._lows + lows)
        if at == self._lows + lows:
            return None
        lowest = self._doubles[at + 2 * lows]
        return lowest, -self._doubles[bisect_right(words, time, self._highs, self._highs + highs) + 2 * highs]

    def last_up_to(self, time: int) -> Tick | None:
        _, _, recent, closes, _ = self._counts
        for start, count in ((self._recent, recent), (self._closes, closes)):
            if at := bisect_right(self._words, time, start, start + count) - start:
                return self._tick(start, count, at - 1)
        return None

    def first_after(self, tick: Tick) -> Tick | None:
        _, _, recent, closes, _ = self._counts
        candidates = []
        for start, count in ((self._recent, recent), (self._closes, closes)):
            at = bisect_left(self._words, tick[0], start, start + count) - start
            while at < count and self._tick(start, count, at) <= tick:
                at += 1
            if at < count:
                candidates.append(self._tick(start, count, at))
        return min(candidates, default=None)

    def minute_mask(self, hour: int) -> int:
        start, count = self._hours, self._counts[4]
        at = bisect_left(self._words, hour, start, start + count)
        return self._words[at + count] if at < start + count and self._words[at] == hour else 0

    def _tick(self, start: int, count: int, index: int) -> Tick:
        """Return the tick at an index of a series of `count` ticks from the word `start` on."""
        at = start + index
        return self._words[at], self._words[at + count] & _UNSIGNED, self._doubles[at + 2 * count]


class TailedBand:
    """A band of the state combined with ticks of the tail. It implements stats.EvaluableBand.

    Args:
        stored: The band of the stored state, if there is one.
        ticks: The sorted ticks of the tail.
        horizon: The horizon of the state with its tail, which may be later than the horizon of the state alone.
    """

    __slots__ = ("_horizon", "_prices", "_stored", "_ticks", "_times")

    def __init__(self, stored: BandView | None, ticks: Sequence[TokenTick], horizon: int) -> None:
        self._stored, self._ticks, self._horizon = stored, ticks, horizon
        self._times = tuple([tick[0] for tick in ticks])
        self._prices = tuple([tick[2] for tick in ticks])

    @property
    def last(self) -> Tick:
        if not self._stored:
            return self._ticks[-1][:3]
        return max(self._stored.last, self._ticks[-1][:3]) if self._ticks else self._stored.last

    @property
    def active_minutes(self) -> int:
        return sum(map(int.bit_count, self.minutes_by_hour.values()))

    @property
    def minutes_by_hour(self) -> dict[int, int]:
        minutes = self._stored.minutes_by_hour if self._stored else {}
        for time in self._times:
            hour, minute = TimeBucket.of_minute(time)
            minutes[hour] = minutes.get(hour, 0) | 1 << minute
        return {hour: bits for hour, bits in minutes.items() if hour >= self._horizon}

    def first_after(self, tick: Tick) -> Tick | None:
        first_stored = self._stored.first_after(tick) if self._stored else None
        first_in_tail = next((later[:3] for later in self._ticks if later[:3] > tick), None)
        return min((first for first in (first_stored, first_in_tail) if first), default=None)

    def extremes_after(self, time: int) -> Extremes | None:
        prices = self._prices[bisect_right(self._times, time) :]
        if self._stored:
            prices += self._stored.extremes_after(time) or ()
        return (min(prices), max(prices)) if prices else None

    def last_up_to(self, time: int) -> Tick | None:
        last_stored = self._stored.last_up_to(time) if self._stored else None
        count = bisect_right(self._times, time)
        if not count:
            return last_stored
        last_in_tail = self._ticks[count - 1][:3]
        return last_in_tail if last_stored is None else max(last_stored, last_in_tail)

    def minute_mask(self, hour: int) -> int:
        # The masks select archived buckets, and ticks of the tail are not archived.
        return self._stored.minute_mask(hour) if self._stored else 0


class MergedBand:
    """A band of several states of one token. It implements stats.EvaluableBand.

    Args:
        bands: The band in each of the states.
        horizon: The horizon of the merged state.
    """

    __slots__ = ("_bands", "_horizon")

    def __init__(self, bands: Sequence[EvaluableBand], horizon: int) -> None:
        self._bands, self._horizon = bands, horizon

    @property
    def last(self) -> Tick:
        return max(band.last for band in self._bands)

    @property
    def active_minutes(self) -> int:
        return sum(map(int.bit_count, self.minutes_by_hour.values()))

    @property
    def minutes_by_hour(self) -> dict[int, int]:
        minutes = dict[int, int]()
        for band in self._bands:
            for hour, bits in band.minutes_by_hour.items():
                if hour >= self._horizon:
                    minutes[hour] = minutes.get(hour, 0) | bits
        return minutes

    def extremes_after(self, time: int) -> Extremes | None:
        extremes = [extreme for band in self._bands if (extreme := band.extremes_after(time))]
        return (min(low for low, _ in extremes), max(high for _, high in extremes)) if extremes else None

    def last_up_to(self, time: int) -> Tick | None:
        candidates = (band.last_up_to(time) for band in self._bands)
        return max((tick for tick in candidates if tick), default=None)

    def first_after(self, tick: Tick) -> Tick | None:
        candidates = (band.first_after(tick) for band in self._bands)
        return min((first for first in candidates if first), default=None)

    def minute_mask(self, hour: int) -> int:
        return reduce(or_, (band.minute_mask(hour) for band in self._bands))


def merge_states(states: Sequence[EvaluableState]) -> EvaluableState:
    """Merge several states of a token for an evaluation.

    The merged state has no hours_archived_by_minute, so `needed_buckets` must be called with each of the states as
    `buckets_of`.
    """
    merged = [state for state in states if state.newest is not None] or states[:1]
    if len(merged) == 1:
        return merged[0]
    horizon = max(state.horizon for state in merged)
    numbers = {number for state in merged for number in state.bands}
    bands = {
        number: MergedBand([state.bands[number] for state in merged if number in state.bands], horizon)
        for number in numbers
    }
    to_archive: dict[TimeBucket, list[Tick]] = {}
    for state in merged:
        for bucket, ticks in state.to_archive.items():
            to_archive.setdefault(bucket, []).extend(ticks)
    newest = max(state.newest for state in merged if state.newest is not None)
    return StateView(newest, max(state.recent_start for state in merged), horizon, set(), bands, to_archive)


def view_with_tail(data: bytes | None, tail: bytes | None, now: int) -> EvaluableState:
    """Return the state of a token at a time, from its encoded state and its tail.

    Raises PriceStateUnreadable.
    """
    return view_with_ticks(data, decode_tail(tail) if tail else [], now)


def view_with_ticks(data: bytes | None, ticks: Iterable[TokenTick], now: int) -> EvaluableState:
    """Return the state of a token at a time, from its encoded state and from later ticks.

    The ticks may have any order. Raises PriceStateUnreadable.
    """
    ticks = sorted(ticks)
    head = decode_head(data) if data else _NO_HEAD
    if (ticks and ticks[-1][0] > now) or (head.ahead and min(head.ahead)[0] <= now):
        state = decode_state(data) if data else TokenState()
        state.fold_due(now)
        state.fold_all(ticks, now)
        return state
    bands: Mapping[int, BandView] = _bands(data, head) if data else {}
    if not ticks:
        return StateView(
            head.newest, head.recent_start, horizon_of(head.window_start), head.hours_archived_by_minute, bands
        )
    newest = ticks[-1] if head.newest is None else max(head.newest, ticks[-1])
    horizon = horizon_of(window_start_of(newest[0]))
    return StateView(
        newest, head.recent_start, horizon, head.hours_archived_by_minute, _bands_with_tail(bands, ticks, horizon)
    )


def _bands(data: bytes, head: Head) -> dict[int, BandView]:
    words, doubles = memoryview(data).cast("q"), memoryview(data).cast("d")
    offset, bands = head.bands_offset, dict[int, BandView]()
    for _ in range(head.band_count):
        number, *counts = BAND_HEAD.unpack_from(data, offset)
        offset += BAND_HEAD.size
        bands[number] = BandView(words, doubles, offset // 8, (*counts,))
        offset += columns_size(counts)
    return bands


def _bands_with_tail(
    bands: Mapping[int, BandView], ticks: Sequence[TokenTick], horizon: int
) -> dict[int, EvaluableBand]:
    prices = [tick[2] for tick in ticks]
    lowest = band_of(min(prices))
    if lowest == band_of(max(prices)) and bands.keys() <= {lowest}:  # a shortcut: most tokens have a single band
        return {lowest: TailedBand(bands.get(lowest), ticks, horizon)}
    ticks_by_band: dict[int, list[TokenTick]] = {number: [] for number in bands}
    for tick in ticks:
        ticks_by_band.setdefault(band_of(tick[2]), []).append(tick)
    return {number: TailedBand(bands.get(number), of_band, horizon) for number, of_band in ticks_by_band.items()}
