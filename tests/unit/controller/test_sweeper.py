"""The sweeper removes leftovers of requests, with dependencies in memory and a test clock."""

from datetime import UTC, datetime, timedelta

import pytest

from headwater.controller.deployment_sources import Sources
from headwater.controller.flow_locks import FlowLocks
from headwater.controller.sweeper import ABANDONED_AFTER, REPLACED_REVISION_KEPT_FOR, Sweeper
from headwater.model.binding import Bindings
from headwater.model.deployment import Phase
from headwater.model.value_sets import filter_set_id
from tests.support.memory.broker import MemoryClusterAdmin
from tests.support.memory.orchestrator import MemoryOrchestrator
from tests.support.memory.sets import MemoryDatasetNames, MemoryPendingSets, MemorySetStore
from tests.support.sql import OWNER, T0, a_config, a_deployment, a_flow, fresh_database, next_revision, seen

FILTER = {"uid": "t1", "type": "redis_set_filter", "filter_expr": "root = this.a"}


class World:
    def __init__(self) -> None:
        self.now = T0
        self.database, self.sets, self.pending_sets = fresh_database(), MemorySetStore(), MemoryPendingSets()
        broker = MemoryClusterAdmin()
        self.sweeper = Sweeper(
            own_cluster=broker,
            sources=Sources(
                bindings=Bindings(), own_cluster=broker, active_deployments=self.database.deployments.list_active
            ),
            orchestrator=MemoryOrchestrator(),
            flow_locks=FlowLocks(),
            deployments=self.database.deployments,
            revisions=self.database.revisions,
            datasets=self.database.datasets,
            dataset_names=MemoryDatasetNames(),
            sets=self.sets,
            pending_sets=self.pending_sets,
            require_lease=lambda: None,
            now=self.time,
            revisions_kept=1,
            ended_deployments_kept_for=timedelta(days=90),
        )

    def time(self) -> datetime:
        return self.now


@pytest.fixture
def world() -> World:
    return World()


class TestRevisions:
    def test_a_revision_is_removed_after_half_a_minute_but_its_values_are_kept(self, world: World) -> None:
        with_filter = a_flow(pipeline_config=a_config(transforms=[FILTER]))
        world.database.flows.create(with_filter)
        world.sets.add(filter_set_id("f1", "t1"), ["value"])
        saved = next_revision(with_filter, pipeline_config=a_config())
        world.database.flows.save(saved)
        world.now = removed_at = saved.updated_at + REPLACED_REVISION_KEPT_FOR
        world.sweeper.sweep()
        assert list(world.database.revisions.filters("f1")) == [1, 2]
        world.now += timedelta(milliseconds=1)
        world.sweeper.sweep()
        assert world.sets.count(filter_set_id("f1", "t1")).size == 1
        assert [removed.removed_at for removed in world.database.revisions.removed_filters()] == [removed_at]
        assert list(world.database.revisions.filters("f1")) == [2]
        assert world.database.flows.get("ann", "f1") == saved


class TestDrafts:
    def test_values_of_an_incomplete_save_are_removed(self, world: World) -> None:
        saved, lost = filter_set_id("f1", "t1"), filter_set_id("f1", "t2")
        world.pending_sets.add([saved, lost], world.now)
        for target in (saved, lost):
            world.sets.add(target, ["value"])
        world.database.flows.create(a_flow(pipeline_config=a_config(transforms=[FILTER])))
        world.now += ABANDONED_AFTER
        world.sweeper.sweep()
        assert [world.sets.count(target).size for target in (saved, lost)] == [1, 1]
        world.now += timedelta(seconds=1)
        world.sweeper.sweep()
        assert [world.sets.count(target).size for target in (saved, lost)] == [1, 0]
        assert world.pending_sets.added_before(world.now) == []


class TestEndedDeployments:
    def test_rows_are_removed_after_their_retention(self, world: World) -> None:
        world.database.flows.create(a_flow())
        world.database.deployments.request_deploy(OWNER, "f1", a_deployment())
        ending = world.database.deployments.request_teardown("f1")
        assert ending is not None
        world.database.deployments.write_observations([seen(ending, Phase.ABSENT)])
        now = datetime.now(UTC)
        for days, left in ((89, ["d1"]), (91, [])):
            world.now = now + timedelta(days=days)
            world.sweeper.sweep()
            assert list(world.database.deployments.ended_among(["d1"])) == left


def test_a_failed_step_does_not_prevent_other_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr(world.database.datasets, "incomplete", fail)
    world.pending_sets.add([filter_set_id("f9", "t9")], T0)
    world.sets.add(filter_set_id("f9", "t9"), ["value"])
    world.now = T0 + ABANDONED_AFTER + timedelta(seconds=1)
    with pytest.raises(RuntimeError, match="unexpected"):
        world.sweeper.sweep()
    assert world.sets.count(filter_set_id("f9", "t9")).size == 0
