"""Redrives run one after the other beside their pipeline, and end with it."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from headwater.controller import redrives
from headwater.controller.redrives import RedrivePlan, plan_redrives
from headwater.errors import Conflict
from headwater.model.dead_letter import LetterId
from headwater.model.deployment import Deployment, DesiredPhase, Phase
from headwater.model.metric import MetricsDelta, PartitionCounts
from headwater.model.redrive import (
    LetterRange,
    OpenRedrive,
    Redrive,
    RedriveCounts,
    RedriveProgress,
    RedriveSelection,
    redrive_worker_set_id,
)
from headwater.model.worker_spec import WorkerSpec
from tests.unit.controller.world import FLOW, NOW, World, deployment

DLQ = f"flow.{FLOW}.dlq"
SELECTION = RedriveSelection(ranges={0: LetterRange(0, 9)})


def redrive(number: int) -> OpenRedrive:
    return OpenRedrive(f"r{number}", FLOW, "d", number, datetime(2026, 1, 1, tzinfo=UTC))


RUNNING = replace(deployment(), phase=Phase.RUNNING)
FIRST, SECOND = redrive(1), redrive(2)


@pytest.mark.parametrize(
    ("state", "finished", "planned"),
    [
        (RUNNING, False, RedrivePlan(running=FIRST)),
        (RUNNING, True, RedrivePlan([(FIRST, "done")], SECOND)),
        (None, False, RedrivePlan([(FIRST, "stopped"), (SECOND, "stopped")])),
        (replace(RUNNING, desired=DesiredPhase.ABSENT), True, RedrivePlan([(FIRST, "stopped"), (SECOND, "stopped")])),
        (replace(RUNNING, phase=Phase.PENDING), False, RedrivePlan()),
        (replace(RUNNING, desired=DesiredPhase.PAUSED), True, RedrivePlan()),
        (replace(RUNNING, phase=Phase.PAUSED), False, RedrivePlan()),
        (replace(RUNNING, phase=Phase.FAILED), False, RedrivePlan()),
        (replace(RUNNING, unreadable_reason="sealed with another key"), False, RedrivePlan()),
    ],
)
def test_plans(state: Deployment | None, finished: bool, planned: RedrivePlan) -> None:
    progress = {1: RedriveProgress(has_finished=finished), 2: RedriveProgress()}
    assert plan_redrives(state, [FIRST, SECOND], lambda each: progress[each.number]) == planned


def test_nothing_is_asked_of_a_redrive_that_waits_for_others() -> None:
    def progress(_: OpenRedrive) -> RedriveProgress:
        raise AssertionError

    assert plan_redrives(RUNNING, [FIRST, SECOND], progress, may_run=False) == RedrivePlan()
    stopped = RedrivePlan([(FIRST, "stopped")])
    assert plan_redrives(None, [FIRST], progress, may_run=False) == stopped


def test_the_last_redrive_ends() -> None:
    ended = RedriveProgress(has_finished=True)
    assert plan_redrives(RUNNING, [FIRST], lambda _: ended) == RedrivePlan([(FIRST, "done")], None)


class Scene(World):
    """A deployed pipeline."""

    def __init__(self) -> None:
        super().__init__()
        self.deploy()
        self.run()
        assert self.active is not None
        self.id = self.active.id
        self._names = iter("abcdefg")

    def request(self) -> Redrive:
        deployment = self.database.redrives.require_redrivable("owner", FLOW)
        return self.database.redrives.request(deployment, next(self._names), SELECTION, 9, NOW)

    def stored(self, wanted: Redrive) -> Redrive:
        stored = self.database.redrives.get(FLOW, wanted.id)
        assert stored is not None
        return stored

    def spec(self, wanted: Redrive) -> WorkerSpec | None:
        worker = f"{redrive_worker_set_id(self.id, wanted.number)}-0"
        return next((each.spec for each in self.orchestrator.worker_snapshots() if each.worker == worker), None)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_worker_of_a_redrive(scene: Scene) -> None:
    first = scene.request()
    scene.run(3)
    spec, group = scene.spec(first), f"wrk-{scene.id}.redrive-1"
    assert spec is not None
    assert spec.redrive is not None
    assert (spec.source_topic, spec.source_group, spec.dead_letter_topic) == (DLQ, group, DLQ)
    assert (spec.deployment_id, spec.revision, spec.max_slots) == (scene.id, 1, 1)
    assert (spec.redrive.id, spec.redrive.number, spec.redrive.selection) == (first.id, 1, SELECTION)
    assert scene.broker.commits[group].keys() == {(DLQ, number) for number in range(4)}
    acls = {
        (acl.resource, acl.name)
        for acl in scene.broker.acls
        if acl.user == f"wrk-{scene.id}" and acl.operations == ("READ",)
    }
    assert {("topic", DLQ), ("group", f"wrk-{scene.id}.")} <= acls


def test_redrives_run_one_after_the_other(scene: Scene) -> None:
    first, second = scene.request(), scene.request()
    scene.run(3)
    assert scene.spec(first)
    assert not scene.spec(second)
    scene.outcomes.record(scene.id, 1, {LetterId(0, 1): "delivered", LetterId(0, 2): "failed"}, 1)
    scene.outcomes.finish(scene.id, 1)
    scene.run(3)
    assert not scene.spec(first)
    assert scene.spec(second)
    ended = scene.stored(first)
    assert (ended.state, ended.counts, ended.ended_at) == ("done", RedriveCounts(1, 0, 1), NOW)
    assert scene.stored(second).state == "running"


def test_what_an_ended_redrive_leaves(scene: Scene) -> None:
    first = scene.request()
    group, pipeline = f"wrk-{scene.id}.redrive-1", f"wrk-{scene.id}.1"
    scene.run(3)
    delta = MetricsDelta(60, {0: PartitionCounts(3, {}, {}, {})}, {})
    for each in (group, pipeline):
        scene.metrics.write(scene.id, each, "w", delta)
    scene.outcomes.finish(scene.id, 1)
    scene.run(3)
    assert scene.stored(first).selection == RedriveSelection(ranges={})
    assert scene.outcomes.expiring == {(scene.id, 1)}
    assert scene.metrics.acquire_partitions(scene.id, group, "w", [0]) == {}
    assert scene.metrics.acquire_partitions(scene.id, pipeline, "w", [0]) == {0: 3}


def test_deployments_and_selections_are_read_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.request()
    scene.request()
    reads = Counter[str]()

    def counted(store: object, name: str) -> None:
        method = getattr(store, name)

        def call(ids: Any) -> Any:
            found = method(ids)
            reads[name] += len(found)
            return found

        monkeypatch.setattr(store, name, call)

    counted(scene.database.deployments, "list_active")
    counted(scene.database.redrives, "open_selections")
    scene.run(10)
    assert reads == {"list_active": 1, "open_selections": 2}


def test_another_controller_continues(scene: Scene) -> None:
    first = scene.request()
    scene.run(3)
    scene.start_controller()
    scene.now += 60
    scene.run(10)
    assert scene.spec(first)


def test_redrives_wait_for_those_of_the_same_owner(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrives, "MAX_WORKERS_OF_OWNER", 0)
    first = scene.request()
    scene.run(3)
    assert not scene.spec(first)
    assert scene.stored(first).state == "running"
    monkeypatch.setattr(redrives, "MAX_WORKERS_OF_OWNER", 1)
    scene.run(3)
    assert scene.spec(first)


def test_a_pause_stops_a_redrive_and_a_resume_continues_it(scene: Scene) -> None:
    first = scene.request()
    scene.run(3)
    scene.database.deployments.request_pause("owner", FLOW)
    scene.run(5)
    assert scene.orchestrator.worker_set_ids() == frozenset()
    assert scene.stored(first).state == "running"
    with pytest.raises(Conflict, match="paused"):
        scene.request()
    scene.broker.commits.pop(f"wrk-{scene.id}.redrive-1")
    scene.database.deployments.request_resume("owner", FLOW)
    scene.run(10)
    assert scene.spec(first)
    assert scene.broker.commits[f"wrk-{scene.id}.redrive-1"]


@pytest.mark.parametrize("is_torn_down", [False, True])
def test_a_redrive_does_not_start_after_a_pause_or_teardown(scene: Scene, is_torn_down: bool) -> None:
    scene.request()
    deployments, prepare = scene.database.deployments, scene.broker.commit_start_offsets

    def stopped_meanwhile(group: str, topic: str, start_at: str) -> dict[int, int]:
        if is_torn_down:
            deployments.request_teardown(FLOW)
        else:
            deployments.request_pause("owner", FLOW)
        scene.orchestrator.stop_workers(scene.id)
        return prepare(group, topic, start_at)

    scene.broker.commit_start_offsets = stopped_meanwhile  # type: ignore[method-assign]
    scene.controller._redrives.run()
    assert scene.orchestrator.worker_set_ids() == frozenset()


def test_a_teardown_stops_redrives(scene: Scene) -> None:
    first, second = scene.request(), scene.request()
    scene.run(3)
    scene.outcomes.record(scene.id, 1, {LetterId(0, 1): "delivered"}, 1)
    scene.database.deployments.request_teardown(FLOW)
    scene.run(3)
    assert scene.active is None
    assert scene.orchestrator.worker_set_ids() == frozenset()
    assert scene.stored(first).state == scene.stored(second).state == "stopped"
    assert scene.stored(first).counts == RedriveCounts(delivered=1)
    assert scene.outcomes.outcomes(scene.id, [LetterId(0, 1)]) == {}


def test_a_broker_that_is_away(scene: Scene) -> None:
    first = scene.request()
    scene.broker.away = True
    scene.run(3)
    assert not scene.spec(first)
    scene.broker.away = False
    scene.run(3)
    assert scene.spec(first)


def test_workers_of_pipelines_keep_their_hash(scene: Scene) -> None:
    (snapshot,) = scene.orchestrator.worker_snapshots()
    assert "redrive" not in snapshot.spec.model_dump_json()


def test_a_redrive_is_no_unknown_deployment(scene: Scene) -> None:
    first = scene.request()
    scene.run(80)
    assert scene.spec(first)
    assert not scene.sweeper.unknown
