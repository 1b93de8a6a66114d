"""`Idempotency-Key` on every POST, PUT and PATCH."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from anyio import to_thread

from headwater.api.app import ROUTES
from headwater.api.guarded_routes import AuthenticatedRoute
from headwater.api.idempotency import may_return_credentials
from headwater.errors import DatabaseUnavailable
from headwater.model.idempotency import CLAIM_TTL, RESPONSE_TTL
from headwater.model.positions import OffsetGap
from headwater.model.value_sets import Dataset
from tests.unit.api.installation import FLOW, TOKEN, Installation, Unread, User, flow_body

DATASETS = f"{FLOW}/datasets"


@dataclass
class Sender:
    """Sends requests with one Idempotency-Key."""

    user: User
    key: str = "k-1"

    def __call__(self, path: str, body: Any = None, method: str = "POST", **options: Any) -> httpx2.Response:
        options["headers"] = {"Idempotency-Key": self.key} | options.get("headers", {})
        return self.user.request(method, path, json=body, **options)


@pytest.fixture
def send(alice: User) -> Sender:
    return Sender(alice)


def is_replay(response: httpx2.Response) -> bool:
    return "true" in response.headers.get_list("idempotency-replayed")


class TestReplay:
    def test_a_repeat_creates_one_object_and_returns_the_same_response(self, send: Sender, alice: User) -> None:
        first, again = send(FLOW, flow_body()), send(FLOW, flow_body())
        assert (first.status_code, is_replay(first)) == (201, False)
        assert (again.status_code, is_replay(again)) == (201, True)
        assert again.content == first.content
        for name in ("location", "etag", "content-type"):
            assert again.headers[name] == first.headers[name]
        assert again.headers["x-request-id"] != first.headers["x-request-id"]
        assert len(alice.get(FLOW).json()) == 1

    def test_every_method(self, send: Sender, alice: User) -> None:
        flow = send(FLOW, flow_body()).json()
        transform = flow["pipeline_config"]["transforms"][1]
        for method, path, body in (
            ("PUT", f"{FLOW}/{flow['id']}", flow_body()),
            ("PATCH", f"{FLOW}/{flow['id']}/transforms/{transform['uid']}", transform),
            ("PUT", f"{FLOW}/{flow['id']}/transforms", [transform]),
            ("POST", f"{FLOW}/{flow['id']}/teardown", None),
        ):
            first, again = (send(path, body, method) for _ in range(2))
            assert first.status_code == again.status_code == 200, first.text
            assert (is_replay(first), is_replay(again)) == (False, True)
            assert first.content == again.content
        assert alice.get(f"{FLOW}/{flow['id']}").json()["revision"] == 4

    def test_get_and_delete_ignore_the_header(self, send: Sender) -> None:
        dataset = send(DATASETS, {"name": "a"}).json()["id"]
        for method, status in (("GET", 200), ("GET", 200), ("DELETE", 204), ("DELETE", 404)):
            assert send(f"{DATASETS}/{dataset}", method=method).status_code == status

    def test_other_owners_methods_paths_and_keys_are_other_requests(self, send: Sender, bob: User) -> None:
        first = send(DATASETS, {"name": "a"})
        for other in (Sender(bob), Sender(send.user, "k-2")):
            assert not is_replay(other(DATASETS, {"name": "b"}))
        flow = send(FLOW, flow_body())
        assert not is_replay(flow)
        assert is_replay(send(DATASETS, {"name": "a"}))
        assert first.status_code == 201

    def test_another_key_of_the_owner_is_the_same_caller(self, headwater: Installation, send: Sender) -> None:
        send(DATASETS, {"name": "a"})
        assert is_replay(Sender(headwater.user("alice"))(DATASETS, {"name": "a"}))

    def test_for_24_hours(self, headwater: Installation, send: Sender) -> None:
        send(DATASETS, {"name": "a"})
        headwater.clock.forward(RESPONSE_TTL.total_seconds() - 1)
        assert is_replay(send(DATASETS, {"name": "a"}))
        headwater.clock.forward(1)
        assert send(DATASETS, {"name": "a"}).status_code == 409

    def test_final_errors_are_stored(self, send: Sender, alice: User) -> None:
        alice.post(DATASETS, {"name": "a"})
        first, again = send(DATASETS, {"name": "a"}), send(DATASETS, {"name": "a"})
        assert first.status_code == again.status_code == 409
        assert is_replay(again)
        assert again.headers["content-type"] == "application/problem+json"

    def test_a_change_that_is_saved_but_fails_to_run_is_saved_once(
        self, headwater: Installation, send: Sender, alice: User
    ) -> None:
        flow = alice.create()
        path = f"{FLOW}/{flow['id']}"
        alice.post(f"{path}/deploy")
        headwater.controller.reasons = ["worker-0 died twice"]
        first, again = (send(f"{path}/transforms", flow["pipeline_config"]["transforms"], "PUT") for _ in range(2))
        assert "Revision 2 is saved but does not run" in alice.problem(first, 422, "deploy-failed")["detail"]
        assert (is_replay(first), is_replay(again)) == (False, True)
        assert again.content == first.content
        assert alice.get(path).json()["revision"] == 2

    def test_a_failed_deploy_is_not_retried(self, headwater: Installation, send: Sender, alice: User) -> None:
        path = f"{FLOW}/{alice.create()['id']}/deploy"
        headwater.controller.reasons = ["worker-0 died twice"]
        first, again = send(path), send(path)
        alice.problem(first, 422, "deploy-failed")
        assert is_replay(again)
        assert again.content == first.content
        assert send.user.post(path, headers={"Idempotency-Key": "k-2"}).status_code == 200


class TestRefused:
    @pytest.mark.parametrize("key", ["", "x" * 256, "two words", "Gr\xf6\xdfe", "tab\there"])
    def test_keys(self, alice: User, key: str) -> None:
        response = alice.post(DATASETS, {"name": "a"}, headers={"Idempotency-Key": key.encode("latin-1")})
        assert "visible ASCII" in alice.faults(response)["/Idempotency-Key"]

    def test_the_longest_key(self, alice: User) -> None:
        assert Sender(alice, "x" * 255)(DATASETS, {"name": "a"}).status_code == 201

    def test_two_keys(self, alice: User) -> None:
        headers = [("X-API-Key", alice.key), ("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
        nobody = User(alice.http, alice.portal)
        sent = nobody.portal.start_task_soon(lambda: nobody.http.post(DATASETS, json={"name": "a"}, headers=headers))
        alice.faults(sent.result())

    def test_another_body(self, send: Sender, alice: User) -> None:
        send(DATASETS, {"name": "a"})
        assert "another body" in alice.faults(send(DATASETS, {"name": "b"}))["/Idempotency-Key"]
        assert is_replay(send(DATASETS, {"name": "a"}))

    def test_only_after_key_and_scope(self, headwater: Installation, send: Sender) -> None:
        send(DATASETS, {"name": "a"})
        assert Sender(headwater.nobody())(DATASETS, {"name": "a"}).status_code == 401
        assert Sender(headwater.user("alice", ("flow:read",)))(DATASETS, {"name": "a"}).status_code == 403


class TestNotRemembered:
    def test_what_breaks_a_rule(self, send: Sender, alice: User) -> None:
        assert send(DATASETS, {"name": ""}).status_code == 422
        assert send(DATASETS, content=b"{", headers={"content-type": "application/json"}).status_code == 400
        assert send(DATASETS, {"name": "a"}).status_code == 201

    def test_an_unavailable_dependency_is_not_stored(
        self, headwater: Installation, send: Sender, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(_: Dataset) -> None:
            raise DatabaseUnavailable("It is away.")

        with monkeypatch.context() as broken:
            broken.setattr(headwater.database.datasets, "create", away)
            assert send(DATASETS, {"name": "a"}).status_code == 503
        assert (response := send(DATASETS, {"name": "a"})).status_code == 201
        assert not is_replay(response)

    def test_an_internal_error_is_not_stored(
        self, headwater: Installation, send: Sender, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(_: Dataset) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr(headwater.database.datasets, "create", broken)
            assert send(DATASETS, {"name": "a"}).status_code == 500
        assert send(DATASETS, {"name": "a"}).status_code == 201

    def test_an_interrupted_body(self, send: Sender, alice: User) -> None:
        flow = alice.create()
        path = f"{FLOW}/{flow['id']}/transforms/{flow['pipeline_config']['transforms'][0]['uid']}/filter-values"

        json_type = {"content-type": "application/json"}
        assert send(path, content=b'{"values": ["a"', headers=json_type).status_code == 400
        assert send(path, content=b'{"values": ["a"]}', headers=json_type).json()["added"] == 1

    def test_a_database_outage_at_the_end_does_not_change_the_response(
        self, headwater: Installation, send: Sender, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object) -> None:
            raise DatabaseUnavailable("It is away.")

        monkeypatch.setattr(headwater.database.idempotency, "finish", away)
        assert send(DATASETS, {"name": "a"}).status_code == 201
        assert send(DATASETS, {"name": "a"}).status_code == 409


class TestRunning:
    def test_is_409_before_the_body_is_read(
        self, headwater: Installation, send: Sender, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        started, go_on = threading.Event(), threading.Event()
        create = headwater.database.datasets.create

        def slow(dataset: Dataset) -> None:
            started.set()
            go_on.wait()
            create(dataset)

        monkeypatch.setattr(headwater.database.datasets, "create", slow)
        headers = {"Idempotency-Key": "k-1"}
        first = send.user.start("POST", DATASETS, json={"name": "a"}, headers=headers)
        started.wait()
        json_type = headers | {"content-type": "application/json"}
        second = send.user.request("POST", DATASETS, content=Unread(), headers=json_type)
        assert "is in progress" in send.user.problem(second, 409, "conflict")["detail"]
        go_on.set()
        assert first.result().status_code == 201
        assert is_replay(send(DATASETS, {"name": "a"}))

    def test_a_request_that_ends_with_its_process_is_not_executed_again(
        self, headwater: Installation, send: Sender, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The thread of the request still runs after uvicorn has cancelled the task."""
        started, go_on = threading.Event(), threading.Event()

        def slow(_dataset: Dataset) -> None:
            started.set()
            go_on.wait()

        monkeypatch.setattr(headwater.database.datasets, "create", slow)
        headers = {"Idempotency-Key": "k-1", "X-API-Key": send.user.key}

        async def cancelled() -> httpx2.Response:
            request = send.user.http.request("POST", DATASETS, json={"name": "a"}, headers=headers)
            task = asyncio.ensure_future(request)
            await to_thread.run_sync(started.wait)
            task.cancel()
            return await task

        interrupted = send.user.portal.call(cancelled)
        send.user.problem(interrupted, 500, "interrupted")
        assert "is in progress" in send(DATASETS, {"name": "a"}).json()["detail"]
        go_on.set()

    def test_a_crashed_request_expires(self, headwater: Installation, send: Sender) -> None:
        calls = headwater.database.idempotency
        finish, calls.finish = calls.finish, lambda *_: None  # type: ignore[method-assign]
        assert send(DATASETS, {"name": "a"}).status_code == 201
        calls.finish = finish  # type: ignore[method-assign]
        assert "is in progress" in send(DATASETS, {"name": "b"}).json()["detail"]
        headwater.clock.forward(CLAIM_TTL.total_seconds())
        assert send(DATASETS, {"name": "b"}).status_code == 201

    def test_fifty_concurrent_requests_create_one_object(self, send: Sender, alice: User) -> None:
        headers = {"Idempotency-Key": "k-1"}
        sent = [alice.start("POST", FLOW, json=flow_body(), headers=headers) for _ in range(50)]
        outcomes = Counter((r.result().status_code, is_replay(r.result())) for r in sent)
        assert outcomes.pop((201, False)) == 1
        assert set(outcomes) <= {(201, True), (409, False)}
        assert len(alice.get(FLOW).json()) == 1


