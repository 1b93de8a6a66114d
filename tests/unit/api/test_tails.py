"""Live tails: …/records/tail, …/deploy/records/tail and /api/v1/flow/tail."""

import json
from concurrent.futures import Future
from typing import Any, NamedTuple

import anyio
import httpx2
import pytest

from headwater.model.topic_record import TopicRecord
from tests.support.waiting import until
from tests.unit.api.installation import FLOW, Installation, User

LOGS = "stream.base.log"
TAIL = f"{FLOW}/streams/base/log/records/tail"


class Event(NamedTuple):
    name: str
    data: Any


def record(offset: int, value: bytes = b"{}", **members: Any) -> TopicRecord:
    return TopicRecord(0, offset, None, None, value, **members)


def parse(response: httpx2.Response) -> list[Event]:
    """Return the events of a stream that has ended."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    assert "content-length" not in response.headers
    events = [lines.splitlines() for lines in response.text.split("\n\n") if lines and not lines.startswith(":")]
    return [Event(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in events]


def open_tail(
    headwater: Installation, user: User, path: str, tails: int = 1, **options: Any
) -> Future[httpx2.Response]:
    """Request a tail in the background, and return when it is open."""
    before = len(headwater.tails.listeners)
    response = user.start("GET", path, **options)
    until(lambda: response.done() or len(headwater.tails.listeners) >= before + tails, 10, "the tails are open")
    return response


def end_all(headwater: Installation) -> None:
    headwater.api.state.services.tails.end_all()


@pytest.fixture
def config_id(headwater: Installation, alice: User) -> str:
    headwater.tails.create(LOGS)
    config_id: str = alice.create(sinks=[{"type": "kafka", "name": "out"}])["id"]
    assert alice.post(f"{FLOW}/{config_id}/deploy").status_code == 200
    for name in ("out", "dlq"):
        headwater.tails.create(f"flow.{config_id}.{name}")
    return config_id


def test_a_stream_is_followed_from_now_on(headwater: Installation, alice: User) -> None:
    headwater.tails.create(LOGS)
    headwater.tails.append(LOGS, record(1))
    response = open_tail(headwater, alice, TAIL)
    headwater.tails.append(LOGS, record(2, b'{"n":12345678901234567890123}'), record(3, b"\xff"))
    headwater.tails.remove(LOGS)
    events = parse(response.result())
    assert [event.name for event in events] == ["records", "end"]
    assert events[0].data == [
        {"record": {"n": 12345678901234567890123}, "partition": 0, "offset": 2, "timestamp": None, "key": None},
        {"record_base64": "/w==", "partition": 0, "offset": 3, "timestamp": None, "key": None},
    ]
    assert events[1].data == {"reason": "topic_removed", "detail": "The topic was removed."}
    until(lambda: not headwater.tails.listeners, 10, "the tail is closed")


def test_outputs_are_followed_with_headers(headwater: Installation, alice: User, config_id: str) -> None:
    response = open_tail(headwater, alice, f"{FLOW}/{config_id}/deploy/records/tail")
    headwater.tails.append(f"flow.{config_id}.out", record(1, headers=(("a", b"b"),)))
    headwater.tails.append(f"flow.{config_id}.dlq", record(2))
    end_all(headwater)
    events = parse(response.result())
    assert [item["offset"] for item in events[0].data] == [1]
    assert events[0].data[0]["headers"] == {"a": "b"}
    assert events[-1].data["reason"] == "shutdown"


def test_dead_letters_are_followed(headwater: Installation, alice: User, config_id: str) -> None:
    response = open_tail(headwater, alice, f"{FLOW}/{config_id}/deploy/records/tail?sink=dlq")
    headwater.tails.append(f"flow.{config_id}.dlq", record(2))
    end_all(headwater)
    assert [item["offset"] for item in parse(response.result())[0].data] == [2]


def test_several_topics_in_one_connection(headwater: Installation, alice: User, config_id: str) -> None:
    names = ["base/log", f"{config_id}/out", f"{config_id}/dlq"]
    response = open_tail(headwater, alice, f"{FLOW}/tail", 3, params={"of": [*names, "base/log"]})
    headwater.tails.append(f"flow.{config_id}.dlq", record(1))
    headwater.tails.remove(f"flow.{config_id}.dlq")
    headwater.tails.append(LOGS, record(2), skipped=9)
    headwater.tails.append(f"flow.{config_id}.out", record(3))
    end_all(headwater)
    events = parse(response.result())
    items = [item for event in events if event.name == "records" for item in event.data]
    assert {(item["of"], item["offset"]) for item in items} == {(names[2], 1), (names[0], 2), (names[1], 3)}
    assert {"headers" in item for item in items if item["of"] == "base/log"} == {False}
    assert Event("skipped", {"of": "base/log", "count": 9}) in events
    ends = [event.data for event in events if event.name == "end"]
    assert [(end.get("of"), end["reason"]) for end in ends][-1] == (None, "shutdown")


@pytest.mark.parametrize("of", ["", "base", "/log", "base/", "nothing"])
def test_a_malformed_name(alice: User, of: str) -> None:
    assert "/of" in alice.faults(alice.get(f"{FLOW}/tail", params={"of": of}))


def test_names_are_needed_and_limited(alice: User) -> None:
    alice.faults(alice.get(f"{FLOW}/tail"))
    alice.faults(alice.get(f"{FLOW}/tail", params={"of": ["base/log"] * 11}))


def test_unknown_names(alice: User, config_id: str) -> None:
    alice.problem(alice.get(f"{FLOW}/tail?of=base/nothing"), 404, "not-found")
    alice.problem(alice.get(f"{FLOW}/tail?of=01ke0a2x8rv5c3m7qd9t4jw6hz/out"), 404, "not-found")
    assert "/of" in alice.faults(alice.get(f"{FLOW}/tail?of={config_id}/other"))
    assert "/of" in alice.faults(alice.get(f"{FLOW}/tail?of=base/decoded_log.zerolag"))


def test_the_zerolag_stream(headwater: Installation, alice: User) -> None:
    headwater.tails.create("fast.base.log")
    response = open_tail(headwater, alice, f"{FLOW}/tail?of=base/log.zerolag")
    headwater.tails.append("fast.base.log", record(1))
    end_all(headwater)
    assert parse(response.result())[0].data[0]["of"] == "base/log.zerolag"


def test_too_many_tails(headwater: Installation, alice: User, bob: User) -> None:
    headwater.tails.create(LOGS)
    responses = [open_tail(headwater, alice, TAIL) for _ in range(10)]
    problem = alice.problem(alice.get(TAIL), 429, "rate-limited")
    assert problem["detail"] == (
        "You may have 10 open tails, and this request would exceed that number. Close one of yours, or try again later."
    )
    responses += [open_tail(headwater, bob, TAIL) for _ in range(2)]
    assert "12 open tails of all users" in bob.problem(bob.get(TAIL), 429, "rate-limited")["detail"]
    end_all(headwater)
    assert [parse(response.result())[-1].name for response in responses] == ["end"] * 12


def test_a_tail_ends_with_its_key(headwater: Installation, alice: User) -> None:
    headwater.tails.create(LOGS)
    response = open_tail(headwater, alice, TAIL)
    headwater.keys.revoke(alice.key.split("_")[2])
    headwater.api.state.services.tails.check()
    assert parse(response.result())[-1].data["reason"] == "key_ended"


def test_a_tail_ends_with_its_deployment(headwater: Installation, alice: User, config_id: str) -> None:
    response = open_tail(headwater, alice, f"{FLOW}/{config_id}/deploy/records/tail")
    assert alice.post(f"{FLOW}/{config_id}/teardown").status_code == 200
    headwater.api.state.services.tails.check()
    assert parse(response.result())[-1].data["reason"] == "deployment_ended"


def test_a_comment_is_sent_while_nothing_happens(
    headwater: Installation, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.api.tail_response.KEEP_ALIVE_EVERY_S", 0.0)
    headwater.tails.create(LOGS)
    response = open_tail(headwater, alice, TAIL)
    headwater.portal.call(anyio.sleep, 0.3)
    end_all(headwater)
    assert response.result().text.startswith(": keep-alive\n\n")


def test_a_head_request_ends_at_once(headwater: Installation, alice: User) -> None:
    headwater.tails.create(LOGS)
    response = alice.request("HEAD", TAIL)
    assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    until(lambda: not headwater.tails.listeners, 10, "the tail is closed")


def test_the_metric_of_requests_ends_with_the_headers(headwater: Installation, alice: User) -> None:
    headwater.tails.create(LOGS)
    response = open_tail(headwater, alice, TAIL)
    end_all(headwater)
    parse(response.result())
    text = headwater.nobody().get("/metrics").text
    route = 'route="/api/v1/flow/streams/{chain}/{entity}/records/tail"'
    assert f'headwater_http_requests_total{{method="GET",{route},status="200"}} 1.0' in text
