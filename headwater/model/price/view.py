"""A stored state as readers need it: its figures are taken straight from the bytes, nothing is built to fold into."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from headwater.model.price.band import Extremes
from headwater.model.price.codec import BAND_HEAD, decode, decode_head
from headwater.model.price.left import Chunk
from headwater.model.price.series import Tick
from headwater.model.price.state import Told, horizon_of
from headwater.model.price.stats import Evaluable

_UNSIGNED = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class StateView:
    """Implements Evaluable; its ticks `ahead` are not among its figures."""

    newest: Told | None
    kept: int
    horizon: int
    split: set[int]
    bands: "dict[int, BandView]"
    left: dict[Chunk, list[Tick]] = field(default_factory=dict)


class BandView:
    """A band of a stored state: implements stats.Figures. words, doubles: all of the state; at: its columns."""

    __slots__ = ("_closes", "_counts", "_doubles", "_highs", "_hours", "_lows", "_recent", "_words")

    def __init__(
        self, words: "memoryview[int]", doubles: "memoryview[float]", at: int, counts: tuple[int, int, int, int, int]
    ) -> None:
        self._words, self._doubles, self._counts = words, doubles, counts
        lows, highs, recent, closes, _ = counts
        self._lows = at
        self._highs = at + 3 * lows
        self._recent = self._highs + 3 * highs
        self._closes = self._recent + 3 * recent
        self._hours = self._closes + 3 * closes

    @property
    def last(self) -> Tick:
        _, _, recent, closes, _ = self._counts
        return self._tick(self._recent, recent, recent - 1) if recent else self._tick(self._closes, closes, closes - 1)

    @property
    def support(self) -> int:
        start, count = self._hours, self._counts[4]
        return sum(map(int.bit_count, self._words[start + count : start + 2 * count]))

    def extremes_after(self, time: int) -> Extremes | None:
        words, (lows, highs, *_) = self._words, self._counts
        at = bisect_right(words, time, self._lows, self._lows + lows)
        if at == self._lows + lows:
            return None
        lowest = self._doubles[at + 2 * lows]
        return lowest, -self._doubles[bisect_right(words, time, self._highs, self._highs + highs) + 2 * highs]

    def last_until(self, time: int) -> Tick | None:
        _, _, recent, closes, _ = self._counts
        for start, count in ((self._recent, recent), (self._closes, closes)):
            if at := bisect_right(self._words, time, start, start + count) - start:
                return self._tick(start, count, at - 1)
        return None

    def minutes_of(self, hour: int) -> int:
        start, count = self._hours, self._counts[4]
        at = bisect_left(self._words, hour, start, start + count)
        return self._words[at + count] if at < start + count and self._words[at] == hour else 0

    def _tick(self, start: int, count: int, number: int) -> Tick:
        at = start + number
        return self._words[at], self._words[at + count] & _UNSIGNED, self._doubles[at + 2 * count]


def read_at(data: bytes, now: int) -> Evaluable:
    """The state of a token at a moment, from what codec.encode made. Raises PriceStateUnreadable."""
    head = decode_head(data)
    if any(tick[0] <= now for tick in head.ahead):
        state = decode(data)
        state.settle(now)
        return state
    words, doubles = memoryview(data).cast("q"), memoryview(data).cast("d")
    at, bands = head.end, dict[int, BandView]()
    for _ in range(head.bands):
        number, *counts = BAND_HEAD.unpack_from(data, at)
        at += BAND_HEAD.size
        bands[number] = BandView(words, doubles, at // 8, (*counts,))
        at += 24 * sum(counts[:4]) + 16 * counts[4]
    return StateView(head.newest, head.kept, horizon_of(head.since), head.split, bands)
