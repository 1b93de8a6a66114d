"""The copy test: streams go through pipelines while everything under them is killed, stopped and cut off.

Its shape is that of Apache Kafka's transactions_test: numbered records, random victims, a comparison by content of what
came out with what went in, and readers beside it who must have seen the same.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from tests.chaos.faults import SHORTEST_S, Deed, Strike, Victims, shuffled
from tests.chaos.load import SCRIPTED
from tests.chaos.trial import STUCK_AFTER_S, TICK_S, Installation, Options, Report, run, summary

CHECKPOINT_MS = 2_000
"""The next strike at the same victim waits for this much of the stream: then the worker has committed."""
CLOCK_MS = 5
"""A record with a time of so much after a strike was fed after it."""


@dataclass(frozen=True)
class Strikes:
    """What is done. gap_s: the mean of the pauses between strikes; longest_s: of a stop or a bad link.

    only: names of deeds, for example "worker KILL"; none means all.
    """

    count: int
    gap_s: float = 3.0
    longest_s: float = 60.0
    only: Sequence[str] = ()


def copy(directory: Path, options: Options, strikes: Strikes, tell: Callable[[str], None]) -> Report:
    """One copy test."""
    return run(directory, options, lambda made, report: _Chaos(made, options, strikes, tell).run(report))


class _Chaos:
    """Strikes one after the other, at random times."""

    def __init__(self, made: Installation, options: Options, plan: Strikes, tell: Callable[[str], None]) -> None:
        self._made = made
        self._plan = plan
        self._tell = tell
        # Three sources of chance: how many numbers one of them gives must not depend on another's luck.
        which, self._draw, among = (random.Random(options.run_number + more) for more in range(3))
        scripts = any(kind in SCRIPTED for kind in options.kinds)
        deeds = Victims(made.stack, made.proxies, among, scripts).deeds()
        self._deeds = shuffled([deed for deed in deeds if not plan.only or deed.name in plan.only], which)
        self._ends: list[Timer] = []  # by themselves: a deed may wait for what another one holds up
        self._strikes: list[Strike] = []
        self._began = time.time()

    def run(self, report: Report) -> None:
        """Do all strikes, from the first results of every pipeline on, and wait until their effects are over."""
        try:
            self._wait(lambda: self._made.newest_ms > 0, "the first results")
            for _ in range(self._plan.count):
                self._pause(self._draw.expovariate(1 / self._plan.gap_s))
                self._strike()
            self._wait(lambda: all(strike.came_at for strike in self._strikes), "the end of all strikes")
        finally:
            for timer in self._ends:
                if not timer.finished.is_set():
                    timer.cancel()
                    timer.function()
            report.more["timeline"] = [strike.text(self._began) for strike in self._strikes]
        report.more |= {
            "strikes": dict(sorted(Counter(strike.name for strike in self._strikes).items())),
            "recovery_s": _recovery([strike for strike in self._strikes if strike.alone]),
            "recovery_when_strikes_overlap_s": _recovery([strike for strike in self._strikes if not strike.alone]),
        }

    def _strike(self) -> None:
        deed = next(self._deeds)
        lasts_s = self._draw.uniform(min(SHORTEST_S, self._plan.longest_s / 2), self._plan.longest_s)
        self._wait(lambda: self._free(deed), f"the return of {deed.victim}")
        done = deed.do()
        others = [strike for strike in self._strikes if strike.came_at is None or strike.ended > done.at]
        for other in others:
            other.alone &= other.came_at is not None
        ended = time.time()
        if done.end is not None:
            ended += lasts_s
            self._ends.append(Timer(lasts_s, done.end))
            self._ends[-1].start()
        self._strikes.append(Strike(deed.name, deed.victim, done.at, ended, alone=not others))
        self._tell(f"{len(self._strikes)}: {deed.name}" + (f" for {lasts_s:.0f} s" if done.end else ""))

    def _free(self, deed: Deed) -> bool:
        """True when the stream has gone on for a checkpoint after all else that was done to the victim, or to any."""
        newest = self._made.newest_ms - CHECKPOINT_MS
        strikes = [strike for strike in self._strikes if deed.exclusive or strike.victim == deed.victim]
        return all(s.came_at is not None and newest > max(s.came_at, s.ended) * 1000 for s in strikes)

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._tick()

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + STUCK_AFTER_S
        while not condition():
            assert time.monotonic() < until, f"stuck: waited {STUCK_AFTER_S:.0f} s for {what}"
            self._tick()

    def _tick(self) -> None:
        time.sleep(TICK_S)
        now = time.time()
        newest = self._made.newest_ms
        for strike in self._strikes:
            if strike.came_at is None and newest > strike.at * 1000 + CLOCK_MS:
                strike.came_at = now


def _recovery(strikes: list[Strike]) -> dict[str, dict[str, float]]:
    """Seconds, by deed."""
    by_name: dict[str, list[float]] = {}
    for strike in strikes:
        by_name.setdefault(strike.name, []).append(round(strike.recovery_s, 2))
    return {name: summary(Counter(values)) for name, values in sorted(by_name.items())}
