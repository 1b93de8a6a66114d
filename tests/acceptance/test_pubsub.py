"""Streams that are bound to a Pub/Sub server and to another Kafka cluster."""

import contextlib
import json
import random
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from headwater.brokers.base import Acl, DeploymentResources, User
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from tests.acceptance.conftest import running
from tests.acceptance.installation import (
    Deployed,
    Installation,
    TopicRecord,
    deploy,
    deployed,
    in_background,
    kill,
    pipeline,
    reading,
)
from tests.acceptance.test_rounds import send
from tests.support.kafka import KafkaServer
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.support.pubsub_server import PubSubServer

pytestmark = pytest.mark.long
FLOW = "/api/v1/flow"
ORDERING_KEYS = 40
STREAMS = {"base": "log", "polygon": "erc20_token_transfer", "solana": "nonvoting_transaction"}
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.kind", "set_values": ["good"]}
OWN_SUBSCRIPTION = "mine"


def subscription(deployment: Deployed) -> str:
    return f"wrk-{deployment.sink['username'].removeprefix('dep-')}.1"


class Bench:
    """A Pub/Sub server with topics for several streams.

    Another stream has a subscription that the user manages.
    """

    def __init__(self, server: "PubSubServer", kafka: KafkaServer, folder: Path) -> None:
        self.server = server
        self.kafka = kafka
        self.foreign_topic = kafka.create_topic(kafka.unique("trades"), 2)
        self.topics = {chain: server.topic(f"raw-{chain}") for chain in STREAMS}
        self.own_topic = server.topic("raw-own")
        self.kills_topic = server.topic("raw-kills")
        path = f"projects/project-1/subscriptions/{OWN_SUBSCRIPTION}"
        server.subscriber.create_subscription(name=path, topic=self.own_topic)
        place = {"project": "project-1", "endpoint": server.address}
        bindings: dict[str, Any] = {
            f"{chain}.{entity}": {"pubsub": place | {"topic": f"raw-{chain}"}} for chain, entity in STREAMS.items()
        }
        bindings["base.erc721_token_transfer"] = {"pubsub": place | {"topic": "raw-kills"}}
        bindings["base.decoded_log"] = {"pubsub": place | {"topic": "not-there"}}
        bindings["polygon.log"] = {"pubsub": place | {"subscription": OWN_SUBSCRIPTION}}
        bindings["hyperliquid.trade"] = {"kafka": self._kafka(folder)}
        self.bindings = folder / "streams.json"
        self.bindings.write_text(json.dumps(bindings))

    def _kafka(self, folder: Path) -> dict[str, str]:
        """Create a user who may read one topic with Headwater's groups."""
        acls = (
            Acl("reader", "topic", self.foreign_topic, ("READ",)),
            Acl("reader", "group", "wrk-", ("READ", "DELETE"), prefixed=True),
        )
        KafkaClusterAdmin(self.kafka.access).ensure(DeploymentResources((), (User("reader", "a password"),), acls))
        (folder / "password").write_text("a password\n")
        return {
            "topic": self.foreign_topic,
            "bootstrap_servers": self.kafka.access.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "username": "reader",
            "password_file": "password",
        }

    def groups(self) -> set[str]:
        """Return the workers' groups on the other cluster."""
        found = self.kafka.admin.list_consumer_groups().result().valid
        return {group.group_id for group in found if group.group_id.startswith("wrk-")}

    def publish(self, first: int, end: int, chain: str = "base", topic: str = "") -> None:
        """Publish numbered records.

        Every second one passes the filter; ordering keys are used in turn.
        """
        for start in range(first, min(end, first + ORDERING_KEYS)):
            numbers = range(start, end, ORDERING_KEYS)
            values = [json.dumps({"n": n, "kind": "bad" if n % 2 else "good"}).encode() for n in numbers]
            keys = [{"key": f"record-{n}"} for n in numbers]
            self.server.publish(topic or self.topics[chain], values, f"key-{start % ORDERING_KEYS}", keys)


