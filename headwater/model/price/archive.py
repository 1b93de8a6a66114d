"""Archived ticks of a token, which are no longer part of its state.

The ticks of a time bucket are stored together, as three columns: times in ms within the hour, orders and prices.
"""

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from headwater.errors import PriceStateUnreadable
from headwater.model.price.band import HOUR_MS, MINUTE_MS, band_of, hour_of
from headwater.model.price.series import Tick

WHOLE_HOUR = -1
_TICK_BYTES = 20


class TimeBucket(NamedTuple):
    """An hour, or one minute of an hour.

    Attributes:
        hour: The start of the hour in ms since the epoch.
        minute: The minute of the hour, from 0 to 59; WHOLE_HOUR for the hour itself.
    """

    hour: int
    minute: int = WHOLE_HOUR

    @classmethod
    def of_minute(cls, time: int) -> "TimeBucket":
        """Return the bucket of the minute that contains a time."""
        hour = hour_of(time)
        return cls(hour, (time - hour) // MINUTE_MS)

    @property
    def end(self) -> int:
        """The end of the bucket, which is the start of the next one."""
        return self.hour + (HOUR_MS if self.minute == WHOLE_HOUR else (self.minute + 1) * MINUTE_MS)


ArchiveKey: TypeAlias = tuple[bytes, TimeBucket]
"""The key of archived ticks: the token's key on the ticks topic, and the time bucket."""


@dataclass(frozen=True, slots=True)
class ArchivedTicks:
    """The archived ticks of one bucket.

    The methods raise PriceStateUnreadable when the data is truncated.
    """

    bucket: TimeBucket
    data: bytes

    def last_up_to(self, time: int, bands: Collection[int]) -> Tick | None:
        """Return the last tick at or before a time whose price is in one of the bands."""
        times, orders, prices = _columns(self.data)
        for index in reversed(range(bisect_right(times, time - self.bucket.hour))):
            if band_of(prices[index]) in bands:
                return self.bucket.hour + times[index], orders[index], prices[index]
        return None

    def first_after(self, tick: Tick, bands: Collection[int]) -> Tick | None:
        """Return the first tick after `tick` whose price is in one of the bands."""
        later = (archived for archived in self.ticks() if archived > tick and band_of(archived[2]) in bands)
        return next(later, None)

    def ticks(self) -> list[Tick]:
        """Return all ticks, sorted."""
        hour = self.bucket.hour
        return [(hour + time, order, price) for time, order, price in zip(*_columns(self.data), strict=True)]


def encode_archived(bucket: TimeBucket, ticks: Iterable[Tick]) -> bytes:
    """Encode the ticks of a bucket, which may have any order.

    Of several ticks with the same time and band, only the last one is kept.
    """
    last: dict[tuple[int, int], Tick] = {}
    for tick in ticks:
        time_and_band = tick[0], band_of(tick[2])
        last[time_and_band] = max(tick, last.get(time_and_band, tick))
    ordered = sorted(last.values())
    times = array("I", [time - bucket.hour for time, _, _ in ordered])
    orders = array("Q", [order for _, order, _ in ordered])
    return times.tobytes() + orders.tobytes() + array("d", [price for _, _, price in ordered]).tobytes()


def _columns(data: bytes) -> "tuple[array[int], array[int], array[float]]":
    count, remainder = divmod(len(data), _TICK_BYTES)
    if remainder:
        raise PriceStateUnreadable
    return array("I", data[: 4 * count]), array("Q", data[4 * count : 12 * count]), array("d", data[12 * count :])
