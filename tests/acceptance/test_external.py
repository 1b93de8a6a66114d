"""On a PostgreSQL, a Valkey and a Kafka of their own, reached by settings alone: a short form of all that holds.

`--external` runs the other acceptance tests in the same way.
"""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.conftest import external_parts, running
from tests.acceptance.stack import HEADWATER, STOP_WITHIN_S, External, Stack, deployed, kill, pipeline, reading
from tests.support.ports import free_port
from tests.support.processes import alive
from tests.support.waiting import until

ADDRESSES = [f"0x{number:040x}" for number in range(4)]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[External]:
    with external_parts(True, tmp_path_factory.mktemp("parts")) as made:
        assert made is not None
        yield made


def record(address: str, number: int) -> dict[str, str | int]:
    return {"token_address": address, "transaction_hash": f"0x{number:064x}", "log_index": number}


def check_a_pipeline(stack: Stack, client: httpx2.Client) -> None:
    """Deploy, feed, read, change the filter live, tear down."""
    body = pipeline(
        transforms=[
            {"type": "redis_set_filter", "filter_expr": "root = this.token_address", "set_values": [ADDRESSES[0]]},
            {"type": "v8", "script": "function process(record) { record.seen = true; return record; }"},
        ]
    )
    with deployed(client, body) as made, reading(made.sink) as reader:
        stack.feed("base", "erc20_token_transfer", [record(a, n) for n, a in enumerate(ADDRESSES)])
        assert [read.json()["token_address"] for read in reader.read(1)] == [ADDRESSES[0]]
        assert client.post(made.filter_url(), json={"values": [ADDRESSES[1]]}).json()["added"] == 1
        stack.feed("base", "erc20_token_transfer", [record(a, n + 10) for n, a in enumerate(ADDRESSES)])
        read = [read.json() for read in reader.read(3)]
        assert sorted(r["token_address"] for r in read) == sorted([ADDRESSES[0], ADDRESSES[0], ADDRESSES[1]])
        assert all(r["seen"] for r in read)


@pytest.mark.slow
def test_up(parts: External, tmp_path: Path) -> None:
    """Nothing is embedded; outside parts that die and come back are waited for."""
    for stack in running(Stack(tmp_path / "data", external=parts)):
        with stack.client() as client:
            check_a_pipeline(stack, client)
            assert not (stack.data_dir / "headwater.db").exists()
            for part in ("valkey-server", "kafka.Kafka"):
                killed = stack.below(part)
                assert len(killed) == 1
                kill(killed)
                until(lambda k=killed: not any(map(alive, k)), what="the end")  # type: ignore[misc]
            until(lambda: client.get("/readyz").status_code == 200, what="readiness")
            check_a_pipeline(stack, client)
            audited = stack.run("audit", "--json", "--limit", "1000").stdout
            assert audited.count('"action": "flow.deploy"') == 2
            assert stack.key[21:] not in audited


@pytest.mark.slow
def test_parts_one_by_one(parts: External, tmp_path: Path) -> None:
    """`headwater controller` and `headwater api` without `up`, with a key made by the command line."""
    stack = Stack(tmp_path / "data", port=free_port(), external=parts)
    with started(stack, "controller"), started(stack, "api", "--port", str(stack.port)) as api:
        stack.process = api
        until(lambda: answers(stack), what="readiness")
        key = stack.run("keys", "create", "--owner", "ann").stdout.strip()
        with stack.client(key) as client:
            check_a_pipeline(stack, client)


def answers(stack: Stack) -> bool:
    with contextlib.suppress(httpx2.TransportError):
        return httpx2.get(f"{stack.url}/readyz", timeout=5).status_code == 200
    return False


@contextlib.contextmanager
def started(stack: Stack, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A part in a process of its own, which must end well."""
    arguments = [*HEADWATER, *command, "--data-dir", str(stack.data_dir)]
    process = subprocess.Popen(arguments, env=stack.environment)
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(STOP_WITHIN_S) == 0
