"""Injects faults into a running installation.

The faults are signals to its processes, and impaired network links.
"""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from tests.acceptance.installation import Installation
from tests.support.processes import alive, cpu_seconds
from tests.support.proxy import CLEAR, Conditions, Proxy
from tests.support.waiting import until

SHORTEST_S = 5.0


@dataclass
class Strike:
    """An action that was applied. Times are seconds of the wall clock.

    Attributes:
        at: When the action began.
        ended: When the action ended.
        isolated: Whether no other strike had an effect at the same time.
        recovered_at: When every pipeline had processed a record that was fed after `at`; None until then.
    """

    name: str
    victim: str
    at: float
    ended: float
    isolated: bool
    recovered_at: float | None = None

    @property
    def recovery_s(self) -> float:
        """The seconds from the end of the action until a record was processed again.

        The record was fed after the beginning of the action.
        """
        assert self.recovered_at is not None
        return max(0.0, self.recovered_at - self.ended)

    def text(self, began: float) -> str:
        """Return a line of the report, with times relative to `began`."""
        output = "no output" if self.recovered_at is None else f"output at {self.recovered_at - began:.1f} s"
        return f"{self.at - began:.1f} s to {self.ended - began:.1f} s: {self.name}; {output}"


class AppliedAction(NamedTuple):
    """An action in progress.

    Attributes:
        at: When the action began, in seconds of the wall clock.
        end: Ends an action that has a duration; None for other actions.
    """

    at: float
    end: Callable[[], None] | None = None


@dataclass(frozen=True)
class Action:
    """A fault that can be injected.

    Attributes:
        victim: The process or link.
        how: What happens to the victim.
        apply: Applies the action.
        exclusive: Whether the action may be applied only while no other strike has an effect.
    """

    victim: str
    how: str
    apply: Callable[[], AppliedAction]
    exclusive: bool = False

    @property
    def name(self) -> str:
        """The victim, and what happens to it."""
        return f"{self.victim} {self.how}"


@dataclass
class InstallationActions:
    """The actions that can be applied to an installation and to its links.

    The links have proxies, which are given by name.
    """

    installation: Installation
    proxies: dict[str, Proxy]
    draw: random.Random
    scripts: bool
    _command_parts: dict[str, str] = field(
        default_factory=lambda: {
            "worker": "worker_main --spec ",
            "controller": " controller",
            "api": " api ",
            "kafka": "kafka.Kafka",
            "valkey": "valkey-server",
        }
    )

    def actions(self) -> list[Action]:
        """Return all actions."""
        victims = [*self._command_parts, *(["script"] if self.scripts else [])]
        actions = [action for victim in victims for action in self._process_actions(victim)]
        actions += [
            action for name, proxy in self.proxies.items() for action in self._link_actions(f"{name} link", proxy)
        ]
        return [*actions, *self._parent_actions()]

    def _process_actions(self, victim: str) -> list[Action]:
        return [
            Action(victim, "KILL", lambda: self._send(victim, signal.SIGKILL)),
            Action(victim, "TERM", lambda: self._send(victim, signal.SIGTERM)),
            Action(victim, "STOP", lambda: self._send(victim, signal.SIGSTOP)),
        ]

    def _send(self, victim: str, number: signal.Signals) -> AppliedAction:
        until(lambda: self._find(victim) != [], what=f"a running {victim}")
        return signal_process(next(iter(self._find(victim)), None), number)

    def _find(self, victim: str) -> list[int]:
        """Return the victim's processes in random order.

        For V8 the busiest process comes first, because other processes may be spare.
        """
        if victim == "script":
            return sorted(self.installation.sandboxes(), key=cpu_seconds, reverse=True)
        pids = sorted(self.installation.processes(self._command_parts[victim]))
        self.draw.shuffle(pids)
        return pids

    def _link_actions(self, name: str, proxy: Proxy) -> list[Action]:
        conditions = {
            "slow": Conditions(latency_s=0.2),
            "narrow": Conditions(bytes_per_s=50_000),
            "sliced": Conditions(slice_bytes=500),
            "deaf": Conditions(held=frozenset(["to_server"])),
            "dumb": Conditions(held=frozenset(["to_client"])),
            "cut": Conditions(held=frozenset(["to_server", "to_client"])),
        }

        def impair(conditions: Conditions) -> AppliedAction:
            proxy.set(conditions)
            return AppliedAction(time.time(), lambda: proxy.set(CLEAR))

        def half_open() -> AppliedAction:
            proxy.half_open()
            return AppliedAction(time.time(), lambda: proxy.set(CLEAR))

        def reset() -> AppliedAction:
            proxy.reset()
            return AppliedAction(time.time())

        lasting = [Action(name, how, partial(impair, impaired)) for how, impaired in conditions.items()]
        return [*lasting, Action(name, "half-open", half_open), Action(name, "reset", reset)]

    def _parent_actions(self) -> list[Action]:
        """Return the actions on the parent process, `headwater up`, which the test starts again."""

        def kill() -> AppliedAction:
            orphans = self.installation.kill()
            at = time.time()
            until(lambda: not any(map(alive, orphans)), what="the end of all children")
            self.installation.start()
            return AppliedAction(at)

        def terminate() -> AppliedAction:
            at = time.time()
            assert self.installation.stop() == 0, self.installation.log()
            self.installation.start()
            return AppliedAction(at)

        def stop() -> AppliedAction:
            assert self.installation.process is not None
            return signal_process(self.installation.process.pid, signal.SIGSTOP)

        actions = {"KILL": kill, "TERM": terminate, "STOP": stop}
        return [Action("parent", how, apply, exclusive=True) for how, apply in actions.items()]


def signal_process(pid: int | None, number: signal.Signals) -> AppliedAction:
    """Send a signal; wait until a process that the signal ends is gone.

    None is a process that has just ended.
    """
    if pid is None:
        return AppliedAction(time.time())
    send_signal(pid, number)
    if number == signal.SIGSTOP:
        return AppliedAction(time.time(), partial(send_signal, pid, signal.SIGCONT))
    until(lambda: not alive(pid), what="the end of a process")
    return AppliedAction(time.time())


def send_signal(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process if it still runs."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def shuffled(actions: Iterable[Action], draw: random.Random) -> Iterator[Action]:
    """Yield actions endlessly.

    Each victim comes once before any is repeated, and so does each action of a victim.
    """
    by_victim: dict[str, list[Action]] = {}
    for action in actions:
        by_victim.setdefault(action.victim, []).append(action)
    left: dict[str, list[Action]] = {victim: [] for victim in by_victim}
    while True:
        for victim in draw.sample(sorted(by_victim), len(by_victim)):
            if not left[victim]:
                left[victim] = draw.sample(by_victim[victim], len(by_victim[victim]))
            yield left[victim].pop()
