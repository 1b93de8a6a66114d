"""Records of streams and outputs are shown, and followed live, while pipelines run."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.acceptance.conformance.owner import owner
from tests.acceptance.installation import Deployed, Installation, deployed, pipeline
from tests.support.waiting import until

CHAIN, ENTITY = "base", "erc1155_token_transfer"
STREAM = f"/api/v1/flow/streams/{CHAIN}/{ENTITY}/records"
SCRIPT = """
function process(record) {
  if (record.fails) throw new Error("on purpose");
  return {...record, seen: true};
}"""
BIG = 123456789012345678901234567890


class Tail(threading.Thread):
    """Reads a live tail in the background.

    Attributes:
        items: The records so far.
        skipped: The number of skipped records so far.
        ended: The data of the event that ended the connection.
    """

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__()
        self._response = response
        self.items: list[dict[str, Any]] = []
        self.skipped = 0
        self.ended: dict[str, Any] | None = None
        self.start()

    def run(self) -> None:
        with contextlib.suppress(httpx2.TransportError, httpx2.StreamError):
            name = ""
            for line in self._response.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    self._record(name, json.loads(line.removeprefix("data: ")))

    def _record(self, name: str, data: Any) -> None:
        if name == "records":
            self.items += data
        elif name == "skipped":
            self.skipped += data["count"]
        elif "of" not in data:
            self.ended = data

    def wait_for(self, count: int) -> None:
        until(lambda: len(self.items) + self.skipped >= count, 60, f"{count} records are shown")


@contextlib.contextmanager
def tailing(installation: Installation, path: str, key: str | None = None, **parameters: Any) -> Iterator[Tail]:
    """Open a tail for the block. It is open when the headers of the response have arrived."""
    headers = {"X-API-Key": key or installation.key}
    with httpx2.stream("GET", f"{installation.url}{path}", headers=headers, params=parameters, timeout=60) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        tail = Tail(response)
        try:
            yield tail
        finally:
            # It interrupts the thread, which `response.close` does not do.
            response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            tail.join()


@pytest.fixture
def running(client: httpx2.Client) -> Iterator[Deployed]:
    with deployed(client, pipeline(ENTITY, CHAIN, transforms=[{"type": "v8", "script": SCRIPT}])) as deployment:
        yield deployment


def records(first: int, count: int, **members: Any) -> list[dict[str, Any]]:
    return [
        {"n": n, "big": BIG, "transaction_hash": f"0x{n:064x}", "log_index": 0, **members}
        for n in range(first, first + count)
    ]


def shown(client: httpx2.Client, path: str, **parameters: Any) -> list[dict[str, Any]]:
    response = client.get(path, params=parameters)
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


def numbers(items: list[dict[str, Any]]) -> list[int]:
    return sorted(item["record"]["n"] for item in items)


@pytest.mark.proves("11/GET /streams/{chain}/{entity}/records", "11/GET /{config_id}/deploy/records")
def test_the_newest_records_of_a_stream_and_its_outputs(
    installation: Installation, client: httpx2.Client, running: Deployed
) -> None:
    outputs = f"/api/v1/flow/{running.id}/deploy/records"
    assert shown(client, outputs) == []
    installation.feed(CHAIN, ENTITY, records(0, 5))
    time.sleep(0.01)  # the broker's time is in milliseconds
    installation.feed(CHAIN, ENTITY, records(5, 20))
    assert numbers(shown(client, STREAM, limit=20)) == list(range(5, 25))
    until(lambda: len(shown(client, outputs, limit=100)) == 25, 60, "all outputs are shown")
    newest = shown(client, outputs, limit=3)
    assert [item["timestamp"] for item in newest] == sorted(item["timestamp"] for item in newest)
    output = newest[0]
    assert output["record"]["seen"] is True
    assert output["record"]["big"] == BIG
    assert output["key"] == f"{output['record']['transaction_hash']}:0"
    topic, partition, offset, _ = output["headers"]["headwater-src"].rsplit("/", 3)
    [source] = [
        item
        for item in shown(client, STREAM, limit=100)
        if (item["partition"], item["offset"]) == (int(partition), int(offset))
    ]
    assert (topic, source["record"]["n"]) == (f"stream.{CHAIN}.{ENTITY}", output["record"]["n"])
    later = shown(client, STREAM, **{"from": source["timestamp"]}, limit=1000)
    assert source in later


@pytest.mark.proves("11/GET /{config_id}/deploy/records", "11/GET /{config_id}/deploy/records/tail")
def test_dead_letters(installation: Installation, client: httpx2.Client, running: Deployed) -> None:
    path = f"/api/v1/flow/{running.id}/deploy/records"
    with tailing(installation, f"{path}/tail", sink="dlq") as tail:
        installation.feed(CHAIN, ENTITY, records(0, 3, fails=True))
        tail.wait_for(3)
    assert {item["headers"]["headwater-message"] for item in tail.items} == {"on purpose"}
    assert numbers(shown(client, path, sink="dlq")) == [0, 1, 2]


@pytest.mark.proves("11/GET /streams/{chain}/{entity}/records/tail", "11/a-tail")
def test_a_tail_shows_what_is_appended_after_its_headers(installation: Installation, running: Deployed) -> None:
    installation.feed(CHAIN, ENTITY, records(0, 10))
    with tailing(installation, f"{STREAM}/tail") as stream:
        installation.feed(CHAIN, ENTITY, records(10, 5))
        stream.wait_for(5)
    assert numbers(stream.items) == list(range(10, 15))


@pytest.mark.proves("11/GET /{config_id}/deploy/records/tail")
def test_a_tail_survives_a_redeploy(installation: Installation, client: httpx2.Client, running: Deployed) -> None:
    with tailing(installation, f"/api/v1/flow/{running.id}/deploy/records/tail") as tail:
        installation.feed(CHAIN, ENTITY, records(0, 3))
        tail.wait_for(3)
        changed = client.patch(
            f"/api/v1/flow/{running.id}/transforms/{running.uid()}",
            json={"type": "v8", "script": "function process(r) { return {n: r.n, seen: 2}; }"},
        )
        assert changed.status_code == 200, changed.text
        installation.feed(CHAIN, ENTITY, records(3, 3))
        tail.wait_for(6)
    assert [item["record"]["seen"] for item in sorted(tail.items, key=lambda each: each["record"]["n"])] == [
        *[True] * 3,
        *[2] * 3,
    ]


def test_a_paused_pipeline_can_be_looked_at(
    installation: Installation, client: httpx2.Client, running: Deployed
) -> None:
    path = f"/api/v1/flow/{running.id}/deploy/records"
    with tailing(installation, f"{path}/tail") as tail:
        installation.feed(CHAIN, ENTITY, records(0, 3))
        tail.wait_for(3)
        assert client.post(f"/api/v1/flow/{running.id}/pause").status_code == 200
        assert numbers(shown(client, path)) == [0, 1, 2]
        installation.feed(CHAIN, ENTITY, records(3, 2))
        assert client.post(f"/api/v1/flow/{running.id}/resume").status_code == 200
        tail.wait_for(5)
    assert numbers(tail.items) == [0, 1, 2, 3, 4]


@pytest.mark.proves("11/GET /tail")
def test_several_tails_in_one_connection(installation: Installation, running: Deployed) -> None:
    names = [f"{CHAIN}/{ENTITY}", f"{running.id}/out", f"{running.id}/dlq"]
    with tailing(installation, "/api/v1/flow/tail", of=names) as tail:
        installation.feed(CHAIN, ENTITY, [*records(0, 4), *records(4, 2, fails=True)])
        tail.wait_for(12)
    by_name = {name: numbers([item for item in tail.items if item["of"] == name]) for name in names}
    assert by_name == {names[0]: [0, 1, 2, 3, 4, 5], names[1]: [0, 1, 2, 3], names[2]: [4, 5]}


@pytest.mark.proves("11/a-tail")
def test_a_fast_stream_is_shown_in_part_and_counted(installation: Installation, running: Deployed) -> None:
    with tailing(installation, f"{STREAM}/tail") as tail:
        installation.feed(CHAIN, ENTITY, records(0, 3000))
        tail.wait_for(3000)
    assert len(tail.items) + tail.skipped == 3000
    assert tail.skipped > 0


@pytest.mark.proves("11/a-tail")
def test_a_tail_ends_with_its_deployment_and_with_its_key(installation: Installation) -> None:
    with owner(installation, "looker") as looker:
        with (
            deployed(looker.http, pipeline(ENTITY, CHAIN)) as deployment,
            tailing(installation, f"/api/v1/flow/{deployment.id}/deploy/records/tail", looker.key) as tail,
        ):
            assert looker.http.post(f"/api/v1/flow/{deployment.id}/teardown").status_code == 200
            until(lambda: tail.ended, 30, "the tail has ended")
            assert tail.ended
            assert tail.ended["reason"] == "deployment_ended"
        with tailing(installation, f"{STREAM}/tail", looker.key) as tail:
            assert installation.run("keys", "revoke", looker.key.split("_")[2]).returncode == 0
            until(lambda: tail.ended, 30, "the tail has ended")
            assert tail.ended
            assert tail.ended["reason"] == "key_ended"


@pytest.mark.proves("11/the-number-of-tails")
def test_the_tails_of_an_owner_are_counted_in_all_processes(installation: Installation) -> None:
    with owner(installation, "counter") as counter, contextlib.ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(tailing(installation, f"{STREAM}/tail", counter.key))
        refused = counter.http.get(f"{STREAM}/tail")
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        stack.pop_all().close()
        until(lambda: _opens(installation, counter.key), 30, "a slot is free")


def _opens(installation: Installation, key: str) -> bool:
    with httpx2.stream("GET", f"{installation.url}{STREAM}/tail", headers={"X-API-Key": key}, timeout=60) as response:
        return response.status_code == 200


@pytest.mark.proves("11/owners")
def test_others_can_not_look(installation: Installation, running: Deployed) -> None:
    with owner(installation, "stranger") as stranger:
        for path in ("deploy/records", "deploy/records/tail"):
            assert stranger.http.get(f"/api/v1/flow/{running.id}/{path}").status_code == 404
        assert stranger.http.get(f"/api/v1/flow/tail?of={running.id}/out").status_code == 404
