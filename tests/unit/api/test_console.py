"""The console has a page with a policy, and says how to build it when it is not built."""

import gzip
import re
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from headwater.api import problems
from headwater.api.console import PATH, Console
from tests.unit.api.installation import Installation

PAGE = '<meta property="csp-nonce" nonce="__NONCE__"><link nonce="__NONCE__">'


def client(files: Path) -> TestClient:
    app = FastAPI(redirect_slashes=False)
    problems.install(app)
    app.mount(PATH, Console(files))
    return TestClient(app)


@pytest.fixture
def console(tmp_path: Path) -> TestClient:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(PAGE, "utf-8")
    (tmp_path / "assets" / "index-x1.js").write_text("run()", "utf-8")
    (tmp_path / "assets" / "index-x1.js.gz").write_bytes(gzip.compress(b"run()", mtime=0))
    return client(tmp_path)


def policy(response: httpx2.Response) -> str:
    return response.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/pipelines", "/pipelines/01ke0a/overview"])
def test_every_path_has_the_page(console: TestClient, path: str) -> None:
    response = console.get(PATH + path)
    nonces = set(re.findall(r'nonce="([^"]+)"', response.text))
    assert len(nonces) == 1
    assert policy(response) == (
        f"default-src 'self'; script-src 'self'; style-src 'self' 'nonce-{nonces.pop()}'; frame-ancestors 'none'"
    )
    assert response.headers["cache-control"] == "no-store"


def test_each_response_has_another_nonce(console: TestClient) -> None:
    assert policy(console.get(f"{PATH}/")) != policy(console.get(f"{PATH}/"))


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_files_are_compressed_and_kept(console: TestClient, encoding: str) -> None:
    response = console.get(f"{PATH}/assets/index-x1.js", headers={"accept-encoding": encoding})
    assert response.text == "run()"
    assert response.headers.get("content-encoding", "identity") == encoding
    assert response.headers["content-type"].startswith("text/javascript")
    assert "immutable" in response.headers["cache-control"]


@pytest.mark.parametrize("path", ["/assets/other.js", "/assets/../index.html", "/assets/%2e%2e/index.html"])
def test_other_files_are_not_served(console: TestClient, path: str) -> None:
    assert "run()" not in console.get(PATH + path).text


def test_an_unknown_file_is_a_problem(console: TestClient) -> None:
    assert console.get(f"{PATH}/assets/other.js").status_code == 404


def test_other_methods_are_not_allowed(console: TestClient) -> None:
    response = console.post(f"{PATH}/")
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")


def test_a_console_that_is_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    response = client(tmp_path).get(f"{PATH}/")
    assert response.status_code == 404
    assert "make setup" in response.json()["detail"]


def test_the_root_sends_browsers_to_the_console(headwater: Installation) -> None:
    nobody = headwater.nobody()
    response = nobody.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (response.status_code, response.headers["location"]) == (307, f"{PATH}/")
    assert nobody.get(PATH).headers["location"] == f"{PATH}/"
    nobody.problem(nobody.get("/"), 404, "not-found")
    nobody.problem(nobody.get("/api/v1/nothing", headers={"accept": "text/html"}), 404, "not-found")
