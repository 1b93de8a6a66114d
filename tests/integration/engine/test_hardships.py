"""Short forms of `python -m tests.chaos busy` and `loops` (docs/reliability.md): content alone, no time."""

import signal
import threading
from pathlib import Path

import pytest

from headwater.model.transforms.v8 import V8Transform
from tests.acceptance.stack import beside
from tests.chaos.account import Account
from tests.chaos.faults import hit
from tests.chaos.load import KINDS, PARTITIONS, Load
from tests.chaos.proofs import HOGS, hogs
from tests.integration.engine.harness import Pipeline, headers
from tests.support.kafka import KafkaServer
from tests.support.processes import descendants

STOP_S = 0.4


def pipeline_of(kind: str, kafka: KafkaServer, folder: Path) -> Pipeline:
    [script] = KINDS[kind].transforms
    return Pipeline(kafka, folder, [V8Transform(uid="t1", **script)])


def feed(pipeline: Pipeline, load: Load, count: int) -> None:
    for partition in range(PARTITIONS):
        values = [load.value(n) for n in range(partition, count, PARTITIONS)]
        pipeline.kafka.produce(pipeline.source, values, partition=partition)


def check(pipeline: Pipeline, kind: str, load: Load, count: int) -> None:
    """Everything came once, as it must be, and nothing else."""
    outputs = Account(lambda n: load.outputs(KINDS[kind], n))
    letters = Account(lambda n: load.dead_letters(KINDS[kind], n))
    for account, topic in ((outputs, pipeline.sink), (letters, pipeline.dead)):
        for message in pipeline.records(topic):
            account.take(headers(message)["headwater-src"], message.partition() or 0, message.value() or b"")
        assert account.lost(count) == 0
        assert (account.wrong, account.inversions, account.repeats) == (0, 0, 0)


def stop_now_and_then(worker: int, stop: threading.Event) -> None:
    """Stop the worker's V8 processes and continue them, in turns."""
    while not stop.wait(STOP_S):
        stopped = [process.pid for process in descendants(worker) if "deno run" in process.command]
        for pid in stopped:
            hit(pid, signal.SIGSTOP)
        stop.wait(STOP_S)
        for pid in stopped:
            hit(pid, signal.SIGCONT)


@pytest.mark.slow
def test_on_a_full_machine_no_record_is_blamed(kafka: KafkaServer, tmp_path: Path) -> None:
    count, load, pipeline = 4_000, Load(1, 0), pipeline_of("busy", kafka, tmp_path)
    feed(pipeline, load, count)
    with hogs(HOGS), pipeline.worker() as worker:
        worker.ready()
        with beside(lambda stop: stop_now_and_then(worker.pid, stop)):
            pipeline.wait_committed(count)
        assert worker.terminate() == 0
    check(pipeline, "busy", load, count)


@pytest.mark.slow
def test_endless_loops_among_the_records(kafka: KafkaServer, tmp_path: Path) -> None:
    count, load, pipeline = 1_500, Load(7, 300, ["loop"]), pipeline_of("v8", kafka, tmp_path)
    feed(pipeline, load, count)
    with pipeline.worker() as worker:
        worker.ready()
        pipeline.wait_committed(count)
        assert worker.terminate() == 0
    check(pipeline, "v8", load, count)
