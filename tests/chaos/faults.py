"""What is done to a running installation: signals to its processes, bad conditions on its links."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from tests.acceptance.stack import Stack
from tests.support.processes import alive, cpu_seconds
from tests.support.proxy import CLEAR, Conditions, Proxy
from tests.support.waiting import until

SHORTEST_S = 5.0


@dataclass
class Strike:
    """A deed that was done. at, ended: wall clock; came_at: when the first record that was fed after `at` came out.

    alone: nothing else was wrong before that.
    """

    name: str
    victim: str
    at: float
    ended: float
    alone: bool
    came_at: float | None = None

    @property
    def recovery_s(self) -> float:
        """From the end of the deed to the first output of what was fed after its beginning."""
        assert self.came_at is not None
        return max(0.0, self.came_at - self.ended)

    def text(self, began: float) -> str:
        """A line of the report, times since `began`."""
        came = "nothing came" if self.came_at is None else f"output at {self.came_at - began:.1f} s"
        return f"{self.at - began:.1f} s to {self.ended - began:.1f} s: {self.name}; {came}"


class Done(NamedTuple):
    """at: when it began, by the wall clock. end: what ends a deed that lasts."""

    at: float
    end: Callable[[], None] | None = None


@dataclass(frozen=True)
class Deed:
    """Something that can be done. exclusive: only while nothing else is wrong."""

    victim: str
    how: str
    do: Callable[[], Done]
    exclusive: bool = False

    @property
    def name(self) -> str:
        """Victim and deed."""
        return f"{self.victim} {self.how}"


@dataclass
class Victims:
    """The deeds that are possible on a stack. proxies: by the name of the link."""

    stack: Stack
    proxies: dict[str, Proxy]
    draw: random.Random
    scripts: bool
    _texts: dict[str, str] = field(
        default_factory=lambda: {
            "worker": "worker_main --spec ",
            "controller": " controller",
            "api": " api ",
            "kafka": "kafka.Kafka",
            "valkey": "valkey-server",
        }
    )

    def deeds(self) -> list[Deed]:
        """All of them."""
        victims = [*self._texts, *(["script"] if self.scripts else [])]
        deeds = [deed for victim in victims for deed in self._to_process(victim)]
        deeds += [deed for name, proxy in self.proxies.items() for deed in self._to_link(f"{name} link", proxy)]
        return [*deeds, *self._to_parent()]

    def _to_process(self, victim: str) -> list[Deed]:
        return [
            Deed(victim, "KILL", lambda: self._send(victim, signal.SIGKILL)),
            Deed(victim, "TERM", lambda: self._send(victim, signal.SIGTERM)),
            Deed(victim, "STOP", lambda: self._send(victim, signal.SIGSTOP)),
        ]

    def _send(self, victim: str, number: signal.Signals) -> Done:
        until(lambda: self._find(victim) != [], what=f"a {victim} to hit")
        return sent(next(iter(self._find(victim)), None), number)

    def _find(self, victim: str) -> list[int]:
        """Processes of the kind, in any order; of the V8 processes the one at work first, not the spare one."""
        if victim == "script":
            return sorted(self.stack.sandboxes(), key=cpu_seconds, reverse=True)
        found = sorted(self.stack.below(self._texts[victim]))
        self.draw.shuffle(found)
        return found

    def _to_link(self, name: str, proxy: Proxy) -> list[Deed]:
        conditions = {
            "slow": Conditions(latency_s=0.2),
            "narrow": Conditions(bytes_per_s=50_000),
            "sliced": Conditions(slice_bytes=500),
            "deaf": Conditions(held=frozenset(["to_server"])),
            "dumb": Conditions(held=frozenset(["to_client"])),
            "cut": Conditions(held=frozenset(["to_server", "to_client"])),
        }

        def apply(wanted: Conditions) -> Done:
            proxy.set(wanted)
            return Done(time.time(), lambda: proxy.set(CLEAR))

        def half_open() -> Done:
            proxy.half_open()
            return Done(time.time(), lambda: proxy.set(CLEAR))

        def reset() -> Done:
            proxy.reset()
            return Done(time.time())

        lasting = [Deed(name, how, partial(apply, wanted)) for how, wanted in conditions.items()]
        return [*lasting, Deed(name, "half-open", half_open), Deed(name, "reset", reset)]

    def _to_parent(self) -> list[Deed]:
        """The parent of all: it is started again by whoever started it first."""

        def kill() -> Done:
            orphans = self.stack.kill()
            at = time.time()
            until(lambda: not any(map(alive, orphans)), what="the end of all children")
            self.stack.start()
            return Done(at)

        def terminate() -> Done:
            at = time.time()
            assert self.stack.stop() == 0, self.stack.log()
            self.stack.start()
            return Done(at)

        def stop() -> Done:
            assert self.stack.process is not None
            return sent(self.stack.process.pid, signal.SIGSTOP)

        deeds = {"KILL": kill, "TERM": terminate, "STOP": stop}
        return [Deed("parent", how, do, exclusive=True) for how, do in deeds.items()]


def sent(pid: int | None, number: signal.Signals) -> Done:
    """Send a signal; what it ends is gone afterwards. None: the process ended by itself a moment ago."""
    if pid is None:
        return Done(time.time())
    hit(pid, number)
    if number == signal.SIGSTOP:
        return Done(time.time(), partial(hit, pid, signal.SIGCONT))
    until(lambda: not alive(pid), what="the end of a process")
    return Done(time.time())


def hit(pid: int, number: signal.Signals) -> None:
    """Send a signal; no matter when the process is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def shuffled(deeds: Iterable[Deed], draw: random.Random) -> Iterator[Deed]:
    """Deeds without end. Every victim comes once before any comes again, and so does each of its deeds."""
    by_victim: dict[str, list[Deed]] = {}
    for deed in deeds:
        by_victim.setdefault(deed.victim, []).append(deed)
    left: dict[str, list[Deed]] = {victim: [] for victim in by_victim}
    while True:
        for victim in draw.sample(sorted(by_victim), len(by_victim)):
            if not left[victim]:
                left[victim] = draw.sample(by_victim[victim], len(by_victim[victim]))
            yield left[victim].pop()
