"""Short runs of `python -m tests.chaos busy` and `loops` (docs/reliability.md).

Times are not checked.
"""

import signal
import threading
from pathlib import Path

import pytest

from headwater.model.transforms.v8 import V8Transform
from tests.acceptance.installation import in_background
from tests.chaos.faults import send_signal
from tests.chaos.load import KINDS, PARTITIONS, Load
from tests.chaos.output_verifier import OutputVerifier
from tests.chaos.single_faults import HOGS, hogs
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
    """Assert that all expected outputs and dead letters came once, and no others."""
    outputs = OutputVerifier(lambda n: load.outputs(KINDS[kind], n))
    dead_letters = OutputVerifier(lambda n: load.dead_letters(KINDS[kind], n))
    for verifier, topic in ((outputs, pipeline.sink), (dead_letters, pipeline.dead)):
        for message in pipeline.records(topic):
            verifier.add(headers(message)["headwater-src"], message.partition() or 0, message.value() or b"")
        assert verifier.lost(count) == 0
        assert (verifier.wrong, verifier.inversions, verifier.repeats) == (0, 0, 0)


def stop_repeatedly(worker: int, stop: threading.Event) -> None:
    """Alternately stops the worker's V8 processes and continues them."""
    while not stop.wait(STOP_S):
        stopped = [process.pid for process in descendants(worker) if "deno run" in process.command]
        for pid in stopped:
            send_signal(pid, signal.SIGSTOP)
        stop.wait(STOP_S)
        for pid in stopped:
            send_signal(pid, signal.SIGCONT)


@pytest.mark.slow
def test_no_record_fails_on_a_busy_machine(kafka: KafkaServer, tmp_path: Path) -> None:
    count, load, pipeline = 4_000, Load(1, 0), pipeline_of("busy", kafka, tmp_path)
    feed(pipeline, load, count)
    with hogs(HOGS), pipeline.worker() as worker:
        worker.ready()
        with in_background(lambda stop: stop_repeatedly(worker.pid, stop)):
            pipeline.wait_committed(count)
        assert worker.terminate() == 0
    check(pipeline, "busy", load, count)


@pytest.mark.slow
def test_endless_loops_become_dead_letters_and_delay_no_other_record(kafka: KafkaServer, tmp_path: Path) -> None:
    count, load, pipeline = 1_500, Load(7, 300, ["loop"]), pipeline_of("v8", kafka, tmp_path)
    feed(pipeline, load, count)
    with pipeline.worker() as worker:
        worker.ready()
        pipeline.wait_committed(count)
        assert worker.terminate() == 0
    check(pipeline, "v8", load, count)
