"""The broker or Valkey becomes unavailable while a worker runs.

The worker waits, and continues afterwards.
"""

from pathlib import Path

import pytest

from headwater.engine.status import NO_PARTITIONS
from headwater.model.flow import DeliveryMode
from headwater.model.transforms.redis_set_filter import RedisSetFilterTransform
from headwater.model.transforms.v8 import V8Transform
from headwater.model.value_sets import filter_set_id
from headwater.stores.redis.client import connect
from headwater.stores.redis.sets.set_store import RedisSetStore
from tests.integration.engine.harness import Pipeline, check_copy, headers
from tests.support.kafka import KafkaServer, OwnKafka
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until

LOST = "partitions lost"
"""The log messages of a worker whose partitions are lost."""


@pytest.mark.slow
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("outlives_the_session", [False, True])
def test_a_worker_waits_while_the_broker_is_killed(
    own_kafka: OwnKafka, tmp_path: Path, delivery: DeliveryMode, outlives_the_session: bool
) -> None:
    """The producer's retries repeat no record.

    A worker that loses its partitions continues at the last commit.
    """
    pipeline = Pipeline(own_kafka.server, tmp_path, delivery=delivery)
    records = [{"n": n, "pad": "x" * 300} for n in range(20_000)]
    pipeline.feed(records)
    with pipeline.watch_sink() as came, pipeline.worker() as worker:
        came()
        own_kafka.kill()
        assert "Kafka" in worker.wait(lambda beat: beat.state == "waiting").reason
        if outlives_the_session:
            until(lambda: LOST in pipeline.log(), what="the loss of the partitions")
        own_kafka.start()
        pipeline.wait_committed(20_000)
        worker.ready()
        assert worker.terminate() == 0
    check_copy(pipeline, records, repeats=delivery == "at_least_once" and LOST in pipeline.log())


@pytest.mark.long
def test_an_idle_worker_is_not_ready_while_kafka_is_unavailable(own_kafka: OwnKafka, tmp_path: Path) -> None:
    """The worker is not ready while its connections fail.

    It is not ready either from the loss of its partitions until it has them again.
    """
    pipeline = Pipeline(own_kafka.server, tmp_path)
    with pipeline.worker() as worker:
        worker.ready()
        own_kafka.kill()
        assert "does not answer" in worker.wait(lambda beat: beat.state == "waiting").reason
        count = len(worker.beats)
        worker.wait(lambda beat: beat.reason == NO_PARTITIONS)
        assert {beat.state for beat in worker.beats[count:]} == {"waiting"}
        own_kafka.start()
        worker.ready()
        assert worker.terminate() == 0


@pytest.mark.long
def test_records_wait_while_valkey_is_unavailable(
    kafka: KafkaServer, valkey_server: ValkeyServer, tmp_path: Path
) -> None:
    filters = [RedisSetFilterTransform(uid="t1", type="redis_set_filter", filter_expr="root = this.who")]
    pipeline = Pipeline(kafka, tmp_path, filters, valkey_server.url)
    sets = RedisSetStore(connect(valkey_server.url))
    sets.add(filter_set_id(pipeline.spec.config_id, "t1"), ["alice"])
    records = [{"n": n, "who": "Alice" if n % 3 else "bob"} for n in range(1200)]
    with pipeline.worker() as worker:
        worker.ready()
        pipeline.feed(records[:400])
        pipeline.wait_committed(400)
        valkey_server.kill()
        pipeline.feed(records[400:])
        assert "Valkey or Redis" in worker.wait(lambda beat: beat.state == "waiting").reason
        assert pipeline.committed() == 400
        valkey_server.start()
        worker.ready()
        pipeline.wait_committed(1200)
        assert worker.terminate() == 0
    check_copy(pipeline, [r for r in records if r["n"] % 3], repeats=False)


@pytest.mark.long
def test_scripts_and_dead_letters(kafka: KafkaServer, tmp_path: Path) -> None:
    script = """
    function process(record) {
      if (record.n % 10 === 7) throw new TypeError("no sevens");
      return record.n % 2 ? null : record;
    }"""
    pipeline = Pipeline(kafka, tmp_path, [V8Transform(uid="t9", type="v8", script=script)])
    records = [{"n": n} for n in range(1000)]
    pipeline.feed(records)
    with pipeline.worker() as worker:
        pipeline.wait_committed(1000)
        beat = worker.wait(lambda beat: beat.counters.get("messages_received") == 1000)
        assert worker.terminate() == 0
    assert (beat.counters["messages_sent"], beat.counters["processor_error"]) == (500, 100)
    check_copy(pipeline, records[::2], repeats=False)
    dead = pipeline.records(pipeline.dead)
    assert sorted(m.value() or b"" for m in dead) == sorted(b'{"n":%d}' % n for n in range(7, 1000, 10))
    letter = headers(dead[0])
    assert (letter["headwater-error"], letter["headwater-transform"], letter["headwater-cfg"]) == (
        "TypeError",
        "t9",
        "3",
    )
    assert letter["headwater-message"] == "no sevens"
    assert (letter["headwater-line"], letter["headwater-attempts"]) == ("3", "1")
    assert letter["headwater-src"].startswith(f"{pipeline.source}/")
