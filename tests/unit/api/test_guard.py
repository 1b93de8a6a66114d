"""Checks before a body is read (key, scope, media type, size), and the form of every error."""

import gzip
import string
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from headwater.api.guarded_routes import MAX_BODY_BYTES
from headwater.errors import DatabaseUnavailable
from headwater.model.key import ALPHABET, DEFAULT_SCOPES, KEY_CACHE_S, SCOPES, ApiKey, generate_key
from tests.examples import examples
from tests.unit.api.installation import FLOW, Installation, Unread, User, flow_body

ROUTES = [
    ("POST", "/api/v1/flow", "flow:write"),
    ("GET", "/api/v1/flow", "flow:read"),
    ("GET", "/api/v1/flow/x", "flow:read"),
    ("POST", "/api/v1/flow/validate", "flow:write"),
    ("PUT", "/api/v1/flow/x", "flow:write"),
    ("DELETE", "/api/v1/flow/x", "flow:write"),
    ("PUT", "/api/v1/flow/x/transforms", "flow:write"),
    ("PATCH", "/api/v1/flow/x/transforms/t", "flow:write"),
    ("POST", "/api/v1/flow/x/deploy", "flow:deploy"),
    ("GET", "/api/v1/flow/x/deploy", "flow:deploy"),
    ("POST", "/api/v1/flow/x/teardown", "flow:deploy"),
    ("GET", "/api/v1/flow/x/deploy/stats", "flow:read"),
    ("GET", "/api/v1/flow/x/transforms/t/filter-values", "flow:read"),
    ("POST", "/api/v1/flow/x/transforms/t/filter-values", "sets:write"),
    ("DELETE", "/api/v1/flow/x/transforms/t/filter-values", "sets:write"),
    ("GET", "/api/v1/flow/x/transforms/t/filter-values/check", "flow:read"),
    ("GET", "/api/v1/flow/x/transforms/t/filter-values/count", "flow:read"),
    ("POST", "/api/v1/flow/datasets", "sets:write"),
    ("GET", "/api/v1/flow/datasets", "flow:read"),
    ("GET", "/api/v1/flow/datasets/x", "flow:read"),
    ("DELETE", "/api/v1/flow/datasets/x", "sets:write"),
    ("GET", "/api/v1/flow/datasets/x/entries", "flow:read"),
    ("POST", "/api/v1/flow/datasets/x/entries", "sets:write"),
    ("DELETE", "/api/v1/flow/datasets/x/entries", "sets:write"),
    ("POST", "/api/v1/flow/datasets/entries", "sets:write"),
    ("GET", "/api/v1/flow/datasets/x/entries/check", "flow:read"),
    ("GET", "/api/v1/flow/streams", "flow:read"),
]


class Away:
    """A key store that does not answer."""

    def find(self, key_id: str) -> ApiKey | None:
        raise DatabaseUnavailable(f"db-7.internal:5432 does not answer for {key_id}")


