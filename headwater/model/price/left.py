"""Ticks that have left a token's state, by chunk: columns of times within the hour (ms), orders and prices."""

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from headwater.errors import PriceStateUnreadable
from headwater.model.price.band import HOUR_MS, MINUTE_MS, band_of, hour_of
from headwater.model.price.series import Tick

WHOLE = -1
_ROW_BYTES = 20


class Chunk(NamedTuple):
    """An hour by its start, or one minute of it, from 0 to 59."""

    hour: int
    minute: int = WHOLE

    @classmethod
    def of_minute(cls, time: int) -> "Chunk":
        """The minute that a time lies in."""
        hour = hour_of(time)
        return cls(hour, (time - hour) // MINUTE_MS)

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.hour + (HOUR_MS if self.minute == WHOLE else (self.minute + 1) * MINUTE_MS)


Leaving: TypeAlias = tuple[bytes, Chunk]
"""A token (its key on the ticks topic), and where ticks are that have left its state."""


@dataclass(frozen=True, slots=True)
class Left:
    """The stored ticks of a chunk. Its methods raise PriceStateUnreadable when the data is cut off."""

    chunk: Chunk
    data: bytes

    def last_until(self, time: int, bands: Collection[int]) -> Tick | None:
        """The last tick at or before a time whose price is in one of the bands."""
        times, orders, prices = _columns(self.data)
        at = bisect_right(times, time - self.chunk.hour)
        while at:
            at -= 1
            if band_of(prices[at]) in bands:
                return self.chunk.hour + times[at], orders[at], prices[at]
        return None

    def first_after(self, tick: Tick, bands: Collection[int]) -> Tick | None:
        """The first tick after this one whose price is in one of the bands."""
        later = (one for one in self.ticks() if one > tick and band_of(one[2]) in bands)
        return next(later, None)

    def ticks(self) -> list[Tick]:
        """All of them, in order."""
        hour = self.chunk.hour
        return [(hour + time, order, price) for time, order, price in zip(*_columns(self.data), strict=True)]


def encode(chunk: Chunk, ticks: Iterable[Tick]) -> bytes:
    """Ticks in any order: of every moment and band the last one."""
    kept: dict[tuple[int, int], Tick] = {}
    for tick in ticks:
        moment = tick[0], band_of(tick[2])
        kept[moment] = max(tick, kept.get(moment, tick))
    ordered = sorted(kept.values())
    times = array("I", [time - chunk.hour for time, _, _ in ordered])
    orders = array("Q", [order for _, order, _ in ordered])
    return times.tobytes() + orders.tobytes() + array("d", [price for _, _, price in ordered]).tobytes()


def _columns(data: bytes) -> "tuple[array[int], array[int], array[float]]":
    count, rest = divmod(len(data), _ROW_BYTES)
    if rest:
        raise PriceStateUnreadable
    return array("I", data[: 4 * count]), array("Q", data[4 * count : 12 * count]), array("d", data[12 * count :])
