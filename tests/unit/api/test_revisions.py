"""Routes of the history of a configuration: list, read, compare, roll back."""

from datetime import timedelta
from threading import Event, Semaphore
from typing import Any

import pytest

from headwater.api.owner_limiter import MAX_CONCURRENT_DIFFS_PER_OWNER
from headwater.model.audit import AuditQuery
from headwater.model.key import DEFAULT_SCOPES
from headwater.model.stored_config import read_pipeline_config
from headwater.model.value_sets import filter_set_id
from headwater.services.revisions import Revisions
from headwater.stores import cleanup
from tests.support.sql import next_revision
from tests.unit.api.installation import FLOW, TOKEN, Installation, User, flow_body

SCRIPT = {"type": "v8", "script": "function process(record) {\n  return record;\n}"}
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}


class History:
    """A configuration with a filter in revision 1, and with another script in revision 2."""

    def __init__(self, headwater: Installation, user: User) -> None:
        self.headwater, self.user = headwater, user
        self.first = user.create(transforms=[FILTER | {"set_values": [TOKEN]}, SCRIPT])
        self.id: str = self.first["id"]
        self.path = f"{FLOW}/{self.id}"
        self.filter, self.script = self.first["pipeline_config"]["transforms"]
        self.second = self.put(name="second", transforms=[self.script | {"script": "function process() {}"}])

    def put(self, name: str, **pipeline: Any) -> dict[str, Any]:
        response = self.user.put(self.path, flow_body(**pipeline) | {"name": name})
        assert response.status_code == 200, response.text
        saved: dict[str, Any] = response.json()
        return saved

    def items(self, query: str = "") -> list[dict[str, Any]]:
        response = self.user.get(f"{self.path}/revisions{query}")
        assert response.status_code == 200, response.text
        items: list[dict[str, Any]] = response.json()["items"]
        return items

    def roll_back(self, revision: Any = 1, user: User | None = None, **options: Any) -> Any:
        return (user or self.user).post(f"{self.path}/rollback", {"revision": revision}, **options)

    def deploy(self) -> None:
        assert self.user.post(f"{self.path}/deploy").status_code == 200

    @property
    def newest(self) -> dict[str, Any]:
        newest: dict[str, Any] = self.user.get(self.path).json()
        return newest

    def sweep(self, days: float = 0) -> None:
        """Sweep, and drop the values of filters that were removed so many days ago."""
        database, now = self.headwater.database, self.headwater.clock()
        cleanup.remove_superseded(database.revisions, now, 100, now)
        if days:
            self.headwater.clock.forward(timedelta(days=days).total_seconds())
            cleanup.remove_expired_filters(database.revisions, self.headwater.sets, self.headwater.clock())

    @property
    def values(self) -> int:
        return self.headwater.sets.count(filter_set_id(self.id, self.filter["uid"])).size


@pytest.fixture
def history(headwater: Installation, alice: User) -> History:
    return History(headwater, alice)


class TestList:
    def test_newest_first(self, headwater: Installation, history: History) -> None:
        history.deploy()
        [second, first] = history.items()
        [key_id] = [key.id for key in headwater.database.keys.list()]
        assert second.pop("deployed_at").endswith("Z")
        assert second == {
            "revision": 2,
            "saved_at": history.second["updated_at"],
            "saved_by": key_id,
            "changed": ["name", "transforms"],
            "condition": "Stable",
        }
        assert first == {
            "revision": 1,
            "saved_at": history.first["created_at"],
            "saved_by": key_id,
            "changed": [],
            "deployed_at": None,
            "condition": None,
        }

    def test_pages(self, history: History) -> None:
        history.put("third")
        seen, query = [], "?limit=2"
        while query:
            page = history.user.get(f"{history.path}/revisions{query}").json()
            seen.append([item["revision"] for item in page["items"]])
            query = f"?limit=2&cursor={page['cursor']}" if page["cursor"] else ""
        assert seen == [[3, 2], [1]]
        assert len(history.items("?cursor=null")) == len(history.items("?cursor=")) == 3

    @pytest.mark.parametrize(
        ("query", "pointer"),
        [
            ("limit=0", "/limit"),
            ("limit=1001", "/limit"),
            ("limit=1_0", "/limit"),
            ("cursor=x", "/cursor"),
            ("cursor=0", "/cursor"),
            ("cursor=99999999999999999999", "/cursor"),
            ("cursor=2147483648", "/cursor"),
            ("cursor=01", "/cursor"),
            pytest.param(f"cursor=00000000001{'1' * 4_300}", "/cursor", id="a cursor that int() refuses"),
            ("page=1", "/page"),
        ],
    )
    def test_refused(self, history: History, query: str, pointer: str) -> None:
        assert list(history.user.faults(history.user.get(f"{history.path}/revisions?{query}"))) == [pointer]


