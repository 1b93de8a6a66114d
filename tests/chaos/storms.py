"""The storm test, in which a broker fails under load while group members change.

The broker is killed, terminated, stopped and fenced.

Unlike the copy test it runs only the engine, so that strikes can follow each other closely. After one to three strikes
it waits until each partition has made progress.
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
from tests.acceptance.installation import in_background
from tests.chaos.feeder import Feeder
from tests.chaos.group_members import CopyJob, GroupMembers
from tests.chaos.load import KINDS, PARTITIONS, Load
from tests.chaos.progress_observer import ProgressObserver
from tests.chaos.verifying_consumer import VerifyingConsumer
from tests.support.fencing import count_fencings, logged_fencing
from tests.support.kafka import CACHE_DIR, server

MAX_STILL_S = 15.0
CALM_WITHIN_S = 240.0
OUTPUTS_WITHIN_S = 180.0
TERM_GRACE_S = 30.0
STOP_S = (1.0, 8.0)
FENCE_S = (13.0, 16.0)
"""These stops last longer than the broker's session with the controller and than the members' group sessions."""
GAP_S = 3.0
MEMBERSHIP_GAP_S = 6.0
DECK = ("KILL", "TERM", "STOP", "STOP", "KILL", "TERM", "STOP", "STOP", "TERM", "FENCE")
SETTLED_S = 1.0
TICK_S = 0.1


@dataclass(frozen=True)
class StormOptions:
    """The settings of a run. The rate is in records per second."""

    run_number: int
    strikes: int = 100
    rate: int = 1_000


@dataclass
class StormReport:
    """The results of a run.

    Attributes:
        longest_still_s: By partition, the longest time without a commit while Kafka answered and had unread records.
        member_ends: Counts the errors that ended workers, by type. Another worker took over.
        faults: Wrong outputs.
        late: Partitions that made no progress for longer than MAX_STILL_S.
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
        """Whether there were no faults and no late results."""
        return not self.faults and not self.late

    def text(self) -> str:
        """Return the report as JSON."""
        return json.dumps(asdict(self) | {"verdict": "passed" if self.passed else "failed"}, indent=2)


class FaultyBroker:
    """An embedded broker to which strikes are applied."""

    def __init__(self, directory: Path) -> None:
        self.embedded = EmbeddedKafka(directory, CACHE_DIR)
        self._child = self._start()
        self.embedded.wait_ready(self._child)

    def _start(self) -> Child:
        self.embedded.prepare()
        return self.embedded.start()

    def strike(self, how: str, stop_s: float) -> None:
        """Apply one strike. Start the broker again if the strike ended it."""
        if how in ("KILL", "TERM"):
            self._terminate(signal.SIGKILL if how == "KILL" else signal.SIGTERM)
            self._child = self._start()
            return
        self._child.send(signal.SIGSTOP)
        time.sleep(stop_s)
        self._child.send(signal.SIGCONT)

    def _terminate(self, number: signal.Signals) -> None:
        self._child.send(number)
        if self._child.wait(TERM_GRACE_S) is None:
            self._child.stop(0)

    def restart_if_ended(self) -> None:
        """Start the broker again if it has ended by itself."""
        if self._child.poll() is not None:
            self._child = self._start()

    def close(self) -> None:
        """Stop the broker."""
        self._terminate(signal.SIGTERM)


@contextmanager
def faulty_broker(directory: Path) -> Iterator[FaultyBroker]:
    """Run a broker that logs fencing, for the block."""
    with logged_fencing():
        broker = FaultyBroker(directory)
        try:
            yield broker
        finally:
            broker.close()


def storms(directory: Path, options: StormOptions, echo: Callable[[str], None]) -> StormReport:
    """Run the test in an empty directory."""
    began, report = time.monotonic(), StormReport(asdict(options))
    with faulty_broker(directory) as broker:
        _StormTest(broker, options, report, echo).run()
    report.broker_fencings = count_fencings(directory / "logs")
    report.seconds = round(time.monotonic() - began, 1)
    return report


