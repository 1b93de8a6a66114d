"""The copy test, in which pipelines process a stream under faults.

Processes are killed and stopped, and network links are impaired.

It follows Apache Kafka's transactions_test: records are numbered, victims are random, the outputs are compared with
the expected content, and a second reader must see the same outputs.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from tests.chaos.faults import SHORTEST_S, Action, InstallationActions, Strike, shuffled
from tests.chaos.load import SCRIPTED
from tests.chaos.run import STUCK_AFTER_S, TICK_S, Environment, RunOptions, RunReport, run, summary

CHECKPOINT_MS = 2_000
"""A victim is struck again only after this much of the stream has been processed: then the worker has committed."""
CLOCK_MS = 5
"""A record whose timestamp is at least this much later than a strike was fed after the strike."""


@dataclass(frozen=True)
class StrikePlan:
    """The number and kind of strikes.

    Attributes:
        gap_s: The mean time between strikes.
        longest_s: The longest time of a stopped process or an impaired link.
        only: The names of the actions to use, for example "worker KILL"; empty for all.
    """

    count: int
    gap_s: float = 3.0
    longest_s: float = 60.0
    only: Sequence[str] = ()


def copy(directory: Path, options: RunOptions, strikes: StrikePlan, echo: Callable[[str], None]) -> RunReport:
    """Run one copy test."""
    return run(
        directory, options, lambda environment, report: _CopyTest(environment, options, strikes, echo).run(report)
    )


class _CopyTest:
    """Applies the strikes one after the other, at random times."""

    def __init__(
        self, environment: Environment, options: RunOptions, plan: StrikePlan, echo: Callable[[str], None]
    ) -> None:
        self._environment = environment
        self._plan = plan
        self._echo = echo
        # Three random generators, so that the draws from one do not shift the sequence of another.
        order, self._draw, choice = (random.Random(options.run_number + more) for more in range(3))
        scripts = any(kind in SCRIPTED for kind in options.kinds)
        actions = InstallationActions(environment.installation, environment.proxies, choice, scripts).actions()
        self._actions = shuffled([action for action in actions if not plan.only or action.name in plan.only], order)
        self._ends: list[Timer] = []  # each in its own thread: one action may wait for the end of another
        self._strikes: list[Strike] = []
        self._began = time.time()

    def run(self, report: RunReport) -> None:
        """Apply all strikes, and wait until all pipelines have recovered.

        The strikes begin when every pipeline has had an output.
        """
        try:
            self._wait(lambda: self._environment.newest_ms > 0, "the first outputs")
            for _ in range(self._plan.count):
                self._pause(self._draw.expovariate(1 / self._plan.gap_s))
                self._strike()
            self._wait(lambda: all(strike.recovered_at for strike in self._strikes), "recovery from all strikes")
        finally:
            for timer in self._ends:
                if not timer.finished.is_set():
                    timer.cancel()
                    timer.function()
            report.figures["timeline"] = [strike.text(self._began) for strike in self._strikes]
        report.figures |= {
            "strikes": dict(sorted(Counter(strike.name for strike in self._strikes).items())),
            "recovery_s": _recovery([strike for strike in self._strikes if strike.isolated]),
            "recovery_when_strikes_overlap_s": _recovery([strike for strike in self._strikes if not strike.isolated]),
        }

    def _strike(self) -> None:
        action = next(self._actions)
        duration_s = self._draw.uniform(min(SHORTEST_S, self._plan.longest_s / 2), self._plan.longest_s)
        self._wait(lambda: self._is_recovered(action), f"the recovery of {action.victim}")
        applied = action.apply()
        others = [strike for strike in self._strikes if strike.recovered_at is None or strike.ended > applied.at]
        for other in others:
            other.isolated &= other.recovered_at is not None
        ended = time.time()
        if applied.end is not None:
            ended += duration_s
            self._ends.append(Timer(duration_s, applied.end))
            self._ends[-1].start()
        self._strikes.append(Strike(action.name, action.victim, applied.at, ended, isolated=not others))
        self._echo(f"{len(self._strikes)}: {action.name}" + (f" for {duration_s:.0f} s" if applied.end else ""))

    def _is_recovered(self, action: Action) -> bool:
        """Return whether all earlier strikes on the victim are over.

        For an exclusive action, all strikes on any victim must be over.

        A strike is over when the pipelines have processed CHECKPOINT_MS of the stream after it.
        """
        newest = self._environment.newest_ms - CHECKPOINT_MS
        strikes = [strike for strike in self._strikes if action.exclusive or strike.victim == action.victim]
        return all(s.recovered_at is not None and newest > max(s.recovered_at, s.ended) * 1000 for s in strikes)

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
        newest = self._environment.newest_ms
        for strike in self._strikes:
            if strike.recovered_at is None and newest > strike.at * 1000 + CLOCK_MS:
                strike.recovered_at = now


def _recovery(strikes: list[Strike]) -> dict[str, dict[str, float]]:
    """Return statistics of the recovery times in seconds, by action."""
    by_name: dict[str, list[float]] = {}
    for strike in strikes:
        by_name.setdefault(strike.name, []).append(round(strike.recovery_s, 2))
    return {name: summary(Counter(values)) for name, values in sorted(by_name.items())}
