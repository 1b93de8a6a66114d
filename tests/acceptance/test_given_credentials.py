"""On an external Kafka without an authorizer, Headwater creates no users and no ACLs."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.acceptance.installation import Installation, deploy, deployed, pipeline, reading
from tests.support.kafka import KafkaServer, running
from tests.support.waiting import until

FLOW = "/api/v1/flow"
ENTITY = "erc721_token_transfer"
READER, PASSWORD = "operators-reader", "it's $secret"
SWEPT_WITHIN_S = 180.0


@dataclass
class OnGivenKafka(Installation):
    """An installation on a Kafka whose users it does not manage."""

    kafka: KafkaServer | None = field(default=None, kw_only=True)

    def admin_config(self) -> dict[str, Any]:
        assert self.kafka is not None
        return {**self.kafka.plain_settings}

    def topics(self) -> set[str]:
        assert self.kafka is not None
        return set(self.kafka.admin.list_topics(timeout=30).topics)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    with running(tmp_path_factory.mktemp("given"), has_authorizer=False) as server:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        credential = UserScramCredentialUpsertion(READER, info, PASSWORD.encode())
        [done] = server.admin.alter_user_scram_credentials([credential]).values()
        done.result(30)
        server.create_topic(f"stream.base.{ENTITY}", 4)
        yield server


def run_installation(directory: Path, kafka: KafkaServer, **more: str) -> Iterator[OnGivenKafka]:
    access = kafka.access
    variables = {
        "HEADWATER_KAFKA_BOOTSTRAP_SERVERS": access.bootstrap_servers,
        "HEADWATER_KAFKA_USERNAME": access.username,
        "HEADWATER_KAFKA_PASSWORD": access.password,
        "HEADWATER_KAFKA_REPLICATION": "1",
    }
    installation = OnGivenKafka(directory / "data", variables=variables | more, kafka=kafka)
    installation.start()
    yield installation
    assert installation.stop() == 0, installation.log()


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory, kafka: KafkaServer) -> Iterator[OnGivenKafka]:
    yield from run_installation(
        tmp_path_factory.mktemp("installation"),
        kafka,
        HEADWATER_KAFKA_CREDENTIALS="given",
        HEADWATER_KAFKA_READER_USERNAME=READER,
        HEADWATER_KAFKA_READER_PASSWORD=PASSWORD,
    )


def users(kafka: KafkaServer) -> set[str]:
    asked: Any = kafka.admin.describe_user_scram_credentials()
    return set(asked.result(30))


def record(n: int) -> dict[str, Any]:
    return {"n": n, "transaction_hash": f"0x{n:064x}", "log_index": 0}


@pytest.mark.long
def test_a_pipeline_runs_with_the_operators_credentials(given: OnGivenKafka, kafka: KafkaServer) -> None:
    before = users(kafka)
    for delivery in ("at_least_once", "exactly_once"):
        with given.client() as client, deployed(client, pipeline(ENTITY, delivery=delivery)) as deployment:
            assert (deployment.sink["username"], deployment.sink["password"]) == (READER, PASSWORD)
            assert all(READER in program for program in deployment.sink["snippets"].values())
            given.feed("base", ENTITY, map(record, range(20)))
            with reading(deployment.sink) as reader:
                assert sorted(read.json()["n"] for read in reader.read(20)) == [*range(20)]
            refused = client.post(f"{FLOW}/{deployment.id}/deploy/credentials")
            assert refused.status_code == 409
            assert "operator" in refused.json()["detail"]
            again = client.post(f"{FLOW}/{deployment.id}/deploy").json()
            assert again["sinks"] == deployment.deploy_response["sinks"]
            assert users(kafka) == before
        assert not {topic for topic in given.topics() if topic.startswith(f"flow.{deployment.id}.")}
    assert users(kafka) == before


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_sweeper_removes_only_leftovers_of_recorded_teardowns(given: OnGivenKafka, kafka: KafkaServer) -> None:
    with given.client() as client:
        deployment = deploy(client, pipeline(ENTITY))
        left = deployment.sink["topic"]
        foreign = {f"flow.{deployment.id}.foreign", "flow.01zz0000000000000000000000.out", "flow.other"}
        for topic in foreign:
            kafka.create_topic(topic)
        torn_down = client.post(f"{FLOW}/{deployment.id}/teardown")
        assert torn_down.status_code == 200, torn_down.text
        assert given.topics() >= foreign
        assert left not in given.topics()
        kafka.create_topic(left)
        until(lambda: left not in given.topics(), SWEPT_WITHIN_S, "the removal")
        time.sleep(1.0)
        assert given.topics() >= foreign
        for topic in foreign:
            kafka.admin.delete_topics([topic])[topic].result(30)
        assert client.delete(f"{FLOW}/{deployment.id}").status_code == 200


@pytest.mark.long
def test_the_error_for_managed_credentials_names_the_setting(tmp_path: Path, kafka: KafkaServer) -> None:
    for installation in run_installation(tmp_path, kafka):
        with installation.client() as client:
            flow = client.post(FLOW, json=pipeline(ENTITY)).json()
            answer = client.post(f"{FLOW}/{flow['id']}/deploy")
            assert answer.status_code == 422, answer.text
            assert "HEADWATER_KAFKA_CREDENTIALS=given" in answer.json()["detail"]
            assert client.delete(f"{FLOW}/{flow['id']}").status_code == 200
            assert not {topic for topic in installation.topics() if topic.startswith(f"flow.{flow['id']}.")}
