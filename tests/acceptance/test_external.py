"""Installations with external PostgreSQL, Valkey and Kafka.

With the option `--external`, the other acceptance tests use external servers, too.
"""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.conftest import external_servers, running
from tests.acceptance.installation import (
    HEADWATER,
    STOP_WITHIN_S,
    ExternalServers,
    Installation,
    deployed,
    kill,
    pipeline,
    reading,
)
from tests.support.ports import free_port
from tests.support.processes import alive
from tests.support.waiting import until

ADDRESSES = [f"0x{number:040x}" for number in range(4)]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalServers]:
    with external_servers(True, tmp_path_factory.mktemp("servers")) as servers:
        assert servers is not None
        yield servers


def record(address: str, number: int) -> dict[str, str | int]:
    return {"token_address": address, "transaction_hash": f"0x{number:064x}", "log_index": number}


def check_a_pipeline(installation: Installation, client: httpx2.Client) -> None:
    """Deploy a pipeline, feed and read records, change its filter, and tear it down."""
    body = pipeline(
        transforms=[
            {"type": "redis_set_filter", "filter_expr": "root = this.token_address", "set_values": [ADDRESSES[0]]},
            {"type": "v8", "script": "function process(record) { record.seen = true; return record; }"},
        ]
    )
    with deployed(client, body) as deployment, reading(deployment.sink) as reader:
        installation.feed("base", "erc20_token_transfer", [record(a, n) for n, a in enumerate(ADDRESSES)])
        assert [read.json()["token_address"] for read in reader.read(1)] == [ADDRESSES[0]]
        assert client.post(deployment.filter_url(), json={"values": [ADDRESSES[1]]}).json()["added"] == 1
        installation.feed("base", "erc20_token_transfer", [record(a, n + 10) for n, a in enumerate(ADDRESSES)])
        read = [read.json() for read in reader.read(3)]
        assert sorted(r["token_address"] for r in read) == sorted([ADDRESSES[0], ADDRESSES[0], ADDRESSES[1]])
        assert all(r["seen"] for r in read)


@pytest.mark.slow
def test_up_uses_external_servers(parts: ExternalServers, tmp_path: Path) -> None:
    """No server is embedded, and Headwater waits for external servers that restart."""
    for installation in running(Installation(tmp_path / "data", external=parts)):
        with installation.client() as client:
            check_a_pipeline(installation, client)
            assert not (installation.data_dir / "headwater.db").exists()
            for part in ("valkey-server", "kafka.Kafka"):
                killed = installation.processes(part)
                assert len(killed) == 1
                kill(killed)
                until(lambda k=killed: not any(map(alive, k)), what="the end")  # type: ignore[misc]
            until(lambda: client.get("/readyz").status_code == 200, what="readiness")
            check_a_pipeline(installation, client)
            audited = installation.run("audit", "--json", "--limit", "1000").stdout
            assert audited.count('"action": "flow.deploy"') == 2
            assert installation.key[21:] not in audited


@pytest.mark.slow
def test_controller_and_api_run_as_separate_processes(parts: ExternalServers, tmp_path: Path) -> None:
    """`headwater controller` and `headwater api` run without `up`.

    They use a key from the command line.
    """
    installation = Installation(tmp_path / "data", port=free_port(), external=parts)
    with started(installation, "controller"), started(installation, "api", "--port", str(installation.port)) as api:
        installation.process = api
        until(lambda: answers(installation), what="readiness")
        key = installation.run("keys", "create", "--owner", "ann").stdout.strip()
        with installation.client(key) as client:
            check_a_pipeline(installation, client)


def answers(installation: Installation) -> bool:
    with contextlib.suppress(httpx2.TransportError):
        return httpx2.get(f"{installation.url}/readyz", timeout=5).status_code == 200
    return False


@contextlib.contextmanager
def started(installation: Installation, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in the background for the block. It must exit with status 0 on SIGTERM."""
    arguments = [*HEADWATER, *command, "--data-dir", str(installation.data_dir)]
    process = subprocess.Popen(arguments, env=installation.environment)
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(STOP_WITHIN_S) == 0
