"""All that is kept of a token."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import frexp
from operator import itemgetter

from headwater.model.price.band import HOUR_MS, MINUTE_MS, Band, hour_of
from headwater.model.price.left import Chunk
from headwater.model.price.series import Tick

RECENT_MS = HOUR_MS
"""The newest hours are those from this long before the newest tick."""
HORIZON_MS = 25 * HOUR_MS
"""From the hour of this long before the newest tick on, prices are judged and windows may begin."""

MANY = 1_024
"""With more recent ticks than these, only those of the newest tick's minute and the one before are kept."""

FEW = 4
"""So few ticks are taken one by one."""

PricedTick = tuple[int, int, float, int, bytes]
"""A tick, and the token's decimals and address as it tells them; b"" where the address is in lower case."""


def horizon_of(since: int) -> int:
    """The horizon of a state whose newest hours begin there."""
    return since + RECENT_MS - HORIZON_MS


def since_of(newest: int) -> int:
    """Where the newest hours begin, by the newest tick's time."""
    return hour_of(newest - RECENT_MS)


class TokenState:
    """What the ticks of a token come to. `now`s are in ms since the epoch.

    newest: None before the first tick. since: where the newest hours begin. kept: from where on the bands have the
    recent ticks: `since`, or later when they are many. ahead: ticks whose time has not come. left: ticks before `kept`,
    also those that come late: whoever stores them takes them out. split: hours whose ticks leave minute by minute.
    """

    __slots__ = ("ahead", "bands", "kept", "left", "newest", "since", "split", "turns_at")

    def __init__(self) -> None:
        self.bands: dict[int, Band] = {}
        self.newest: PricedTick | None = None
        self.begin_at(-RECENT_MS - HOUR_MS)
        self.kept = self.since
        self.ahead: set[PricedTick] = set()
        self.left: dict[Chunk, list[Tick]] = {}
        self.split: set[int] = set()

    def begin_at(self, since: int) -> None:
        """Set where the newest hours begin; they begin later with a tick at `turns_at`."""
        self.since = since
        self.turns_at = since + RECENT_MS + HOUR_MS

    @property
    def horizon(self) -> int:
        """What is before is of no account, but for the last tick."""
        return horizon_of(self.since)

    def fold(self, tick: PricedTick, now: int) -> None:
        """Take a tick; one whose time has not come waits for it."""
        time, order, price, _, _ = tick
        if time > now:
            self.ahead.add(tick)
            return
        newest = self.newest
        later = newest is None or newest[0] < time
        if newest is None or newest < tick:
            self.newest = tick
            if time >= self.turns_at:
                self._turn(since_of(time))
        number = frexp(price)[1]  # band_of, without the call
        band = self.bands.get(number)
        if band is None:
            band = self.bands[number] = Band()
        if later:
            band.append(time, order, price)
        elif time >= self.kept:
            band.add(time, order, price)
        elif time >= self.horizon:
            band.add_late(time, order, price)
            self.left.setdefault(self._chunk(time), []).append((time, order, price))
        else:
            band.close((time, order, price))
            band.forget(self.horizon)

    def fold_all(self, ticks: Iterable[PricedTick], now: int) -> None:
        """Take ticks in any order. Those that are later than all before are taken together, band by band."""
        told = sorted(ticks)
        start = 0 if self.newest is None else bisect_right(told, self.newest[0], key=itemgetter(0))
        end = bisect_right(told, now, lo=start, key=itemgetter(0))
        if end - start < FEW:
            start = end
        for tick in (*told[:start], *told[end:]):
            self.fold(tick, now)
        if start < end:
            self._extend(told[start:end])

    def _extend(self, ticks: Sequence[PricedTick]) -> None:
        """Take ticks in order that are later than all."""
        of_bands: dict[int, list[PricedTick]] = {}
        for tick in ticks:
            of_bands.setdefault(frexp(tick[2])[1], []).append(tick)
        for number, some in of_bands.items():
            self.bands.setdefault(number, Band()).extend(some)
        self.newest = ticks[-1]
        time = ticks[-1][0]
        if time >= self.turns_at:
            self._turn(since_of(time))

    def settle(self, now: int) -> None:
        """Take the ticks whose time has come."""
        due = sorted(tick for tick in self.ahead if tick[0] <= now)
        self.ahead.difference_update(due)
        for tick in due:
            self.fold(tick, now)

    def thin(self) -> None:
        """Let most of many recent ticks leave. For whoever is about to store the state: its size is bounded then."""
        if self.newest is None or sum(len(band.recent) for band in self.bands.values()) <= MANY:
            return
        time = self.newest[0]
        kept = time - time % MINUTE_MS - MINUTE_MS
        if kept > self.kept:
            self.split.update(range(hour_of(self.kept), kept, HOUR_MS))
            self._keep_from(kept)

    def _turn(self, since: int) -> None:
        """The newest hours begin later: what is before them leaves, what is before the horizon is forgotten."""
        self.begin_at(since)
        self._keep_from(max(since, self.kept))
        horizon = self.horizon
        for band in self.bands.values():
            band.forget(horizon)
        self.split = {hour for hour in self.split if hour >= horizon}

    def _keep_from(self, time: int) -> None:
        self.kept = time
        for band in self.bands.values():
            left = band.leave(time)
            at = left.before(self.horizon)
            while at < len(left):
                chunk = self._chunk(left.times[at])
                end = left.before(chunk.end)
                self.left.setdefault(chunk, []).extend(left.ticks(at, end))
                at = end

    def _chunk(self, time: int) -> Chunk:
        hour = hour_of(time)
        return Chunk.of_minute(time) if hour in self.split else Chunk(hour)
