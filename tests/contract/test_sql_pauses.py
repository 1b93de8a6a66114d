"""The contract of DeploymentStore: pauses, resumes, rewinds and stored positions."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from headwater.errors import Conflict, NotFound
from headwater.model.audit import AuditQuery
from headwater.model.deployment import Condition, Deployment, DesiredPhase, Phase
from headwater.model.positions import GroupPositions, Move, OffsetGap, StoredPositions
from headwater.stores.sql.database import Database
from tests.support.deployments import SOLANA, deploy, observed, running, save
from tests.support.sql import OWNER, SqlStores, a_config, a_flow, seen

POSITIONS = StoredPositions(
    groups={
        1: GroupPositions(topic="stream.base.log", topic_id="id", offsets={0: 5, 11: 2**40}),
        2: GroupPositions(topic="other", topic_id="", offsets={0: 0}, rewound=frozenset({0})),
    }
)
GAPS = (OffsetGap(partition=3, start=5, end=9),)


@pytest.fixture
def stores(stores: SqlStores) -> SqlStores:
    """Return the stores with one configuration."""
    stores.flows.create(a_flow())
    return stores


def active(stores: SqlStores) -> Deployment:
    deployment = stores.deployments.active("f1")
    assert deployment is not None
    return deployment


def paused(stores: SqlStores) -> Deployment:
    """Return the deployment after a controller has paused it."""
    deploy(stores)
    running(stores)
    stores.deployments.request_pause(OWNER, "f1")
    stores.deployments.write_observations([seen(active(stores), Phase.PAUSED, positions=POSITIONS)])
    return active(stores)


def actions(stores: SqlStores) -> list[str]:
    return [entry.change.action for entry in stores.audit.read(AuditQuery(object="f1"))]


class TestPause:
    def test_the_desired_phase_changes_once(self, stores: SqlStores) -> None:
        deploy(stores)
        before = running(stores)
        counter = stores.change_counter.value()
        wanted = replace(before, desired=DesiredPhase.PAUSED, generation=before.generation + 1)
        for _ in range(2):
            assert stores.deployments.request_pause(OWNER, "f1") == wanted == active(stores)
        assert stores.change_counter.value() == counter + 1
        assert actions(stores)[0] == "flow.pause"
        assert actions(stores).count("flow.pause") == 1

    def test_positions_are_stored_and_the_workers_are_none(self, stores: SqlStores) -> None:
        deployment = paused(stores)
        assert (deployment.phase, deployment.positions, deployment.workers) == (Phase.PAUSED, POSITIONS, ())
        assert deployment.is_reconciled
        assert stores.deployments.list_active() == [deployment]

    def test_what_can_not_be_paused(self, stores: SqlStores) -> None:
        with pytest.raises(NotFound):
            stores.deployments.request_pause("bob", "f1")
        with pytest.raises(Conflict, match="state draft"):
            stores.deployments.request_pause(OWNER, "f1")
        deploy(stores)
        stores.deployments.request_teardown("f1")
        with pytest.raises(Conflict, match="state draft"):
            stores.deployments.request_pause(OWNER, "f1")

    def test_a_pause_wins_over_an_observation_of_the_rollout(self, stores: SqlStores) -> None:
        deploy(stores)
        before = running(stores)
        save(stores, a_config(parallelism=2))
        rolling = deploy(stores)
        stores.deployments.request_pause(OWNER, "f1")
        rolled_back = seen(
            rolling,
            Phase.RUNNING,
            observed_revision=before.desired_revision,
            condition=Condition.ROLLED_BACK,
            reason="no",
        )
        stores.deployments.write_observations([rolled_back])
        after = active(stores)
        assert (after.desired, after.condition, after.is_reconciled) == (
            DesiredPhase.PAUSED,
            Condition.ROLLING_OUT,
            False,
        )

    def test_a_teardown_removes_the_positions(self, stores: SqlStores) -> None:
        paused(stores)
        torn = stores.deployments.request_teardown("f1")
        assert torn is not None
        stores.deployments.write_observations([seen(torn, Phase.ABSENT)])
        assert stores.deployments.active("f1") is None


class TestResume:
    def test_the_newest_revision_is_requested(self, stores: SqlStores) -> None:
        before = paused(stores)
        save(stores, a_config(parallelism=2))
        resumed = stores.deployments.request_resume(OWNER, "f1")
        assert (resumed.desired, resumed.desired_revision) == (DesiredPhase.RUNNING, 2)
        assert (resumed.generation, resumed.positions) == (before.generation + 1, POSITIONS)
        assert resumed.condition is Condition.ROLLING_OUT
        assert resumed == active(stores)
        assert actions(stores)[0] == "flow.resume"

    def test_a_deploy_resumes_too(self, stores: SqlStores) -> None:
        before = paused(stores)
        resumed = deploy(stores)
        assert (resumed.desired, resumed.generation) == (DesiredPhase.RUNNING, before.generation + 1)
        assert actions(stores)[0] == "flow.deploy"

    def test_a_redeploy_after_a_save_leaves_it_paused(self, stores: SqlStores) -> None:
        before = paused(stores)
        save(stores, a_config(parallelism=2))
        assert stores.deployments.request_redeploy(OWNER, "f1") == before

    def test_a_deployment_that_runs_is_unchanged(self, stores: SqlStores) -> None:
        deploy(stores)
        before = running(stores)
        assert stores.deployments.request_resume(OWNER, "f1") == before
        assert "flow.resume" not in actions(stores)

    def test_without_a_deployment(self, stores: SqlStores) -> None:
        with pytest.raises(Conflict, match="state draft"):
            stores.deployments.request_resume(OWNER, "f1")
        deploy(stores)
        stores.deployments.request_teardown("f1")
        with pytest.raises(Conflict, match="state draft"):
            stores.deployments.request_resume(OWNER, "f1")

    def test_restored_positions_are_removed_before_the_request_is_done(self, stores: SqlStores) -> None:
        paused(stores)
        resumed = stores.deployments.request_resume(OWNER, "f1")
        restored = seen(
            resumed,
            Phase.PENDING,
            observed_generation=resumed.observed_generation,
            positions=StoredPositions(),
            gaps=GAPS,
        )
        stores.deployments.write_observations([restored])
        after = active(stores)
        assert (after.positions, after.gaps, after.phase) == (StoredPositions(), GAPS, Phase.PENDING)
        assert not after.is_reconciled
        assert running(stores).gaps == GAPS
        assert stores.deployments.request_pause(OWNER, "f1").gaps == ()

    def test_another_stream_gets_another_group_and_both_positions_stay(self, stores: SqlStores) -> None:
        paused(stores)
        save(stores, SOLANA)
        resumed = deploy(stores)
        assert [revision.source_epoch for revision in resumed.revisions] == [2, 1]
        assert resumed.positions == POSITIONS


class TestRewind:
    def test_a_request_is_stored_until_its_result(self, stores: SqlStores) -> None:
        deploy(stores)
        before = running(stores)
        requested = stores.deployments.request_rewind(OWNER, "f1", {0: 7, 3: 0})
        assert requested == active(stores)
        assert (requested.desired, requested.condition) == (before.desired, before.condition)
        assert requested.rewind is not None
        assert (requested.rewind.to, requested.rewind.is_pending) == ({0: 7, 3: 0}, True)
        assert requested.rewind.generation == requested.generation == before.generation + 1
        done = requested.rewind.model_copy(update={"state": "done", "moves": {0: Move(before=None, after=7)}})
        stores.deployments.write_observations([seen(requested, positions=POSITIONS, rewind=done)])
        assert (active(stores).rewind, active(stores).positions) == (done, POSITIONS)
        assert actions(stores)[0] == "flow.rewind"

    def test_the_same_request_again_joins_the_one_in_progress(self, stores: SqlStores) -> None:
        deploy(stores)
        running(stores)
        first = stores.deployments.request_rewind(OWNER, "f1", "earliest")
        assert stores.deployments.request_rewind(OWNER, "f1", "earliest") == first
        other = stores.deployments.request_rewind(OWNER, "f1", "latest")
        assert other.generation == first.generation + 1
        assert first.rewind is not None
        late = first.rewind.model_copy(update={"state": "done"})
        stores.deployments.write_observations([seen(first, observed_generation=1, rewind=late)])
        assert active(stores).rewind == other.rewind

    def test_a_result_that_no_client_got_is_returned_once(self, stores: SqlStores) -> None:
        deploy(stores)
        running(stores)
        first = stores.deployments.request_rewind(OWNER, "f1", "latest")
        assert first.rewind is not None
        done = first.rewind.model_copy(update={"state": "done"})
        stores.deployments.write_observations([seen(first, rewind=done)])
        repeated = stores.deployments.request_rewind(OWNER, "f1", "latest")
        assert (repeated.generation, repeated.rewind) == (first.generation, done)
        counter = stores.change_counter.value()
        stores.deployments.mark_rewind_answered("f1", first.generation - 1)
        assert active(stores) == repeated
        stores.deployments.mark_rewind_answered("f1", first.generation)
        stores.deployments.mark_rewind_answered("f2", first.generation)
        assert stores.change_counter.value() == counter
        assert active(stores).rewind == done.model_copy(update={"is_answered": True})
        assert stores.deployments.request_rewind(OWNER, "f1", "latest").generation == first.generation + 1

    def test_a_paused_deployment_stays_paused(self, stores: SqlStores) -> None:
        paused(stores)
        requested = stores.deployments.request_rewind(OWNER, "f1", "2026-01-02T03:04:05Z")
        assert (requested.desired, requested.positions) == (DesiredPhase.PAUSED, POSITIONS)

    def test_a_failed_deployment_is_rolled_out_again(self, stores: SqlStores) -> None:
        deploy(stores)
        observed(stores, Phase.FAILED)
        requested = stores.deployments.request_rewind(OWNER, "f1", "earliest")
        assert (requested.condition, requested.is_reconciled) == (Condition.ROLLING_OUT, False)

    def test_without_a_deployment(self, stores: SqlStores) -> None:
        with pytest.raises(Conflict, match="state draft"):
            stores.deployments.request_rewind(OWNER, "f1", "earliest")


@pytest.mark.parametrize("column", ["positions", "rewind", "gaps"])
def test_positions_that_can_not_be_read(stores: SqlStores, column: str) -> None:
    paused(stores)
    assert isinstance(stores, Database)
    with stores.deployments._connections.writing() as connection:
        connection.execute(text(f"UPDATE deployments SET {column} = '{{'"))
    unreadable = active(stores)
    assert column in unreadable.unreadable_reason
    with pytest.raises(Conflict, match="can't be read"):
        stores.deployments.request_pause(OWNER, "f1") if column != "gaps" else stores.deployments.request_rewind(
            OWNER, "f1", "latest"
        )
