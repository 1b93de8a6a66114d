"""Which versions the workers have read: …/filter-values/applied and …/entries/applied."""

import threading
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from headwater.api.applied_watcher import MAX_WAITS_PER_OWNER
from headwater.errors import RedisUnavailable
from headwater.model.deployment import ObservedWorker, ObservedWorkerStatus
from headwater.model.value_sets import SetId, SetVersion, dataset_set_id, filter_set_id
from tests.unit.api.installation import FLOW, Installation, User


class Scene:
    """A configuration with a filter, and a dataset."""

    def __init__(self, headwater: Installation, user: User) -> None:
        self.headwater, self.user = headwater, user
        self.flow = user.create()
        self.uid = self.flow["pipeline_config"]["transforms"][0]["uid"]
        self.filter = f"{FLOW}/{self.flow['id']}/transforms/{self.uid}/filter-values"
        self.filter_set = filter_set_id(self.flow["id"], self.uid)
        dataset = user.post(f"{FLOW}/datasets", {"name": "watched"}).json()
        self.entries = f"{FLOW}/datasets/{dataset['id']}/entries"
        self.dataset_set = dataset_set_id(dataset["id"])

    def deploy(self) -> None:
        assert self.user.post(f"{FLOW}/{self.flow['id']}/deploy").status_code == 200

    def report(self, *set_ids: SetId, versions: dict[str, SetVersion] | None = None) -> None:
        """Report one worker that has read the present versions of these sets."""
        deployment = self.headwater.database.deployments.active(self.flow["id"])
        assert deployment is not None
        present = dict(zip((s.name for s in set_ids), self.headwater.sets.versions(set_ids), strict=True))
        status = ObservedWorker(
            name="w0",
            status=ObservedWorkerStatus.RUNNING,
            is_ready=True,
            start_time=datetime(2026, 1, 2, tzinfo=UTC),
            set_versions=present if versions is None else versions,
        )
        self.headwater.database.deployments.report_workers({deployment.id: [status]})

    def applied(self, path: str = "", **query: Any) -> dict[str, Any]:
        response = self.user.get(f"{path or self.filter}/applied", params=query)
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body


@pytest.fixture
def scene(headwater: Installation, alice: User) -> Scene:
    return Scene(headwater, alice)


