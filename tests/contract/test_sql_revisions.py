"""The contract of RevisionStore about the history of a configuration."""

import pytest

from headwater.errors import NotFound
from headwater.model.audit import Actor, AuditQuery, with_actor
from headwater.model.deployment import Condition, Phase
from headwater.model.flow import Flow
from headwater.model.stored_config import UnreadablePipelineConfig, read_pipeline_config
from tests.support.sql import OWNER, SqlStores, a_config, a_deployment, a_flow, at, next_revision, seen

SCRIPT = {"uid": "t1", "type": "v8", "script": "function process() { return null }"}


@pytest.fixture
def revisions(stores: SqlStores) -> list[Flow]:
    """Save three revisions, each with another key."""
    first = a_flow(external_id="x")
    second = next_revision(first, name="second", tags=(), pipeline_config=a_config(transforms=[SCRIPT]))
    third = next_revision(second, external_id=None, pipeline_config=a_config(transforms=[SCRIPT], parallelism=2))
    with with_actor(Actor("k1", OWNER)):
        stores.flows.create(first)
    for number, flow in ((2, second), (3, third)):
        with with_actor(Actor(f"k{number}", OWNER)):
            stores.flows.save(flow)
    return [first, second, third]


def listed(stores: SqlStores) -> dict[int, tuple[bool, str | None]]:
    """Return for each revision whether it was deployed, and the condition of its rollout."""
    found = stores.revisions.list(OWNER, "f1", None, 10)
    return {item.revision: (item.deployed_at is not None, item.condition) for item in found}


class TestList:
    def test_says_who_saved_what(self, stores: SqlStores, revisions: list[Flow]) -> None:
        items = stores.revisions.list(OWNER, "f1", None, 10)
        assert [(item.revision, item.saved_at, item.saved_by, item.changed) for item in items] == [
            (3, at(2), "k3", ("parallelism", "external_id")),
            (2, at(1), "k2", ("name", "tags", "transforms")),
            (1, at(0), "k1", ()),
        ]
        assert listed(stores) == dict.fromkeys((1, 2, 3), (False, None))

    def test_pages(self, stores: SqlStores, revisions: list[Flow]) -> None:
        def numbers(before: int | None, limit: int) -> list[int]:
            return [item.revision for item in stores.revisions.list(OWNER, "f1", before, limit)]

        assert (numbers(None, 2), numbers(2, 2), numbers(1, 2), numbers(9, 9)) == ([3, 2], [1], [], [3, 2, 1])

    @pytest.mark.parametrize(("owner", "config_id"), [("bob", "f1"), (OWNER, "f2")])
    def test_only_the_owners(self, stores: SqlStores, revisions: list[Flow], owner: str, config_id: str) -> None:
        with pytest.raises(NotFound, match=config_id):
            stores.revisions.list(owner, config_id, None, 10)
        with pytest.raises(NotFound, match=config_id):
            stores.revisions.get(owner, config_id, 1)

    def test_a_deleted_configuration_has_none(self, stores: SqlStores, revisions: list[Flow]) -> None:
        stores.flows.delete(OWNER, "f1")
        with pytest.raises(NotFound):
            stores.revisions.list(OWNER, "f1", None, 10)


class TestRollouts:
    def test_shows_the_condition_that_each_rollout_reached(self, stores: SqlStores, revisions: list[Flow]) -> None:
        stable = stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        assert listed(stores) == {1: (False, None), 2: (False, None), 3: (True, "RollingOut")}
        stores.deployments.write_observations([seen(stable)])
        stores.flows.save(next_revision(revisions[2]))
        failing = stores.deployments.request_redeploy(OWNER, "f1")
        assert listed(stores)[4] == (True, "RollingOut")
        rolled_back = seen(failing, observed_revision=3, condition=Condition.ROLLED_BACK)
        stores.deployments.write_observations([rolled_back])
        assert (listed(stores)[4], listed(stores)[3]) == ((True, "RolledBack"), (True, "Stable"))

    def test_the_last_deployment_of_a_revision_counts(self, stores: SqlStores, revisions: list[Flow]) -> None:
        first = stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        stores.deployments.write_observations([seen(first)])
        ending = stores.deployments.request_teardown("f1")
        assert ending is not None
        assert listed(stores)[3] == (True, "Stable")
        stores.deployments.write_observations([seen(ending, Phase.ABSENT)])
        [before] = [item for item in stores.revisions.list(OWNER, "f1", None, 10) if item.revision == 3]
        assert before.condition == "Stable"
        second = stores.deployments.request_deploy(OWNER, "f1", a_deployment("d2"))
        stores.deployments.write_observations([seen(second, Phase.FAILED)])
        [after] = [item for item in stores.revisions.list(OWNER, "f1", None, 10) if item.revision == 3]
        assert after.condition == "Failed"
        assert after.deployed_at is not None
        assert before.deployed_at is not None
        assert after.deployed_at >= before.deployed_at

    def test_a_repeated_deploy_that_changes_nothing_does_not_count(
        self, stores: SqlStores, revisions: list[Flow]
    ) -> None:
        deployed = stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        stores.deployments.write_observations([seen(deployed)])
        before = stores.revisions.list(OWNER, "f1", None, 10)
        stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        assert stores.revisions.list(OWNER, "f1", None, 10) == before


class TestGet:
    def test_returns_the_configuration_as_it_was(self, stores: SqlStores, revisions: list[Flow]) -> None:
        assert [stores.revisions.get(OWNER, "f1", number) for number in (1, 2, 3)] == revisions

    def test_a_revision_that_is_not_stored(self, stores: SqlStores, revisions: list[Flow]) -> None:
        stores.revisions.remove("f1", [1], at(9))
        for number in (1, 4):
            with pytest.raises(NotFound, match=f"Revision {number} is not stored"):
                stores.revisions.get(OWNER, "f1", number)

    def test_an_unreadable_revision(self, stores: SqlStores, revisions: list[Flow]) -> None:
        damaged = next_revision(revisions[2], pipeline_config=read_pipeline_config("damaged"))
        stores.flows.save(damaged)
        stores.flows.save(next_revision(damaged, pipeline_config=a_config()))
        found = stores.revisions.get(OWNER, "f1", 4)
        assert isinstance(found.pipeline_config, UnreadablePipelineConfig)
        assert found.unreadable_reason
        assert stores.revisions.list(OWNER, "f1", None, 1)[0].changed == (
            "source",
            "transforms",
            "sinks",
            "parallelism",
            "delivery",
            "pipeline_config",
        )


def test_a_rollback_is_an_action_of_its_own_in_the_audit_log(stores: SqlStores, revisions: list[Flow]) -> None:
    stores.flows.save(next_revision(revisions[2], pipeline_config=revisions[0].pipeline_config), restored_revision=1)
    change = stores.audit.read(AuditQuery(limit=1))[0].change
    assert (change.action, change.object) == ("flow.rollback", "f1")
    assert change.before.startswith("revision 3 sha256 ")
    assert change.after.startswith("revision 4 sha256 ")
    assert change.after.endswith(" of revision 1")
