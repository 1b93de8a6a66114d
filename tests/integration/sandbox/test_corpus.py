"""One worker survives all hostile scripts, delivers other records, and frees its memory.

The records stay in order.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Message

from headwater.model.transforms.v8 import V8Transform
from headwater.orchestrators.memory_usage import resident_bytes
from headwater.sandbox.sandbox import RECYCLE_ABOVE_BYTES
from tests.integration.engine.harness import PARTITIONS, Pipeline, WorkerProcess, headers
from tests.integration.sandbox.corpus import CASES, Case
from tests.support.kafka import KafkaServer
from tests.support.processes import rss_bytes
from tests.support.waiting import until

BETWEEN = 25
"""The number of good records between two bad ones."""
WARM = 1_000
WORKER_GROWTH_BYTES = 64 << 20


def script(cases: Sequence[Case]) -> str:
    bodies = ",\n".join(f"function (d) {{\n{case.body}\n}}" for case in cases)
    return f"const cases = [{bodies}];\nfunction process(d) {{ return d.bad === undefined ? d : cases[d.bad](d) }}"


def records(cases: Sequence[Case]) -> list[dict[str, int]]:
    """Return good records to warm up, then a bad record after every BETWEEN good records.

    All partitions get equally many.
    """
    good_records = [{"n": n} for n in range(WARM)]
    for bad in range(len(cases)):
        good_records += [{"n": len(good_records) + i} for i in range(BETWEEN)]
        good_records.append({"bad": bad})
    return good_records + [{"n": len(good_records) + number} for number in range(-len(good_records) % PARTITIONS)]


def by_record(found: Sequence[Message], fed: Sequence[Any]) -> list[tuple[int, Message]]:
    """Return each output with the number of its source record.

    Record n has offset n // PARTITIONS in partition n % PARTITIONS.
    """
    sources = [headers(message)["headwater-src"].split("/") for message in found]
    numbers = [int(offset) * PARTITIONS + int(partition) for _, partition, offset, _ in sources]
    assert all(number < len(fed) for number in numbers)
    return list(zip(numbers, found, strict=True))


def check(pipeline: Pipeline, fed: Sequence[dict[str, int]], cases: Sequence[Case]) -> int:
    """Assert that good records are unchanged and bad ones have allowed outcomes.

    Return the dead letters.
    """
    results = by_record(pipeline.records(), fed)
    good = [(number, json.loads(message.value() or b"")) for number, message in results if "n" in fed[number]]
    assert sorted(good) == [(number, record) for number, record in enumerate(fed) if "n" in record]
    for partition in range(PARTITIONS):
        mine = [number for number, _ in good if number % PARTITIONS == partition]
        assert mine == sorted(mine)
    dead = by_record(pipeline.records(pipeline.dead), fed)
    came = {number: headers(message)["headwater-error"] for number, message in dead}
    came |= {number: (message.value() or b"").decode() for number, message in results if "bad" in fed[number]}
    bad = {number: cases[record["bad"]] for number, record in enumerate(fed) if "bad" in record}
    assert {case.name: came.get(n) for n, case in bad.items() if came.get(n) not in case.outcomes} == {}
    return len(dead)


def wait_for_memory(pipeline: Pipeline, worker: WorkerProcess, fed: list[dict[str, int]], before: int) -> None:
    """Wait until the memory of the worker and of its children is low again.

    Children must be below the replacement limit, and the worker's memory as before.

    Good records are fed meanwhile, since a child is replaced between batches.
    """

    def are_small() -> bool:
        if all(resident_bytes(one.pid) < RECYCLE_ABOVE_BYTES for one in psutil.Process(worker.pid).children()):
            return True
        more = [{"n": len(fed) + number} for number in range(PARTITIONS)]
        pipeline.feed(more)
        fed.extend(more)
        return False

    until(are_small, what="small children")
    assert rss_bytes(worker.pid) - before < WORKER_GROWTH_BYTES
    pipeline.wait_committed(len(fed))


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param([case for case in CASES if not case.slow], id="quick", marks=pytest.mark.long),
        pytest.param(CASES, id="all", marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_one_worker_survives_all_hostile_scripts(kafka: KafkaServer, tmp_path: Path, cases: list[Case]) -> None:
    pipeline = Pipeline(kafka, tmp_path, [V8Transform(uid="t1", type="v8", script=script(cases))])
    fed = records(cases)
    pipeline.feed(fed[:WARM])
    with pipeline.worker() as worker:
        pipeline.wait_committed(WARM)
        before = rss_bytes(worker.pid)
        pipeline.feed(fed[WARM:])
        for committed in range(WARM, len(fed), 100):  # the time limit is per hundred records
            pipeline.wait_committed(min(committed + 100, len(fed)))
        beat = worker.wait(lambda beat: beat.counters.get("messages_received") == len(fed))
        wait_for_memory(pipeline, worker, fed, before)
        assert worker.terminate() == 0
    assert beat.counters["processor_error"] == check(pipeline, fed, cases)
