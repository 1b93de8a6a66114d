"""A deployment's credentials give access only to its own topics and groups."""

import json
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import httpx2
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.acceptance.installation import Deployed, Installation, client_config, deploy, deployed, pipeline, reading
from tests.support.waiting import until

DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}


def login(deployment: Deployed) -> dict[str, Any]:
    config = client_config(deployment.sink)
    return {name: value for name, value in config.items() if name.startswith(("bootstrap", "s", "log"))}


def first_error(
    deployment: Deployed,
    topic: str,
    group: str | None = None,
    options: Mapping[str, str] = MappingProxyType({}),
    within_s: float = 60.0,
) -> int:
    """Return the first error code of a consumer of this topic."""
    consumer = Consumer(client_config(deployment.sink, group) | dict(options))
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and (error := message.error()) is not None:
                return int(error.code())
        pytest.fail(f"no error within {within_s} s")
    finally:
        consumer.close()


def read_with(
    deployment: Deployed, group: str, count: int, options: Mapping[str, str] = MappingProxyType({})
) -> list[int]:
    """Return the member `n` of the first records that a group reads.

    The group's offsets are committed.
    """
    consumer = Consumer(client_config(deployment.sink, group) | dict(options))
    consumer.subscribe([deployment.sink["topic"]])
    read: list[int] = []

    def poll() -> bool:
        for message in consumer.consume(count, 0.5):
            assert message.error() is None, message.error()
            read.append(json.loads(message.value() or b"")["n"])
        return len(read) >= count

    try:
        until(poll, what="all records")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return sorted(read)


def produce_error(deployment: Deployed, topic: str) -> int:
    errors: list[int] = []
    producer = Producer({**login(deployment), "message.timeout.ms": 60_000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error.code() if error else 0))
    producer.flush(70)
    return errors[0]


def login_error(deployment: Deployed) -> int:
    """Return the error of a new connection with the deployment's credentials."""
    errors: list[int] = []
    config: Any = {**login(deployment), "error_cb": lambda error: errors.append(error.code())}
    client = AdminClient(config)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)
    until(lambda: client.poll(0.1) is not None and bool(errors), what="a refused login")
    return errors[0]


class TestCredentials:
    @pytest.mark.proves("6/deployed-pipelines-deliver-processed-records-to")
    def test_credentials_give_access_to_their_own_topics_only(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        with deployed(client, pipeline()) as mine, deployed(client, pipeline()) as other:
            for topic in (mine.sink["topic"], mine.deploy_response["dead_letter"]["topic"]):
                with reading(mine.sink, topic) as reader:
                    assert reader.poll() == []
            assert first_error(mine, other.sink["topic"]) in DENIED
            assert first_error(mine, "stream.base.erc20_token_transfer") in DENIED
            assert first_error(mine, mine.sink["topic"], other.sink["consumer_group"]) in DENIED
            assert first_error(mine, mine.sink["topic"], "any-group") in DENIED
            assert produce_error(mine, mine.sink["topic"]) in DENIED
            assert produce_error(mine, "stream.base.erc20_token_transfer") in DENIED
            admin = AdminClient(login(mine))
            (creating,) = admin.create_topics([NewTopic("mine", 1, 1)]).values()
            with pytest.raises(KafkaException) as refused:
                creating.result(60)
            assert refused.value.args[0].code() in DENIED
            seen = admin.list_topics(timeout=60).topics
            assert set(seen) == {mine.sink["topic"], mine.deploy_response["dead_letter"]["topic"]}

    def test_any_group_with_the_prefix_can_use_both_group_protocols(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        with deployed(client, pipeline()) as deployment:
            user = deployment.sink["username"]
            installation.feed("base", "erc20_token_transfer", [{"n": n} for n in range(8)])
            assert read_with(deployment, f"{user}.spark-kafka-source-5a1c-driver-0", 8) == list(range(8))
            assert read_with(deployment, f"{user}.main", 8, {"group.protocol": "consumer"}) == list(range(8))

    def test_a_group_without_the_prefix_is_rejected(self, client: httpx2.Client) -> None:
        with deployed(client, pipeline()) as deployment:
            topic = deployment.sink["topic"]
            assert first_error(deployment, topic, "spark-kafka-source-5a1c-driver-0") in DENIED
            assert first_error(deployment, topic, "connect-warehouse", {"group.protocol": "consumer"}) in DENIED

    @pytest.mark.proves("3/deployed: Teardown", "4.2/POST /api/v1/flow/{config_id}/teardown")
    def test_credentials_and_topics_are_removed_by_a_teardown(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        deployment = deploy(client, pipeline())
        consumer = Consumer(client_config(deployment.sink))
        consumer.subscribe([deployment.sink["topic"]])
        installation.feed("base", "erc20_token_transfer", [{"n": 1}])
        assert consumer.poll(60) is not None
        torn_down = client.post(f"/api/v1/flow/{deployment.id}/teardown")
        assert torn_down.json() == {"message": f"Pipeline {deployment.id} successfully torn down"}
        assert login_error(deployment) in {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}
        assert consumer.list_topics(timeout=60).topics == {}  # on a connection from before the teardown
        with pytest.raises(KafkaException) as refused:
            consumer.committed([TopicPartition(deployment.sink["topic"], 0)], timeout=60)
        assert refused.value.args[0].code() in DENIED
        consumer.close()
        left = admin_view(installation)
        assert not [
            name
            for names in left.values()
            for name in names
            if deployment.id in name or deployment.sink["username"] in name
        ]
        again = client.post(f"/api/v1/flow/{deployment.id}/deploy").json()
        assert again["sinks"][0]["username"] != deployment.sink["username"]
        assert client.delete(f"/api/v1/flow/{deployment.id}").status_code == 200


def admin_view(installation: Installation) -> dict[str, list[str]]:
    """Return the topics, users and ACL principals that the administrator sees."""
    admin: Any = AdminClient(installation.admin_config())
    kinds: Any = (ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    return {
        "topics": list(admin.list_topics(timeout=60).topics),
        "users": list(admin.describe_user_scram_credentials().result(60)),
        "rules": [rule.principal for rule in admin.describe_acls(AclBindingFilter(*kinds)).result(60)],
    }
