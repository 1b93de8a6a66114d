"""The contract of brokers.base.Subscriptions."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.brokers.base import Subscriptions
from headwater.errors import BrokerUnavailable, BrokerUnsuitable
from headwater.model.access import PubSubAccess
from tests.support.memory.broker import MemorySubscriptions

if TYPE_CHECKING:
    from tests.support.pubsub_server import PubSubServer

_numbers = count(1)

Bench = tuple[Subscriptions, Callable[[], str]]


def memory() -> Bench:
    subscriptions = MemorySubscriptions("project-1")

    def topic() -> str:
        name = f"projects/project-1/topics/t{len(subscriptions.topics)}"
        subscriptions.topics[name] = False
        return name

    return subscriptions, topic


@pytest.fixture(params=["memory", "fake", pytest.param("emulator", marks=pytest.mark.slow)])
def bench(request: pytest.FixtureRequest) -> Bench:
    if request.param == "memory":
        return memory()
    from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions

    name = "pubsub" if request.param == "fake" else "pubsub_emulator"
    server: PubSubServer = request.getfixturevalue(name)
    return PubSubSubscriptions(server.access), server.topic


def test_a_subscription_is_created_once_and_deleted(bench: Bench) -> None:
    subscriptions, topic = bench
    topic_path = topic()
    for _ in range(2):
        subscriptions.ensure("wrk-1.1", topic_path, "latest")
    assert "wrk-1.1" in subscriptions.names()
    subscriptions.require_exists(subscriptions.path("wrk-1.1"))
    for _ in range(2):
        subscriptions.delete(["wrk-1.1", "wrk-none.1"])
    assert "wrk-1.1" not in subscriptions.names()
    with pytest.raises(BrokerUnsuitable, match=r"has no projects/project-1/subscriptions/wrk-1\.1"):
        subscriptions.require_exists(subscriptions.path("wrk-1.1"))


def test_a_topic_that_does_not_exist(bench: Bench) -> None:
    with pytest.raises(BrokerUnsuitable, match="has no projects/project-1/topics/none"):
        bench[0].ensure("wrk-2.1", "projects/project-1/topics/none", "latest")


def test_a_subscription_to_another_topic(bench: Bench) -> None:
    subscriptions, topic = bench
    subscriptions.ensure("wrk-3.1", topic(), "latest")
    with pytest.raises(BrokerUnsuitable, match="belongs to the topic"):
        subscriptions.ensure("wrk-3.1", topic(), "latest")
    subscriptions.delete(["wrk-3.1"])


@pytest.mark.parametrize("start_at", ["earliest", "2026-01-02T03:04:05Z"])
def test_a_topic_without_retention_cannot_be_read_from_the_past(bench: Bench, start_at: str) -> None:
    subscriptions, topic = bench
    with pytest.raises(BrokerUnsuitable, match="keeps no messages"):
        subscriptions.ensure("wrk-4.1", topic(), start_at)
    assert "wrk-4.1" not in subscriptions.names()


def topic_with_retention(server: "PubSubServer") -> str:
    """Create a topic that keeps its messages for an hour, and return its name."""
    from google.protobuf.duration_pb2 import Duration  # type: ignore[import-untyped]

    topic = f"projects/project-1/topics/kept-{next(_numbers)}"
    server.publisher.create_topic(request={"name": topic, "message_retention_duration": Duration(seconds=3600)})
    return topic


def test_a_topic_with_retention(pubsub: "PubSubServer") -> None:
    from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions

    topic = topic_with_retention(pubsub)
    subscriptions = PubSubSubscriptions(pubsub.access)
    half_an_hour_ago = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)
    names = {
        "wrk-5.1": "earliest",
        "wrk-5.2": "2026-01-02T03:04:05Z",
        "wrk-5.3": half_an_hour_ago.isoformat(),
        "wrk-5.4": "2999-01-01T00:00:00Z",
    }
    for name, start_at in names.items():
        subscriptions.ensure(name, topic, start_at)
    assert names.keys() <= subscriptions.names()
    first = int(time.time()) - 3600
    seeks = pubsub.seeks()
    assert seeks == {
        "wrk-5.1": pytest.approx(first, abs=60),
        "wrk-5.2": pytest.approx(first, abs=60),
        "wrk-5.3": half_an_hour_ago.timestamp(),
    }
    subscriptions.delete(names)


@pytest.mark.parametrize("position", ["earliest", "2026-01-02T03:04:05Z"])
def test_a_subscription_without_retention_can_not_be_moved_back(bench: Bench, position: str) -> None:
    subscriptions, topic = bench
    subscriptions.ensure("wrk-6.1", topic(), "latest")
    with pytest.raises(BrokerUnsuitable, match="messages"):
        subscriptions.seek(subscriptions.path("wrk-6.1"), position)
    subscriptions.delete(["wrk-6.1"])
    with pytest.raises(BrokerUnsuitable, match=r"has no projects/project-1/subscriptions/wrk-6\.1"):
        subscriptions.seek(subscriptions.path("wrk-6.1"), "latest")


def test_seek(pubsub: "PubSubServer") -> None:
    from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions

    topic = topic_with_retention(pubsub)
    subscriptions = PubSubSubscriptions(pubsub.access)
    half_an_hour_ago = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)
    expected = {
        "earliest": time.time() - 3600,
        "latest": time.time(),
        half_an_hour_ago.isoformat(): half_an_hour_ago.timestamp(),
        "2999-01-01T00:00:00Z": time.time(),
    }
    subscriptions.ensure("wrk-7.1", topic, "latest")
    for position, seconds in expected.items():
        subscriptions.seek(subscriptions.path("wrk-7.1"), position)
        assert pubsub.seeks()["wrk-7.1"] == pytest.approx(seconds, abs=60)
    subscriptions.delete(["wrk-7.1"])


def test_an_existing_subscription_stays_where_it_is(pubsub: "PubSubServer") -> None:
    from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions

    subscriptions, topic = PubSubSubscriptions(pubsub.access), topic_with_retention(pubsub)
    subscriptions.ensure("wrk-8.1", topic, "earliest")
    subscriptions.seek(subscriptions.path("wrk-8.1"), "latest")
    subscriptions.ensure("wrk-8.1", topic, "earliest")
    assert pubsub.seeks()["wrk-8.1"] == pytest.approx(time.time(), abs=60)
    subscriptions.delete(["wrk-8.1"])


@pytest.mark.parametrize("call", ["seek", "update_subscription"])
def test_an_interrupted_creation_is_completed(
    pubsub: "PubSubServer", monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    from google.api_core.exceptions import ServiceUnavailable

    from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions

    subscriptions, topic, name = PubSubSubscriptions(pubsub.access), topic_with_retention(pubsub), f"wrk-{call}"

    def interrupted(**_: object) -> None:
        raise ServiceUnavailable("gone")  # type: ignore[no-untyped-call]

    with monkeypatch.context() as patch:
        patch.setattr(subscriptions._subscriber, call, interrupted)
        with pytest.raises(BrokerUnavailable):
            subscriptions.ensure(name, topic, "earliest")
    assert name in subscriptions.names()
    subscriptions.ensure(name, topic, "earliest")
    assert pubsub.seeks()[name] == pytest.approx(time.time() - 3600, abs=60)
    subscriptions.seek(subscriptions.path(name), "latest")
    subscriptions.ensure(name, topic, "earliest")
    assert pubsub.seeks()[name] == pytest.approx(time.time(), abs=60)
    subscriptions.delete([name])


def test_no_server() -> None:
    from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions

    subscriptions = PubSubSubscriptions(PubSubAccess(project="project-1", endpoint="127.0.0.1:9"))
    with pytest.raises(BrokerUnavailable, match="does not answer"):
        subscriptions.names()


def test_the_variable_of_googles_own_clients(pubsub: "PubSubServer", monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions

    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub.address)
    assert PubSubSubscriptions(PubSubAccess(project="project-1")).names() == pubsub.subscriptions()


def test_bad_credentials(tmp_path: Path) -> None:
    from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions

    path = tmp_path / "key.json"
    path.write_text("{}")
    with pytest.raises(BrokerUnavailable, match="no usable credentials"):
        PubSubSubscriptions(PubSubAccess(project="project-1", credentials_file=str(path)))


def test_a_subscription_outlives_a_long_pause(pubsub: "PubSubServer") -> None:
    from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions

    subscriptions = PubSubSubscriptions(pubsub.access)
    subscriptions.ensure("wrk-9.1", pubsub.topic(), "latest")
    created = pubsub.subscriber.get_subscription(subscription=subscriptions.path("wrk-9.1"))
    assert "expiration_policy" in created
    assert not created.expiration_policy.ttl
    subscriptions.delete(["wrk-9.1"])
