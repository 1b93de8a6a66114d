"""The validation of a configuration runs its scripts on the given records."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import pytest

from headwater.model.binding import Bindings
from headwater.model.transforms.v8 import ValidatedScript
from headwater.model.trial import NewTrial, TrialRecord
from headwater.sandbox import trial_sandbox
from headwater.services.ids import new_id
from headwater.services.pipeline_checker import PipelineChecker
from headwater.services.samples import Samples
from headwater.services.trials import Trials, TrialStores
from headwater.transforms import TRANSFORMS
from headwater.transforms.base import TransformContext
from tests.support.memory.sets import MemoryDatasetNames, MemorySetStore
from tests.support.sql import fresh_database

BIG = b'{"a":12345678901234567890}'
PARTS = b'{"instructions":[%b]}' % b",".join(b'{"program_id":"P%d"}' % n for n in range(11))
WIDE = b"{%b}" % b",".join(b'"k%d":%d' % (n, n) for n in range(30))


@contextmanager
def resources(_owner: str) -> Iterator[TransformContext]:
    with trial_sandbox() as sandbox:
        yield TransformContext("", "ann", MemorySetStore(), MemoryDatasetNames(), sandbox)


def tried(transforms: list[dict[str, Any]], *samples: bytes) -> list[TrialRecord]:
    checker = PipelineChecker(
        bindings=Bindings(),
        validate_script=lambda _script, _example: ValidatedScript([]),
        transform_types=TRANSFORMS,
        new_id=new_id,
    )
    database = fresh_database()
    trials = Trials(
        stores=TrialStores(database.flows, database.deployments, database.revisions.get),
        samples=Samples(Bindings(), {}, monotonic),
        checker=checker,
        transform_types=TRANSFORMS,
        open_context=resources,
        now=lambda: datetime(2026, 1, 2, tzinfo=UTC),
        clock=monotonic,
    )
    config = {
        "source": {"chain": "base", "entity": "log"},
        "transforms": transforms,
        "sinks": [{"type": "kafka", "name": "out"}],
    }
    sent = NewTrial.model_validate({"name": "trial", "pipeline_config": config})
    records = trials.run("ann", sent, samples).records
    assert records is not None
    return records


def script(body: str, argument: str = "r") -> dict[str, Any]:
    return {"type": "v8", "script": f"function process({argument}) {{ {body} }}"}


COPY = script("return r")
AS_TEXT = "(key, value) => typeof value === 'bigint' ? value.toString() : value"


QUOTIENT = script("return { eth: r.raw_amount / 1e18 }")
TEXTS = script(f"return {{ j: JSON.stringify(r, {AS_TEXT}) }}")
SAFE_COPY = script(f"return JSON.parse(JSON.stringify({{ v: BigInt(r.h) }}, {AS_TEXT}))")
DEEP_COPY = script("const copy = JSON.parse(JSON.stringify(r)); return copy")
PROGRAMS = script("return r.instructions.map((i) => ({ program: i.program_id }))")


@pytest.mark.parametrize(
    ("transforms", "sample", "outputs"),
    [
        ([COPY, QUOTIENT], b'{"raw_amount":4.83937441037582e16}', [b'{"eth":0.0483937441037582}']),
        ([TEXTS], BIG, [rb'{"j":"{\"a\":\"12345678901234567890\"}"}']),
        ([SAFE_COPY], b'{"h":"0xde0b6b3a7640001"}', [b'{"v":"1000000000000000001"}']),
        ([DEEP_COPY], BIG, [BIG]),
        ([PROGRAMS], PARTS, [b'{"program":"P%d"}' % n for n in range(11)]),
    ],
)
def test_records_are_sent_as_in_plain_javascript(
    transforms: list[dict[str, Any]], sample: bytes, outputs: list[bytes]
) -> None:
    (result,) = tried(transforms, sample)
    assert (result.outcome, result.outputs) == ("sent", outputs)


@pytest.mark.parametrize(
    ("body", "sample", "error", "message"),
    [
        ("r.self = r; return r", WIDE, "TypeError", "Converting circular structure to JSON"),
        ("return r.a > 0", b'{"a":1}', "InvalidOutput", "return the record to keep it, null to drop it"),
        ("return { half: r.a / 2 }", BIG, "TypeError", "Integers beyond 2^53 - 1 come as BigInt"),
    ],
)
def test_errors_say_what_to_do(body: str, sample: bytes, error: str, message: str) -> None:
    (result,) = tried([script(body)], sample)
    (failure,) = result.steps[0].failures
    assert (result.outcome, failure.error) == ("error", error)
    assert message in failure.message


def test_steps_between_scripts_are_plain_json() -> None:
    filter_ = {"type": "redis_set_filter", "filter_expr": "root = this.small", "set_values": ["5"]}
    fork = script("return [{ ...r, small: 5n, text: '5e0,' }, null, { ...r, small: 6n }]")
    (result,) = tried([fork, filter_, COPY], BIG)
    whole = b'{"a":12345678901234567890,"small":%d%b}'
    assert [step.outputs for step in result.steps] == [
        [whole % (5, b',"text":"5e0,"'), whole % (6, b"")],
        [whole % (5, b',"text":"5e0,"')],
        [whole % (5, b',"text":"5e0,"')],
    ]
    assert [step.dropped for step in result.steps] == [0, 1, 0]
    assert result.outputs == result.steps[-1].outputs


def test_records_that_a_step_drops_are_counted_where_there_are_many() -> None:
    fork, odd = (
        script("return Array.from({ length: 1000 }, (_, n) => ({ n }))"),
        script("return r.n % 2 ? [r, r] : null"),
    )
    (result,) = tried([fork, odd], b"{}")
    assert [(step.received, step.dropped, len(step.outputs)) for step in result.steps] == [
        (1, 0, 1000),
        (1000, 500, 1000),
    ]
