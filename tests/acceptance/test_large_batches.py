"""A record batch may be small on Kafka, but larger than a worker's memory."""

from typing import Any

import httpx2
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.acceptance.installation import Deployed, Installation, deployed, pipeline, reading
from tests.support.waiting import until

STREAM = "stream.base.erc20_token_transfer"
RECORD_BYTES, RECORDS = 2_000_000, 200
"""The batch has 400 MB. Each record is too large for the sink, and so becomes a small dead letter."""
LEFT_OUT = "Partition 0 of the stream is not read from offset 5"
LITTLE_MB, ENOUGH_MB = "256", "2048"


def write_large_batch(installation: Installation, partition: int, codec: str) -> None:
    """Write records of zeros as one batch, which is smaller than 1 MB when it is compressed."""
    settings: dict[str, Any] = {
        **installation.admin_config(),
        "compression.type": codec,
        "batch.size": 1_000_000_000,
        "message.max.bytes": 1_000_000_000,
        "queue.buffering.max.kbytes": 1_000_000,
        "linger.ms": 30_000,
        "log_level": 0,
    }
    producer = Producer(settings)
    for _ in range(RECORDS):
        producer.produce(STREAM, bytes(RECORD_BYTES), partition=partition)
    assert producer.flush(120) == 0


def write(installation: Installation, partition: int, numbers: range) -> None:
    producer = Producer({**installation.admin_config(), "log_level": 0})
    for number in numbers:
        producer.produce(STREAM, b'{"n":%d}' % number, partition=partition)
    assert producer.flush(60) == 0


def worker_of(client: httpx2.Client, deployment: Deployed) -> dict[str, Any]:
    stats = client.get(f"/api/v1/flow/{deployment.id}/deploy/stats")
    workers = stats.json()["workers_health"]["workers"] if stats.status_code == 200 else []
    return workers[0] if workers else {"reason": "", "is_ready": False}


def committed(installation: Installation) -> list[int]:
    """Return the committed offsets of the workers' group on the stream's first two partitions."""
    settings = {**installation.admin_config(), "log_level": 0}
    admin = AdminClient(settings)
    for group in admin.list_consumer_groups().result(60).valid:
        consumer = Consumer(settings | {"group.id": group.group_id})
        places = consumer.committed([TopicPartition(STREAM, partition) for partition in (0, 1)], 60)
        consumer.close()
        if places[0].offset >= 0:
            return [place.offset for place in places]
    return []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_a_too_large_decompressed_batch_stops_only_its_partition(own_installation: Installation, codec: str) -> None:
    own_installation.flags = ("--worker-memory-mb", LITTLE_MB)
    own_installation.start()
    with (
        own_installation.client() as client,
        deployed(client, pipeline()) as deployment,
        reading(deployment.sink) as reader,
    ):
        write(own_installation, 0, range(5))
        write(own_installation, 1, range(5))
        reader.read(10)
        until(lambda: committed(own_installation) == [5, 5], 60, "the commit")
        write_large_batch(own_installation, 0, codec)
        write(own_installation, 1, range(5, 10))

        def is_left_out() -> bool:
            worker = worker_of(client, deployment)
            return bool(worker["is_ready"]) and LEFT_OUT in worker["reason"]

        until(is_left_out, 180, "the partition that is left out")
        write(own_installation, 1, range(10, 15))
        values = [(record.partition, record.json()["n"]) for record in reader.read(20)]
        assert sorted(values) == [(0, n) for n in range(5)] + [(1, n) for n in range(15)]
        worker = worker_of(client, deployment)
        assert worker["is_oom_killed"]
        assert "HEADWATER_WORKER_MEMORY_MB" in worker["reason"]
        logs = client.get(f"/api/v1/flow/{deployment.id}/deploy/logs").json()
        assert LEFT_OUT in str(logs)

        own_installation.stop()
        own_installation.flags = ("--worker-memory-mb", ENOUGH_MB)
        own_installation.start()
        write(own_installation, 0, range(5, 10))
        reader.read(25)
        assert {record.partition for record in reader.records if record.json()["n"] >= 5 and record.partition == 0}
        with reading(deployment.sink, deployment.deploy_response["dead_letter"]["topic"]) as dead:
            assert len(dead.read(RECORDS)) == RECORDS
