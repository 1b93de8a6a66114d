"""The rolling restart, in which three brokers are restarted one after the other under load.

The output must not pause.
"""

import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance.installation import in_background
from tests.chaos.feeder import Feeder
from tests.chaos.load import KINDS, PARTITIONS, Load
from tests.chaos.output_verifier import OutputVerifier
from tests.chaos.progress_observer import ProgressObserver
from tests.chaos.verifying_consumer import VerifyingConsumer
from tests.integration.engine.harness import Pipeline
from tests.support.kafka_cluster import KafkaCluster, running_cluster
from tests.support.waiting import until

MAX_PAUSE_S = 5.0
OUTPUTS_WITHIN_S = 120.0
SAMPLE_S = 0.05


@dataclass(frozen=True)
class RollingOptions:
    """The settings of a run.

    Attributes:
        rate: Records per second.
        rounds: How many times each broker is restarted.
        steady_s: The time between the restarts.
    """

    run_number: int
    rate: int = 10_000
    rounds: int = 1
    steady_s: float = 5.0


@dataclass
class RollingReport:
    """The results of a run.

    Attributes:
        longest_pause_s: The longest time without any new output while brokers were restarted.
        longest_still_s: By partition, the longest time without a commit while Kafka had unread records.
        late: Pauses over the target.
        faults: Wrong outputs.
    """

    options: dict[str, Any]
    fed: int = 0
    lost: int = 0
    wrong: int = 0
    inversions: int = 0
    repeats: int = 0
    feeder_stalls: int = 0
    reader_stalls: int = 0
    rate: int = 0
    longest_pause_s: float = 0.0
    longest_still_s: dict[int, float] = field(default_factory=dict)
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


class Pauses:
    """Samples a verifier's count, and keeps the longest time without a new output."""

    def __init__(self, verifier: OutputVerifier) -> None:
        self._verifier = verifier
        self.longest_s = 0.0

    def __call__(self, stop: threading.Event) -> None:
        """Sample until `stop` is set."""
        before, moved_at = self._verifier.count, time.monotonic()
        while not stop.wait(SAMPLE_S):
            count, now = self._verifier.count, time.monotonic()
            self.longest_s = max(self.longest_s, now - moved_at)
            if count != before:
                before, moved_at = count, now


def rolling(directory: Path, options: RollingOptions, echo: Callable[[str], None]) -> RollingReport:
    """Run the test in an empty directory."""
    report = RollingReport(asdict(options))
    with running_cluster(directory / "cluster") as cluster:
        pipeline = Pipeline(cluster.server(), directory)
        with pipeline.worker():
            _observe(cluster, pipeline, options, report, echo)
    return report


def _observe(
    cluster: KafkaCluster,
    pipeline: Pipeline,
    options: RollingOptions,
    report: RollingReport,
    echo: Callable[[str], None],
) -> None:
    settings = {"bootstrap.servers": cluster.access.bootstrap_servers, "log_level": 0}
    load = Load(options.run_number, poison_every=0)
    consumer = VerifyingConsumer(
        settings | {"group.id": "verifier", "isolation.level": "read_committed"},
        pipeline.sink,
        lambda n: load.outputs(KINDS["plain"], n),
    )
    feeder, pauses, began = (
        Feeder(settings, pipeline.source, load, options.rate),
        Pauses(consumer.verifier),
        time.monotonic(),
    )
    with ExitStack() as threads:
        threads.enter_context(in_background(consumer))
        with in_background(feeder):
            until(lambda: consumer.verifier.count > 2 * options.rate, what="the first outputs")
            steady_from, at = time.monotonic(), feeder.count
            observer = ProgressObserver(cluster.all_nodes, pipeline.source, pipeline.group, PARTITIONS)
            with in_background(pauses), in_background(observer):
                _restart_all(cluster, pipeline, options, lambda text: _log(report, began, text, echo))
            report.rate = int((feeder.count - at) / (time.monotonic() - steady_from))
        deadline = time.monotonic() + OUTPUTS_WITHIN_S
        while not consumer.verifier.complete(feeder.count) and time.monotonic() < deadline:
            time.sleep(SAMPLE_S)
    report.longest_pause_s = round(pauses.longest_s, 2)
    report.longest_still_s = {p: round(s, 2) for p, s in observer.monitor.longest_s.items()}
    _check_results(report, consumer, feeder)


def _log(report: RollingReport, began: float, text: str, echo: Callable[[str], None]) -> None:
    line = f"{time.monotonic() - began:.1f} s: {text}"
    report.timeline.append(line)
    echo(line)


def _restart_all(
    cluster: KafkaCluster, pipeline: Pipeline, options: RollingOptions, log: Callable[[str], None]
) -> None:
    topics = [pipeline.source, pipeline.sink, pipeline.dead, "__consumer_offsets"]
    for _ in range(options.rounds):
        for number, node in enumerate(cluster.nodes, 1):
            time.sleep(options.steady_s)
            log(f"broker {number} is restarted")
            cluster.restart(node, topics)
            log(f"broker {number} is in sync again")
    time.sleep(options.steady_s)


def _check_results(report: RollingReport, consumer: VerifyingConsumer, feeder: Feeder) -> None:
    verifier = consumer.verifier
    report.fed, report.lost = feeder.count, verifier.lost(feeder.count)
    report.wrong, report.inversions, report.repeats = verifier.wrong, verifier.inversions, verifier.repeats
    report.feeder_stalls, report.reader_stalls = feeder.stalls, consumer.stalls
    for name in ("lost", "wrong", "inversions"):
        if count := getattr(report, name):
            report.faults.append(f"{count} outputs {name}")
    if report.longest_pause_s > MAX_PAUSE_S:
        report.late.append(f"the output paused for {report.longest_pause_s} s; target {MAX_PAUSE_S:g} s")
