"""All that is kept of a token."""

from math import frexp

from headwater.model.price.band import HOUR_MS, Band, hour_of
from headwater.model.price.series import Tick

RECENT_MS = HOUR_MS
"""The newest hours are those from this long before the newest tick."""
HORIZON_MS = 25 * HOUR_MS
"""From the hour of this long before the newest tick on, prices are judged and windows may begin."""

Told = tuple[int, int, float, int, bytes]
"""A tick, and the token's decimals and address as it tells them; b"" where the address is in lower case."""


class TokenState:
    """What the ticks of a token come to. `now`s are in ms since the epoch.

    newest: None before the first tick. since: where the newest hours begin. ahead: ticks whose time has not come.
    left: ticks that have left the newest hours, and late ones, by the start of their hour: whoever stores them takes
    them out.
    """

    __slots__ = ("ahead", "bands", "left", "newest", "since", "turns_at")

    def __init__(self) -> None:
        self.bands: dict[int, Band] = {}
        self.newest: Told | None = None
        self.begin_at(-RECENT_MS - HOUR_MS)
        self.ahead: set[Told] = set()
        self.left: dict[int, list[Tick]] = {}

    def begin_at(self, since: int) -> None:
        """Set where the newest hours begin; they begin later with a tick at `turns_at`."""
        self.since = since
        self.turns_at = since + RECENT_MS + HOUR_MS

    @property
    def horizon(self) -> int:
        """What is before is of no account, but for the last tick."""
        return self.since + RECENT_MS - HORIZON_MS

    def fold(self, tick: Told, now: int) -> None:
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
                self._turn(hour_of(time - RECENT_MS))
        number = frexp(price)[1]  # band_of, without the call
        band = self.bands.get(number)
        if band is None:
            band = self.bands[number] = Band()
        if later:
            band.append(time, order, price)
        elif time >= self.since:
            band.add(time, order, price)
        elif time >= self.horizon:
            band.add_late(time, order, price)
            self.left.setdefault(hour_of(time), []).append((time, order, price))
        else:
            band.close((time, order, price))
            band.forget(self.horizon)

    def settle(self, now: int) -> None:
        """Take the ticks whose time has come."""
        due = sorted(tick for tick in self.ahead if tick[0] <= now)
        self.ahead.difference_update(due)
        for tick in due:
            self.fold(tick, now)

    def _turn(self, since: int) -> None:
        """The newest hours begin later: what is before them leaves, what is before the horizon is forgotten."""
        self.begin_at(since)
        horizon = self.horizon
        for band in self.bands.values():
            left = band.leave(since)
            for at in range(left.before(horizon), len(left)):
                self.left.setdefault(hour_of(left.times[at]), []).append(left[at])
            band.forget(horizon)
