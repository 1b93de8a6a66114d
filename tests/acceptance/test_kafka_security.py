"""Headwater works with Kafka listeners of different authentication methods.

The listeners are on its own cluster, or on the clusters of streams.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings, consumer_settings, producer_settings
from headwater.model.access import KafkaAccess
from tests.acceptance.conftest import running
from tests.acceptance.installation import Installation, client_config, deployed, pipeline
from tests.support.secured_kafka import PROTOCOLS, SecuredKafka
from tests.support.waiting import until

CHAIN, ENTITY = "base", "erc20_token_transfer"
TOPIC = f"stream.{CHAIN}.{ENTITY}"
RECORDS = [{"transaction_hash": f"0x{number:064x}", "log_index": number} for number in range(40)]
STREAMS = dict(
    zip(
        PROTOCOLS,
        [
            ("base", "log"), ("base", "decoded_log"), ("base", "erc721_token_transfer"),
            ("polygon", "log"), ("polygon", "decoded_log"), ("hyperliquid", "trade"),
        ],
        strict=True,
    )
)  # fmt: skip
"""The stream that is bound to a topic at each listener."""
WITHIN_S = 60.0


def members(access: KafkaAccess) -> dict[str, str]:
    """Return the settings that an operator writes for an access."""
    written = access.model_dump(exclude_defaults=True)
    return {"security_protocol": access.security_protocol} | written


def admin_variables(access: KafkaAccess) -> dict[str, str]:
    """Return the settings of an installation with this access."""
    named = {f"HEADWATER_KAFKA_{member.upper()}": value for member, value in members(access).items()}
    return named | {"HEADWATER_KAFKA_REPLICATION": "1"}


def variables(kafka: SecuredKafka, listener: str) -> dict[str, str]:
    """Return the settings of an installation whose administrator uses a listener.

    Other users use SCRAM.
    """
    named = admin_variables(kafka.access(listener))
    if not listener.startswith("scram"):
        readers = kafka.access("scram512")
        named["HEADWATER_KAFKA_READER_BOOTSTRAP_SERVERS"] = readers.bootstrap_servers
        named["HEADWATER_KAFKA_READER_SECURITY_PROTOCOL"] = readers.security_protocol
        named["HEADWATER_KAFKA_CA_FILE"] = readers.ca_file
    return named


def make_topic(kafka: SecuredKafka, name: str) -> None:
    access = kafka.access("scram512")
    admin = AdminClient(admin_settings(access, ClientErrors(access)))
    if name not in admin.list_topics(timeout=WITHIN_S).topics:
        admin.create_topics([NewTopic(name, 4, 1)])[name].result(WITHIN_S)


@contextlib.contextmanager
def reading(kafka: SecuredKafka, sink: dict[str, Any]) -> Iterator[Consumer]:
    """Open a consumer that trusts the brokers' certificate authority."""
    trusts = {"ssl.ca.location": str(kafka.authority.file)} if sink["security_protocol"].endswith("SSL") else {}
    consumer = Consumer(client_config(sink) | trusts)
    consumer.subscribe([sink["topic"]])
    try:
        yield consumer
    finally:
        consumer.close()


