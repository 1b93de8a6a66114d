"""Measures the throughput of one worker, compared with plain copies by librdkafka.

`python -m benches.pipelines` runs it.

Every pipeline, and the two processes of every plain copy, read the same stream of a real broker, one after another.
Rates are input records per second between the broker's first and last append of the outputs; CPU seconds are the CPU
time of the worker and its V8 child meanwhile. The first half of the stream is a warm-up. Every output is checked: it is
correct, it comes once, and it is in order if it carries its source record's position.

`--delivery exactly_once`, `--jit` and `--workers 2` change how the pipelines run; `--only` selects pipelines, separated
by semicolons; `--peers` also runs other programs that do the same work (_peers.py). The last line says how often the
broker fenced a group member, a producer or a broker.
"""

import contextlib
import itertools
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import typer
from confluent_kafka import Consumer, Message, TopicPartition

from benches import _copies, _peers
from benches._stream import PARTITIONS, WAIT_S, broker, fill, start_at_the_beginning, topic, wait_for_records
from benches._workload import DATASET, DISTINCT, TRANSFORMS, Tally, Workload, members
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import consumer_settings
from headwater.logging_setup import configure_logging
from headwater.model.access import KafkaAccess
from headwater.model.flow import DeliveryMode
from headwater.model.value_sets import dataset_set_id, filter_set_id
from headwater.model.worker_spec import SinkSpec, WorkerSpec
from headwater.stores.embedded_valkey import EmbeddedValkey
from headwater.stores.redis.client import connect
from headwater.stores.redis.dataset_names import RedisDatasetNames
from headwater.stores.redis.sets.set_store import RedisSetStore
from tests.support.fencing import count_fencings, logged_fencing
from tests.support.processes import cpu_seconds, rss_bytes

SOURCE, DEAD, OWNER, CONFIG = "stream", "dlq", "bench", "config"
COPIES = ("bare", "tuned", "headers")
"""The kinds of plain copies; _copies.py describes them."""
WITHOUT_OUTPUT_ID = ("bare", "tuned")
"""The copies whose outputs do not carry their source record's position."""
SAMPLE_S = 0.02
WARM_UP = 2
"""The first 1 / WARM_UP of the stream is not measured: in that time, workers build their lookup filters."""

REFERENCES: dict[str, tuple[float, float]] = {
    "copy": (1.3, 1.05),
    "script": (0.65, 3.0),
    "filter": (2.2, 0.65),
    "filter, script": (1.6, 1.0),
    "contains": (0.55, 3.4),
}
"""The goals per pipeline: the lowest rate and the highest CPU time, as multiples of the bare copy's."""
HEADERS_CPU = 0.95
"""The goal for the pipeline "copy": its highest CPU time, as a multiple of the copy with headers, which writes the
same records."""


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of one run.

    Attributes:
        per_s: Input records per second.
        cpu_s: CPU seconds per million input records; the sum of the three following attributes.
        main_s: The part of the processes' main threads.
        threads_s: The part of their other threads.
        children_s: The part of their child processes.
        peak_mb: The highest resident memory of the worker and its child.
    """

    per_s: float
    cpu_s: float
    main_s: float
    threads_s: float
    children_s: float
    peak_mb: float


CpuShares = npt.NDArray[np.float64]
"""CPU seconds of main threads, of other threads, of children."""


@dataclass(slots=True)
class Usage:
    """Samples the CPU and memory of processes and their children in a thread.

    CPU of ended processes is kept.
    """

    pids: list[int]
    samples: list[tuple[float, CpuShares]] = field(default_factory=list)
    peak_mb: float = 0.0
    _used: dict[int, CpuShares] = field(default_factory=dict)

    def sample(self, stop: threading.Event) -> None:
        while not stop.wait(SAMPLE_S):
            pids = list(itertools.chain.from_iterable(map(tree, self.pids)))
            self._used |= {pid: used for pid in pids if (used := self._shares(pid)).any()}
            self.samples.append((time.time(), sum(self._used.values(), start=np.zeros(3))))
            self.peak_mb = max(self.peak_mb, sum(map(rss_bytes, pids)) / 1e6)

    def _shares(self, pid: int) -> CpuShares:
        whole = cpu_seconds(pid)
        if pid not in self.pids:
            return np.array([0, 0, whole])
        main_thread = min(whole, main_thread_seconds(pid))
        return np.array([main_thread, whole - main_thread, 0])

    def cpu_at(self, moment: float) -> CpuShares:
        return next((used for at, used in self.samples if at >= moment), self.samples[-1][1])


def main_thread_seconds(pid: int) -> float:
    """User and system time of a process's main thread."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return sum(one.user_time + one.system_time for one in psutil.Process(pid).threads() if one.id == pid)
    return 0.0