class TestKey:
    def test_all_rejections_are_equal(self, headwater: Installation, alice: User) -> None:
        expired = headwater.user("alice", expires_at=headwater.clock.now + timedelta(seconds=1))
        headwater.clock.forward(1)
        revoked = headwater.user("alice")
        headwater.keys.revoke(revoked.key[8:20])
        typo = alice.key[:-1] + ("x" if alice.key[-1] != "x" else "y")
        keys = ["", "x", "ü", generate_key()[0], typo, alice.key.lower(), expired.key, revoked.key]
        bodies, headers = [], []
        for key in keys:
            nobody = headwater.nobody()
            response = nobody.get(FLOW, headers={"X-API-Key": key.encode()} if key else {})
            body = nobody.problem(response, 401, "unauthenticated")
            del body["request_id"]
            bodies.append(body)
            headers.append(response.headers["www-authenticate"])
        assert all(body == bodies[0] for body in bodies)
        assert set(headers) == {'ApiKey realm="headwater"'}

    @pytest.mark.parametrize("sent", ["{} ", " {}", "{}\t"])
    def test_whitespace_around_the_key_is_ignored(self, headwater: Installation, alice: User, sent: str) -> None:
        assert headwater.nobody().get(FLOW, headers={"X-API-Key": sent.format(alice.key)}).status_code == 200

    def test_two_keys_are_rejected(self, alice: User, bob: User) -> None:
        headers = [("X-API-Key", alice.key), ("X-API-Key", bob.key)]
        response = alice.portal.call(lambda: alice.http.get(FLOW, headers=headers))
        assert response.status_code == 401

    def test_expires(self, headwater: Installation) -> None:
        user = headwater.user("alice", expires_at=headwater.clock.now + timedelta(seconds=60))
        assert user.get(FLOW).status_code == 200
        headwater.clock.forward(60)
        assert user.get(FLOW).status_code == 401

    def test_a_key_revoked_elsewhere_is_rejected_when_the_cache_expires(
        self, headwater: Installation, alice: User
    ) -> None:
        assert alice.get(FLOW).status_code == 200
        headwater.database.keys.revoke(alice.key[8:20], headwater.clock.now)
        headwater.clock.forward(KEY_CACHE_S)
        assert alice.get(FLOW).status_code == 200
        headwater.clock.forward(0.001)
        assert alice.get(FLOW).status_code == 401

    def test_with_the_store_unavailable(
        self, headwater: Installation, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert alice.get(FLOW).status_code == 200
        monkeypatch.setattr(headwater.database.keys, "find", Away().find)
        assert alice.get(FLOW).status_code == 200, "a key that was checked works until the cache ends"
        body = bob.problem(bob.get(FLOW), 503, "store-unavailable")
        assert "db-7" not in str(body)
        headwater.clock.forward(KEY_CACHE_S + 1)
        alice.problem(alice.get(FLOW), 503, "store-unavailable")
        headwater.nobody().problem(headwater.nobody("x").get(FLOW), 401, "unauthenticated")

    @settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(text=st.text(string.printable.strip() + "ü€", max_size=80) | st.text(ALPHABET, min_size=61, max_size=61))
    def test_malformed_keys_are_rejected_without_a_lookup(self, headwater: Installation, text: str) -> None:
        headwater.keys._store = Away()  # type: ignore[assignment]  # only `find` may be called, and must not be
        for candidate in (text, "hw_live_" + text):
            response = headwater.nobody().get(FLOW, headers={"X-API-Key": candidate.encode()})
            assert response.status_code == 401


class TestScope:
    @pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
    def test_a_missing_scope_is_named(self, headwater: Installation, method: str, path: str, scope: str) -> None:
        user = headwater.user("alice", [s for s in SCOPES if s != scope])
        body = user.problem(user.request(method, path, content=b"no JSON"), 403, "forbidden")
        assert scope in body["detail"]

    @pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
    def test_is_enough(self, headwater: Installation, method: str, path: str, scope: str) -> None:
        user = headwater.user("alice", [scope])
        assert user.request(method, path).status_code not in (401, 403)

    def test_a_new_key_has_all_scopes_but_writing_prices(self) -> None:
        assert set(SCOPES) - set(DEFAULT_SCOPES) == {"admin", "prices:write"}


class TestAddress:
    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "/api/v1",
            "/api/v1/flow//",
            "/api/v1/flow/x/y",
            "/api/v1/flow/a%20%C3%A9%2Fb",
            "/api/v1/developer/prices",
        ],
    )
    def test_unknown(self, alice: User, path: str) -> None:
        alice.problem(alice.get(path), 404, "not-found")

    @pytest.mark.parametrize(
        ("method", "path", "allowed"),
        [
            ("PUT", FLOW, "GET, HEAD, POST"),
            ("PATCH", f"{FLOW}/x", "DELETE, GET, HEAD, PUT"),
            ("DELETE", f"{FLOW}/datasets", "GET, HEAD, POST"),
            ("DELETE", f"{FLOW}/streams", "GET, HEAD"),
            ("GET", f"{FLOW}/datasets/x/entries/check/", None),
            ("OPTIONS", f"{FLOW}/x/deploy", "GET, HEAD, POST"),
            ("HEAD", f"{FLOW}/x/teardown", "POST"),
            ("POST", "/healthz", "GET, HEAD"),
            ("POST", "/docs", "GET, HEAD"),
            ("POST", "/openapi.json", "GET, HEAD"),
            ("POST", "/docs/assets/swagger-ui.css", "GET, HEAD"),
        ],
    )
    def test_method_not_allowed(self, alice: User, method: str, path: str, allowed: str | None) -> None:
        response = alice.request(method, path)
        if allowed is None:
            alice.problem(response, 404, "not-found")
            return
        assert response.status_code == 405
        assert response.headers["allow"] == allowed
        if method != "HEAD":
            alice.problem(response, 405, "method-not-allowed")

    @pytest.mark.parametrize("path", [FLOW, "/healthz", "/docs", "/openapi.json", "/docs/assets/swagger-ui.css"])
    def test_head_answers_as_get_without_the_body(self, alice: User, path: str) -> None:
        got, head = alice.get(path), alice.request("HEAD", path)
        assert (head.status_code, head.content) == (200, b"")
        for name in ("content-type", "content-length"):
            assert head.headers.get(name) == got.headers.get(name)  # a list is streamed: its length is not known

    def test_head_of_a_missing_resource(self, alice: User) -> None:
        assert alice.request("HEAD", f"{FLOW}/x").status_code == 404
        assert alice.request("HEAD", "/nothing").status_code == 404
        assert "slash" not in alice.problem(alice.get("/nothing"), 404, "not-found")["detail"]
        assert "without the slash" in alice.problem(alice.get(f"{FLOW}/x/"), 404, "not-found")["detail"]

    def test_nul_in_an_id(self, alice: User) -> None:
        alice.problem(alice.get(f"{FLOW}/a%00b"), 404, "not-found")


