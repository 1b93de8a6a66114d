"""Records of streams and outputs: …/streams/{chain}/{entity}/records and …/deploy/records."""

import json
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from headwater.model.access import PubSubAccess
from headwater.model.binding import Bindings, PubSubTopic
from tests.unit.api.installation import FLOW, Installation, User

TIME_MS = 1_767_323_045_678
LOGS = f"{FLOW}/streams/base/log/records"


def append(headwater: Installation, topic: str, count: int, value: bytes = b"{}", **members: Any) -> None:
    """Append records to a topic with one partition, which is created when it does not exist."""
    if not headwater.history.ranges(topic):
        headwater.history.create(topic, 1)
    first = headwater.history.ranges(topic)[0].end
    for offset in range(first, first + count):
        headwater.history.append(topic, 0, TIME_MS + offset, value, key=b"k", **members)


def offsets(user: User, path: str, **parameters: Any) -> list[int]:
    response = user.get(path, params=parameters)
    assert response.status_code == 200, response.text
    return [item["offset"] for item in response.json()["items"]]


@pytest.fixture
def config_id(headwater: Installation, alice: User) -> str:
    config_id: str = alice.create(sinks=[{"type": "kafka", "name": "out"}, {"type": "kafka", "name": "second"}])["id"]
    assert alice.post(f"{FLOW}/{config_id}/deploy").status_code == 200
    for name in ("out", "second", "dlq"):
        headwater.history.create(f"flow.{config_id}.{name}", 1)
    return config_id