class TestFilters:
    def test_true_after_every_worker_has_read_the_version(self, scene: Scene) -> None:
        scene.deploy()
        version = scene.user.post(scene.filter, {"values": ["0xa"]}).json()["version"]
        scene.report(versions={scene.filter_set.name: SetVersion(0, "")})
        assert scene.applied(version=version) == {
            "version": version,
            "applied": False,
            "workers": [{"name": "w0", "version": 0}],
        }
        scene.report(scene.filter_set)
        assert scene.applied(version=version) == {
            "version": version,
            "applied": True,
            "workers": [{"name": "w0", "version": version}],
        }

    def test_by_default_the_present_version(self, scene: Scene) -> None:
        scene.deploy()
        scene.report(scene.filter_set)
        assert scene.applied() == {"version": 0, "applied": True, "workers": [{"name": "w0", "version": 0}]}
        scene.user.post(scene.filter, {"values": ["0xa"]})
        assert (scene.applied()["version"], scene.applied()["applied"]) == (1, False)

    def test_the_answer_comes_as_soon_as_the_version_is_applied(self, scene: Scene) -> None:
        scene.deploy()
        version = scene.user.post(scene.filter, {"values": ["0xa"]}).json()["version"]
        waiting = scene.user.start("GET", f"{scene.filter}/applied", params={"version": version, "wait": 30})
        others = [scene.user.start("GET", f"{scene.filter}/applied", params={"wait": 30}) for _ in range(20)]
        assert not scene.applied(version=version)["applied"]
        scene.report(scene.filter_set)
        assert waiting.result().json()["applied"]
        assert all(other.result().json()["applied"] for other in others)

    def test_a_version_that_does_not_exist_is_not_applied(self, scene: Scene) -> None:
        scene.deploy()
        scene.report(scene.filter_set)
        assert not scene.applied(version=9, wait=1)["applied"]

    def test_without_a_deployment(self, scene: Scene) -> None:
        body = scene.user.problem(scene.user.get(f"{scene.filter}/applied"), 404, "not-found")
        assert "not deployed" in body["detail"]

    def test_a_teardown_ends_the_wait(self, scene: Scene) -> None:
        scene.deploy()
        waiting = scene.user.start("GET", f"{scene.filter}/applied", params={"version": 9, "wait": 30})
        scene.applied()
        assert scene.user.post(f"{FLOW}/{scene.flow['id']}/teardown").status_code == 200
        scene.user.problem(waiting.result(), 404, "not-found")

    def test_a_transform_that_is_no_filter(self, headwater: Installation, alice: User) -> None:
        flow = alice.create(transforms=[{"type": "v8", "script": "function process(r) { return r; }"}])
        uid = flow["pipeline_config"]["transforms"][0]["uid"]
        path = f"{FLOW}/{flow['id']}/transforms/{uid}/filter-values/applied"
        alice.problem(alice.get(path), 409, "conflict")

    def test_another_owners_filter(self, scene: Scene, bob: User) -> None:
        scene.deploy()
        bob.problem(bob.get(f"{scene.filter}/applied"), 404, "not-found")

    def test_needs_the_scope_to_read(self, scene: Scene, headwater: Installation) -> None:
        writer = headwater.user("alice", ["sets:write"])
        for path in (scene.filter, scene.entries):
            writer.problem(writer.get(f"{path}/applied"), 403, "forbidden")

    @pytest.mark.parametrize(
        ("query", "parameter"),
        [
            ({"version": "-1"}, "/version"),
            ({"version": "x"}, "/version"),
            ({"version": 2**53}, "/version"),
            ({"wait": -1}, "/wait"),
            ({"wait": 31}, "/wait"),
            ({"wait": "1.5"}, "/wait"),
            ({"waits": 1}, "/waits"),
        ],
    )
    def test_invalid_parameters(self, scene: Scene, query: dict[str, Any], parameter: str) -> None:
        for path in (scene.filter, scene.entries):
            assert set(scene.user.faults(scene.user.get(f"{path}/applied", params=query))) == {parameter}

    def test_while_the_store_is_unavailable(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(*_: object) -> None:
            raise RedisUnavailable("Valkey or Redis does not answer.")

        scene.deploy()
        monkeypatch.setattr(scene.headwater.sets, "histories", away)
        response = scene.user.get(f"{scene.filter}/applied", params={"version": 1, "wait": 30})
        scene.user.problem(response, 503, "set-store-unavailable")


class TestDatasets:
    def test_writes_return_the_version(self, scene: Scene) -> None:
        by_name = {"name": "watched", "values": ["b"]}
        responses = [
            scene.user.post(scene.entries, {"values": ["a"]}),
            scene.user.post(f"{FLOW}/datasets/entries", by_name),
            scene.user.delete(scene.entries, {"values": ["a"]}),
        ]
        assert [response.json() for response in responses] == [{"count": 1, "version": n} for n in (1, 2, 3)]

    def test_without_pipelines(self, scene: Scene) -> None:
        scene.user.post(scene.entries, {"values": ["a"]})
        assert scene.applied(scene.entries, version=1) == {"version": 1, "applied": True, "workers": []}
        assert not scene.applied(scene.entries, version=2)["applied"]

    def test_the_workers_that_use_it(self, scene: Scene) -> None:
        scene.deploy()
        scene.report(scene.filter_set)
        version = scene.user.post(scene.entries, {"values": ["a"]}).json()["version"]
        assert scene.applied(scene.entries) == {"version": version, "applied": True, "workers": []}
        scene.report(versions={scene.dataset_set.name: SetVersion(0, "")})
        waiting = scene.user.start("GET", f"{scene.entries}/applied", params={"version": version, "wait": 30})
        assert not scene.applied(scene.entries)["applied"]
        scene.report(scene.dataset_set)
        assert waiting.result().json() == {
            "version": version,
            "applied": True,
            "workers": [{"name": "w0", "version": version}],
        }

    def test_another_owners_dataset(self, scene: Scene, bob: User) -> None:
        bob.problem(bob.get(f"{scene.entries}/applied"), 404, "not-found")


def test_many_waiting_requests_hold_no_thread(scene: Scene) -> None:
    scene.deploy()
    before = threading.active_count()
    path, query = f"{scene.filter}/applied", {"version": 1, "wait": 30}
    waiting: list[Any] = [scene.user.start("GET", path, params=query) for _ in range(MAX_WAITS_PER_OWNER - 1)]
    assert not scene.applied()["applied"]
    assert threading.active_count() < before + 60
    scene.user.post(scene.filter, {"values": ["0xa"]})
    scene.report(scene.filter_set)
    responses: list[httpx2.Response] = [request.result() for request in waiting]
    assert all(response.json()["applied"] for response in responses)
