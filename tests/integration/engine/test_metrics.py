"""The metrics of real workers in a real store are exact although workers are killed."""

import random
import signal
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from headwater.model.metric import TIME_RANGES, Histogram, Interval
from headwater.model.transforms.v8 import V8Transform
from headwater.stores.redis.client import connect
from headwater.stores.redis.metrics import RedisMetrics
from tests.integration.engine.harness import Pipeline, check_copy
from tests.support.kafka import KafkaServer
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until

HOUR = TIME_RANGES[0]


def measured(url: str, deployment_id: str = "d1") -> Interval:
    """Return the metrics of the last hour."""
    whole = Interval()
    with closing(connect(url)) as client:
        for interval in RedisMetrics(client).read(deployment_id, HOUR, time.time()).values():
            whole.add(interval.counts, interval.times)
    return whole


def test_counts_and_times_of_a_worker(kafka: KafkaServer, valkey_url: str, tmp_path: Path) -> None:
    pipeline = Pipeline(kafka, tmp_path, redis_url=valkey_url)
    records = [{"n": n} for n in range(500)]
    began = time.time()
    pipeline.feed(records)
    with pipeline.worker() as worker:
        pipeline.wait_committed(500)
        took_ms = 1000 * (time.time() - began)
        found = measured(valkey_url)
        assert worker.terminate() == 0
    assert dict(found.counts) == {"messages_received": 500, "messages_sent": 500}
    assert found.times["total_latency"].total() == 500
    assert found.times["processing_latency"].total() == 500
    for name in ("total_latency", "data_age"):
        histogram: Histogram = found.times[name]
        assert 0 < (histogram.percentile(99) or 0) < 1.1 * took_ms


@pytest.mark.parametrize("kills", [pytest.param(3, marks=pytest.mark.long), pytest.param(20, marks=pytest.mark.slow)])
def test_counts_are_exact_although_workers_are_killed(
    kafka: KafkaServer, valkey_url: str, tmp_path: Path, kills: int
) -> None:
    script = """
    function process(record) {
      if (record.n % 10 === 7) throw new TypeError("no sevens");
      return record.n % 2 ? null : [record, record];
    }"""
    pipeline = Pipeline(kafka, tmp_path, [V8Transform(uid="t9", type="v8", script=script)], valkey_url)
    draw, fed = random.Random(kills), 0
    for _ in range(kills):
        with pipeline.worker() as worker, pipeline.watch_sink() as came:
            worker.ready()
            pipeline.feed([{"n": n} for n in range(fed, fed + 3000)])
            fed += 3000
            came()
            time.sleep(draw.random() * 1.5)  # at any time between a delivery and the commit after the next delivery
    with pipeline.worker() as worker:
        pipeline.wait_committed(fed)
        assert worker.terminate() == 0
    found = measured(valkey_url).counts
    assert found == Counter(messages_received=fed, messages_sent=fed, processor_error=fed // 10)


@pytest.mark.long
def test_records_flow_without_the_store_and_are_counted_later(
    kafka: KafkaServer, valkey_server: ValkeyServer, tmp_path: Path
) -> None:
    pipeline = Pipeline(kafka, tmp_path, redis_url=valkey_server.url)
    records = [{"n": n} for n in range(900)]
    with pipeline.worker() as worker:
        worker.ready()
        pipeline.feed(records[:300])
        pipeline.wait_committed(300)
        valkey_server.kill()
        pipeline.feed(records[300:600])
        pipeline.wait_committed(600)
        valkey_server.start()
        pipeline.feed(records[600:])
        pipeline.wait_committed(900)
        assert worker.terminate() == 0
    check_copy(pipeline, records, repeats=False)
    assert measured(valkey_server.url).counts["messages_received"] == 900


@pytest.mark.long
def test_a_hanging_store_delays_no_records(kafka: KafkaServer, valkey_server: ValkeyServer, tmp_path: Path) -> None:
    pipeline = Pipeline(kafka, tmp_path, redis_url=valkey_server.url)
    records = [{"n": n} for n in range(600)]
    with pipeline.worker() as worker:
        worker.ready()
        pipeline.feed(records[:300])
        pipeline.wait_committed(300)
        valkey_server.send(signal.SIGSTOP)
        pipeline.feed(records[300:])
        pipeline.wait_committed(600)
        valkey_server.send(signal.SIGCONT)
        until(lambda: measured(valkey_server.url).counts["messages_received"] == 600, what="the counts of the outage")
        assert worker.terminate() == 0
