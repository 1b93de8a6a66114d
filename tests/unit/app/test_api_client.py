"""Error responses that a command gets from the API, or from another server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from headwater.app.api_client import KEY_VARIABLE, ApiClient
from headwater.errors import SetupError
from headwater.settings import Settings

DEPLOY = "/api/v1/flow/c1/deploy"


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer("127.0.0.1") as server:
        yield server


@pytest.fixture
def client(server: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiClient]:
    monkeypatch.setenv(KEY_VARIABLE, "key")
    client = ApiClient(Settings(data_dir=tmp_path), server.url_for(""))
    yield client
    client.close()


def test_a_problem_of_the_api(server: HTTPServer, client: ApiClient) -> None:
    problem = {
        "type": "urn:headwater:problem:deploy-failed",
        "detail": "The deploy failed.",
        "errors": [{"pointer": "/sinks/0", "detail": "is unknown"}],
    }
    server.expect_request(DEPLOY).respond_with_json(problem, 422, content_type="application/problem+json")
    with pytest.raises(SetupError, match=r"^The deploy failed\. /sinks/0: is unknown\.$"):
        client.deploy("c1")


@pytest.mark.parametrize("body", [{"message": "not found"}, {"detail": "Not Found"}, [], None])
def test_json_of_another_server(server: HTTPServer, client: ApiClient, body: Any) -> None:
    server.expect_request(DEPLOY).respond_with_json(body, 404)
    with pytest.raises(SetupError, match=r"is not a Headwater API \(status 404\)\. Check --url"):
        client.deploy("c1")


@pytest.mark.parametrize(("content_type", "status"), [("text/html", 200), ("application/json", 502)])
def test_a_page_of_another_server(server: HTTPServer, client: ApiClient, content_type: str, status: int) -> None:
    server.expect_request(DEPLOY).respond_with_data("<html>", status, content_type=content_type)
    with pytest.raises(SetupError, match="is not a Headwater API"):
        client.deploy("c1")
