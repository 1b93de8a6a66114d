"""Every example of a request body works, and every response has the members of its example."""

import itertools
import json
from typing import Any

import httpx2
import pytest

from headwater.api import examples
from headwater.model.dead_letter import (
    COLUMN_HEADER,
    ERROR_HEADER,
    LINE_HEADER,
    TRANSFORM_HEADER,
    LetterKind,
    letter_total_name,
)
from headwater.model.deployment import dead_letter_topic
from headwater.model.metric import Histogram, MetricsDelta, PartitionCounts
from headwater.model.outputs import REVISION_HEADER
from headwater.model.price.codec import encode_state
from headwater.model.price.state import TokenState
from headwater.model.price.tick import partition_of, token_key
from headwater.stores.protocols.prices import LIST_PERIOD_S, PriceWrite
from tests.support.sql import a_line
from tests.unit.api.installation import FLOW, Installation, User
from tests.unit.api.test_openapi import operations, sent_examples

NEED_A_DEPLOYMENT = (
    "getOverview",
    "rollBack",
    "getDeployment",
    "getDeploymentStats",
    "getDeploymentMetrics",
    "getDeploymentLogs",
    "listDeadLetters",
    "summarizeDeadLetters",
    "redriveDeadLetters",
    "getRedrive",
    "rotateCredentials",
    "pausePipeline",
    "resumePipeline",
    "rewindPipeline",
    "getDeploymentRecords",
    "getAppliedFilterVersion",
)
DRAWN_UP_BY_SOMEONE_ELSE = {"getReadiness": ["dependencies"], "listStreams": ["example", "record_schema"]}
"""Members whose own members depend on the installation."""

TAILS = ("tailStream", "tailDeployment", "tailSeveral")
"""Operations whose responses do not end by themselves."""

owners = (f"owner-{number}" for number in itertools.count())