class TestBody:
    @pytest.mark.parametrize(
        "content",
        [
            b"{",
            b"{'a': 1}",
            b'{"name": NaN}',
            b'{"name": "\xff"}',
            b'{"name": "\\ud800"}',
            b"[" * 100_000,
            '{"name": "x"}'.encode("utf-16"),
            gzip.compress(b"{}", mtime=0),
            b"",
        ],
    )
    def test_invalid_json(self, alice: User, content: bytes) -> None:
        response = alice.post(FLOW, content=content, headers={"content-type": "application/json"})
        alice.problem(response, 400, "malformed-request")

    @pytest.mark.parametrize("media_type", ["application/json", "Application/JSON; charset=utf-8"])
    def test_media_type(self, alice: User, media_type: str) -> None:
        response = alice.post(FLOW, content=b"{}", headers={"content-type": media_type})
        assert response.status_code == 422

    @pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonl", ""])
    def test_other_media_type(self, alice: User, media_type: str) -> None:
        response = alice.post(FLOW, content=b"{}", headers={"content-type": media_type})
        alice.problem(response, 415, "unsupported-media-type")

    @pytest.mark.parametrize("path", [FLOW, f"{FLOW}/datasets/entries"])
    def test_compressed(self, alice: User, path: str) -> None:
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        response = alice.post(path, content=gzip.compress(b"{}", mtime=0), headers=headers)
        assert "compression" in alice.problem(response, 415, "unsupported-media-type")["detail"]

    def test_a_missing_media_type(self, alice: User) -> None:
        alice.problem(alice.post(FLOW, content=b"{}"), 415, "unsupported-media-type")

    def test_a_body_with_a_too_large_content_length_is_not_read(self, alice: User) -> None:
        read = []

        async def body() -> AsyncIterator[bytes]:
            read.append(True)
            yield b"{}"

        headers = {"content-type": "application/json", "content-length": str(MAX_BODY_BYTES + 1)}
        alice.problem(alice.post(FLOW, content=body(), headers=headers), 413, "too-large")
        assert not read

    def test_the_body_is_read_only_up_to_the_limit(self, alice: User) -> None:
        read = 0

        async def body() -> AsyncIterator[bytes]:
            nonlocal read
            while read < 2 * MAX_BODY_BYTES:
                read += 1 << 20
                yield b" " * (1 << 20)

        response = alice.post(FLOW, content=body(), headers={"content-type": "application/json"})
        alice.problem(response, 413, "too-large")
        assert read == MAX_BODY_BYTES + (1 << 20)

    def test_without_a_key_is_not_read(self, headwater: Installation) -> None:
        nobody = headwater.nobody()
        assert nobody.post(FLOW, content=Unread()).status_code == 401

    def test_a_body_of_the_maximum_size_is_read(self, alice: User) -> None:
        body: dict[str, Any] = flow_body() | {"description": "x" * (MAX_BODY_BYTES - 2000)}
        assert alice.post(FLOW, body).status_code == 201


class TestUnexpected:
    def test_is_a_problem_without_details(
        self, headwater: Installation, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise ZeroDivisionError("secret")

        monkeypatch.setattr(headwater.database.flows, "list_positions", fail)
        with capture_logs() as logged:
            response = alice.get(FLOW)
        body = alice.problem(response, 500, "internal-error")
        assert "secret" not in str(body)
        assert "ZeroDivision" not in str(body)
        expected = {"event": "request failed", "log_level": "error", "exc_info": True, "method": "GET", "route": FLOW}
        assert logged == [expected | {"request_id": body["request_id"]}]

    def test_every_response_has_a_unique_id(self, headwater: Installation, alice: User) -> None:
        paths = [FLOW, FLOW, "/nowhere", "/healthz", "/openapi.json", "/docs", "/metrics"]
        ids = [alice.get(path).headers["x-request-id"] for path in paths]
        assert len(set(ids)) == len(paths)
