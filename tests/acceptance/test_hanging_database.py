"""Responses while PostgreSQL hangs, and after it resumes.

It keeps its connections open but answers nothing.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.installation import Deployed, Installation, deployed, pipeline, reading
from tests.support.postgres_server import PostgresServer
from tests.support.processes import descendants
from tests.support.waiting import until

ANSWERS_WITHIN_S = 75
ROUNDS = 2
RECORDS = 50


@pytest.fixture
def installation(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path / "data", variables={"HEADWATER_DATABASE_URL": postgres_server.url()})
    installation.start()
    yield installation
    assert installation.stop() == 0, installation.log()


def calls(deployment: Deployed) -> list[tuple[str, str, object]]:
    """Return requests that need the database."""
    of = f"/api/v1/flow/{deployment.id}"
    return [
        ("GET", "/api/v1/flow", None),
        ("GET", of, None),
        ("POST", "/api/v1/flow", pipeline()),
        ("POST", f"{of}/deploy", None),
        ("GET", f"{of}/deploy", None),
        ("GET", f"{of}/deploy/stats", None),
        ("GET", f"{of}/deploy/metrics", None),
        ("GET", f"{of}/deploy/logs", None),
        ("PUT", f"{of}/transforms", []),
        ("POST", "/api/v1/flow/datasets", {"name": "watched"}),
        ("DELETE", of, None),
    ]


def ask(installation: Installation, method: str, path: str, body: object) -> httpx2.Response:
    with installation.client() as client:
        return client.request(method, path, json=body)


def feed(installation: Installation, begin: int) -> None:
    installation.feed(
        "base",
        "erc20_token_transfer",
        [
            {"transaction_hash": f"0x{number:064x}", "log_index": 0, "n": number}
            for number in range(begin, begin + RECORDS)
        ],
    )


def assert_unavailable(response: httpx2.Response) -> None:
    assert response.status_code == 503, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == "urn:headwater:problem:store-unavailable"
    assert int(response.headers["retry-after"]) > 0


@pytest.mark.slow
def test_a_hanging_database_delays_only_requests_that_need_it(
    installation: Installation, postgres_server: PostgresServer
) -> None:
    assert installation.process is not None
    with (
        installation.client() as client,
        deployed(client, pipeline()) as deployment,
        reading(deployment.sink) as reader,
    ):
        feed(installation, 0)
        reader.read(RECORDS)
        processes = {process.pid for process in descendants(installation.process.pid)}
        with postgres_server.hanging():
            for number in range(1, ROUNDS + 1):
                with ThreadPoolExecutor(20) as pool:
                    asked = [pool.submit(ask, installation, *call) for call in calls(deployment)]
                    for path in ("/healthz", "/metrics", "/openapi.json"):
                        assert client.get(path).status_code == 200, path
                    feed(installation, number * RECORDS)
                    reader.read((number + 1) * RECORDS)
                    assert not all(future.done() for future in asked)
                    for future in asked:
                        assert_unavailable(future.result(ANSWERS_WITHIN_S))
                ready = client.get("/readyz")
                assert ready.status_code == 503
                assert ready.json()["dependencies"]["database"] == "unavailable"
        until(lambda: client.get("/readyz").status_code == 200, what="readiness")
        with deployed(client, pipeline(name="after")) as after, reading(after.sink) as second:
            feed(installation, (ROUNDS + 1) * RECORDS)
            reader.read((ROUNDS + 2) * RECORDS)
            second.read(RECORDS)
            assert client.get(f"/api/v1/flow/{deployment.id}/deploy").json()["status"] == "deployed"
        assert processes <= {process.pid for process in descendants(installation.process.pid)}