def records_of(consumer: Consumer, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + WITHIN_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        for message in consumer.consume(count - len(found), 0.2):
            assert message.error() is None, message.error()
            found.append(json.loads(message.value() or b""))
    return sorted(found, key=lambda record: record["log_index"])


def login_error(kafka: SecuredKafka, sink: dict[str, Any]) -> int:
    heard: list[KafkaError] = []
    settings = client_config(sink) | {"ssl.ca.location": str(kafka.authority.file), "error_cb": heard.append}
    consumer = Consumer(settings)
    consumer.subscribe([sink["topic"]])
    try:
        until(lambda: consumer.poll(0.1) is None and bool(heard), WITHIN_S, "a refusal")
    finally:
        consumer.close()
    return heard[0].code()


@pytest.mark.slow
@pytest.mark.parametrize("listener", PROTOCOLS)
def test_an_installation_on_each_listener(
    secured_kafka: SecuredKafka, own_installation: Installation, tmp_path: Path, listener: str
) -> None:
    """Deploy a pipeline, write records, read the outputs, and rotate the credentials.

    The outputs are also read by the program in the response.
    """
    make_topic(secured_kafka, TOPIC)
    records = tmp_path / "records.jsonl"
    records.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    own_installation.variables = variables(secured_kafka, listener)
    own_installation.start()
    with own_installation.client() as client, deployed(client, pipeline()) as deployment:
        with own_installation.replay(CHAIN, ENTITY, records) as feeding:
            assert feeding.wait(WITHIN_S) == 0
        with reading(secured_kafka, deployment.sink) as consumer:
            assert records_of(consumer, len(RECORDS)) == RECORDS
        assert deployment.sink["sasl_mechanism"] == ("SCRAM-SHA-256" if listener == "scram256" else "SCRAM-SHA-512")
        run_program(secured_kafka, deployment.sink, tmp_path)
        assert not [line for line in own_installation.log().splitlines() if "Traceback" in line]
        rotate(secured_kafka, client, deployment.id, deployment.sink)
    assert own_installation.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("listener", ["plain", "oauth", "mtls", "open"])
def test_an_installation_with_the_operators_users(
    secured_kafka: SecuredKafka, own_installation: Installation, tmp_path: Path, listener: str
) -> None:
    """Workers use Headwater's own credentials, and readers the operator's, if there are any."""
    make_topic(secured_kafka, TOPIC)
    records = tmp_path / "records.jsonl"
    records.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    access = secured_kafka.access(listener)
    given = {
        "HEADWATER_KAFKA_CREDENTIALS": "given",
        "HEADWATER_KAFKA_READER_USERNAME": access.username,
        "HEADWATER_KAFKA_READER_PASSWORD": access.password,
    }
    own_installation.variables = admin_variables(access) | given
    own_installation.start()
    with own_installation.client() as client, deployed(client, pipeline(delivery="exactly_once")) as deployment:
        login = [deployment.sink[name] for name in ("security_protocol", "sasl_mechanism", "username", "password")]
        mechanism = access.sasl_mechanism if access.uses_sasl else None
        assert login == [access.security_protocol, mechanism, access.username or None, access.password or None]
        with own_installation.replay(CHAIN, ENTITY, records) as feeding:
            assert feeding.wait(WITHIN_S) == 0
        settings = consumer_settings(access, ClientErrors(access), deployment.sink["consumer_group"])
        with contextlib.closing(Consumer(settings | {"auto.offset.reset": "earliest"})) as consumer:
            consumer.subscribe([deployment.sink["topic"]])
            assert records_of(consumer, len(RECORDS)) == RECORDS
        if listener in {"plain", "open"}:
            run_program(secured_kafka, deployment.sink, tmp_path)
        assert client.post(f"/api/v1/flow/{deployment.id}/deploy/credentials").status_code == 409
        assert not [line for line in own_installation.log().splitlines() if "Traceback" in line]
    assert own_installation.stop() == 0


def run_program(kafka: SecuredKafka, sink: dict[str, Any], folder: Path) -> None:
    """Run the Python program with a private certificate authority.

    The additional line is the line that docs/consuming.md shows.
    """
    program, settings = sink["snippets"]["python"], "    {\n"
    assert program.count(settings) == 1
    (folder / "read.py").write_text(
        program.replace(settings, f'{settings}        "ssl.ca.location": "{kafka.authority.file}",\n').replace(
            f'"{sink["consumer_group"]}"', f'"{sink["username"]}.another"'
        )
    )
    limit = {"HEADWATER_MAX_RECORDS": str(len(RECORDS))}
    command = [sys.executable, str(folder / "read.py")]
    done = subprocess.run(command, env=os.environ | limit, capture_output=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    printed = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda record: record["log_index"])
    assert printed == RECORDS


def rotate(kafka: SecuredKafka, client: httpx2.Client, config_id: str, old: dict[str, Any]) -> None:
    """Rotate the credentials. The new password must work, and the old one must not."""
    answer = client.post(f"/api/v1/flow/{config_id}/deploy/credentials")
    assert answer.status_code == 200, answer.text
    new = answer.json()["sinks"][0]
    assert new["password"] != old["password"]
    with reading(kafka, new | {"consumer_group": f"{new['username']}.rotated"}) as consumer:
        assert records_of(consumer, len(RECORDS)) == RECORDS
    assert login_error(kafka, old) in {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}


@pytest.fixture(scope="module")
def bound(secured_kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Run an installation with an embedded Kafka and with streams of another cluster.

    The streams are bound to the listeners of that cluster.
    """
    folder = tmp_path_factory.mktemp("bound")
    bindings = {}
    for listener, (chain, entity) in STREAMS.items():
        make_topic(secured_kafka, f"bound-{listener}")
        kafka = {"topic": f"bound-{listener}"} | members(secured_kafka.access(listener))
        if secret := kafka.pop("oauth_client_secret", ""):
            (folder / "client-secret").write_text(f"{secret}\n")
            kafka["oauth_client_secret_file"] = "client-secret"
        bindings[f"{chain}.{entity}"] = {"kafka": kafka}
    (folder / "streams.json").write_text(json.dumps(bindings))
    yield from running(Installation(folder / "data", flags=("--stream-bindings", str(folder / "streams.json"))))


@pytest.mark.long
@pytest.mark.parametrize("listener", PROTOCOLS)
def test_a_stream_of_another_cluster(secured_kafka: SecuredKafka, bound: Installation, listener: str) -> None:
    chain, entity = STREAMS[listener]
    access = secured_kafka.access(listener)
    with bound.client() as client, deployed(client, pipeline(entity, chain)) as deployment:
        producer = Producer(producer_settings(access, ClientErrors(access), 1))
        for record in RECORDS:
            producer.produce(f"bound-{listener}", json.dumps(record).encode())
        assert producer.flush(WITHIN_S) == 0
        with reading(secured_kafka, deployment.sink) as consumer:
            assert records_of(consumer, len(RECORDS)) == RECORDS


@pytest.mark.long
def test_inconsistent_settings_are_rejected_at_start(tmp_path: Path) -> None:
    """The error says which settings are missing.

    The unit tests of the settings have the other errors.
    """
    settings = {
        "HEADWATER_KAFKA_BOOTSTRAP_SERVERS": "kafka.example:9092",
        "HEADWATER_REDIS_URL": "redis://127.0.0.1:1",
        "HEADWATER_KAFKA_SASL_MECHANISM": "OAUTHBEARER",
    }
    refused = Installation(tmp_path / "data", variables=settings).run("controller")
    assert refused.returncode == 2
    assert (
        "OAUTHBEARER needs HEADWATER_KAFKA_OAUTH_TOKEN_ENDPOINT_URL and HEADWATER_KAFKA_OAUTH_CLIENT_ID and"
        in refused.stderr
    )
