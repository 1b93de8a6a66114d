"""The contract of FlowStore."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from headwater.errors import ConcurrentUpdate, Conflict, NotFound, StoredDataUnreadable, Unavailable
from headwater.model.deployment import DesiredPhase, Phase
from headwater.model.stored_config import UnreadablePipelineConfig, read_pipeline_config
from headwater.stores.protocols.configurations import RemovedFilter
from tests.support.sql import (
    OWNER,
    SqlStores,
    a_config,
    a_deployment,
    a_flow,
    at,
    next_revision,
    seen,
)


class TestGet:
    def test_returns_what_was_created(self, stores: SqlStores) -> None:
        flow = a_flow(description='"quoted"\n\t\N{SNOWMAN}', tags=(), pipeline_config=a_config(parallelism=3))
        stores.flows.create(flow)
        assert stores.flows.get(OWNER, "f1") == flow

    def test_first_revision_is_one(self, stores: SqlStores) -> None:
        stores.flows.create(replace(a_flow(), revision=7))
        assert stores.flows.get(OWNER, "f1").revision == 1

    def test_unknown_and_foreign_configurations_raise_the_same_error(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        with pytest.raises(NotFound) as unknown:
            stores.flows.get(OWNER, "f2")
        with pytest.raises(NotFound) as anothers:
            stores.flows.get("bob", "f1")
        assert unknown.value.detail.replace("f2", "f1") == anothers.value.detail


class TestList:
    def test_newest_first_then_by_id(self, stores: SqlStores) -> None:
        for config_id, created_s in (("f1", 0), ("f4", 1), ("f2", 1), ("f3", 1)):
            stores.flows.create(a_flow(config_id, created_s=created_s))
        assert [flow.id for flow in stores.flows.list(OWNER)] == ["f4", "f3", "f2", "f1"]

    def test_only_the_owners(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        assert list(stores.flows.list("bob")) == []

    def test_shows_the_newest_revision(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        saved = next_revision(a_flow(), name="second")
        stores.flows.save(saved)
        assert list(stores.flows.list(OWNER)) == [saved]


class TestListPositions:
    def test_of_the_owner_newest_first(self, stores: SqlStores) -> None:
        for config_id, created_s in (("f1", 0), ("f4", 1), ("f2", 1), ("f3", 1), ("f5", 2)):
            stores.flows.create(a_flow(config_id, created_s=created_s))
        stores.flows.create(a_flow("b1", "bob"))
        stores.flows.delete(OWNER, "f5")
        places = stores.flows.list_positions(OWNER, None, 10)
        assert [place.id for place in places] == ["f4", "f3", "f2", "f1"]
        assert places[0].created_at == at(1)
        assert all(place.size > 0 for place in places)
        for number, place in enumerate(places):
            assert stores.flows.list_positions(OWNER, place, 2) == places[number + 1 : number + 3]

    def test_a_position_needs_no_configuration(self, stores: SqlStores) -> None:
        for config_id in ("f1", "f2", "f3"):
            stores.flows.create(a_flow(config_id))
        [_, middle, last] = stores.flows.list_positions(OWNER, None, 3)
        stores.flows.delete(OWNER, middle.id)
        assert stores.flows.list_positions(OWNER, middle, 3) == [last]

    def test_several_positions_of_the_owner(self, stores: SqlStores) -> None:
        for config_id, created_s in (("f1", 0), ("f2", 1), ("f3", 2)):
            stores.flows.create(a_flow(config_id, created_s=created_s))
        stores.flows.create(a_flow("b1", "bob"))
        assert stores.flows.get_many(OWNER, ["f1", "f3", "b1", "f9"]) == [a_flow("f3", created_s=2), a_flow("f1")]


class TestSave:
    def test_replaces_all_that_a_user_writes(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        config = a_config("solana", "nonvoting_transaction")
        saved = next_revision(a_flow(), name="new", description="d", tags=("c",), pipeline_config=config)
        stores.flows.save(saved)
        assert stores.flows.get(OWNER, "f1") == saved

    def test_keeps_the_time_of_creation(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        stores.flows.save(next_revision(a_flow(created_s=100)))
        assert stores.flows.get(OWNER, "f1").created_at == a_flow().created_at

    @pytest.mark.parametrize("revision", [1, 3])
    def test_a_save_based_on_another_revision_is_rejected(self, stores: SqlStores, revision: int) -> None:
        stores.flows.create(a_flow())
        with pytest.raises(Conflict):
            stores.flows.save(replace(a_flow(name="lost"), revision=revision))
        assert stores.flows.get(OWNER, "f1") == a_flow()

    @pytest.mark.parametrize("fields", [{"config_id": "f2"}, {"owner": "bob"}])
    def test_a_configuration_of_another_owner_is_rejected(self, stores: SqlStores, fields: dict[str, Any]) -> None:
        stores.flows.create(a_flow())
        with pytest.raises(NotFound):
            stores.flows.save(next_revision(a_flow(**fields)))

    def test_a_save_does_not_increment_the_change_counter(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        stores.flows.save(next_revision(a_flow()))
        assert stores.change_counter.value() == 0


class TestExternalId:
    def test_finds_the_owners(self, stores: SqlStores) -> None:
        mine, anothers = a_flow(external_id="x"), a_flow("f2", owner="bob", external_id="x")
        stores.flows.create(mine)
        stores.flows.create(anothers)
        stores.flows.create(a_flow("f3"))
        assert list(stores.flows.with_external_id(OWNER, "x")) == [mine]
        assert list(stores.flows.with_external_id("bob", "x")) == [anothers]
        assert list(stores.flows.with_external_id(OWNER, "y")) == []

    def test_is_unique_per_owner(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow(external_id="x"))
        stores.flows.create(a_flow("f2"))
        with pytest.raises(Conflict, match="external_id 'x'"):
            stores.flows.create(a_flow("f3", external_id="x"))
        with pytest.raises(Conflict, match="external_id 'x'") as refused:
            stores.flows.save(next_revision(a_flow("f2"), external_id="x"))
        assert not isinstance(refused.value, ConcurrentUpdate)  # which would be retried
        assert stores.flows.get(OWNER, "f2") == a_flow("f2")
        stores.flows.save(next_revision(a_flow(external_id="x"), name="the same one"))

    def test_is_free_when_its_configuration_is_deleted_or_saved_without(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow(external_id="x"))
        stores.flows.create(a_flow("f2", external_id="y"))
        stores.flows.delete(OWNER, "f1")
        stores.flows.save(next_revision(a_flow("f2"), external_id=None))
        for config_id, external_id in (("f3", "x"), ("f4", "y")):
            stores.flows.create(a_flow(config_id, external_id=external_id))
        assert list(stores.flows.deleted()) == [a_flow()]

    def test_concurrent_creates_with_one_external_id_create_one(self, stores: SqlStores) -> None:
        def create(number: int) -> bool:
            try:
                stores.flows.create(a_flow(f"f{number}", external_id="x"))
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(create, range(8))) == 1


class TestDelete:
    def test_an_undeployed_configuration_is_deleted_immediately_and_purged_later(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        assert stores.flows.delete(OWNER, "f1") is False
        assert list(stores.flows.list(OWNER)) == []
        assert list(stores.flows.deleted()) == [a_flow()]
        assert stores.change_counter.value() == 1

    def test_deployed_is_torn_down(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        assert stores.flows.delete(OWNER, "f1") is True
        [deployment] = stores.deployments.list_active()
        assert (deployment.desired, deployment.delete_configuration, deployment.generation) == (
            DesiredPhase.ABSENT,
            True,
            2,
        )
        assert stores.change_counter.value() == 2

    def test_during_a_teardown_marks_it(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        stores.deployments.request_teardown("f1")
        assert stores.flows.delete(OWNER, "f1") is True
        [deployment] = stores.deployments.list_active()
        assert (deployment.delete_configuration, deployment.generation) == (True, 2)

    @pytest.mark.parametrize(("owner", "config_id"), [("bob", "f1"), (OWNER, "f2")])
    def test_a_configuration_of_another_owner_is_rejected(self, stores: SqlStores, owner: str, config_id: str) -> None:
        stores.flows.create(a_flow())
        with pytest.raises(NotFound):
            stores.flows.delete(owner, config_id)

    def test_a_deleted_configuration_rejects_all_requests(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        stores.flows.delete(OWNER, "f1")
        for call in (
            lambda: stores.flows.get(OWNER, "f1"),
            lambda: stores.flows.save(next_revision(a_flow())),
            lambda: stores.flows.delete(OWNER, "f1"),
            lambda: stores.deployments.request_deploy(OWNER, "f1", a_deployment()),
        ):
            with pytest.raises(NotFound):
                call()


class TestPurge:
    def test_purge_removes_a_deleted_configuration(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        stores.flows.save(next_revision(a_flow()))
        stores.flows.delete(OWNER, "f1")
        stores.flows.purge("f1")
        stores.flows.purge("f1")
        assert list(stores.flows.deleted()) == []

    def test_purge_keeps_other_configurations(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        stores.flows.purge("f1")
        assert stores.flows.get(OWNER, "f1") == a_flow()

    def test_waits_for_the_deployment_and_keeps_its_history(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        stores.flows.delete(OWNER, "f1")
        stores.flows.purge("f1")
        [deployment] = stores.deployments.list_active()
        stores.deployments.write_observations([seen(deployment, Phase.ABSENT)])
        stores.flows.purge("f1")
        assert list(stores.flows.deleted()) == []
        assert list(stores.deployments.ended_among(["d1", "unknown"])) == ["d1"]


FILTERS = [{"uid": f"t{i}", "type": "redis_set_filter", "filter_expr": "root = this.a"} for i in range(3)]


class TestDeleteAtARevision:
    def test_another_revision_is_refused(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        for revision in (0, 2):
            with pytest.raises(Conflict):
                stores.flows.delete(OWNER, "f1", revision)
        assert stores.flows.get(OWNER, "f1") == a_flow()

    def test_the_newest_one_is_deleted(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        stores.flows.save(next_revision(a_flow()))
        stores.flows.delete(OWNER, "f1", 2)
        assert list(stores.flows.list(OWNER)) == []


class TestRevisions:
    """Revision r is saved r − 1 seconds after T0 with the filters t0 … t(r − 1)."""

    @pytest.fixture(autouse=True)
    def three(self, stores: SqlStores) -> None:
        flow = a_flow(pipeline_config=a_config(transforms=FILTERS[:1]))
        stores.flows.create(flow)
        for count in (2, 3):
            flow = next_revision(flow, pipeline_config=a_config(transforms=FILTERS[:count]))
            stores.flows.save(flow)

    def superseded(self, stores: SqlStores, before_s: float = 100, kept: int = 1) -> dict[str, list[int]]:
        found = stores.revisions.superseded(at(before_s), kept)
        return {config_id: list(revisions) for config_id, revisions in found.items()}

    def test_filters_by_revision(self, stores: SqlStores) -> None:
        wanted = {1: {"t0"}, 2: {"t0", "t1"}, 3: {"t0", "t1", "t2"}}
        assert stores.revisions.filters("f1") == wanted
        stores.flows.delete(OWNER, "f1")
        assert stores.revisions.filters("f1") == wanted
        assert stores.revisions.filters("unknown") == {}

    def test_scripts_do_not_count_as_filters(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow("f2"))
        assert stores.revisions.filters("f2") == {1: set()}

    @pytest.mark.parametrize(("before_s", "wanted"), [(1, []), (1.5, [1]), (2, [1]), (2.5, [1, 2])])
    def test_superseded_for_long_enough(self, stores: SqlStores, before_s: float, wanted: list[int]) -> None:
        assert self.superseded(stores, before_s) == ({"f1": wanted} if wanted else {})

    @pytest.mark.parametrize(("kept", "wanted"), [(1, [1, 2]), (2, [1]), (3, []), (100, [])])
    def test_the_newest_are_kept(self, stores: SqlStores, kept: int, wanted: list[int]) -> None:
        assert self.superseded(stores, kept=kept) == ({"f1": wanted} if wanted else {})

    def test_the_newest_are_kept_beside_those_of_a_deployment(self, stores: SqlStores) -> None:
        stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        for _ in range(2):
            stores.flows.save(next_revision(stores.flows.get(OWNER, "f1")))
        assert self.superseded(stores, kept=2) == {"f1": [1, 2]}

    def test_what_a_deployment_was_asked_to_run_is_needed(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow("f2"))
        stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        stores.flows.save(next_revision(stores.flows.get(OWNER, "f1")))
        assert self.superseded(stores) == {"f1": [1, 2]}
        deployment = stores.deployments.request_teardown("f1")
        assert deployment is not None
        stores.deployments.write_observations([seen(deployment, Phase.ABSENT)])
        assert self.superseded(stores) == {"f1": [1, 2, 3]}

    def test_of_several_configurations(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow("f2"))
        stores.flows.save(next_revision(a_flow("f2")))
        assert self.superseded(stores) == {"f1": [1, 2], "f2": [1]}

    def test_a_deleted_configuration_is_left_to_purge(self, stores: SqlStores) -> None:
        stores.flows.delete(OWNER, "f1")
        assert self.superseded(stores) == {}

    def test_removed_revisions_do_not_exist(self, stores: SqlStores) -> None:
        stores.revisions.remove("f1", [1, 2, 77], at(9))
        stores.revisions.remove("unknown", [1], at(9))
        stores.revisions.remove("f1", [], at(9))
        assert list(stores.revisions.filters("f1")) == [3]
        assert self.superseded(stores) == {}
        flow = stores.flows.get(OWNER, "f1")
        assert flow.revision == 3
        stores.flows.save(next_revision(flow))
        assert self.superseded(stores) == {"f1": [3]}

    def test_purge_removes_all(self, stores: SqlStores) -> None:
        stores.flows.delete(OWNER, "f1")
        stores.flows.purge("f1")
        assert stores.revisions.filters("f1") == {}


class TestRemovedFilters:
    """Revision 1 has the filters t0 and t1, revision 2 has t1, revision 3 has t2."""

    @pytest.fixture(autouse=True)
    def three(self, stores: SqlStores) -> None:
        flow = a_flow(pipeline_config=a_config(transforms=FILTERS[:2]))
        stores.flows.create(flow)
        for filters in (FILTERS[1:2], FILTERS[2:]):
            flow = next_revision(flow, pipeline_config=a_config(transforms=filters))
            stores.flows.save(flow)

    def removed(self, stores: SqlStores, config_id: str | None = None) -> list[tuple[str, datetime, str]]:
        rows = stores.revisions.removed_filters(config_id)
        return [(removed.uid, removed.removed_at, removed.state) for removed in rows]

    def save(self, stores: SqlStores, *filters: dict[str, str]) -> frozenset[str]:
        flow = stores.flows.get(OWNER, "f1")
        return stores.flows.save(next_revision(flow, pipeline_config=a_config(transforms=list(filters))))

    def drop(self, stores: SqlStores, before_s: float) -> dict[str, frozenset[str]]:
        """Drop the values of expired filters, as the sweeper does."""
        found = dict(stores.revisions.begin_drop(at(before_s)))
        for config_id, uids in found.items():
            stores.revisions.finish_drop(config_id, uids)
        return found

    def test_filters_of_no_live_revision_are_recorded_once(self, stores: SqlStores) -> None:
        assert self.removed(stores) == []
        stores.revisions.record_removed_filters(at(7))
        stores.revisions.record_removed_filters(at(8))
        assert self.removed(stores) == [("t0", at(7), "kept"), ("t1", at(7), "kept")]
        assert RemovedFilter("f1", "t0", at(7)) in stores.revisions.removed_filters("f1")
        assert self.removed(stores, "f2") == []

    def test_a_filter_that_a_deployment_runs_or_may_roll_back_to_is_not_removed(self, stores: SqlStores) -> None:
        deployed = stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        stores.deployments.write_observations([seen(deployed)])
        self.save(stores, FILTERS[0])
        second = stores.deployments.request_redeploy(OWNER, "f1")
        stores.revisions.record_removed_filters(at(7))
        assert self.removed(stores) == [("t1", at(7), "kept")]
        stores.deployments.write_observations([seen(second, previous_removed=True)])
        stores.revisions.record_removed_filters(at(8))
        assert self.removed(stores) == [("t1", at(7), "kept"), ("t2", at(8), "kept")]

    def test_a_filter_is_removed_with_the_teardown(self, stores: SqlStores) -> None:
        stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        self.save(stores)
        stores.revisions.record_removed_filters(at(7))
        assert ("t2", at(7), "kept") not in self.removed(stores)
        deployment = stores.deployments.request_teardown("f1")
        assert deployment is not None
        stores.deployments.write_observations([seen(deployment, Phase.ABSENT)])
        stores.revisions.record_removed_filters(at(8))
        assert ("t2", at(8), "kept") in self.removed(stores)

    def test_a_filter_is_recorded_when_its_revisions_are_removed(self, stores: SqlStores) -> None:
        stores.revisions.remove("f1", [1], at(7))
        assert self.removed(stores) == [("t0", at(7), "kept"), ("t1", at(7), "kept")]
        stores.revisions.remove("f1", [2], at(8))
        assert self.removed(stores) == [("t0", at(7), "kept"), ("t1", at(7), "kept")]

    def test_a_deleted_configuration_is_left_to_purge(self, stores: SqlStores) -> None:
        stores.flows.delete(OWNER, "f1")
        stores.revisions.record_removed_filters(at(7))
        assert self.removed(stores) == []

    def test_comes_back_with_a_revision_that_has_it(self, stores: SqlStores) -> None:
        stores.revisions.record_removed_filters(at(7))
        assert self.save(stores, FILTERS[0]) == frozenset()
        assert self.removed(stores) == [("t1", at(7), "kept")]

    def test_values_are_dropped_after_their_retention(self, stores: SqlStores) -> None:
        stores.revisions.record_removed_filters(at(7))
        assert self.drop(stores, 7) == {}
        assert self.drop(stores, 8) == {"f1": {"t0", "t1"}}
        assert self.removed(stores) == [("t0", at(7), "dropped"), ("t1", at(7), "dropped")]
        stores.revisions.record_removed_filters(at(9))
        assert self.drop(stores, 100) == {}

    def test_a_filter_that_comes_back_without_its_values_is_named(self, stores: SqlStores) -> None:
        stores.revisions.record_removed_filters(at(7))
        self.drop(stores, 8)
        assert self.save(stores, *FILTERS) == {"t0", "t1"}
        assert self.removed(stores) == []

    def test_no_revision_with_a_filter_is_saved_while_its_values_are_dropped(self, stores: SqlStores) -> None:
        stores.revisions.record_removed_filters(at(7))
        dropping = stores.revisions.begin_drop(at(8))
        with pytest.raises(Unavailable, match="t0"):
            self.save(stores, FILTERS[0])
        assert stores.flows.get(OWNER, "f1").revision == 3
        assert stores.revisions.begin_drop(at(0)) == dropping, "an interrupted removal is repeated"
        stores.revisions.finish_drop("f1", dropping["f1"])
        assert self.save(stores, FILTERS[0]) == {"t0"}

    def test_a_filter_without_values_is_recorded_as_long_as_a_revision_has_it(self, stores: SqlStores) -> None:
        stores.revisions.record_removed_filters(at(7))
        self.drop(stores, 8)
        stores.revisions.remove("f1", [1], at(9))
        assert self.removed(stores) == [("t1", at(7), "dropped")]
        stores.revisions.remove("f1", [2], at(9))
        assert self.removed(stores) == []

    def test_unknown_filters_are_no_error(self, stores: SqlStores) -> None:
        stores.revisions.finish_drop("f1", ["t0", "unknown"])
        stores.revisions.finish_drop("unknown", ["t1"])
        assert self.removed(stores) == []

    def test_purge_deletes_the_rows(self, stores: SqlStores) -> None:
        stores.revisions.record_removed_filters(at(7))
        stores.flows.delete(OWNER, "f1")
        assert len(self.removed(stores)) == 2
        stores.flows.purge("f1")
        assert self.removed(stores) == []


LIMIT_LOWERED = a_config(transforms=FILTERS).model_dump_json().replace('"parallelism":1', '"parallelism":1000')
TEXTS = [
    LIMIT_LOWERED,
    '{"source": {"type": "kafka", "chain": "base", "entity": "log"}, "sinks": 5, "newer": true}',
    '["no", "object"]',
    "no JSON at all",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
class TestUnreadable:
    """One stored pipeline cannot be read by this version; two others can."""

    @pytest.fixture(autouse=True)
    def three(self, stores: SqlStores, text: str) -> None:
        for number, config in enumerate((a_config(), read_pipeline_config(text), a_config())):
            stores.flows.create(a_flow(f"f{number}", created_s=number, pipeline_config=config))

    def test_is_read_as_it_is_stored(self, stores: SqlStores, text: str) -> None:
        flow = stores.flows.get(OWNER, "f1")
        assert isinstance(flow.pipeline_config, UnreadablePipelineConfig)
        assert flow.pipeline_config.text == text
        assert "can't read the stored pipeline" in flow.unreadable_reason
        assert [(f.id, bool(f.unreadable_reason)) for f in stores.flows.list(OWNER)] == [
            ("f2", False),
            ("f1", True),
            ("f0", False),
        ]

    def test_can_not_be_deployed(self, stores: SqlStores) -> None:
        with pytest.raises(StoredDataUnreadable):
            stores.deployments.request_deploy(OWNER, "f1", a_deployment(config_id="f1"))
        stores.deployments.request_deploy(OWNER, "f2", a_deployment(config_id="f2"))
        assert [d.config_id for d in stores.deployments.list_active()] == ["f2"]

    def test_is_repaired_by_a_save(self, stores: SqlStores) -> None:
        mended = next_revision(stores.flows.get(OWNER, "f1"), pipeline_config=a_config())
        stores.flows.save(mended)
        assert stores.flows.get(OWNER, "f1") == mended
        assert stores.deployments.request_deploy(OWNER, "f1", a_deployment()).desired_revision == 2
        assert stores.revisions.superseded(at(100), 1) == {"f1": [1]}

    def test_is_deleted(self, stores: SqlStores) -> None:
        stores.flows.delete(OWNER, "f1")
        assert [f.id for f in stores.flows.deleted()] == ["f1"]
        stores.flows.purge("f1")
        assert [f.id for f in stores.flows.list(OWNER)] == ["f2", "f0"]


def test_the_filters_of_an_unreadable_pipeline_are_known(stores: SqlStores) -> None:
    stores.flows.create(a_flow(pipeline_config=read_pipeline_config(LIMIT_LOWERED)))
    stores.flows.create(
        a_flow("f2", pipeline_config=read_pipeline_config(LIMIT_LOWERED[:-5]))
    )  # truncated, so not JSON
    assert stores.revisions.filters("f1") == {1: {"t0", "t1", "t2"}}
    assert stores.revisions.filters("f2")[1] >= {"t0", "t1", "t2"}