class _StormTest:
    def __init__(
        self, broker: FaultyBroker, options: StormOptions, report: StormReport, echo: Callable[[str], None]
    ) -> None:
        self._broker, self._options, self._report, self._echo = broker, options, report, echo
        self._random = random.Random(options.run_number)
        self._deck: list[str] = []
        kafka = server(broker.embedded)
        source, sink, dead = (kafka.create_topic(kafka.unique(name), PARTITIONS) for name in ("in", "out", "dead"))
        job = CopyJob(kafka.access, source, sink, dead, kafka.unique("group"))
        kafka.commit(job.group, job.source, dict.fromkeys(range(PARTITIONS), 0))
        settings = {**kafka.plain_settings, "bootstrap.servers": kafka.access.bootstrap_servers, "log_level": 0}
        load = Load(options.run_number, poison_every=0)
        consumer_settings = {"group.id": "verifier", "isolation.level": "read_committed"}
        self._consumer = VerifyingConsumer(
            settings | consumer_settings, job.sink, lambda n: load.outputs(KINDS["plain"], n)
        )
        self._feeder = Feeder(settings, job.source, load, options.rate)
        self._members = GroupMembers(job, options.run_number + 1, MEMBERSHIP_GAP_S)
        self._observer = ProgressObserver(kafka.access, job.source, job.group, PARTITIONS)
        self._monitor = self._observer.monitor
        self._began = time.monotonic()

    def run(self) -> None:
        """Apply all strikes, then check the outputs."""
        with in_background(self._consumer), in_background(self._observer):
            with in_background(self._members):
                with in_background(self._feeder):
                    self._wait_for_progress(time.monotonic())
                    self._strike_all()
                self._wait_for_outputs()
            stuck = self._members.stuck()
        self._check_results(stuck)

    def _strike_all(self) -> None:
        done = Counter[str]()
        while done.total() < self._options.strikes:
            for _ in range(min(self._random.randint(1, 3), self._options.strikes - done.total())):
                time.sleep(self._random.expovariate(1 / GAP_S))
                how = self._next_action()
                self._log(self._apply(how))
                done[how] += 1
            if not self._wait_for_progress(time.monotonic() + SETTLED_S):
                break
        self._report.strikes = dict(done)

    def _next_action(self) -> str:
        if not self._deck:
            self._deck = self._random.sample(DECK, len(DECK))
        return self._deck.pop()

    def _apply(self, how: str) -> str:
        stop_s = self._random.uniform(*(FENCE_S if how == "FENCE" else STOP_S))
        self._broker.strike(how, stop_s)
        return how if how in ("KILL", "TERM") else f"{how} {stop_s:.1f} s"

    def _log(self, text: str) -> None:
        line = f"{time.monotonic() - self._began:.1f} s: {text}"
        self._report.timeline.append(line)
        self._echo(line)

    def _wait_for_progress(self, moment: float) -> bool:
        """Wait until each partition has made progress since a time.

        Add a fault to the report if one does not.
        """
        deadline = time.monotonic() + CALM_WITHIN_S
        while not self._monitor.all_progressed_since(moment):
            self._broker.restart_if_ended()
            if time.monotonic() > deadline:
                self._report.faults.append(
                    f"partitions made no progress for {CALM_WITHIN_S:g} s: {self._monitor.stalled_s()}"
                )
                return False
            time.sleep(TICK_S)
        longest_s = max(self._monitor.longest_s.values())
        self._log(f"progress after {time.monotonic() - moment:.1f} s; longest stall so far {longest_s:.1f} s")
        return True

    def _wait_for_outputs(self) -> None:
        deadline = time.monotonic() + OUTPUTS_WITHIN_S
        while not self._consumer.verifier.complete(self._feeder.count) and time.monotonic() < deadline:
            time.sleep(TICK_S)

    def _check_results(self, stuck: list[str]) -> None:
        report, verifier = self._report, self._consumer.verifier
        report.fed, report.lost = self._feeder.count, verifier.lost(self._feeder.count)
        report.wrong, report.inversions, report.repeats = verifier.wrong, verifier.inversions, verifier.repeats
        report.longest_still_s = {p: round(s, 1) for p, s in self._monitor.longest_s.items()}
        report.answered, report.unanswered = self._monitor.answered, self._monitor.unanswered
        report.membership, report.member_ends = dict(self._members.changes), dict(self._members.ends)
        report.feeder_stalls, report.reader_stalls = self._feeder.stalls, self._consumer.stalls
        for name in ("lost", "wrong", "inversions"):
            if count := getattr(report, name):
                report.faults.append(f"{count} outputs {name}")
        report.faults += [f"the member {name} did not end" for name in stuck]
        report.faults += [f"a worker ended: {end}" for end in report.member_ends if end.startswith("unexpected")]
        report.late += [
            f"partition {partition} made no progress for {still_s} s"
            for partition, still_s in report.longest_still_s.items()
            if still_s > MAX_STILL_S
        ]
