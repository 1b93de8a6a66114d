"""A one-time code is exchanged for an API key, which its user can revoke."""

from collections.abc import Iterator
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal
from structlog.testing import capture_logs

from headwater.api.guarded_routes import MAX_PUBLIC_BODY_BYTES
from headwater.errors import DatabaseUnavailable
from headwater.model.audit import AuditQuery
from headwater.model.key import parse_key
from headwater.model.sign_in import CODE_TTL, KEY_TTL
from tests.unit.api.installation import FLOW, Installation, User

PATH = f"{FLOW}/sign-in"
SCOPES = ("flow:read", "sets:write")


def code_of(headwater: Installation, user: User) -> str:
    code, _ = headwater.sign_ins.create_code(headwater.keys.authenticate(user.key))
    return code


@pytest.fixture
def local(headwater: Installation) -> User:
    return headwater.user("local", SCOPES)


def sign_in(headwater: Installation, user: User) -> User:
    answer = headwater.nobody().post(PATH, {"code": code_of(headwater, user)})
    assert answer.status_code == 200, answer.text
    return headwater.nobody(answer.json()["key"])


class TestSignIn:
    def test_a_code_gives_a_key_with_the_owner_and_scopes_of_its_source(
        self, headwater: Installation, local: User
    ) -> None:
        answer = headwater.nobody().post(PATH, {"code": code_of(headwater, local)})
        body: dict[str, Any] = answer.json()
        assert (answer.status_code, body["owner"], tuple(body["scopes"])) == (200, "local", SCOPES)
        parsed = parse_key(body["key"])
        assert parsed is not None
        assert parsed[0] == body["key_id"] != local.key[8:20]
        user = headwater.nobody(body.pop("key"))
        assert user.get(f"{FLOW}/me").json() == body

    def test_the_key_ends_after_12_hours(self, headwater: Installation, local: User) -> None:
        user = sign_in(headwater, local)
        headwater.clock.forward(KEY_TTL.total_seconds() - 1)
        assert user.get(f"{FLOW}/me").status_code == 200
        headwater.clock.forward(1)
        user.problem(user.get(f"{FLOW}/me"), 401, "unauthenticated")

    def test_wrong_used_and_expired_codes_get_the_same_answer(self, headwater: Installation, local: User) -> None:
        used, expired = code_of(headwater, local), code_of(headwater, local)
        nobody = headwater.nobody()
        assert nobody.post(PATH, {"code": used}).status_code == 200
        headwater.clock.forward(CODE_TTL.total_seconds())
        bodies = []
        for code in (used, expired, "x", "ü", "\0", expired.swapcase()):
            answer = nobody.post(PATH, {"code": code})
            body = nobody.problem(answer, 401, "invalid-sign-in-code")
            assert answer.headers["www-authenticate"] == 'ApiKey realm="headwater"'
            del body["request_id"]
            bodies.append(body)
        assert "headwater keys sign-in-link" in bodies[0]["detail"]
        assert all(body == bodies[0] for body in bodies)

    def test_who_signed_in_is_in_the_audit_log_and_no_code_in_any_log(
        self, headwater: Installation, local: User
    ) -> None:
        code = code_of(headwater, local)
        with capture_logs() as logs:
            answer = headwater.nobody().post(PATH, {"code": code})
        entry = headwater.database.audit.read(AuditQuery(limit=1))[0]
        assert (entry.change.action, entry.key_id, entry.ip) == ("key.sign_in", "sign-in", "127.0.0.1")
        assert (entry.change.owner, entry.change.object) == ("local", answer.json()["key_id"])
        assert entry.request_id == answer.headers["x-request-id"]
        assert code not in f"{logs} {headwater.database.audit.read(AuditQuery())}"

    @pytest.mark.parametrize(
        ("body", "status", "kind"),
        [
            ({}, 422, "invalid-input"),
            ({"code": ""}, 422, "invalid-input"),
            ({"code": "x" * 101}, 422, "invalid-input"),
            ({"code": 5}, 422, "invalid-input"),
            ({"code": "x", "owner": "bob"}, 422, "invalid-input"),
            ({"code": "x" * MAX_PUBLIC_BODY_BYTES}, 413, "too-large"),
        ],
    )
    def test_invalid_bodies(self, headwater: Installation, body: Any, status: int, kind: str) -> None:
        nobody = headwater.nobody()
        nobody.problem(nobody.post(PATH, body), status, kind)

    def test_other_checks_of_a_request_without_a_key(self, headwater: Installation) -> None:
        nobody = headwater.nobody()
        nobody.problem(nobody.request("POST", PATH, content=b"code=x"), 415, "unsupported-media-type")
        nobody.problem(nobody.post(f"{PATH}?code=x", {"code": "x"}), 422, "invalid-input")
        nobody.problem(nobody.get(PATH), 401, "unauthenticated")

    def test_a_key_is_not_looked_at(self, headwater: Installation, local: User) -> None:
        user = headwater.nobody("hw_live_nonsense")
        assert user.post(PATH, {"code": code_of(headwater, local)}).status_code == 200


class TestLimit:
    @pytest.fixture
    def headwater(self, portal: BlockingPortal) -> Iterator[Installation]:
        headwater = Installation(portal)
        with headwater.serving(invalid_keys_per_minute=3):
            yield headwater

    def test_too_many_invalid_codes(self, headwater: Installation, local: User) -> None:
        nobody = headwater.nobody()
        for _ in range(5):
            assert nobody.post(PATH, {"code": code_of(headwater, local)}).status_code == 200
        for _ in range(3):
            nobody.problem(nobody.post(PATH, {"code": "x"}), 401, "invalid-sign-in-code")
        nobody.problem(nobody.post(PATH, {"code": code_of(headwater, local)}), 429, "rate-limited")
        assert local.get(f"{FLOW}/me").status_code == 200

    def test_a_code_that_could_not_be_checked_does_not_count(
        self, headwater: Installation, local: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nobody, code = headwater.nobody(), code_of(headwater, local)

        def away(*_: object) -> None:
            raise DatabaseUnavailable("The database does not answer.")

        with monkeypatch.context() as patch:
            patch.setattr(headwater.database.sign_ins, "exchange", away)
            for _ in range(4):
                nobody.problem(nobody.post(PATH, {"code": code}), 503, "store-unavailable")
        assert nobody.post(PATH, {"code": code}).status_code == 200


class TestSignOut:
    def test_the_key_of_a_code_is_revoked(self, headwater: Installation, local: User) -> None:
        user = sign_in(headwater, local)
        answer = user.delete(PATH)
        assert (answer.status_code, "is revoked" in answer.json()["message"]) == (200, True)
        user.problem(user.get(f"{FLOW}/me"), 401, "unauthenticated")
        assert local.get(f"{FLOW}/me").status_code == 200
        entry = headwater.database.audit.read(AuditQuery(limit=1))[0]
        assert (entry.change.action, entry.key_id) == ("key.revoke", user.key[8:20])

    def test_any_other_key_stays_valid(self, headwater: Installation, local: User) -> None:
        detail = local.problem(local.delete(PATH), 409, "conflict")["detail"]
        assert f"headwater keys revoke {local.key[8:20]}" in detail
        assert local.get(f"{FLOW}/me").status_code == 200
