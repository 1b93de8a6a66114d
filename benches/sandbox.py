"""Measures records per second and CPU time per record of scripts in the sandbox.

`python -m benches.sandbox [--jit]` runs it.

Batches have 500 transfers of about 800 bytes, and two batches are in flight. Lookups are answered from a Python set.
Every output byte is compared with the expected output. The cases `two` and `two big` are chains of two scripts: the
second script gets the outputs of the first one, as in a pipeline.
"""

import argparse
import json
import random
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from headwater.engine.in_flight_batch import InFlightBatch
from headwater.engine.pipeline import build_transforms
from headwater.model.record import RecordBatch
from headwater.model.transforms.v8 import V8Transform
from headwater.sandbox import Sandbox
from headwater.sandbox.child import SandboxedChild
from headwater.sandbox.lookups import LookupRequest, LookupResult
from headwater.sandbox.script_batch import ScriptBatch
from headwater.transforms import TRANSFORMS
from headwater.transforms.base import Transform, TransformContext
from tests.support.memory.sets import MemoryDatasetNames, MemorySetStore

BATCH_RECORDS = 500
WARM_BATCHES = 10
HIT_RATE = 0.1


class Case(NamedTuple):
    """A script, the values in its dataset, and the expected output for each record."""

    name: str
    script: str
    members: frozenset[str]
    expected: list[bytes]


def transfers(rng: random.Random) -> list[dict[str, object]]:
    """Return one batch of records that resemble an EVM chain's transfers."""

    def hexadecimal(digits: int) -> str:
        return f"0x{rng.getrandbits(4 * digits):0{digits}x}"

    return [
        {
            "block_number": 19_000_000 + i,
            "block_timestamp": "2026-01-02T03:04:05Z",
            "block_hash": hexadecimal(64),
            "transaction_hash": hexadecimal(64),
            "log_index": i,
            "token_address": hexadecimal(40),
            "topics": [hexadecimal(64) for _ in range(3)],
            "from_address": hexadecimal(40),
            "to_address": hexadecimal(40),
            "raw_amount": str(rng.getrandbits(70)),
            "decimals": 18,
            "usd": round(rng.random() * 1000, 4),
        }
        for i in range(BATCH_RECORDS)
    ]


