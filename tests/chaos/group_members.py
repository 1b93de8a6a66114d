"""Members that join and leave a consumer group.

They are complete workers in threads, which copy one topic to another.
"""

import random
import secrets
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import structlog

from headwater.brokers.leader_check import LeaderCheck
from headwater.engine.at_least_once import AtLeastOnce
from headwater.engine.dead_letter_writer import DeadLetterWriter
from headwater.engine.metrics.metrics_writer import MetricsWriter
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics
from headwater.engine.worker import Worker
from headwater.errors import HeadwaterError
from headwater.model.access import KafkaAccess
from headwater.sinks.idempotent_producer import IdempotentKafkaProducer
from headwater.sinks.kafka import KafkaSink
from headwater.sinks.stalled_producer import StalledProducerDetector
from headwater.sources.kafka import KafkaSource
from tests.support.memory.metrics import MemoryMetrics

log = structlog.get_logger(__name__)

RESTART_S = 0.5
ENDS_WITHIN_S = 90.0
OVERLAP_S = 2.0
ABSENCE_S = (0.5, 6.0)
STATIC_IDS = ("slot-0", "slot-1")


@dataclass(frozen=True)
class CopyJob:
    """The work of each member.

    Attributes:
        source: The topic that members read.
        sink: The topic that members write to.
        dead: The dead-letter topic.
    """

    access: KafkaAccess
    source: str
    sink: str
    dead: str
    group: str

    def worker(self, instance_id: str | None) -> Worker:
        """Return a new worker."""
        source = KafkaSource(self.access, self.source, self.group, instance_id=instance_id)
        topics = [self.sink, self.dead]
        sinks, dead_letters = [KafkaSink("out", self.sink)], DeadLetterWriter(self.dead, 1)
        stall_detector = StalledProducerDetector(LeaderCheck(self.access, topics))
        make = partial(IdempotentKafkaProducer, self.access, topics, stall_detector=stall_detector)
        delivery = AtLeastOnce(sinks, dead_letters, lambda alone: make(one_record_per_batch=alone))
        writer_id = secrets.token_hex(4)
        metrics_writer = MetricsWriter(MemoryMetrics(), deployment_id="storm", group=self.group, writer_id=writer_id)
        return Worker(source, [], delivery, PipelineMetrics(metrics_writer))


@dataclass
class Member:
    """Runs workers one after the other under the same instance id, as a supervisor does.

    Attributes:
        instance_id: None makes a dynamic member.
        ends: Counts the errors that ended workers, by type.
    """

    job: CopyJob
    instance_id: str | None
    ends: Counter[str]
    _stop: threading.Event = field(default_factory=threading.Event)
    _worker: Worker | None = None
    _thread: threading.Thread | None = None

    def start(self) -> "Member":
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name=f"member {self.instance_id}", daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        structlog.contextvars.bind_contextvars(member=f"{self.instance_id or 'dynamic'} {id(self):x}"[-20:])
        while not self._stop.is_set():
            self._worker = worker = self.job.worker(self.instance_id)
            if self._stop.is_set():
                worker.stop()
            try:
                worker.run()
            except HeadwaterError as error:
                self.ends[type(error).__name__] += 1
                log.warning("a member's worker ended", reason=error.detail)
                self._stop.wait(RESTART_S)
            except BaseException as error:
                self.ends[f"unexpected {type(error).__name__}: {error}"] += 1
                raise

    def restart(self) -> None:
        """Stop the worker gracefully; the next worker takes its place."""
        if self._worker is not None:
            self._worker.stop()

    def end(self) -> None:
        """Stop the worker gracefully, without a successor. Does not wait."""
        self._stop.set()
        self.restart()

    def join(self) -> bool:
        """Wait for the thread. Return whether it has ended."""
        assert self._thread is not None
        self._thread.join(ENDS_WITHIN_S)
        return not self._thread.is_alive()


class GroupMembers:
    """Static and dynamic members of one group; `__call__` changes the members at random times.

    Attributes:
        ends: Counts the errors that ended workers, by type.
        changes: Counts the changes, by kind.
    """

    def __init__(self, job: CopyJob, run_number: int, gap_s: float) -> None:
        self._job = job
        self._random = random.Random(run_number)
        self._gap_s = gap_s
        self.ends: Counter[str] = Counter()
        self.changes: Counter[str] = Counter()
        self._static = {instance_id: self._new(instance_id) for instance_id in STATIC_IDS}
        self._dynamic: Member | None = None
        self._all: list[Member] = [*self._static.values()]

    def _new(self, instance_id: str | None) -> Member:
        return Member(self._job, instance_id, self.ends)

    def __call__(self, stop: threading.Event) -> None:
        """Change the members at random times until `stop` is set, then stop all members."""
        for member in self._static.values():
            member.start()
        changes: list[Callable[[threading.Event], None]] = [
            self._replace_dynamic,
            self._restart_static,
            self._replace_static,
        ]
        while not stop.wait(self._random.expovariate(1 / self._gap_s)):
            self._random.choices(changes, [4, 1, 1])[0](stop)
        for member in self._all:
            member.end()

    def stuck(self) -> list[str]:
        """Return the members that have not ended. Call this method after `__call__` has returned."""
        return [str(member.instance_id) for member in self._all if not member.join()]

    def _replace_dynamic(self, stop: threading.Event) -> None:
        """Stop the dynamic member, and start another one."""
        self.changes["dynamic member"] += 1
        if self._dynamic is not None:
            self._dynamic.end()
            stop.wait(self._random.uniform(*ABSENCE_S))
        self._dynamic = self._new(None).start()
        self._all.append(self._dynamic)

    def _restart_static(self, _stop: threading.Event) -> None:
        self.changes["static member restarted"] += 1
        self._static[self._random.choice(STATIC_IDS)].restart()

    def _replace_static(self, stop: threading.Event) -> None:
        """Start a second member with the instance id of a running static member.

        The running member is then fenced.
        """
        self.changes["static member replaced"] += 1
        instance_id = self._random.choice(STATIC_IDS)
        before = self._static[instance_id]
        self._static[instance_id] = self._new(instance_id).start()
        self._all.append(self._static[instance_id])
        stop.wait(OVERLAP_S)
        before.end()