class World:
    """A new user with one configuration and one dataset, created from the examples."""

    def __init__(self, headwater: Installation, schema: dict[str, Any]) -> None:
        self.user: User = headwater.user(next(owners))
        self._deployments = headwater.database.deployments
        self._metrics, self._clock = headwater.metrics, headwater.clock
        self._schema = schema
        self._history = headwater.history
        self._keys, self._sign_ins = headwater.keys, headwater.sign_ins
        self._signed_in = headwater.nobody
        self._trade(headwater)
        flow = self.create(FLOW)
        self.ids = {
            "config_id": flow["id"],
            "transform_uid": flow["pipeline_config"]["transforms"][0]["uid"],
            "dataset_id": self.create(f"{FLOW}/datasets")["id"],
            "chain": "base",
            "entity": "log",
            "revision": "1",
        }

    def _trade(self, headwater: Installation) -> None:
        """Give the first token of the examples a price, and a trade that is not accepted."""
        key = token_key("base", examples.CONTRACT).encode()
        state = TokenState()
        now = int(self._clock.monotonic() * 1000)
        minutes = [(now - ago * 60_000, 0, 99.0, 18, b"") for ago in range(3)]
        state.fold_all([*minutes, (now - 60_000, 1, 9900.0, 18, b"")], now)
        headwater.prices.acquire_partitions("", "", [partition_of(key)])
        headwater.prices.write(partition_of(key), "", PriceWrite(1, {key: encode_state(state)}, {}, {}))
        headwater.prices.add_tokens([key], now // 1000 // LIST_PERIOD_S)

    def _append(self, topic: str) -> None:
        self._history.create(topic, 1)
        headers = {"headwater-src": b"stream.base.log/0/0/0"}
        value = json.dumps(examples.STREAM["example"]).encode()
        self._history.append(topic, 0, int(self._clock.monotonic() * 1000), value, headers, b"key")

    def _write(self, deployments: list[str]) -> None:
        """Write the metrics that workers would write."""
        self._deployments.write_logs({deployment: [a_line()] for deployment in deployments})
        for deployment in deployments:
            minute = int(self._clock.monotonic()) // 60 * 60
            kind = LetterKind("TypeError", examples.SCRIPT_UID, 1)
            counted = {0: PartitionCounts(1, {"messages_received": 1}, {}, {letter_total_name(kind): 1})}
            self._metrics.write(
                deployment, "group", "a", MetricsDelta(minute, counted, {"total_latency": Histogram({1: 1})})
            )

    def _fail(self) -> None:
        """Append dead letters, and redrive one of them."""
        topic = dead_letter_topic(self.ids["config_id"])
        self._history.create(topic, 1)
        kind = {ERROR_HEADER: b"TypeError", TRANSFORM_HEADER: examples.SCRIPT_UID.encode()}
        headers = {**kind, LINE_HEADER: b"1", COLUMN_HEADER: b"1", REVISION_HEADER: b"1"}
        for _ in range(101):
            self._history.append(topic, 0, 1, b'{"token_address":null,"raw_amount":"12"}', headers)
        redrive = self.user.post(f"{FLOW}/{self.ids['config_id']}/dead-letters/redrive", {"all": True})
        self.ids["redrive_id"] = redrive.json()["id"]

    def _create_code(self) -> str:
        code, _ = self._sign_ins.create_code(self._keys.authenticate(self.user.key))
        return code

    def create(self, path: str) -> dict[str, Any]:
        created: dict[str, Any] = self.user.post(path, sent_examples(self._schema["paths"][path]["post"])[0]).json()
        return created

    def send(self, method: str, path: str, operation: dict[str, Any], body: Any) -> httpx2.Response:
        if operation["operationId"] in NEED_A_DEPLOYMENT:
            self.user.post(f"{FLOW}/{self.ids['config_id']}/deploy")
            self._write([deployment.id for deployment in self._deployments.list_active()])
            self._append(f"flow.{self.ids['config_id']}.{examples.CREATE['pipeline_config']['sinks'][0]['name']}")
            self._fail()
        if operation["operationId"] == "getStreamRecords":
            self._append("stream.base.log")
        if operation["operationId"] in ("listRevisions", "rollBack"):
            for name in ("second", "third"):
                self.user.put(f"{FLOW}/{self.ids['config_id']}", {**examples.CREATE, "name": name})
        if operation["operationId"] == "signIn":
            body = {"code": self._create_code()}
        if operation["operationId"] == "signOut":
            signed_in = self.user.post(path, {"code": self._create_code()})
            self.user = self._signed_in(signed_in.json()["key"])
        if operation["operationId"] == "createDataset":
            self.user.delete(f"{FLOW}/datasets/{self.ids['dataset_id']}")
        required = [p for p in operation.get("parameters", []) if p["in"] == "query" and p["required"]]
        query = {parameter["name"]: parameter["schema"]["examples"][0] for parameter in required}
        return self.user.request(method.upper(), path.format(**self.ids), params=query, json=body)


def shape(value: Any) -> Any:
    """Return the members of a JSON value without their values.

    For an array, return the members of its first item.
    """
    if isinstance(value, dict):
        return {name: shape(member) for name, member in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return None


def answered(operation: dict[str, Any], response: httpx2.Response) -> tuple[Any, Any]:
    """Return the shapes of a response and of its example."""
    example = operation["responses"][str(response.status_code)]["content"]["application/json"]["example"]
    shapes = [shape(response.json()), shape(example)]
    for name in DRAWN_UP_BY_SOMEONE_ELSE.get(operation["operationId"], ()):
        for one in shapes:
            (one[0] if isinstance(one, list) else one)[name] = None
    return shapes[0], shapes[1]


class TestExamples:
    def test_sent_as_they_stand_they_work(self, headwater: Installation, schema: dict[str, Any]) -> None:
        for method, path, operation in operations(schema):
            if operation["operationId"] in TAILS:
                continue
            success = {status for status in operation["responses"] if status < "300"}
            for body in sent_examples(operation) if "requestBody" in operation else [None]:
                response = World(headwater, schema).send(method, path, operation, body)
                assert str(response.status_code) in success, (operation["operationId"], response.text)

    def test_answers_look_like_them(self, headwater: Installation, schema: dict[str, Any]) -> None:
        for method, path, operation in operations(schema):
            if path == "/metrics" or "204" in operation["responses"] or operation["operationId"] in TAILS:
                continue
            body = sent_examples(operation)[0] if "requestBody" in operation else None
            response = World(headwater, schema).send(method, path, operation, body)
            got, shown = answered(operation, response)
            if shown != got and operation["operationId"] in (
                "getDeploymentStats",
                "listFilterValues",
                "listDatasetEntries",
                "getAppliedFilterVersion",
                "getAppliedDatasetVersion",
                "diffRevisions",
                "resumePipeline",
                "rewindPipeline",
            ):
                got, shown = got.keys(), shown.keys()  # they are empty, or have members by uid
            assert got == shown, operation["operationId"]

    @pytest.mark.parametrize("operation_id", ["pausePipeline", "tearDown", "deleteConfiguration", "rewindPipeline"])
    def test_messages_are_those_of_the_call(
        self, headwater: Installation, schema: dict[str, Any], operation_id: str
    ) -> None:
        (called,) = (each for each in operations(schema) if each[2]["operationId"] == operation_id)
        method, path, operation = called
        world = World(headwater, schema)
        body = sent_examples(operation)[0] if "requestBody" in operation else None
        message = world.send(method, path, operation, body).json()["message"]
        shown = operation["responses"]["200"]["content"]["application/json"]["example"]["message"]
        assert message == shown.replace(examples.CONFIG_ID, world.ids["config_id"])
