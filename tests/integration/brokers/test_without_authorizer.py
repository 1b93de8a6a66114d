"""On a Kafka without an authorizer, topics and groups can be managed.

Users and ACLs can't be managed there.
"""

from collections.abc import Iterator

import pytest

from headwater.brokers.base import OUTPUT_TOPIC_CONFIG, Acl, DeploymentResources, TopicSpec, User
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.errors import BrokerUnsuitable
from tests.support.kafka import KafkaServer, running
from tests.support.waiting import until


@pytest.fixture(scope="module")
def open_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    with running(tmp_path_factory.mktemp("open"), has_authorizer=False) as server:
        yield server


def owned(server: KafkaServer) -> DeploymentResources:
    name = server.unique("open")
    reader, topic = f"dep-{name}", f"flow.{name}.out"
    return DeploymentResources(
        (TopicSpec(topic, 1, OUTPUT_TOPIC_CONFIG),),
        (User(reader, "secret"),),
        (Acl(reader, "topic", topic, ("READ",)),),
    )


def test_the_error_for_managed_users_names_the_setting(open_kafka: KafkaServer) -> None:
    broker, wanted = KafkaClusterAdmin(open_kafka.access), owned(open_kafka)
    with pytest.raises(BrokerUnsuitable, match=r"no authorizer.*HEADWATER_KAFKA_CREDENTIALS=given"):
        broker.ensure(wanted)
    assert broker.inventory().topics_in_acls_by_user == {}
    broker.remove_all(wanted)
    found = broker.inventory()
    assert wanted.topics[0].name not in found.topics
    assert wanted.users[0].name not in found.users


def test_given_users_need_no_authorizer(open_kafka: KafkaServer) -> None:
    broker, wanted = KafkaClusterAdmin(open_kafka.access, manages_users=False), owned(open_kafka)
    topic, group = wanted.topics[0].name, f"{wanted.users[0].name}.main"
    broker.ensure(wanted)
    until(lambda: broker.partition_count(topic) == 1)  # the broker describes a new topic a moment later
    broker.configure({topic: {"retention.ms": "60000"}})
    assert broker.commit_start_offsets(group, topic, "latest") == {0: 0}
    broker.remove_stale(wanted, [])
    assert topic in broker.inventory().topics
    broker.remove_all(wanted)
    assert broker.delete_groups([f"{wanted.users[0].name}."])
    found = broker.inventory()
    assert topic not in found.topics
    assert group not in found.groups