def encode(record: dict[str, object]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


def cases(rng: random.Random, records: list[dict[str, object]]) -> list[Case]:
    members = frozenset(str(r["to_address"]) for r in records if rng.random() < HIT_RATE)
    big = [{**r, "value": 2**255 + i} for i, r in enumerate(records)]
    lookup_script = "function process(d) { d.seen = flow.contains('w', [d.from_address, d.to_address]); return d }"
    seen = [encode({**r, "seen": r["to_address"] in members}) for r in records]
    return [
        Case(
            "plain",
            "function process(d) { d.seen = 1; return d }",
            frozenset(),
            [encode({**r, "seen": 1}) for r in records],
        ),
        Case("lookup", lookup_script, members, seen),
        Case(
            "state", f"let last = null; {lookup_script.replace('return d', 'last = d.seen; return d')}", members, seen
        ),
        Case(
            "uint256",
            "function process(d) { d.value = 2n ** 255n + BigInt(d.log_index); return d }",
            frozenset(),
            [*map(encode, big)],
        ),
    ]


def chains(records: list[dict[str, object]]) -> list[tuple[str, list[str], list[bytes]]]:
    """Return each chain by name, with its scripts in order and the outputs of each record."""
    return [
        (
            "two",
            ["function process(d) { d.seen = 1; return d }", "function process(d) { d.again = 2; return d }"],
            [encode({**r, "seen": 1, "again": 2}) for r in records],
        ),
        (
            "two big",
            [
                "function process(d) { d.value = 2n ** 255n + BigInt(d.log_index); return d }",
                "function process(d) { d.value += 1n; return d }",
            ],
            [encode({**r, "value": 2**255 + i + 1}) for i, r in enumerate(records)],
        ),
    ]


def measure_chain(
    name: str, scripts: list[str], expected: list[bytes], batch: RecordBatch, batches: int, *, jit: bool
) -> str:
    """Run a chain as a worker does, with two batches in flight.

    Return a line with figures per source record.
    """
    configs = [V8Transform(uid=f"u{number}", type="v8", script=script) for number, script in enumerate(scripts)]
    with Sandbox(jit=jit) as sandbox:
        sets, names = MemorySetStore(), MemoryDatasetNames()
        resources = TransformContext("c1", "ann", sets, names, sandbox=sandbox)
        transforms = build_transforms(configs, TRANSFORMS, resources)
        for output in run_batches(transforms, batch, WARM_BATCHES):
            assert output.values == expected
        child = sandbox._child
        assert child is not None
        child_s, parent_s, wall_s = child.cpu_s(), time.process_time(), time.perf_counter()
        for output in run_batches(transforms, batch, batches):
            assert len(output) == len(expected)
        used_s = (child.cpu_s() - child_s, time.process_time() - parent_s, time.perf_counter() - wall_s)
        return line(name, child, used_s, batches * len(batch))


def run_batches(transforms: list[Transform], batch: RecordBatch, batches: int) -> Iterator[RecordBatch]:
    """Run the same batch through the transforms `batches` times, two at a time.

    Yield the outputs.
    """
    in_flight_batches = deque[InFlightBatch]()
    for number in range(batches):
        in_flight_batches.append(InFlightBatch(batch, transforms, 0.0))
        while in_flight_batches and (len(in_flight_batches) == 2 or number == batches - 1):
            for in_flight in in_flight_batches:
                in_flight.advance(wait=in_flight is in_flight_batches[0])
            if in_flight_batches[0].is_finished:
                yield in_flight_batches.popleft().output


def look_up(members: frozenset[str], request: LookupRequest) -> LookupResult:
    return [[value in members for value in values] for _, values in request]


def measure(case: Case, batch: RecordBatch, batches: int, *, jit: bool) -> str:
    with Sandbox(jit=jit) as sandbox:
        number = sandbox.add(case.script, lambda request: look_up(case.members, request))
        for _ in range(WARM_BATCHES):
            sandbox.wait(sandbox.submit(number, batch))
        child = sandbox._child
        assert child is not None
        child_s, parent_s, wall_s = child.cpu_s(), time.process_time(), time.perf_counter()
        for job in in_flight(sandbox, number, batch, batches):
            assert job.outputs == case.expected
            assert not job.failures
        used_s = (child.cpu_s() - child_s, time.process_time() - parent_s, time.perf_counter() - wall_s)
        return line(case.name, child, used_s, batches * len(batch))


def in_flight(sandbox: Sandbox, number: int, batch: RecordBatch, batches: int) -> Iterator[ScriptBatch]:
    """Yield the finished script batches.

    The next batch is always submitted before the previous one is awaited.
    """
    job = sandbox.submit(number, batch)
    for _ in range(batches - 1):
        following = sandbox.submit(number, batch)
        sandbox.wait(job)
        yield job
        job = following
    sandbox.wait(job)
    yield job


def line(name: str, child: SandboxedChild, used_s: tuple[float, float, float], records: int) -> str:
    child_us, parent_us, _ = (seconds / records * 1e6 for seconds in used_s)
    rate, resident = records / used_s[2] / 1000, child.resident_bytes() >> 20
    return f"{name:8} {rate:7.0f} k records/s   child {child_us:5.2f} µs   worker {parent_us:5.2f} µs   {resident} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jit", action="store_true", help="run with V8's JIT compiler")
    parser.add_argument("--batches", type=int, default=100)
    options = parser.parse_args()
    rng = random.Random(1)
    records = transfers(rng)
    rows = range(BATCH_RECORDS)
    batch = RecordBatch.of(
        "t", [*map(encode, records)], [None] * len(rows), [*rows], [0] * len(rows), [*rows], [0] * len(rows)
    )
    for case in cases(rng, records):
        print(measure(case, batch, options.batches, jit=options.jit))
    for name, scripts, expected in chains(records):
        print(measure_chain(name, scripts, expected, batch, options.batches, jit=options.jit))


if __name__ == "__main__":
    main()