class TestRead:
    def test_returns_the_configuration_as_it_was(self, history: History) -> None:
        assert history.user.get(f"{history.path}/revisions/1").json() == history.first
        assert history.user.get(f"{history.path}/revisions/2").json() == history.second
        history.put("third")
        assert history.user.get(f"{history.path}/revisions/2").json() == history.second

    @pytest.mark.parametrize("path", ["revisions/3", "revisions/3/diff", "revisions/2/diff?against=3"])
    def test_unknown_revisions(self, history: History, path: str) -> None:
        problem = history.user.problem(history.user.get(f"{history.path}/{path}"), 404, "not-found")
        assert "Revision 3 is not stored" in problem["detail"]

    @pytest.mark.parametrize("path", ["revisions", "revisions/1", "revisions/1/diff"])
    def test_configurations_of_others(self, headwater: Installation, history: History, path: str) -> None:
        bob = headwater.user("bob")
        bob.problem(bob.get(f"{history.path}/{path}"), 404, "not-found")

    @pytest.mark.parametrize("number", ["0", "-1", "x", "1_0", "2147483648", "9" * 30])
    def test_refused(self, history: History, number: str) -> None:
        assert list(history.user.faults(history.user.get(f"{history.path}/revisions/{number}"))) == ["/revision"]
        query = f"{history.path}/revisions/1/diff?against={number}"
        assert list(history.user.faults(history.user.get(query))) == ["/against"]


