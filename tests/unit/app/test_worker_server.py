"""The HTTP interface of a worker in a Pod."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from headwater.app.worker_server import worker_application
from headwater.app.wsgi_server import serve
from headwater.engine.http_channel import HttpChannel
from headwater.engine.restart_state import RestartState
from headwater.model.reading_plan import PartitionPosition, ReadingPlan
from headwater.model.worker_protocol import Heartbeat
from headwater.model.worker_report import WorkerReport
from tests.support.ports import free_port

TOKEN = "the token"


class Interface:
    """A served interface, and a client with the token."""

    def __init__(self, channel: HttpChannel, client: httpx2.Client) -> None:
        self.channel = channel
        self.client = client


@pytest.fixture
def interface(tmp_path: Path) -> Iterator[Interface]:
    port = free_port()
    channel = HttpChannel(RestartState(tmp_path), lambda: channel.on_ended())
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with (
        serve("127.0.0.1", port, worker_application(channel, TOKEN)),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=10) as client,
    ):
        yield Interface(channel, client)


def test_the_kubelet_needs_no_token(interface: Interface) -> None:
    anonymous = {"Authorization": ""}
    assert interface.client.get("/healthz", headers=anonymous).status_code == 200
    assert interface.client.get("/readyz", headers=anonymous).status_code == 503
    interface.channel.send(Heartbeat(state="ready", spec_hash="h"))
    assert interface.client.get("/readyz", headers=anonymous).status_code == 200


@pytest.mark.parametrize(("method", "path"), [("GET", "/status"), ("POST", "/join"), ("POST", "/stop")])
@pytest.mark.parametrize("token", ["", "Bearer another", "the token"])
def test_everything_else_needs_the_token(interface: Interface, method: str, path: str, token: str) -> None:
    response = interface.client.request(method, path, headers={"Authorization": token})
    assert response.status_code == 401
    assert not interface.channel.is_stopping
    assert not interface.channel.may_join(0)


def test_status_join_and_stop(interface: Interface) -> None:
    client = interface.client
    report = WorkerReport.model_validate_json(client.get("/status").content)
    assert (report.may_join, report.has_ended) == (False, False)
    plan = {"isolates_partitions": True, "quarantined": [[1, 7]]}
    assert client.post("/join", json=plan).status_code == 204
    assert interface.channel.reading_plan == ReadingPlan(
        isolates_partitions=True, quarantined=(PartitionPosition(1, 7),)
    )
    assert json.loads(client.get("/status").content)["may_join"]
    assert client.post("/stop", params={"leave": 1}).status_code == 200
    assert interface.channel.must_leave_group()
    assert json.loads(client.get("/status").content)["has_ended"]


@pytest.mark.parametrize("body", ["", "{", "[]", '{"quarantined": 1}'])
def test_a_wrong_plan_is_refused(interface: Interface, body: str) -> None:
    assert interface.client.post("/join", content=body).status_code == 400
    assert not interface.channel.may_join(0)


def test_unknown_paths(interface: Interface) -> None:
    assert interface.client.get("/join").status_code == 404
    assert interface.client.get("/").status_code == 404
    assert interface.client.get("/status", params={"seen": "x"}).status_code == 400
