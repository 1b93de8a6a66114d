"""The storms: a broker is killed, ended, stopped and fenced under load while members of a group come and go.

Unlike the copy test, it runs the engine alone, so that strikes follow each other closely: one to three of them, then a
calm in which each partition must make progress.
"""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headwater.brokers.embedded import EmbeddedKafka
from headwater.children import Child
from tests.acceptance.stack import beside
from tests.chaos.feeder import Feeder
from tests.chaos.load import KINDS, PARTITIONS, Load
from tests.chaos.members import CopyJob, Membership
from tests.chaos.stillness import StillnessObserver
from tests.chaos.witness import Witness
from tests.support.fencing import fencings, telling_broker
from tests.support.kafka import CACHE_DIR, server

MOST_STILL_S = 15.0
CALM_WITHIN_S = 240.0
REST_WITHIN_S = 180.0
TERM_GRACE_S = 30.0
STOP_S = (1.0, 8.0)
FENCE_S = (13.0, 16.0)
"""Longer than the broker's session with its controller and than the members' sessions with the group."""
GAP_S = 3.0
MEMBERSHIP_GAP_S = 6.0
DECK = ("KILL", "TERM", "STOP", "STOP", "KILL", "TERM", "STOP", "STOP", "TERM", "FENCE")
SETTLED_S = 1.0
TICK_S = 0.1


@dataclass(frozen=True)
class StormOptions:
    """What a run does. rate: records a second."""

    run_number: int
    strikes: int = 100
    rate: int = 1_000


