"""Random scripts give the same results as in Python.

They have lookups, outputs and errors, and run in batches of any size.
"""

import json
import random
from collections import deque
from typing import Any

import pytest

from headwater.model.record import TransformResult
from headwater.transforms.base import PendingBatch
from tests.support.sandbox import batch, lines
from tests.support.v8 import Bench

BATCHES, IN_FLIGHT = 60, 3
SETS = {"wallets": {f"v{n}" for n in range(0, 60, 3)}, "tokens": {f"v{n}" for n in range(0, 60, 5)}}
NUMBERS = [1, 1.5, -(2**70), 2**60 + 7, 12345678901234567890]
SCRIPT = """
  function process(d) {
    const out = { n: d.n, found: d.asks.map(([name, values]) => flow.contains(name, values)), number: d.number };
    if (d.then === 'throw') throw new Error('e' + d.n);
    if (d.then === 'drop') return null;
    return d.then === 'two' ? [out, { n: d.n }] : out;
  }
"""

Record = dict[str, Any]


def records(draw: random.Random) -> list[Record]:
    """Generate a batch in which all, some, only later or no records use lookups."""
    count = draw.choice([1, 2, 63, 64, 65, 128, 129, 192, draw.randrange(1, 400)])
    share, asks_from = draw.choice([(1.0, 0), (0.1, 0), (1.0, count // 2), (0.0, 0)])
    return [_record(draw, n, asks=n >= asks_from and draw.random() < share) for n in range(count)]


def _record(draw: random.Random, n: int, *, asks: bool) -> Record:
    names = [*SETS, "missing"] if draw.random() < 0.02 else [*SETS]
    questions = [
        [draw.choice(names), [f"v{draw.randrange(60)}" for _ in range(draw.randrange(4))]]
        for _ in range(draw.randrange(4) if asks else 0)
    ]
    then = draw.choices(["", "throw", "drop", "two"], [20, 1, 1, 1])[0]
    return {"n": n, "asks": questions, "number": draw.choice(NUMBERS), "then": then}


def expected(record: Record) -> tuple[list[Record], str]:
    """Return the expected outputs of a record, and its error."""
    if any(name not in SETS for name, _ in record["asks"]):
        return [], "UnknownDataset"
    if record["then"] in ("throw", "drop"):
        return [], "Error" if record["then"] == "throw" else ""
    found = [not SETS[name].isdisjoint(values) for name, values in record["asks"]]
    out = {"n": record["n"], "found": found, "number": record["number"]}
    return [out, {"n": record["n"]}] if record["then"] == "two" else [out], ""


def check(outcome: TransformResult, sent: list[Record]) -> None:
    results = [json.loads(value or b"") for value in outcome.output.values]
    failed = {failure.row: failure.error for failure in outcome.failures}
    assert results == [out for record in sent for out in expected(record)[0]]
    assert failed == {row: error for row, record in enumerate(sent) if (error := expected(record)[1])}


@pytest.mark.parametrize("seed", range(3))
def test_random_batches(bench: Bench, seed: int) -> None:
    draw, transform = random.Random(seed), bench.transform(SCRIPT)
    for name, values in SETS.items():
        bench.fill(name, [*values])
    pending: deque[tuple[PendingBatch, list[Record]]] = deque()
    for _ in range(BATCHES):
        sent = records(draw)
        pending.append((transform.start(batch(lines(*sent))), sent))
        if len(pending) == IN_FLIGHT:
            running, sent = pending.popleft()
            check(running.result(), sent)
    for running, sent in pending:
        check(running.result(), sent)