def tree(pid: int) -> list[int]:
    """Return the ids of a process and its descendants.

    psutil is too slow here, because it walks all processes.
    """
    try:
        children = [p for task in Path(f"/proc/{pid}/task").iterdir() for p in (task / "children").read_text().split()]
    except OSError:
        return []
    return [pid, *itertools.chain.from_iterable(tree(int(child)) for child in children)]


@dataclass(frozen=True, slots=True)
class Outputs:
    """When the broker appended the outputs, in seconds since the epoch.

    Attributes:
        started: The first append after the warm-up.
        ended: The last append.
    """

    started: float
    ended: float


@dataclass(slots=True)
class Bench:
    """The settings and services that all runs share. The stream has `count` records."""

    access: KafkaAccess
    folder: Path
    redis_url: str
    workload: Workload
    count: int
    delivery: DeliveryMode
    jit: bool = False
    workers: int = 1
    peers: dict[str, _peers.Peer] = field(default_factory=dict)
    _number: Iterator[int] = field(default_factory=itertools.count)

    def run(self, work: str) -> Result:
        """Run a pipeline, a copy or a peer over the whole stream, and return its figures.

        The outputs are checked.
        """
        task = self.peers[work].work if work in self.peers else work
        expected = sum(map(self.workload.passes(task), (n % DISTINCT for n in range(self.count))))
        with topic(self.access, f"out-{next(self._number)}") as target:
            with running(self._commands(work, target)) as usage:
                wait_for_records(self.access, target, expected)
                time.sleep(5 * SAMPLE_S)
            outputs = self._check(work, target, expected)
        measured = self.count * (WARM_UP - 1) / WARM_UP
        shares = (usage.cpu_at(outputs.ended) - usage.cpu_at(outputs.started)) * 1e6 / measured
        main_s, threads_s, children_s = shares.tolist()
        per_s = measured / (outputs.ended - outputs.started)
        return Result(per_s, main_s + threads_s + children_s, main_s, threads_s, children_s, usage.peak_mb)

    def _commands(self, work: str, target: str) -> list[list[str]]:
        if work in COPIES:
            halves = [list(range(half, PARTITIONS, 2)) for half in range(2)]
            return [_copies.command(self.access, SOURCE, target, half, work) for half in halves]
        if work in self.peers:
            return self.peers[work].commands(_peers.Job(self.access, SOURCE, target, self.redis_url, self.folder))
        group = f"wrk-{target}"
        start_at_the_beginning(self.access, group, SOURCE)
        spec = WorkerSpec(
            deployment_id=target,
            config_id=CONFIG,
            owner=OWNER,
            revision=1,
            source_topic=SOURCE,
            source_group=group,
            transforms=TRANSFORMS[work],
            sinks=[SinkSpec(uid="s", name="out", type="kafka", topic=target)],
            dead_letter_topic=DEAD,
            kafka=self.access,
            redis_url=self.redis_url,
            delivery=self.delivery,
            jit=self.jit,
        )
        path = self.folder / f"spec-{target}.json"
        path.write_text(spec.model_dump_json())
        command = [sys.executable, "-m", "headwater", "worker", "--spec", str(path)]
        return [[*command, "--slot", str(slot)] for slot in range(self.workers)]

    def _check(self, work: str, target: str, expected: int) -> Outputs:
        outputs = self._outputs(target, expected)
        if work in self.peers:
            peer = self.peers[work]
            return self._check_values(Tally(self.workload, peer.work, exact=peer.exact), outputs)
        if work in WITHOUT_OUTPUT_ID:
            return self._check_values(Tally(self.workload, work), outputs)
        return self._check_positions(work, outputs)

    def _outputs(self, target: str, left: int) -> Iterator[Message]:
        consumer = Consumer(consumer_settings(self.access, ClientErrors(self.access), "check"))
        consumer.assign([TopicPartition(target, p, 0) for p in range(PARTITIONS)])
        while left:
            messages = consumer.consume(min(10_000, left), WAIT_S)
            left -= len(messages)
            yield from messages
        consumer.close()

    def _check_values(self, tally: Tally, outputs: Iterator[Message]) -> Outputs:
        appended = array("q")
        for message in outputs:
            tally.add(message.value() or b"")
            appended.append(message.timestamp()[1])
        assert tally.is_complete(self.count // DISTINCT), "lost or duplicated"
        moments = sorted(appended)
        return Outputs(moments[len(moments) // WARM_UP] / 1000, moments[-1] / 1000)

    def _check_positions(self, work: str, outputs: Iterator[Message]) -> Outputs:
        started, ended = float("inf"), 0.0
        checked: dict[int, bytes] = {}
        last = [-1] * PARTITIONS
        for message in outputs:
            value, partition, appended = message.value() or b"", message.partition() or 0, message.timestamp()[1]
            came_from, offset = origin(message)
            assert came_from == partition
            assert offset > last[partition], "duplicated, or out of order"
            last[partition] = offset
            number = (offset * PARTITIONS + partition) % DISTINCT
            if checked.get(number) != value:
                assert self.workload.is_correct(work, number, value), value
                checked[number] = value
            ended = max(ended, appended)
            if offset * PARTITIONS >= self.count // WARM_UP:
                started = min(started, appended)
        return Outputs(started / 1000, ended / 1000)


def origin(message: Message) -> tuple[int, int]:
    """Return the partition and offset of an output's source record."""
    header: Any = dict(message.headers() or [])["headwater-src"]
    _, partition, offset, _ = header.split(b"/")
    return int(partition), int(offset)


@contextmanager
def running(commands: Sequence[list[str]]) -> Iterator[Usage]:
    """Run processes for the block and sample their CPU and memory."""
    processes = [subprocess.Popen(command) for command in commands]
    usage, stop = Usage([process.pid for process in processes]), threading.Event()
    sampler = threading.Thread(target=usage.sample, args=(stop,))
    sampler.start()
    try:
        yield usage
    finally:
        stop.set()
        sampler.join()
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


@contextmanager
def sets(folder: Path) -> Iterator[str]:
    """Run a Valkey with the filter's and the dataset's values for the block. Yield its URL."""
    embedded = EmbeddedValkey(folder)
    child = embedded.start()
    embedded.wait_ready(child, timeout_s=30.0)
    try:
        with closing(connect(embedded.url)) as client:
            store = RedisSetStore(client)
            values = members()
            for target in (filter_set_id(CONFIG, "filter"), dataset_set_id(DATASET)):
                store.replace(target, values)
            RedisDatasetNames(client).put(OWNER, DATASET, DATASET)
        yield embedded.url
    finally:
        child.stop(grace_s=10.0)


def in_turns(works: Sequence[str], rounds: int, run: Callable[[str], Result]) -> dict[str, list[Result]]:
    """Run everything once per round, and print every result."""
    results: dict[str, list[Result]] = {work: [] for work in works}
    for _ in range(rounds):
        for work in works:
            results[work].append(run(work))
            typer.echo(f"  {line(work, results[work][-1])}")
    return results


def line(work: str, result: Result) -> str:
    shares = f"main threads {result.main_s:.2f}, others {result.threads_s:.2f}, children {result.children_s:.2f}"
    return (
        f"{work:24} {result.per_s:9,.0f} records/s {result.cpu_s:6.2f} CPU s per million ({shares}) "
        f"{result.peak_mb:6,.0f} MB"
    )


def median(results: Sequence[Result]) -> Result:
    return Result(*(statistics.median(getattr(result, each.name) for result in results) for each in fields(Result)))


def main(
    count: int = 2_000_000,
    rounds: int = 3,
    only: str = ";".join(TRANSFORMS),
    delivery: str = "at_least_once",
    jit: bool = False,
    workers: int = 1,
    peers: bool = False,
) -> None:
    """Run everything in turn and print the medians and their ratios."""
    available_peers = _peers.available(only.split(";")) if peers else {}
    works = [*COPIES, *only.split(";"), *available_peers]
    assert count % DISTINCT == 0
    mode: DeliveryMode = "exactly_once" if delivery == "exactly_once" else "at_least_once"
    with (
        tempfile.TemporaryDirectory() as name,
        logged_fencing(),
        broker(Path(name) / "kafka") as access,
        sets(Path(name) / "valkey") as url,
        topic(access, SOURCE),
        topic(access, DEAD),
    ):
        workload = Workload()
        fill(access, SOURCE, workload.values, count)
        if available_peers:
            _peers.prepare(Path(name), url)
        bench = Bench(access, Path(name), url, workload, count, mode, jit, workers, available_peers)
        medians = {work: median(results) for work, results in in_turns(works, rounds, bench.run).items()}
        fenced = count_fencings(Path(name) / "kafka" / "logs")
    for work, result in medians.items():
        ratios = (f"{compared(result, medians[copy])} the {copy} copy" for copy in COPIES)
        rounds_off = (
            "; integers beyond 2^53 may be rounded"
            if work in available_peers and not available_peers[work].exact
            else ""
        )
        typer.echo(f"{line(work, result)};  {'; '.join(ratios)}{goal(work)}{rounds_off}")
    typer.echo(f"fenced by the broker: {fenced} times")


def goal(work: str) -> str:
    """Return the goal of a pipeline as the end of its line."""
    if work not in REFERENCES:
        return ""
    headers = f", CPU {HEADERS_CPU} x the headers copy" if work == "copy" else ""
    return "; goal: {} x, {} x the bare copy{}".format(*REFERENCES[work], headers)


def compared(result: Result, reference: Result) -> str:
    return f"rate {result.per_s / reference.per_s:.2f} x, CPU {result.cpu_s / reference.cpu_s:.2f} x"


if __name__ == "__main__":
    configure_logging("info")
    typer.run(main)
