"""Changes of the transforms: PATCH …/transforms/{transform_uid} and PUT …/transforms."""

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.errors import StoredDataUnreadable
from headwater.model.transforms import MAX_TRANSFORMS
from headwater.model.value_sets import filter_set_id
from tests.unit.api.installation import FLOW, TOKEN, Installation, Unread, User, installation

V8 = {"type": "v8", "script": "function process(record) { return record; }"}
OTHER = {"type": "v8", "script": "function process(record) { return null; }"}
THROWS = {"type": "v8", "script": "function process() { throws }"}
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.to_address"}


class TransformsClient:
    """A configuration with a filter and a script, and the requests that change it."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.flow = user.create()
        self.id: str = self.flow["id"]
        self.path = f"{FLOW}/{self.id}"
        self.filter, self.script = self.flow["pipeline_config"]["transforms"]

    def patch(self, transform: Any, uid: str | None = None, **options: Any) -> Any:
        return self.user.request(
            "PATCH", f"{self.path}/transforms/{uid or self.script['uid']}", json=transform, **options
        )

    def put(self, transforms: Any, **options: Any) -> Any:
        return self.user.request("PUT", f"{self.path}/transforms", json=transforms, **options)

    @property
    def saved(self) -> list[dict[str, Any]]:
        transforms: list[dict[str, Any]] = self.user.get(self.path).json()["pipeline_config"]["transforms"]
        return transforms

    @property
    def revision(self) -> int:
        revision: int = self.user.get(self.path).json()["revision"]
        return revision

    def deploy(self) -> dict[str, Any]:
        response = self.user.post(f"{self.path}/deploy")
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    @property
    def deployment(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.user.get(f"{self.path}/deploy").json()
        return answer


@pytest.fixture
def client(alice: User) -> TransformsClient:
    return TransformsClient(alice)


class TestPatch:
    def test_changes_one_and_keeps_its_uid(self, client: TransformsClient) -> None:
        response = client.patch(OTHER)
        assert response.status_code == 200
        assert response.headers["etag"] == '"2"'
        changed = OTHER | {"uid": client.script["uid"]}
        assert response.json() == changed
        assert client.saved == [client.filter, changed]

    def test_responses_can_be_sent_back(self, client: TransformsClient) -> None:
        assert client.patch(client.script).json() == client.script
        assert client.patch(client.script | {"warnings": [{"pointer": "", "detail": ""}]}).status_code == 200
        assert client.patch(client.filter, client.filter["uid"]).json() == client.filter

    def test_a_filter_keeps_its_values(self, headwater: Installation, client: TransformsClient) -> None:
        uid = client.filter["uid"]
        client.user.post(f"{client.path}/transforms/{uid}/filter-values", {"values": [TOKEN]})
        assert client.patch(FILTER, uid).json()["filter_expr"] == "root = this.to_address"
        assert headwater.sets.count(filter_set_id(client.id, uid)).size == 1

    @pytest.mark.parametrize(
        ("body", "pointer", "says"),
        [
            (FILTER, "/type", "is v8 for this uid"),
            (V8 | {"script": "syntax error"}, "/script", "in line 2, column 7"),
            (V8 | {"uid": "other"}, "/uid", "differs from the uid in the path"),
            (V8 | {"set_values": ["a"]}, "/set_values", "not a member"),
            (V8 | {"v8": 1}, "/v8", "not a member"),
            ({"type": "v8"}, "/script", "is required"),
            ({"type": "wasm"}, "/type", 'must be "v8" or "redis_set_filter"'),
            ({}, "/type", "is required"),
            ([], "", "object"),
            ("v8", "", "object"),
        ],
    )
    def test_refused(self, client: TransformsClient, body: Any, pointer: str, says: str) -> None:
        faults = client.user.faults(client.patch(body))
        assert list(faults) == [pointer]
        assert says in faults[pointer]
        assert client.revision == 1

    @pytest.mark.parametrize(
        ("body", "pointer", "says"),
        [
            (FILTER | {"filter_expr": "root = x()"}, "/filter_expr", "column 8: There is no function x()"),
            (V8, "/type", "is redis_set_filter for this uid"),
        ],
    )
    def test_filter_refused(self, client: TransformsClient, body: Any, pointer: str, says: str) -> None:
        faults = client.user.faults(client.patch(body, client.filter["uid"]))
        assert list(faults) == [pointer]
        assert says in faults[pointer]

    def test_unknown(self, client: TransformsClient) -> None:
        client.user.problem(client.patch(V8, "nothing"), 404, "not-found")

    def test_a_script_error_is_a_warning(self, client: TransformsClient) -> None:
        assert client.patch(THROWS).json()["warnings"] == [
            {"pointer": "/script", "detail": "TypeError: x is undefined"}
        ]

    def test_concurrent_changes_of_different_transforms(self, client: TransformsClient) -> None:
        client.put([V8] * 8)
        uids = [transform["uid"] for transform in client.saved]
        scripts = [V8 | {"script": f"function process() {{ return {i}; }}"} for i in range(8)]
        where = f"{client.path}/transforms"
        sent = [
            client.user.start("PATCH", f"{where}/{uid}", json=script) for uid, script in zip(uids, scripts, strict=True)
        ]
        assert {response.result().status_code for response in sent} == {200}
        assert client.saved == [script | {"uid": uid} for uid, script in zip(uids, scripts, strict=True)]
        assert client.revision == 10


class TestPut:
    def test_adds_removes_updates_and_reorders(self, headwater: Installation, client: TransformsClient) -> None:
        client.put([client.filter, client.script, V8, FILTER])
        filter_, script, removed, second = client.saved
        client.user.post(f"{client.path}/transforms/{second['uid']}/filter-values", {"values": [TOKEN]})
        new = FILTER | {"set_values": ["A", "b"]}
        response = client.put([second, OTHER | {"uid": script["uid"]}, new])
        assert response.status_code == 200
        assert response.headers["etag"] == '"3"'
        assert "set_values" not in response.text
        answer = response.json()
        assert [transform.pop("warnings", None) is None for transform in answer] == [True, True, False]
        assert client.saved == answer
        assert answer[:2] == [second, OTHER | {"uid": script["uid"]}]
        assert answer[2]["uid"] not in {t["uid"] for t in (filter_, script, removed, second)}
        assert headwater.sets.count(filter_set_id(client.id, second["uid"])).size == 1
        assert headwater.sets.contains_many(filter_set_id(client.id, answer[2]["uid"]), ["a", "b"]) == [True, True]

    def test_without_a_uid_all_are_new(self, client: TransformsClient) -> None:
        answer = client.put([FILTER, V8]).json()
        assert not {t["uid"] for t in answer} & {client.filter["uid"], client.script["uid"]}

    def test_the_response_can_be_put(self, client: TransformsClient) -> None:
        answer = client.put([FILTER, THROWS]).json()
        assert [w["pointer"] for w in answer[1]["warnings"]] == ["/1/script"]
        again = client.put(answer).json()
        assert [t["uid"] for t in again] == [t["uid"] for t in answer]

    @pytest.mark.parametrize(
        ("body", "pointer", "says"),
        [
            ([], "", "at least 1 item"),
            ([V8] * (MAX_TRANSFORMS + 1), "", "at most 50 items"),
            ([V8, V8 | {"script": "syntax error"}], "/1/script", "in line 2, column 7"),
            ([V8, V8 | {"uid": "nothing"}], "/1/uid", "not the uid of a transform of this configuration"),
            ([FILTER | {"set_values": ["a", ""]}], "/0/set_values/1", "1 to 1024 characters"),
            ([FILTER | {"filter_expr": "root ="}], "/0/filter_expr", "column"),
            ([V8, {"type": "v8"}], "/1/script", "is required"),
            ([{}], "/0/type", "is required"),
            (["v8"], "/0", "object"),
            ({}, "", "list"),
            (None, "", "null"),
        ],
    )
    def test_refused(self, client: TransformsClient, body: Any, pointer: str, says: str) -> None:
        response = (
            client.put(None, content="null", headers={"Content-Type": "application/json"})
            if body is None
            else client.put(body)
        )
        faults = client.user.faults(response)
        assert list(faults) == [pointer]
        assert says in faults[pointer]
        assert client.revision == 1

    def test_invalid_uids(self, client: TransformsClient) -> None:
        for body, pointer in (
            ([client.script, client.script], "/1/uid"),
            ([V8 | {"uid": client.filter["uid"]}], "/0/type"),
            ([client.filter | {"name": "a"}, V8 | {"name": "a"}], "/1/name"),
        ):
            assert list(client.user.faults(client.put(body))) == [pointer]


@pytest.mark.parametrize("verb", ["PATCH", "PUT"])
class TestDeployed:
    def send(self, client: TransformsClient, verb: str, transform: dict[str, Any] = OTHER) -> Any:
        return client.patch(transform) if verb == "PATCH" else client.put([transform])

    def test_answers_when_the_change_runs(self, client: TransformsClient, verb: str) -> None:
        before = client.deploy()
        assert self.send(client, verb).status_code == 200
        after = client.deployment
        assert (after["revision"], after["condition"]) == (2, "Stable")
        assert after["sinks"] == before["sinks"]

    def test_all_saved_changes_are_deployed(self, client: TransformsClient, verb: str) -> None:
        client.deploy()
        body = client.flow | {"pipeline_config": client.flow["pipeline_config"] | {"parallelism": 3}}
        client.user.request("PUT", client.path, json=body)
        self.send(client, verb)
        assert client.deployment["workers"] == 3

    def test_undeployed_is_only_saved(self, client: TransformsClient, verb: str) -> None:
        assert self.send(client, verb).status_code == 200
        assert client.user.get(f"{client.path}/deploy").status_code == 404

    def test_needs_the_scope_to_deploy_before_the_body_is_looked_at(
        self, headwater: Installation, client: TransformsClient, verb: str
    ) -> None:
        writer = headwater.user("alice", ["flow:write", "flow:read"])
        path = f"{client.path}/transforms" + (f"/{client.script['uid']}" if verb == "PATCH" else "")
        assert writer.request(verb, path, json=OTHER if verb == "PATCH" else [OTHER]).status_code == 200
        client.deploy()
        options = {"content": Unread(), "headers": {"Content-Type": "application/json"}}
        path = path if verb == "PUT" else f"{client.path}/transforms/{client.saved[0]['uid']}"
        body = writer.problem(writer.request(verb, path, **options), 403, "forbidden")
        assert "flow:deploy" in body["detail"]
        assert client.revision == 2

    def test_a_failed_rollout_says_that_the_save_stays(
        self, headwater: Installation, client: TransformsClient, verb: str
    ) -> None:
        client.deploy()
        headwater.controller.reasons = ["w-0: ran out of memory"]
        headwater.controller.rolls_back_to = 1
        body = client.user.problem(self.send(client, verb), 422, "deploy-failed")
        assert body["detail"] == "Revision 2 is saved but does not run: w-0: ran out of memory"
        assert client.revision == 2
        assert client.deployment["revision"] == 1

    def test_an_exceeded_quota_says_that_the_save_stays(
        self, headwater: Installation, client: TransformsClient, verb: str
    ) -> None:
        client.deploy()
        body = client.flow | {"pipeline_config": client.flow["pipeline_config"] | {"parallelism": 3}}
        client.user.request("PUT", client.path, json=body)
        headwater.database.quotas.set_limits("alice", {"workers": 2}, [])
        problem = client.user.problem(self.send(client, verb), 403, "quota")
        assert problem["detail"].startswith("Revision 3 is saved but does not run: You have 1 of 2 workers")
        assert (client.revision, client.deployment["revision"]) == (3, 1)

    def test_an_unreadable_configuration_says_that_the_save_stays(
        self, headwater: Installation, client: TransformsClient, verb: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def request_redeploy(*_: object) -> None:
            raise StoredDataUnreadable("Another version has saved the configuration.")

        client.deploy()
        monkeypatch.setattr(headwater.controller, "request_redeploy", request_redeploy)
        problem = client.user.problem(self.send(client, verb), 409, "unreadable")
        assert problem["detail"] == (
            "Revision 2 is saved but does not run: Another version has saved the configuration."
        )

    def test_during_a_teardown_is_only_saved(
        self, headwater: Installation, client: TransformsClient, verb: str
    ) -> None:
        client.deploy()
        headwater.controller.asleep = True
        headwater.database.deployments.request_teardown(client.id)
        assert self.send(client, verb).status_code == 200
        assert client.revision == 2


@pytest.fixture
def impatient() -> Iterator[Installation]:
    with installation(deploy_timeout_s=0.1) as found:
        yield found


def test_a_rollout_in_progress(impatient: Installation) -> None:
    client = TransformsClient(impatient.user("alice"))
    client.deploy()
    impatient.controller.asleep = True
    body = client.user.problem(client.patch(OTHER), 503, "deploy-pending")
    assert body["detail"].startswith("Revision 2 is saved but does not run yet: ")
    assert client.revision == 2
