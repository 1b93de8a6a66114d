"""A paused pipeline continues where it stopped, and a rewound one repeats its outputs."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.acceptance.conftest import running
from tests.acceptance.installation import (
    Deployed,
    ExternalServers,
    Installation,
    Reader,
    client_config,
    deployed,
    in_background,
    kill,
    pipeline,
    reading,
)
from tests.acceptance.test_redeploy import FLOW, Feeder, marks, ok
from tests.support.waiting import until

ENTITY = "erc1155_token_transfer"
TOPIC = f"stream.base.{ENTITY}"
MODES = ["at_least_once", "exactly_once"]
RETENTION = "offsets.retention.minutes=1\noffsets.retention.check.interval.ms=5000\n"
PAUSED_FOR_S = 300.0
MANY, RATE = 1_000_000, 5_000


def record(n: int) -> dict[str, Any]:
    """Return a record. The keys spread the records over the partitions."""
    return {"n": n, "transaction_hash": f"0x{n:064x}", "log_index": 0}


def pause(client: httpx2.Client, deployment: Deployed) -> None:
    assert (
        ok(client.post(f"{FLOW}/{deployment.id}/pause"))["message"] == f"Pipeline {deployment.id} successfully paused"
    )


def resume(client: httpx2.Client, deployment: Deployed) -> list[dict[str, int]]:
    """Resume a pipeline, and return the gaps."""
    resumed = ok(client.post(f"{FLOW}/{deployment.id}/resume"))
    assert resumed["status"] == "deployed"
    gaps: list[dict[str, int]] = resumed["gaps"]
    return gaps


def rewind(client: httpx2.Client, deployment: Deployed, to: object) -> dict[str, dict[str, int]]:
    positions: dict[str, dict[str, int]] = ok(client.post(f"{FLOW}/{deployment.id}/rewind", json={"to": to}))[
        "positions"
    ]
    return positions


def status(client: httpx2.Client, deployment: Deployed) -> str:
    shown: str = ok(client.get(f"{FLOW}/{deployment.id}/deploy"))["status"]
    return shown


def workers(client: httpx2.Client, deployment: Deployed) -> int:
    return int(ok(client.get(f"{FLOW}/{deployment.id}/deploy/stats"))["workers_health"]["total_workers"])


def received(client: httpx2.Client, deployment: Deployed) -> int:
    series = ok(client.get(f"{FLOW}/{deployment.id}/deploy/metrics", params={"metrics": "messages_received"}))
    return int(sum(point["value"] for point in series["metrics"][0]["points"]))


def worker_group(deployment: Deployed) -> str:
    return f"{deployment.sink['username'].replace('dep-', 'wrk-', 1)}.1"


def numbers(reader: Reader) -> Counter[int]:
    return Counter(each.json()["n"] for each in reader.records)


@pytest.mark.long
@pytest.mark.parametrize("delivery", MODES)
@pytest.mark.proves("11/POST /{config_id}/pause", "11/POST /{config_id}/resume", "11/while-a-pipeline-is-paused")
def test_nothing_is_lost_or_repeated(installation: Installation, client: httpx2.Client, delivery: str) -> None:
    with (
        deployed(client, pipeline(ENTITY, transforms=[marks("0")], delivery=delivery, parallelism=2)) as deployment,
        reading(deployment.sink) as reader,
    ):
        fed = Feeder(installation, ENTITY)
        with in_background(fed):
            for pauses in range(1, 4):
                until(lambda: reader.poll() != [], what="outputs")
                pause(client, deployment)
                pause(client, deployment)
                assert (status(client, deployment), workers(client, deployment)) == ("paused", 0)
                assert installation.workers_of(deployment) == []
                until(lambda: reader.poll() == [], what="no more outputs")
                seen, count = len(reader.records), fed.count
                until(lambda: fed.count > count + 100, what="records that wait")  # noqa: B023
                assert (reader.poll(), len(reader.records)) == ([], seen)
                if pauses == 2:
                    path = f"{FLOW}/{deployment.id}/transforms/{deployment.uid()}"
                    ok(client.patch(path, json=marks("1")))
                    assert (status(client, deployment), installation.workers_of(deployment)) == ("paused", [])
                assert resume(client, deployment) == []
        reader.read(fed.count)
        assert numbers(reader) == Counter(range(fed.count))
        assert {each.json()["mark"] for each in reader.records} == {"0", "1"}
        until(lambda: received(client, deployment) == fed.count, what="exact counts")


@pytest.mark.long
@pytest.mark.proves("11/POST /{config_id}/pause")
def test_an_installation_that_is_killed_while_paused(own_installation: Installation) -> None:
    own_installation.start()
    with own_installation.client() as client, deployed(client, pipeline(ENTITY)) as deployment:
        own_installation.feed("base", ENTITY, map(record, range(100)))
        with reading(deployment.sink) as reader:
            reader.read(100)
        pause(client, deployment)
        below = own_installation.kill()
        kill(below)
        own_installation.start()
        assert (status(client, deployment), own_installation.workers_of(deployment)) == ("paused", [])
        own_installation.feed("base", ENTITY, map(record, range(100, 200)))
        assert resume(client, deployment) == []
        with reading(deployment.sink) as reader:
            reader.read(200)
            assert numbers(reader) == Counter(range(200))


@pytest.mark.proves("11/POST /{config_id}/resume")
def test_records_that_retention_removed_are_named(installation: Installation, client: httpx2.Client) -> None:
    with deployed(client, pipeline(ENTITY)) as deployment, reading(deployment.sink) as reader:
        pause(client, deployment)
        admin = AdminClient(installation.admin_config())
        [positions] = [
            future.result(30).topic_partitions
            for future in admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(worker_group(deployment))]
            ).values()
        ]
        before = {each.partition: each.offset for each in positions}
        installation.feed("base", ENTITY, map(record, range(1000)))
        removed = {partition: offset + 10 for partition, offset in before.items() if partition < 2}
        for future in admin.delete_records([TopicPartition(TOPIC, *each) for each in removed.items()]).values():
            future.result(30)
        gaps = resume(client, deployment)
        assert gaps == [{"partition": p, "from": before[p], "to": end} for p, end in sorted(removed.items())]
        assert resume(client, deployment) == gaps
        reader.read(1000 - 10 * len(removed))


@pytest.mark.proves("11/a-state-that-does-not-allow")
def test_a_paused_pipeline_is_torn_down(installation: Installation, client: httpx2.Client) -> None:
    with deployed(client, pipeline(ENTITY)) as deployment:
        pause(client, deployment)
        ok(client.post(f"{FLOW}/{deployment.id}/teardown"))
        topics = AdminClient(installation.admin_config()).list_topics(timeout=20).topics
        assert not [topic for topic in topics if deployment.id in topic]
        for call in ("pause", "resume"):
            refused = client.post(f"{FLOW}/{deployment.id}/{call}")
            assert (refused.status_code, "draft" in refused.json()["detail"]) == (409, True)


class TestRewind:
    @pytest.mark.parametrize("delivery", MODES)
    @pytest.mark.proves("11/POST /{config_id}/rewind")
    def test_outputs_are_repeated_with_the_same_header(
        self, installation: Installation, client: httpx2.Client, delivery: str
    ) -> None:
        with (
            deployed(client, pipeline(ENTITY, transforms=[marks("0")], delivery=delivery)) as deployment,
            reading(deployment.sink) as reader,
        ):
            installation.feed("base", ENTITY, map(record, range(1000)))
            reader.read(1000)
            first = {each.source: each.json() for each in reader.records}
            partition = reader.records[0].partition
            start = min(each.source[1] for each in reader.records if each.partition == partition)
            moved = rewind(client, deployment, {str(partition): start})
            assert moved.keys() == {str(partition)}
            assert moved[str(partition)]["after"] == start < moved[str(partition)]["before"]
            repeated = sum(source[0] == partition for source in first)
            until(lambda: (reader.poll(), len(reader.records))[1] >= 1000 + repeated, what="the repeated outputs")
            installation.feed("base", ENTITY, map(record, range(1000, 1100)))
            reader.read(1100)
            counts = Counter(each.source for each in reader.records)
            assert all(counts[source] == (2 if source[0] == partition else 1) for source in first)
            assert all(first.get(each.source, each.json()) == each.json() for each in reader.records)
            until(lambda: received(client, deployment) == 1100 + repeated, what="counts of repeated records")

    @pytest.mark.proves("11/POST /{config_id}/rewind")
    def test_a_paused_pipeline_stays_paused(self, installation: Installation, client: httpx2.Client) -> None:
        with deployed(client, pipeline(ENTITY)) as deployment:
            pause(client, deployment)
            installation.feed("base", ENTITY, map(record, range(100)))
            skipped = rewind(client, deployment, "latest")
            assert sum(each["after"] - each["before"] for each in skipped.values()) == 100
            assert (status(client, deployment), installation.workers_of(deployment)) == ("paused", [])
            assert resume(client, deployment) == []
            installation.feed("base", ENTITY, map(record, range(100, 200)))
            with reading(deployment.sink) as reader:
                reader.read(100)
                assert numbers(reader) == Counter(range(100, 200))

    def test_an_unknown_partition(self, client: httpx2.Client) -> None:
        with deployed(client, pipeline(ENTITY)) as deployment:
            refused = client.post(f"{FLOW}/{deployment.id}/rewind", json={"to": {"0": 0, "4711": 0}})
            assert refused.status_code == 422
            assert [fault["pointer"] for fault in refused.json()["errors"]] == ["/to/4711"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
class TestForgottenOffsets:
    """Kafka removes the offsets of a group without members after a minute."""

    @pytest.fixture
    def forgetful(self, tmp_path: Path) -> Iterator[Installation]:
        servers = ExternalServers(tmp_path / "external", kafka_properties=RETENTION)
        try:
            yield from running(Installation(tmp_path / "data", external=servers))
        finally:
            servers.stop()

    def test_a_pause_outlives_them(self, forgetful: Installation) -> None:
        admin = AdminClient(forgetful.admin_config())

        def groups() -> set[str]:
            return {group.group_id for group in admin.list_consumer_groups().result(30).valid}

        with forgetful.client() as client, deployed(client, pipeline(ENTITY)) as deployment:
            forgetful.feed("base", ENTITY, map(record, range(1000)))
            with reading(deployment.sink) as reader:
                reader.read(1000)
                pause(client, deployment)
                began = time.monotonic()
                assert worker_group(deployment) in groups()
                forgetful.feed("base", ENTITY, map(record, range(1000, 2000)))
                until(lambda: worker_group(deployment) not in groups(), PAUSED_FOR_S, "the expiry of the group")
                time.sleep(max(0.0, PAUSED_FOR_S - (time.monotonic() - began)))
                assert resume(client, deployment) == []
                forgetful.feed("base", ENTITY, map(record, range(2000, 3000)))
                reader.read(3000)
                until(lambda: reader.poll() == [], what="no more outputs")
                assert numbers(reader) == Counter(range(3000))


class Outputs:
    """Reads a topic with a million records, and keeps only the numbers in them."""

    def __init__(self, deployment: Deployed) -> None:
        self._consumer = Consumer(client_config(deployment.sink))
        topic = deployment.sink["topic"]
        partitions = self._consumer.list_topics(topic, timeout=20).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        self.by_source: dict[str, int] = {}
        self.count = 0

    def poll(self) -> int:
        """Read the next outputs, and return how many there were."""
        messages = self._consumer.consume(10_000, 0.5)
        for message in messages:
            headers = dict(message.headers() or [])
            source = headers["headwater-src"]
            number = json.loads(message.value() or b"")["n"]
            assert isinstance(source, bytes)
            assert self.by_source.setdefault(source.decode(), number) == number
        self.count += len(messages)
        return len(messages)

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.slow
@pytest.mark.timeout(6000)
def test_a_rewind_to_a_time_of_a_million_records(own_installation: Installation, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    with path.open("w") as file:
        file.writelines(f"{json.dumps(record(n))}\n" for n in range(MANY))
    own_installation.start()
    with (
        own_installation.client() as client,
        deployed(client, pipeline(ENTITY, transforms=[marks("0")], parallelism=2)) as deployment,
    ):
        outputs = Outputs(deployment)
        feed = own_installation.replay("base", ENTITY, path, RATE)
        until(lambda: (outputs.poll(), outputs.count)[1] > MANY // 4, 1800, "a quarter of the outputs")
        time_to_repeat = datetime.now(UTC).isoformat()
        until(lambda: (outputs.poll(), outputs.count)[1] > MANY // 2, 1800, "half of the outputs")
        moved = rewind(client, deployment, time_to_repeat)
        repeated = sum(each["before"] - each["after"] for each in moved.values())
        assert repeated > 0
        until(lambda: (outputs.poll(), len(outputs.by_source))[1] == MANY, 3600, "all outputs")
        assert feed.wait(60) == 0
        until(lambda: outputs.poll() == 0, what="no more outputs")
        assert sorted(outputs.by_source.values()) == list(range(MANY))
        assert outputs.count == MANY + repeated
        until(lambda: received(client, deployment) == MANY + repeated, what="counts of repeated records")
        outputs.close()