@dataclass
class StormReport:
    """What a run found.

    Attributes:
        longest_still_s: By partition, the longest time without a commit while Kafka answered and had unread records.
        member_ends: Errors that ended workers, by type; another worker went on.
        faults: Wrong results.
        late: Partitions that stood still for longer than MOST_STILL_S.
    """

    options: dict[str, Any]
    strikes: dict[str, int] = field(default_factory=dict)
    fed: int = 0
    lost: int = 0
    wrong: int = 0
    inversions: int = 0
    repeats: int = 0
    longest_still_s: dict[int, float] = field(default_factory=dict)
    answered: int = 0
    unanswered: int = 0
    membership: dict[str, int] = field(default_factory=dict)
    member_ends: dict[str, int] = field(default_factory=dict)
    feeder_stalls: int = 0
    reader_stalls: int = 0
    broker_fencings: int = 0
    seconds: float = 0.0
    timeline: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong, and nothing late."""
        return not self.faults and not self.late

    def text(self) -> str:
        """The report as JSON."""
        return json.dumps(asdict(self) | {"verdict": "passed" if self.passed else "failed"}, indent=2)


class StruckBroker:
    """An embedded broker that strikes end or stop."""

    def __init__(self, directory: Path) -> None:
        self.embedded = EmbeddedKafka(directory, CACHE_DIR)
        self._child = self._start()
        self.embedded.wait_ready(self._child)

    def _start(self) -> Child:
        self.embedded.prepare()
        return self.embedded.start()

    def strike(self, how: str, stop_s: float) -> None:
        """Do one strike; a broker that it ends is started again."""
        if how in ("KILL", "TERM"):
            self._end(signal.SIGKILL if how == "KILL" else signal.SIGTERM)
            self._child = self._start()
            return
        self._child.send(signal.SIGSTOP)
        time.sleep(stop_s)
        self._child.send(signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        self._child.send(number)
        if self._child.wait(TERM_GRACE_S) is None:
            self._child.stop(0)

    def revive(self) -> None:
        """Start the broker again if it has ended by itself."""
        if self._child.poll() is not None:
            self._child = self._start()

    def close(self) -> None:
        """End the broker."""
        self._end(signal.SIGTERM)


@contextmanager
def struck_broker(directory: Path) -> Iterator[StruckBroker]:
    """A broker that tells whom it fences, until the block ends."""
    with telling_broker():
        broker = StruckBroker(directory)
        try:
            yield broker
        finally:
            broker.close()


def storms(directory: Path, options: StormOptions, tell: Callable[[str], None]) -> StormReport:
    """One run, from an empty directory to its report."""
    began, report = time.monotonic(), StormReport(asdict(options))
    with struck_broker(directory) as broker:
        _Storm(broker, options, report, tell).run()
    report.broker_fencings = fencings(directory / "logs")
    report.seconds = round(time.monotonic() - began, 1)
    return report


class _Storm:
    def __init__(
        self, broker: StruckBroker, options: StormOptions, report: StormReport, tell: Callable[[str], None]
    ) -> None:
        self._broker, self._options, self._report, self._tell = broker, options, report, tell
        self._random = random.Random(options.run_number)
        self._deck: list[str] = []
        kafka = server(broker.embedded)
        source, sink, dead = (kafka.create_topic(kafka.unique(name), PARTITIONS) for name in ("in", "out", "dead"))
        job = CopyJob(kafka.access, source, sink, dead, kafka.unique("group"))
        kafka.commit(job.group, job.source, dict.fromkeys(range(PARTITIONS), 0))
        settings = {**kafka.plain_settings, "bootstrap.servers": kafka.access.bootstrap_servers, "log_level": 0}
        load = Load(options.run_number, poison_every=0)
        reading = {"group.id": "witness", "isolation.level": "read_committed"}
        self._witness = Witness(settings | reading, job.sink, lambda n: load.outputs(KINDS["plain"], n))
        self._feeder = Feeder(settings, job.source, load, options.rate)
        self._membership = Membership(job, options.run_number + 1, MEMBERSHIP_GAP_S)
        self._observer = StillnessObserver(kafka.access, job.source, job.group, PARTITIONS)
        self._stillness = self._observer.stillness
        self._began = time.monotonic()

    def run(self) -> None:
        """Strike until the number of strikes is reached, and judge what came."""
        with beside(self._witness), beside(self._observer):
            with beside(self._membership):
                with beside(self._feeder):
                    self._wait_for_progress(time.monotonic())
                    self._strike_all()
                self._wait_for_the_rest()
            stuck = self._membership.stuck()
        self._judge(stuck)

    def _strike_all(self) -> None:
        done = Counter[str]()
        while done.total() < self._options.strikes:
            for _ in range(min(self._random.randint(1, 3), self._options.strikes - done.total())):
                time.sleep(self._random.expovariate(1 / GAP_S))
                how = self._next_deed()
                self._note(self._do(how))
                done[how] += 1
            if not self._wait_for_progress(time.monotonic() + SETTLED_S):
                break
        self._report.strikes = dict(done)

    def _next_deed(self) -> str:
        if not self._deck:
            self._deck = self._random.sample(DECK, len(DECK))
        return self._deck.pop()

    def _do(self, how: str) -> str:
        stop_s = self._random.uniform(*(FENCE_S if how == "FENCE" else STOP_S))
        self._broker.strike(how, stop_s)
        return how if how in ("KILL", "TERM") else f"{how} {stop_s:.1f} s"

    def _note(self, text: str) -> None:
        line = f"{time.monotonic() - self._began:.1f} s: {text}"
        self._report.timeline.append(line)
        self._tell(line)

    def _wait_for_progress(self, moment: float) -> bool:
        """Wait until each partition has made progress since a moment; else note a fault."""
        deadline = time.monotonic() + CALM_WITHIN_S
        while not self._stillness.all_moved_since(moment):
            self._broker.revive()
            if time.monotonic() > deadline:
                self._report.faults.append(
                    f"partitions made no progress for {CALM_WITHIN_S:g} s: {self._stillness.still()}"
                )
                return False
            time.sleep(TICK_S)
        longest_s = max(self._stillness.longest_s.values())
        self._note(f"progress after {time.monotonic() - moment:.1f} s; longest stillness so far {longest_s:.1f} s")
        return True

    def _wait_for_the_rest(self) -> None:
        deadline = time.monotonic() + REST_WITHIN_S
        while not self._witness.account.complete(self._feeder.count) and time.monotonic() < deadline:
            time.sleep(TICK_S)

    def _judge(self, stuck: list[str]) -> None:
        report, seen = self._report, self._witness.account
        report.fed, report.lost = self._feeder.count, seen.lost(self._feeder.count)
        report.wrong, report.inversions, report.repeats = seen.wrong, seen.inversions, seen.repeats
        report.longest_still_s = {p: round(s, 1) for p, s in self._stillness.longest_s.items()}
        report.answered, report.unanswered = self._stillness.answered, self._stillness.unanswered
        report.membership, report.member_ends = dict(self._membership.changes), dict(self._membership.ends)
        report.feeder_stalls, report.reader_stalls = self._feeder.stalls, self._witness.stalls
        for name in ("lost", "wrong", "inversions"):
            if count := getattr(report, name):
                report.faults.append(f"{count} outputs {name}")
        report.faults += [f"the member {name} did not end" for name in stuck]
        report.faults += [f"a worker ended: {end}" for end in report.member_ends if end.startswith("unexpected")]
        report.late += [
            f"partition {partition} stood still for {still_s} s"
            for partition, still_s in report.longest_still_s.items()
            if still_s > MOST_STILL_S
        ]
