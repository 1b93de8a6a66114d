"""Stream bindings: the defaults, and the bindings file."""

from typing import Any

import pytest
from pydantic import ValidationError

from headwater.model.access import KafkaAccess, PubSubAccess
from headwater.model.binding import Bindings, KafkaTopic, PubSubSubscription, PubSubTopic, parse_bindings
from headwater.model.stream import CATALOG, stream_name

STREAMS = [(chain.name, entity.name) for chain in CATALOG for entity in chain.entities]
KAFKA = {"topic": "t", "bootstrap_servers": "b:1", "username": "ann", "password": "pw"}
PUBSUB = {"project": "project-1", "topic": "logs"}


class TestBindings:
    def test_default_topics(self) -> None:
        assert Bindings().find("polygon", "log") == KafkaTopic("stream.polygon.log")
        assert Bindings().installation_topic("polygon", "log") == "stream.polygon.log"
        assert Bindings().installation_topic("polygon", "log", zerolag=True) is None

    def test_named_topics(self) -> None:
        bindings = parse_bindings({"polygon.log": "raw", stream_name("polygon", "log", zerolag=True): "fast"})
        assert bindings.installation_topic("polygon", "log") == "raw"
        assert bindings.installation_topic("polygon", "log", zerolag=True) == "fast"
        assert bindings.installation_topic("base", "log") == "stream.base.log"

    @pytest.mark.parametrize(("chain", "entity"), [("dogechain", "log"), ("solana", "log")])
    def test_unknown_streams_have_no_binding(self, chain: str, entity: str) -> None:
        assert Bindings({f"{chain}.{entity}": KafkaTopic("x")}).find(chain, entity) is None

    def test_lists_the_topics_of_the_own_cluster(self) -> None:
        bound = dict(parse_bindings({"base.log.zerolag": "fast", "base.log": {"pubsub": PUBSUB}}).installation_topics())
        assert len(bound) == len(STREAMS)
        assert bound["base.log.zerolag"] == "fast"
        assert "base.log" not in bound
        assert bound["hyperliquid.misc_event"] == "stream.hyperliquid.misc_event"


class TestFile:
    def test_another_cluster(self) -> None:
        bindings = parse_bindings({"base.log": {"kafka": KAFKA}})
        access = KafkaAccess(bootstrap_servers="b:1", security_protocol="SASL_SSL", username="ann", password="pw")
        assert bindings.find("base", "log") == KafkaTopic("t", access)
        assert bindings.installation_topic("base", "log") is None
        assert bindings.kafka_accesses() == {access}

    def test_pubsub(self) -> None:
        other = {"project": "project-1", "subscription": "mine", "endpoint": "h:1", "credentials_file": "/key.json"}
        bindings = parse_bindings({"base.log": {"pubsub": PUBSUB}, "polygon.log": {"pubsub": other}})
        first = PubSubAccess(project="project-1")
        second = PubSubAccess(project="project-1", endpoint="h:1", credentials_file="/key.json")
        assert bindings.find("base", "log") == PubSubTopic("projects/project-1/topics/logs", first)
        assert bindings.find("polygon", "log") == PubSubSubscription("projects/project-1/subscriptions/mine", second)
        assert bindings.installation_topic("base", "log") is None
        assert bindings.pubsub_accesses() == {first, second}

    def test_a_topic_of_another_project(self) -> None:
        topic = "projects/public-data/topics/logs"
        found = parse_bindings({"base.log": {"pubsub": PUBSUB | {"topic": topic}}}).find("base", "log")
        assert found == PubSubTopic(topic, PubSubAccess(project="project-1"))

    def test_deduplication_of_equal_messages(self) -> None:
        found = parse_bindings({"base.log": {"pubsub": PUBSUB | {"deduplicate": True}}}).find("base", "log")
        access = PubSubAccess(project="project-1")
        assert found == PubSubTopic("projects/project-1/topics/logs", access, deduplicate=True)

    @pytest.mark.parametrize(
        ("document", "fault"),
        [
            (["x"], "valid dictionary"),
            ({"base.lgo": "x"}, "is not a stream of the catalog"),
            ({"base.log": ""}, "at least 1 character"),
            ({"base.log": 7}, "valid"),
            ({"base.log": {}}, 'needs "kafka" or "pubsub"'),
            ({"base.log": {"kafka": KAFKA, "pubsub": PUBSUB}}, "not both"),
            ({"base.log": {"kafka": KAFKA | {"tpoic": "t"}}}, "Extra inputs"),
            (
                {"base.log": {"kafka": {"topic": "t", "bootstrap_servers": "b"}}},
                r"SCRAM-SHA-512 needs username and password \(or password_file\)",
            ),
            ({"base.log": {"kafka": KAFKA | {"security_protocol": "TLS"}}}, "Input should be 'PLAINTEXT'"),
            ({"base.log": {"pubsub": {"project": "project-1"}}}, "needs a topic or a subscription"),
            ({"base.log": {"pubsub": PUBSUB | {"subscription": "s"}}}, "not both"),
            ({"base.log": {"pubsub": PUBSUB | {"topic": "a b"}}}, "not a Pub/Sub name"),
            ({"base.log": {"pubsub": PUBSUB | {"topic": "projects/p/subscriptions/logs"}}}, "not a Pub/Sub name"),
            (
                {"base.log": {"pubsub": {"project": "project-1", "subscription": "projects/p/topics/logs"}}},
                "projects/p/topics/logs is not a Pub/Sub name: use projects/<project>/subscriptions/<name>",
            ),
            ({"base.log": {"pubsub": PUBSUB | {"project": "P"}}}, "pattern"),
            ({"base.log": {"pubsub": PUBSUB | {"deduplicate": "yes"}}}, "valid boolean"),
            (
                {"base.log": {"pubsub": {"project": "project-1", "subscription": "mine", "deduplicate": True}}},
                "deduplicate needs a topic",
            ),
        ],
    )
    def test_faults(self, document: Any, fault: str) -> None:
        with pytest.raises(ValidationError, match=fault) as raised:
            parse_bindings(document)
        assert "pw" not in str(raised.value)