class TestDiff:
    def diff(self, history: History, path: str) -> Any:
        response = history.user.get(f"{history.path}/revisions/{path}")
        assert response.status_code == 200, response.text
        return response.json()

    def test_against_the_revision_before(self, history: History) -> None:
        found = self.diff(history, "2/diff")
        assert '-  "name": "Transfers",\n+  "name": "second",' in found["diff"]
        assert list(found["scripts"]) == [history.script["uid"]]
        assert "-function process(record) {" in found["scripts"][history.script["uid"]]
        assert "+function process() {}" in found["scripts"][history.script["uid"]]

    def test_against_a_later_one(self, history: History) -> None:
        found = self.diff(history, "1/diff?against=2")
        assert '-  "name": "second",\n+  "name": "Transfers",' in found["diff"]

    def test_against_itself(self, history: History) -> None:
        assert self.diff(history, "1/diff?against=1") == {"diff": "", "scripts": {}}

    def test_the_first_one(self, history: History) -> None:
        assert self.diff(history, "1/diff")["diff"].startswith("--- nothing\n+++ revision 1\n")

    def test_values_are_never_shown(self, history: History) -> None:
        assert TOKEN not in str(self.diff(history, "1/diff"))

    def test_comparisons_of_one_owner_do_not_delay_others(
        self, history: History, bob: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, may_go_on = Semaphore(0), Event()
        compare = Revisions.diff

        def stalled(*args: Any) -> Any:
            begun.release()
            may_go_on.wait()
            return compare(*args)

        monkeypatch.setattr(Revisions, "diff", stalled)
        sent = [history.user.start("GET", f"{history.path}/revisions/2/diff") for _ in range(45)]
        for _ in range(MAX_CONCURRENT_DIFFS_PER_OWNER):
            begun.acquire()
        assert bob.get(FLOW).status_code == 200
        is_limited = not begun.acquire(blocking=False)
        may_go_on.set()
        assert {answer.result().status_code for answer in sent} == {200}
        assert is_limited


class TestRollback:
    def test_saves_the_revision_as_the_newest(self, history: History) -> None:
        response = history.roll_back()
        assert response.status_code == 200
        assert response.headers["etag"] == '"3"'
        saved = response.json()
        assert saved == history.newest
        own = ("name", "description", "tags", "pipeline_config", "created_at")
        assert [saved[name] for name in own] == [history.first[name] for name in own]
        assert history.items()[0]["changed"] == ["name", "transforms"]

    def test_the_newest_revision_is_not_saved_again(self, history: History) -> None:
        newest = history.newest["revision"]
        response = history.user.post(f"{history.path}/rollback", {"revision": newest})
        assert (response.status_code, response.json()["revision"]) == (200, newest)
        assert history.newest["revision"] == newest

    def test_the_newest_revision_runs_already(self, history: History) -> None:
        history.deploy()
        newest = history.newest["revision"]
        response = history.user.post(f"{history.path}/rollback", {"revision": newest})
        assert f"revision {newest}" in history.user.problem(response, 409, "conflict")["detail"]
        assert history.newest["revision"] == newest

    def test_deploys_when_deployed(self, history: History) -> None:
        history.deploy()
        response = history.roll_back()
        assert response.status_code == 200
        assert "etag" not in response.headers
        assert response.json() == history.user.get(f"{history.path}/deploy").json()
        assert response.json()["revision"] == 3
        assert "password" in response.json()["sinks"][0]

    def test_during_a_teardown_is_only_saved(self, headwater: Installation, history: History) -> None:
        history.deploy()
        headwater.database.deployments.request_teardown(history.id)
        headwater.controller.asleep = True
        assert history.roll_back().json()["revision"] == 3

    def test_a_failed_rollout_says_that_the_save_stays(self, headwater: Installation, history: History) -> None:
        history.deploy()
        headwater.controller.reasons = ["worker-0 died twice"]
        problem = history.user.problem(history.roll_back(), 422, "deploy-failed")
        assert "Revision 3 is saved but does not run: worker-0 died twice" in problem["detail"]
        assert history.newest["revision"] == 3

    def test_filters_come_back_with_their_values(self, history: History) -> None:
        history.sweep()
        assert "warnings" not in history.roll_back().json()
        assert history.values == 1
        path = f"{history.path}/transforms/{history.filter['uid']}/filter-values/check?value={TOKEN}"
        assert history.user.get(path).json()["is_member"]
        history.sweep(days=8)
        assert history.values == 1

    @pytest.mark.parametrize("deployed", [False, True])
    def test_filters_whose_values_are_gone_are_empty(self, history: History, deployed: bool) -> None:
        if deployed:
            history.deploy()
        history.sweep(days=8)
        assert history.values == 0
        first, again = (history.roll_back(headers={"Idempotency-Key": "k-1"}).json() for _ in range(2))
        assert first == again
        [warning] = first["warnings"]
        assert warning["pointer"] == "/pipeline_config/transforms/0"
        assert "It is empty" in warning["detail"]
        assert history.filter["uid"] in warning["detail"]
        history.put("third", transforms=[])
        history.sweep()
        assert "warnings" not in history.roll_back().json()

    def test_while_values_are_being_removed(self, headwater: Installation, history: History) -> None:
        history.sweep()
        headwater.database.revisions.begin_drop(headwater.clock() + timedelta(days=1))
        history.user.problem(history.roll_back(), 503, "values-being-removed")
        assert history.newest["revision"] == 2

    def test_if_match(self, history: History) -> None:
        stale = history.roll_back(headers={"If-Match": '"1"'})
        history.user.problem(stale, 412, "precondition-failed")
        assert history.roll_back(headers={"If-Match": '"2"'}).status_code == 200

    def test_unknown(self, headwater: Installation, history: History) -> None:
        history.user.problem(history.roll_back(3), 404, "not-found")
        bob = headwater.user("bob")
        bob.problem(history.roll_back(user=bob), 404, "not-found")

    @pytest.mark.parametrize("revision", [0, -1, "1", 1.5, None, True, 2**31, 10**30])
    def test_refused(self, history: History, revision: Any) -> None:
        assert list(history.user.faults(history.roll_back(revision))) == ["/revision"]

    def test_the_checks_of_a_save_apply(self, headwater: Installation, history: History) -> None:
        flow = headwater.database.flows.get("alice", history.id)
        script = flow.pipeline_config.transforms[0].model_copy(update={"script": "syntax error"})
        broken = flow.pipeline_config.model_copy(update={"transforms": [script]})
        headwater.database.flows.save(next_revision(flow, pipeline_config=broken))
        history.put("fourth")
        faults = history.user.faults(history.roll_back(3))
        assert list(faults) == ["/pipeline_config/transforms/0/script"]
        assert history.newest["revision"] == 4

    def test_an_unreadable_revision(self, headwater: Installation, history: History) -> None:
        flow = headwater.database.flows.get("alice", history.id)
        headwater.database.flows.save(next_revision(flow, pipeline_config=read_pipeline_config("{}")))
        problem = history.user.problem(history.roll_back(3), 409, "unreadable")
        assert "can't read this revision" in problem["detail"]
        assert history.user.get(f"{history.path}/revisions/3").json()["unreadable"]
        assert history.roll_back(1).json()["revision"] == 4, "a rollback repairs an unreadable configuration"

    def test_quotas_apply(self, headwater: Installation, history: History) -> None:
        headwater.database.quotas.set_limits("alice", {"script_bytes": 40}, [])
        history.user.problem(history.roll_back(), 403, "quota")

    def test_external_ids(self, history: History) -> None:
        history.user.put(history.path, flow_body() | {"external_id": "x"})
        assert history.roll_back(1).json()["external_id"] == "x"
        history.user.put(history.path, flow_body() | {"external_id": "y"})
        assert history.roll_back(3).json()["external_id"] == "x"
        history.user.put(history.path, flow_body() | {"external_id": "z"})
        history.user.post(FLOW, flow_body() | {"external_id": "x"})
        history.user.problem(history.roll_back(3), 409, "conflict")


class TestScopes:
    def without(self, headwater: Installation, *scopes: str) -> User:
        return headwater.user("alice", tuple(scope for scope in DEFAULT_SCOPES if scope not in scopes))

    def test_write_alone_is_enough_while_not_deployed(self, headwater: Installation, history: History) -> None:
        assert history.roll_back(user=self.without(headwater, "flow:deploy")).status_code == 200

    def test_deploy_is_needed_while_deployed(self, headwater: Installation, history: History) -> None:
        history.deploy()
        user = self.without(headwater, "flow:deploy")
        assert "flow:deploy" in user.problem(history.roll_back(user=user), 403, "forbidden")["detail"]
        assert history.newest["revision"] == 2

    def test_read_is_not_enough(self, headwater: Installation, history: History) -> None:
        user = self.without(headwater, "flow:write")
        user.problem(history.roll_back(user=user), 403, "forbidden")
        assert user.get(f"{history.path}/revisions").status_code == 200

    def test_a_prices_sink_needs_its_scope(self, headwater: Installation, history: History) -> None:
        writer = headwater.user("alice", (*DEFAULT_SCOPES, "prices:write"))
        prices = flow_body(sinks=[{"type": "prices", "name": "prices"}])
        assert writer.put(history.path, prices).status_code == 200
        history.put("fourth")
        problem = history.user.problem(history.roll_back(3), 403, "forbidden")
        assert "prices:write" in problem["detail"]
        assert history.roll_back(3, user=writer).status_code == 200


class TestIdempotencyKey:
    KEY = {"Idempotency-Key": "k-1"}

    def test_a_repeat_saves_once(self, history: History) -> None:
        first, again = (history.roll_back(headers=self.KEY) for _ in range(2))
        assert first.json() == again.json()
        assert (again.headers["etag"], again.headers["idempotency-replayed"]) == ('"3"', "true")
        assert history.newest["revision"] == 3

    def test_passwords_are_not_stored(self, history: History) -> None:
        history.deploy()
        first, again = (history.roll_back(headers=self.KEY) for _ in range(2))
        assert first.json() == again.json()
        history.user.post(f"{history.path}/deploy/credentials")
        rotated = history.roll_back(headers=self.KEY).json()
        assert rotated["sinks"][0]["password"] != first.json()["sinks"][0]["password"]
        assert history.newest["revision"] == 3


def test_a_rollback_is_recorded_in_the_audit_log(headwater: Installation, history: History) -> None:
    history.deploy()
    history.roll_back()
    actions = [entry.change.action for entry in headwater.database.audit.read(AuditQuery(limit=2))]
    assert actions == ["flow.deploy", "flow.rollback"]