class TestStreamed:
    @pytest.fixture
    def path(self, alice: User) -> str:
        flow = alice.create()
        return f"{FLOW}/{flow['id']}/transforms/{flow['pipeline_config']['transforms'][0]['uid']}/filter-values"

    def test_replayed_without_effect(self, send: Sender, alice: User, path: str) -> None:
        body = {"values": [f"0x{number:040x}" for number in range(5000)]}
        first = send(path, body, "PUT")
        alice.request("PUT", path, json={"values": [TOKEN]})
        again = send(path, body, "PUT")
        assert is_replay(again)
        assert first.json() == again.json()
        assert alice.get(f"{path}/count").json()["count"] == 1

    def test_a_different_body_is_read_without_effect(self, send: Sender, alice: User, path: str) -> None:
        send(path, {"values": [TOKEN]})
        read = []

        async def other() -> AsyncIterator[bytes]:
            for part in (b'{"values": [', b'"0xaa"', b"]}"):
                read.append(part)
                yield part

        response = send(path, content=other(), headers={"content-type": "application/json"})
        assert "/Idempotency-Key" in alice.faults(response)
        assert len(read) == 3
        assert alice.get(f"{path}/count").json()["count"] == 1


class TestSecrets:
    def test_a_deploy_is_answered_from_the_deployment(self, headwater: Installation, send: Sender, alice: User) -> None:
        flow = alice.create()
        path = f"{FLOW}/{flow['id']}/deploy"
        first, again = send(path), send(path)
        assert (first.status_code, again.status_code) == (200, 200)
        assert is_replay(again)
        assert first.json() == again.json()
        assert first.json()["sinks"][0]["password"]
        remembered = json.dumps(str(headwater.database.idempotency.__dict__))
        assert first.json()["sinks"][0]["password"] not in remembered
        assert alice.key[21:] not in remembered

    def test_credentials_rotate_once(self, send: Sender, alice: User) -> None:
        flow = alice.create()
        path = f"{FLOW}/{flow['id']}/deploy"
        before = alice.post(path).json()
        first, again = send(f"{path}/credentials"), send(f"{path}/credentials")
        assert (first.status_code, is_replay(first), is_replay(again)) == (200, False, True)
        assert first.json() == again.json() == alice.get(path).json()
        assert first.json()["sinks"][0]["password"] != before["sinks"][0]["password"]

    def test_a_repeat_of_a_resume_has_the_gaps(self, headwater: Installation, send: Sender, alice: User) -> None:
        path = f"{FLOW}/{alice.create()['id']}"
        alice.post(f"{path}/deploy")
        alice.post(f"{path}/pause")
        headwater.controller.gaps = (OffsetGap(partition=3, start=5, end=9),)
        first = send(f"{path}/resume")
        alice.post(f"{path}/deploy/credentials")
        again = send(f"{path}/resume")
        assert (first.status_code, again.status_code, is_replay(again)) == (200, 200, True)
        assert first.json()["gaps"] == [{"partition": 3, "from": 5, "to": 9}]
        assert again.json() == alice.get(f"{path}/deploy").json() | {"gaps": first.json()["gaps"]}
        alice.post(f"{path}/pause")
        alice.post(f"{path}/resume")
        assert send(f"{path}/resume").json()["gaps"] == first.json()["gaps"]
        assert first.json()["sinks"][0]["password"] not in str(headwater.database.idempotency.__dict__)

    def test_a_repeat_of_a_deploy_after_its_teardown(self, send: Sender, alice: User) -> None:
        flow = alice.create()
        send(f"{FLOW}/{flow['id']}/deploy")
        alice.post(f"{FLOW}/{flow['id']}/teardown")
        assert send(f"{FLOW}/{flow['id']}/deploy").status_code == 404

    def test_no_route_stores_a_password(self, headwater: Installation) -> None:
        """Every route whose description shows a password regenerates its response."""
        description = headwater.nobody().get("/openapi.json").json()
        secret = [
            operation["operationId"]
            for path in description["paths"].values()
            for method, operation in path.items()
            if method in ("post", "put", "patch") and "DeploymentBody" in json.dumps(operation["responses"])
        ]
        schemas = {name for name, schema in description["components"]["schemas"].items() if "password" in str(schema)}
        assert schemas == {"SinkConnection"}
        users = {n for n, schema in description["components"]["schemas"].items() if "SinkConnection" in str(schema)}
        assert users - schemas == {"DeploymentBody", "ResumedDeployment", "RestoredDeployment"}
        assert "deployConfiguration" in secret

    def test_a_regenerated_response_needs_the_same_scope(self) -> None:
        """A replay is not checked against the rule of the route that regenerates the response."""
        routes = [r for r in ROUTES if isinstance(r, AuthenticatedRoute) and may_return_credentials(r)]
        assert len(routes) == 5
        assert {"flow:deploy" in (r.rule.key_scope, r.rule.scope_when_deployed) for r in routes} == {True}


def test_described_on_every_operation_that_takes_it(headwater: Installation) -> None:
    description = headwater.nobody().get("/openapi.json").json()
    for path in description["paths"].values():
        for method, operation in path.items():
            takes = any(p["name"] == "Idempotency-Key" for p in operation.get("parameters", []))
            assert takes == (method in ("post", "put", "patch") and "x-scope" in operation)
            assert not takes or {"409", "422"} <= set(operation["responses"])
