"""The client of workers' HTTP interface, against the interface itself."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.app.worker_server import worker_application
from headwater.app.wsgi_server import serve
from headwater.engine.http_channel import HttpChannel
from headwater.engine.restart_state import RestartState
from headwater.model.reading_plan import READ_ALL
from headwater.model.worker_protocol import Heartbeat
from headwater.orchestrators.kubernetes.worker_client import WorkerClient, WorkerRequestError
from tests.support.ports import free_port

TOKEN = "the-token"
CLIENT = WorkerClient()


@pytest.fixture
def channel(tmp_path: Path) -> HttpChannel:
    created = HttpChannel(RestartState(tmp_path), lambda: created.on_ended())
    return created


@pytest.fixture
def address(channel: HttpChannel) -> Iterator[str]:
    port = free_port()
    with serve("127.0.0.1", port, worker_application(channel, TOKEN)):
        yield f"127.0.0.1:{port}"


@contextmanager
def answering(response: bytes) -> Iterator[str]:
    """Run a server that gives this response to one request. Yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(response)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def test_report_join_and_stop(channel: HttpChannel, address: str) -> None:
    channel.send(Heartbeat(state="prepared", spec_hash="h", reason="ä" * 100_000))
    report = asyncio.run(CLIENT.report(address, TOKEN, 0, 0))
    assert report.heartbeat is not None
    assert (report.heartbeat.state, len(report.heartbeat.reason), report.may_join) == ("prepared", 100_000, False)
    asyncio.run(CLIENT.join(address, TOKEN, READ_ALL))
    assert channel.may_join(0)
    asyncio.run(CLIENT.stop(address, TOKEN, leave_group=True))
    assert asyncio.run(CLIENT.report(address, TOKEN, report.version, 0)).has_ended
    assert channel.must_leave_group()


def test_another_token_is_refused(address: str) -> None:
    with pytest.raises(WorkerRequestError, match="401"):
        asyncio.run(CLIENT.report(address, "another", 0, 0))


def test_a_worker_that_does_not_run() -> None:
    with pytest.raises(WorkerRequestError, match="does not answer"):
        asyncio.run(CLIENT.report(f"127.0.0.1:{free_port()}", TOKEN, 0, 0))


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"", "nothing"),
        (b"SSH-2.0-OpenSSH\r\n", "SSH"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n{", "not complete"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", "not valid"),
    ],
)
def test_a_response_that_is_none(response: bytes, reason: str) -> None:
    with answering(response) as address, pytest.raises(WorkerRequestError, match=reason):
        asyncio.run(CLIENT.report(address, TOKEN, 0, 0))


def test_a_worker_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.orchestrators.kubernetes.worker_client.REPORT_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(WorkerRequestError, match="TimeoutError"):
        asyncio.run(CLIENT.report(f"127.0.0.1:{listener.getsockname()[1]}", TOKEN, 0, 0))
