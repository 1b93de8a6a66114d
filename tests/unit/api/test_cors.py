"""CORS: requests of web pages of other origins."""

from collections.abc import Iterator

import pytest

from tests.unit.api.installation import FLOW, Installation, User, installation

ORIGIN = "https://app.example.com"
PREFLIGHT = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "PUT",
    "Access-Control-Request-Headers": "x-api-key, content-type, if-match, idempotency-key",
}


@pytest.fixture
def open_to_pages() -> Iterator[Installation]:
    with installation(cors_origins=[ORIGIN]) as headwater:
        yield headwater


def test_no_origin_is_allowed_without_the_setting(alice: User) -> None:
    assert "access-control-allow-origin" not in alice.get(FLOW, headers={"Origin": ORIGIN}).headers
    alice.problem(alice.request("OPTIONS", FLOW, headers=PREFLIGHT), 405, "method-not-allowed")


def test_a_page_of_the_origin_may_call_and_read(open_to_pages: Installation) -> None:
    asked = open_to_pages.nobody().request("OPTIONS", f"{FLOW}/x", headers=PREFLIGHT)
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == ORIGIN
    assert asked.headers["x-request-id"]
    alice = open_to_pages.user("alice")
    answer = alice.get(FLOW, headers={"Origin": ORIGIN})
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert {"ETag", "Link", "X-Request-Id"} <= set(answer.headers["access-control-expose-headers"].split(", "))
    assert "access-control-allow-credentials" not in answer.headers


def test_cors_headers_are_on_rejections(open_to_pages: Installation) -> None:
    nobody = open_to_pages.nobody()
    answer = nobody.get(FLOW, headers={"Origin": ORIGIN})
    nobody.problem(answer, 401, "unauthenticated")
    assert answer.headers["access-control-allow-origin"] == ORIGIN


def test_cors_headers_are_on_internal_errors(open_to_pages: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = open_to_pages.user("alice")

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of Headwater")

    monkeypatch.setattr(open_to_pages.api.state.services.flows, "get", fail)
    answer = alice.get(f"{FLOW}/x", headers={"Origin": ORIGIN})
    alice.problem(answer, 500, "internal-error")
    assert answer.headers["access-control-allow-origin"] == ORIGIN


def test_a_page_of_another_origin_may_not(open_to_pages: Installation) -> None:
    alice = open_to_pages.user("alice")
    answer = alice.get(FLOW, headers={"Origin": "https://elsewhere.example.com"})
    assert "access-control-allow-origin" not in answer.headers
