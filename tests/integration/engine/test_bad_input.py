"""Unusual and invalid input: each record is delivered unchanged, or becomes a dead letter."""

from pathlib import Path

import pytest

from headwater.model.flow import DeliveryMode
from headwater.model.transforms.v8 import V8Transform
from tests.integration.engine.harness import Pipeline, headers
from tests.support.kafka import KafkaServer

IDENTITY = "function process(record) { return record; }"
BAD: tuple[bytes | None, ...] = (
    None,
    b"",
    b"{",
    b"NaN",
    b'{"n": NaN}',
    b'"text"',
    b"[1]",
    b"null",
    b"\xff\xfe",
    b'{"n": "\xff"}',
)
DEEP = b'{"a":' * 30_000 + b"1" + b"}" * 30_000
ODD: dict[bytes, bytes] = {
    DEEP: DEEP,
    b'{"n":9007199254740993}': b'{"n":9007199254740993}',
    b'{"n":1e308}': b'{"n":1e+308}',
    b'{"s":"x\\ud800"}': b'{"s":"x\\ud800"}',
    b'{"":{"__proto__":1}}': b'{"":{"__proto__":1}}',
}


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_each_record_is_an_output_or_a_dead_letter(kafka: KafkaServer, tmp_path: Path, delivery: DeliveryMode) -> None:
    pipeline = Pipeline(kafka, tmp_path, [V8Transform(uid="t1", type="v8", script=IDENTITY)], delivery=delivery)
    sent = [*BAD, *ODD]
    kafka.produce(pipeline.source, sent, keys=[None, b"k"] * (len(sent) // 2) + [None] * (len(sent) % 2))
    with pipeline.worker() as worker:
        pipeline.wait_committed(len(sent))
        assert worker.terminate() == 0
    assert [record.value() for record in pipeline.records()] == list(ODD.values())
    dead = pipeline.records(pipeline.dead)
    assert [record.value() for record in dead] == list(BAD)
    assert {headers(record)["headwater-transform"] for record in dead} == {"t1"}
