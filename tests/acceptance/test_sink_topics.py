"""The settings of a sink's topic, as a consumer and a Kafka administrator see them."""

from collections.abc import Iterable
from typing import Any

import httpx2
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.acceptance.installation import Deployed, Installation, TopicRecord, deployed, pipeline, reading
from tests.support.waiting import until

FLOW = "/api/v1/flow"
ENTITY = "erc721_token_transfer"


def sink(**members: Any) -> dict[str, Any]:
    return {"type": "kafka", "name": "out"} | members


def record(n: int) -> dict[str, Any]:
    """Return a record. The keys spread the records over the partitions."""
    return {"n": n, "transaction_hash": f"0x{n:064x}", "log_index": 0}


def settings(installation: Installation, topic: str) -> dict[str, str]:
    admin = AdminClient(installation.admin_config())
    [described] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in described.result(30).items()}


def partitions(installation: Installation, topic: str) -> int:
    return len(AdminClient(installation.admin_config()).list_topics(topic, timeout=30).topics[topic].partitions)


def save(client: httpx2.Client, deployment: Deployed, **members: Any) -> httpx2.Response:
    return client.put(f"{FLOW}/{deployment.id}", json=pipeline(ENTITY, sinks=[sink(**members)]))


def deploy(client: httpx2.Client, deployment: Deployed) -> dict[str, Any]:
    answer = client.post(f"{FLOW}/{deployment.id}/deploy")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def on_partition(records: Iterable[TopicRecord], count: int) -> bool:
    """Return whether each record is on the right partition, and in order.

    The source partition determines the partition.
    """
    return all(read.partition == read.source[0] % count for read in records)


@pytest.mark.long
def test_partitions_grow_and_never_shrink(installation: Installation, client: httpx2.Client) -> None:
    with deployed(client, pipeline(ENTITY, sinks=[sink(partitions=2)])) as deployment:
        topic = deployment.sink["topic"]
        assert deployment.sink["partitions"] == partitions(installation, topic) == 2
        assert partitions(installation, deployment.deploy_response["dead_letter"]["topic"]) == 4
        installation.feed("base", ENTITY, map(record, range(40)))
        with reading(deployment.sink) as reader:
            first = reader.read(40)
        assert sorted(read.json()["n"] for read in first) == [*range(40)]
        assert on_partition(first, 2)
        assert {read.source[0] for read in first} == {0, 1, 2, 3}, "the header names the partitions of the source"
        for number in range(4):
            offsets = [read.source[1] for read in first if read.source[0] == number]
            assert offsets == sorted(offsets)

        refused = save(client, deployment, partitions=1)
        assert refused.status_code == 422
        assert [fault["pointer"] for fault in refused.json()["errors"]] == ["/pipeline_config/sinks/0/partitions"]

        assert save(client, deployment, partitions=3).status_code == 200
        assert deploy(client, deployment)["sinks"][0]["partitions"] == partitions(installation, topic) == 3
        installation.feed("base", ENTITY, map(record, range(40, 80)))
        with reading(deployment.sink) as reader:
            both = reader.read(80)
        assert len(both) == 80
        assert on_partition([read for read in both if read.json()["n"] >= 40], 3)


@pytest.mark.long
def test_a_deploy_with_fewer_partitions_than_the_topic_has_fails(
    installation: Installation, client: httpx2.Client
) -> None:
    """The topic had the partitions of its source, and only Kafka knows their number."""
    with deployed(client, pipeline(ENTITY)) as deployment:
        assert save(client, deployment, partitions=2).status_code == 200
        answer = client.post(f"{FLOW}/{deployment.id}/deploy")
        assert answer.status_code == 422, answer.text
        assert "has 4 partitions" in answer.json()["detail"]
        seen = client.get(f"{FLOW}/{deployment.id}/deploy").json()
        assert (seen["condition"], seen["revision"]) == ("RolledBack", 1)
        installation.feed("base", ENTITY, [record(0)])
        with reading(deployment.sink) as reader:
            assert reader.read(1)[0].json()["n"] == 0


def test_settings_are_applied_to_the_topic_at_the_next_deploy(
    installation: Installation, client: httpx2.Client
) -> None:
    with deployed(client, pipeline(ENTITY, sinks=[sink(retention_ms=7_200_000, compression="gzip")])) as deployment:
        topic = deployment.sink["topic"]
        found = settings(installation, topic)
        assert (found["retention.ms"], found["compression.type"]) == ("7200000", "gzip")
        assert found["retention.bytes"] == str(1 << 30)
        changed = {"retention_bytes": 50_000_000, "compression": "zstd", "cleanup_policy": "compact,delete"}
        assert save(client, deployment, **changed).status_code == 200
        assert settings(installation, topic)["compression.type"] == "gzip", "a save changes nothing that runs"
        shown = deploy(client, deployment)["sinks"][0]
        assert {name: shown[name] for name in changed} == changed
        assert "retention_ms" not in shown
        found = settings(installation, topic)
        assert (found["retention.bytes"], found["retention.ms"]) == ("50000000", str(7 * 24 * 3600 * 1000))
        assert (found["compression.type"], found["cleanup.policy"]) == ("zstd", "compact,delete")
        assert settings(installation, deployment.deploy_response["dead_letter"]["topic"])["cleanup.policy"] == "delete"
        installation.feed("base", ENTITY, [record(0)])
        with reading(deployment.sink) as reader:
            assert reader.read(1)[0].json()["n"] == 0


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_record_without_a_key_for_a_compacted_topic_becomes_a_dead_letter(
    installation: Installation, client: httpx2.Client, delivery: str
) -> None:
    body = pipeline(ENTITY, delivery=delivery, sinks=[sink(partitions=1, cleanup_policy="compact")])
    with deployed(client, body) as deployment:
        installation.feed("base", ENTITY, [record(0)])
        installation.feed_without_keys("base", ENTITY, [{"n": 1}])
        installation.feed("base", ENTITY, [record(2)])
        with (
            reading(deployment.sink) as reader,
            reading(deployment.sink, deployment.deploy_response["dead_letter"]["topic"]) as dead,
        ):
            assert sorted(read.json()["n"] for read in reader.read(2)) == [0, 2]
            assert {read.partition for read in reader.records} == {0}
            [letter] = dead.read(1)
        assert letter.json() == {"n": 1}
        assert (letter.headers["headwater-error"], letter.headers["headwater-transform"]) == ("NoKey", "out")
        assert "cleanup_policy" in letter.headers["headwater-message"]
        assert letter.headers["headwater-src"].split("/")[1] == str(letter.partition), "of the source's partition"
        until(
            lambda: client.get(f"{FLOW}/{deployment.id}/deploy/stats").json()["workers_health"]["healthy_workers"] == 1
        )