class TestStreamRecords:
    def test_the_newest_records_oldest_first(self, headwater: Installation, alice: User) -> None:
        append(headwater, "stream.base.log", 30)
        assert offsets(alice, LOGS) == list(range(20, 30))
        assert offsets(alice, LOGS, limit=2) == [28, 29]

    def test_a_record_keeps_its_digits(self, headwater: Installation, alice: User) -> None:
        append(headwater, "stream.base.log", 1, b'{"a":123456789012345678901234567890,"b":1.10}')
        assert alice.get(LOGS).text == (
            '{"items":[{"record":{"a":123456789012345678901234567890,"b":1.10},"partition":0,"offset":0,'
            '"timestamp":"2026-01-02T03:04:05.678Z","key":"k"}]}'
        )

    def test_from_a_time_on(self, headwater: Installation, alice: User) -> None:
        append(headwater, "stream.base.log", 30)
        assert offsets(alice, LOGS, **{"from": "2026-01-02T03:04:05.680Z"}, limit=3) == [2, 3, 4]
        assert offsets(alice, LOGS, **{"from": "2026-01-02t04:04:05.680+01:00"}, limit=1) == [2]
        assert alice.get(f"{LOGS}?from=2026-01-02T04:04:05.680+01:00&limit=1").json()["items"][0]["offset"] == 2
        assert offsets(alice, LOGS, **{"from": "2026-01-03T00:00:00Z"}) == []
        assert len(offsets(alice, LOGS, **{"from": "1066-01-01T00:00:00Z"})) == 10

    def test_older_records_behind_the_first_from_a_time_on(self, headwater: Installation, alice: User) -> None:
        headwater.history.create("stream.base.log", 1)
        for age_ms in (5, 0, 5, 1, 0):
            headwater.history.append("stream.base.log", 0, TIME_MS - age_ms, b"{}")
        assert offsets(alice, LOGS, **{"from": "2026-01-02T03:04:05.678Z"}) == [1, 4]
        assert offsets(alice, LOGS, **{"from": "2026-01-02T03:04:05.677Z"}, limit=2) == [1, 3]

    @pytest.mark.parametrize(
        ("parameters", "pointer"),
        [
            ({"limit": 0}, "/limit"),
            ({"limit": 1001}, "/limit"),
            ({"limit": "x"}, "/limit"),
            ({"from": "yesterday"}, "/from"),
            ({"from": "2026-02-30T00:00:00Z"}, "/from"),
            ({"from": "1767323045"}, "/from"),
            ({"zerolag": "maybe"}, "/zerolag"),
            ({"sink": "out"}, "/sink"),
        ],
    )
    def test_invalid_parameters(self, alice: User, parameters: dict[str, Any], pointer: str) -> None:
        assert set(alice.faults(alice.get(LOGS, params=parameters))) == {pointer}

    def test_the_zerolag_stream(self, headwater: Installation, alice: User) -> None:
        append(headwater, "fast.base.log", 2)
        assert offsets(alice, LOGS, zerolag="true") == [0, 1]
        unbound = alice.get(f"{FLOW}/streams/base/decoded_log/records", params={"zerolag": "true"})
        assert "no zerolag stream of base.decoded_log" in alice.faults(unbound)["/zerolag"]

    def test_an_unknown_stream(self, alice: User) -> None:
        body = alice.problem(alice.get(f"{FLOW}/streams/nochain/log/records"), 404, "not-found")
        assert "base" in body["detail"]
        body = alice.problem(alice.get(f"{FLOW}/streams/base/nothing/records"), 404, "not-found")
        assert "base has no such entity" in body["detail"]

    def test_a_stream_without_a_topic(self, alice: User) -> None:
        assert "no topic yet" in alice.problem(alice.get(LOGS), 404, "not-found")["detail"]

    def test_a_stream_of_pubsub_can_not_be_looked_at(self, portal: BlockingPortal) -> None:
        bindings = Bindings({"base.log": PubSubTopic("projects/p/topics/t", PubSubAccess(project="project"))})
        with Installation(portal, bindings=bindings).serving() as headwater:
            alice = headwater.user("alice")
            for path in (LOGS, f"{LOGS}/tail", f"{FLOW}/tail?of=base/log"):
                assert "Google Pub/Sub" in alice.problem(alice.get(path), 409, "conflict")["detail"]

    def test_a_read_that_takes_too_long(
        self, headwater: Installation, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append(headwater, "stream.base.log", 1)
        monkeypatch.setattr("headwater.services.records.TIMEOUT_S", -1.0)
        alice.problem(alice.get(LOGS), 503, "broker-unavailable")

    def test_kafka_is_unavailable(self, headwater: Installation, alice: User) -> None:
        headwater.history.away = True
        assert "kafka.example" not in alice.problem(alice.get(LOGS), 503, "broker-unavailable")["detail"]

    def test_the_scope_is_needed(self, headwater: Installation) -> None:
        other = headwater.user("alice", ["flow:write"])
        for path in (LOGS, f"{LOGS}/tail", f"{FLOW}/tail?of=base/log", f"{FLOW}/x/deploy/records"):
            assert "flow:read" in other.problem(other.get(path), 403, "forbidden")["detail"]


class TestDeploymentRecords:
    def test_outputs_have_headers(self, headwater: Installation, alice: User, config_id: str) -> None:
        headers = {"headwater-src": b"stream.base.log/0/1/0"}
        append(headwater, f"flow.{config_id}.out", 1, headers=headers)
        [item] = alice.get(f"{FLOW}/{config_id}/deploy/records").json()["items"]
        assert item["headers"] == {"headwater-src": "stream.base.log/0/1/0"}

    def test_a_sink_is_chosen(self, headwater: Installation, alice: User, config_id: str) -> None:
        for count, name in enumerate(("out", "second", "dlq"), 1):
            append(headwater, f"flow.{config_id}.{name}", count)
        path = f"{FLOW}/{config_id}/deploy/records"
        assert offsets(alice, path) == [0]
        assert [len(offsets(alice, path, sink=name)) for name in ("out", "second", "dlq")] == [1, 2, 3]

    def test_an_unknown_sink(self, alice: User, config_id: str) -> None:
        response = alice.get(f"{FLOW}/{config_id}/deploy/records", params={"sink": "third"})
        assert alice.faults(response)["/sink"].endswith("choose one of: out, second, dlq")

    def test_a_sink_without_a_topic(self, headwater: Installation) -> None:
        trader = headwater.user("trader", ["flow:read", "flow:write", "flow:deploy", "prices:write"])
        config_id = trader.create(sinks=[{"type": "prices", "name": "p"}])["id"]
        assert trader.post(f"{FLOW}/{config_id}/deploy").status_code == 200
        response = trader.get(f"{FLOW}/{config_id}/deploy/records", params={"sink": "p"})
        assert "a sink without a topic" in trader.faults(response)["/sink"]
        append(headwater, f"flow.{config_id}.dlq", 1)
        assert offsets(trader, f"{FLOW}/{config_id}/deploy/records") == [0]

    def test_only_deployed_configurations_of_the_owner(self, alice: User, bob: User, config_id: str) -> None:
        draft = alice.create()["id"]
        for path in ("deploy/records", "deploy/records/tail"):
            assert "not deployed" in alice.problem(alice.get(f"{FLOW}/{draft}/{path}"), 404, "not-found")["detail"]
            bob.problem(bob.get(f"{FLOW}/{config_id}/{path}"), 404, "not-found")
        bob.problem(bob.get(f"{FLOW}/tail?of={config_id}/out"), 404, "not-found")

    def test_a_topic_that_is_not_created_yet(self, alice: User) -> None:
        config_id = alice.create()["id"]
        assert alice.post(f"{FLOW}/{config_id}/deploy").status_code == 200
        body = alice.problem(alice.get(f"{FLOW}/{config_id}/deploy/records"), 404, "not-found")
        assert "Wait until GET …/deploy shows the status deployed" in body["detail"]


def test_large_records_are_limited_by_the_size_of_their_json(headwater: Installation, alice: User) -> None:
    binary = b"\xff" * 900_000
    append(headwater, "stream.base.log", 30, binary)
    response = alice.get(LOGS, params={"limit": 1000})
    assert len(response.content) < 8_000_100
    assert [item["offset"] for item in json.loads(response.content)["items"]] == [24, 25, 26, 27, 28, 29]
    response = alice.get(LOGS, params={"limit": 1000, "from": "2026-01-01T00:00:00Z"})
    assert [item["offset"] for item in json.loads(response.content)["items"]] == [0, 1, 2, 3, 4, 5]