@pytest.fixture(scope="module")
def bench(pubsub: "PubSubServer", kafka: KafkaServer, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(pubsub, kafka, tmp_path_factory.mktemp("bindings"))


@pytest.fixture(scope="module")
def own(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    data_dir = tmp_path_factory.mktemp("pubsub") / "data"
    yield from running(Installation(data_dir, flags=("--stream-bindings", str(bench.bindings))))


@pytest.fixture(scope="module")
def http(own: Installation) -> Iterator[httpx2.Client]:
    with own.client() as http_client:
        yield http_client


@pytest.fixture(scope="module", autouse=True)
def killed(bench: Bench, own: Installation, http: httpx2.Client) -> Iterator[Deployed]:
    """A pipeline whose workers were killed while they held messages.

    Other tests run until the leases end.
    """
    with deployed(http, pipeline("erc721_token_transfer", transforms=[FILTER], parallelism=2)) as deployment:
        bench.publish(0, 120, topic=bench.kills_topic)
        with reading(deployment.sink) as reader:
            reader.read(30)
        kill(own.workers_of(deployment))
        bench.publish(120, 160, topic=bench.kills_topic)
        yield deployment


def numbers(records: list[TopicRecord]) -> list[int]:
    return [record.json()["n"] for record in records]


def counts(http: httpx2.Client, deployment: Deployed) -> tuple[float, ...]:
    """Return the numbers of received and sent messages."""
    names = "messages_received,messages_sent"
    answer = http.get(f"{FLOW}/{deployment.id}/deploy/metrics", params={"metrics": names})
    return tuple(sum(point["value"] for point in series["points"]) for series in answer.json()["metrics"])


def check_order(records: list[TopicRecord]) -> None:
    """Assert that the first occurrences of each ordering key are in order on one partition."""
    for start in range(ORDERING_KEYS):
        of_key = [record for record in records if record.json()["n"] % ORDERING_KEYS == start]
        assert numbers(of_key) == sorted(numbers(of_key))
        assert len({record.partition for record in of_key}) <= 1


@pytest.mark.proves("2.2/source.type", "2.3/polygon", "2.3/base", "2.3/solana", "3/deployed: Teardown")
def test_a_pipeline_reads_pubsub_and_its_subscription_is_deleted_with_it(bench: Bench, http: httpx2.Client) -> None:
    for chain in STREAMS:
        bench.publish(0, 4, chain)  # published before the deployment, so not processed

    def start(chain: str, entity: str) -> Deployed:
        flow = deploy(http, pipeline(entity, chain, transforms=[FILTER]))
        bench.publish(100, 110, chain)  # published right after the response, so processed
        return flow

    with contextlib.ExitStack() as closing, ThreadPoolExecutor(len(STREAMS)) as pool:
        flows = dict(zip(STREAMS, pool.map(start, STREAMS.keys(), STREAMS.values()), strict=True))
        readers = {chain: (flow, closing.enter_context(reading(flow.sink))) for chain, flow in flows.items()}
        assert {subscription(flow) for flow, _ in readers.values()} <= bench.server.subscriptions()
        for flow, reader in readers.values():
            assert flow.configuration["pipeline_config"]["source"]["type"] == "pubsub"
            found = reader.read(5)
            assert sorted(numbers(found)) == [100, 102, 104, 106, 108]
            assert {record.key for record in found} == {f"record-{n}".encode() for n in numbers(found)}
            assert all(record.headers["headwater-src"].endswith("/0") for record in found)
            assert http.get(f"{FLOW}/{flow.id}/deploy/stats").json()["lag"] is None
            until(lambda f=flow: counts(http, f) == (10, 5), what="the counts")  # type: ignore[misc]
            gone = http.post(f"{FLOW}/{flow.id}/teardown")
            assert gone.status_code == 200, gone.text
            assert subscription(flow) not in bench.server.subscriptions()
            assert http.delete(f"{FLOW}/{flow.id}").status_code == 200


@pytest.mark.slow
def test_a_redeploy_neither_loses_nor_repeats_records(bench: Bench, http: httpx2.Client) -> None:
    with deployed(http, pipeline("log", transforms=[FILTER])) as deployment, reading(deployment.sink) as reader:
        count = 0

        def feed(stop: threading.Event) -> None:
            nonlocal count
            while not stop.wait(0.3):
                bench.publish(count, count + 10)
                count += 10

        with in_background(feed):
            changed = http.put(f"{FLOW}/{deployment.id}", json=pipeline("log", transforms=[]))
            assert changed.status_code == 200, changed.text
            assert http.post(f"{FLOW}/{deployment.id}/deploy").status_code == 200
            last = count
            until(lambda: count > last, what="records after the redeploy")
        good = set(range(0, count, 2))
        until(lambda: bool(reader.poll()) and good <= set(numbers(reader.records)), what="all records")
        assert len(reader.records) == len(reader.sources)
        assert any(n % 2 for n in numbers(reader.records))
        assert {subscription(deployment)} <= bench.server.subscriptions()
        check_order(reader.records)


@pytest.mark.slow
def test_no_subscription_is_left_if_the_controller_is_killed_in_a_teardown(
    bench: Bench, own: Installation, http: httpx2.Client
) -> None:
    deployment = deploy(http, pipeline("log"))
    with in_background(lambda _: kill_soon(own)):
        while http.post(f"{FLOW}/{deployment.id}/teardown").status_code != 200:
            time.sleep(0.2)
    until(lambda: subscription(deployment) not in bench.server.subscriptions(), what="the end of the subscription")
    assert http.delete(f"{FLOW}/{deployment.id}").status_code == 200


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_repeated_deploys_and_teardowns_leave_nothing_although_the_controller_is_killed(
    bench: Bench, own: Installation, http: httpx2.Client, killed: Deployed
) -> None:
    rng = random.Random(7)

    def disturb(stop: threading.Event) -> None:
        for _ in range(4):  # after more kills, the parent delays restarts for long
            if not stop.wait(rng.uniform(4, 8)):
                kill(own.processes("headwater controller"))

    def one_round(number: int) -> None:
        flow = http.post(FLOW, json=pipeline("log", name=f"round {number}")).json()
        path = f"{FLOW}/{flow['id']}"
        assert send(http, "POST", f"{path}/deploy").status_code == 200
        assert send(http, "POST", f"{path}/teardown").status_code == 200
        assert send(http, "DELETE", path).status_code == 200

    with in_background(disturb), ThreadPoolExecutor(3) as pool:
        list(pool.map(one_round, range(24)))
    kept = {subscription(killed), OWN_SUBSCRIPTION}
    until(lambda: bench.server.subscriptions() == kept, 90, "the end of all subscriptions")


def kill_soon(installation: Installation) -> None:
    time.sleep(0.1)
    kill(installation.processes("headwater controller"))


def test_a_missing_topic_is_reported_immediately(http: httpx2.Client) -> None:
    created = http.post(FLOW, json=pipeline("decoded_log")).json()
    answer = http.post(f"{FLOW}/{created['id']}/deploy")
    assert answer.status_code == 422, answer.text
    detail = answer.json()["detail"]
    assert "Google Pub/Sub has no" in detail
    assert not {"project-1", "not-there"} & set(re.findall(r"[\w-]+", detail))
    assert http.delete(f"{FLOW}/{created['id']}").status_code == 200


def test_exactly_once_is_refused(http: httpx2.Client) -> None:
    answer = http.post(FLOW, json=pipeline("log", delivery="exactly_once"))
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == "/pipeline_config/delivery"


@pytest.mark.slow
def test_a_user_managed_subscription_has_one_reader_and_is_kept(bench: Bench, http: httpx2.Client) -> None:
    bench.publish(0, 10, topic=bench.own_topic)  # published before the deployment, and retained by the subscription
    with deployed(http, pipeline("log", "polygon")) as deployment, reading(deployment.sink) as reader:
        assert sorted(numbers(reader.read(10))) == list(range(10))
        other = http.post(FLOW, json=pipeline("log", "polygon")).json()
        refused = http.post(f"{FLOW}/{other['id']}/deploy")
        assert refused.status_code == 422, refused.text
        assert "Another pipeline reads the subscription" in refused.json()["detail"]
        assert http.delete(f"{FLOW}/{other['id']}").status_code == 200
    assert OWN_SUBSCRIPTION in bench.server.subscriptions()
    bad = http.post(
        FLOW, json=pipeline("log", "polygon", source={"chain": "polygon", "entity": "log", "start_at": "earliest"})
    )
    assert bad.json()["errors"][0]["pointer"] == "/pipeline_config/source/start_at"


def test_replay_names_the_topic_to_feed(own: Installation, tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text("{}\n")
    done = own.run("replay", "--chain", "base", "--entity", "log", str(tmp_path / "records.jsonl"), *own.flags)
    assert done.returncode == 2
    assert "Pub/Sub (projects/project-1/topics/raw-base)" in done.stderr.replace("\n", " ")


class TestAnotherCluster:
    @pytest.mark.slow
    def test_records_are_read_from_the_other_cluster_and_written_to_the_own_one(
        self, bench: Bench, own: Installation, http: httpx2.Client
    ) -> None:
        bench.kafka.produce(bench.foreign_topic, [b'{"n": 0}'])  # published before the deployment, so not processed
        with deployed(http, pipeline("trade", "hyperliquid")) as deployment, reading(deployment.sink) as reader:
            for partition in (0, 1):
                bench.kafka.produce(bench.foreign_topic, [b'{"n": 1}', b'{"n": 2}'], partition=partition)
            found = reader.read(4)
            assert sorted((r.partition, r.json()["n"]) for r in found) == [(0, 1), (0, 2), (1, 1), (1, 2)]
            assert found[0].headers["headwater-src"].startswith(f"{bench.foreign_topic}/")
            stats = f"{FLOW}/{deployment.id}/deploy/stats"
            until(lambda: http.get(stats).json()["lag"] == 0, what="a lag of 0")
            assert subscription(deployment) in bench.groups()
            kill(own.workers_of(deployment))
            bench.kafka.produce(bench.foreign_topic, [b'{"n": 3}'])
            assert len(reader.read(5)) == 5
        assert "a password" not in own.log()

    def test_exactly_once_is_refused(self, http: httpx2.Client) -> None:
        answer = http.post(FLOW, json=pipeline("trade", "hyperliquid", delivery="exactly_once"))
        assert answer.json()["errors"][0]["pointer"] == "/pipeline_config/delivery"

    @pytest.mark.slow
    def test_the_group_is_deleted_in_the_background(self, bench: Bench, http: httpx2.Client) -> None:
        with deployed(http, pipeline("trade", "hyperliquid")) as deployment:
            assert subscription(deployment) in bench.groups()
        until(lambda: subscription(deployment) not in bench.groups(), 90, "the end of the group")


def test_killed_workers_lose_nothing_and_repeats_can_be_removed(killed: Deployed) -> None:
    with reading(killed.sink) as reader:
        found = reader.read(80)
        assert sorted(numbers(found)) == list(range(0, 160, 2))
        assert len(reader.sources) == 80
        check_order(found)
