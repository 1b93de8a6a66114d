"""The contract of QuotaStore, and of the quota checks in other stores."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import QuotaExceeded
from headwater.model.deployment import Phase
from headwater.model.quota import QUOTA_NAMES, QuotaDefaults
from headwater.model.value_sets import dataset_set_id, filter_set_id
from headwater.stores.sql.database import open_database
from headwater.stores.sql.encryption import FieldCipher
from tests.support.sql import (
    OWNER,
    SECRET_KEY,
    SqlStores,
    a_config,
    a_dataset,
    a_deployment,
    a_flow,
    at,
    next_revision,
    seen,
)

Open = Callable[[QuotaDefaults], SqlStores]


def script(size: int) -> dict[str, Any]:
    return {"uid": "t1", "type": "v8", "script": "/" * size}


def sized(size: int, config_id: str = "f1", owner: str = OWNER) -> Any:
    return a_flow(config_id, owner, pipeline_config=a_config(transforms=[script(size)]))


@pytest.fixture(params=["sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Yield a function that opens stores with quotas from the settings."""
    databases: list[SqlStores] = []

    def open_with(defaults: QuotaDefaults) -> SqlStores:
        lite = f"sqlite:///{tmp_path / 'headwater.db'}"
        url = lite if request.param == "sqlite" else request.getfixturevalue("postgres_url")
        databases.append(open_database(url, FieldCipher(SECRET_KEY), defaults))
        return databases[-1]

    yield open_with
    for stores in databases:
        stores.close()


class TestUsage:
    def test_nothing_yet(self, stores: SqlStores) -> None:
        assert set(stores.quotas.usage(OWNER).values()) == {0}
        assert stores.quotas.limits(OWNER) == dict.fromkeys(QUOTA_NAMES)

    def test_usage_counts_stored_and_deployed_resources(self, stores: SqlStores) -> None:
        config = a_config(transforms=[script(100)], parallelism=3)
        stores.flows.create(a_flow("f1", pipeline_config=config))
        stores.flows.create(sized(10, "f2"))
        stores.flows.create(sized(1_000, "f3", "bob"))
        stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        stores.datasets.create(a_dataset())
        used = dict(stores.quotas.usage(OWNER))
        assert used.pop("stored_bytes") > 110
        expected = {"configurations": 2, "script_bytes": 110, "deployments": 1, "workers": 3, "datasets": 1}
        assert used == expected

    def test_the_largest_stored_revision_counts_in_stored_bytes(self, stores: SqlStores) -> None:
        stores.quotas.set_limits(OWNER, {"stored_bytes": 5_000}, [])
        flow = sized(3_000)
        stores.flows.create(flow)
        stores.flows.save(next_revision(flow, pipeline_config=a_config(transforms=[script(10)])))
        with pytest.raises(QuotaExceeded):
            stores.flows.create(sized(3_000, "f2"))
        stores.flows.create(sized(10, "f2"))

    def test_the_newest_revision_counts(self, stores: SqlStores) -> None:
        flow = sized(1_000)
        stores.flows.create(flow)
        first = stores.quotas.usage(OWNER)
        small = next_revision(flow, pipeline_config=a_config(transforms=[script(10)]))
        stores.flows.save(small)
        used = stores.quotas.usage(OWNER)
        assert used["script_bytes"] == 10
        assert used["stored_bytes"] == first["stored_bytes"]
        for _ in range(3):
            small = next_revision(small)
            stores.flows.save(small)
        assert stores.quotas.usage(OWNER) == used

    def test_values_of_a_removed_filter_count_while_they_are_stored(self, stores: SqlStores) -> None:
        filter_ = {"uid": "t9", "type": "redis_set_filter", "filter_expr": "root = this.a"}
        flow = a_flow(pipeline_config=a_config(transforms=[filter_]))
        stores.flows.create(flow)
        stores.flows.save(next_revision(flow, pipeline_config=a_config()))
        stores.revisions.remove("f1", [1], at(9))
        assert filter_set_id("f1", "t9") in stores.quotas.sets(OWNER)
        stores.revisions.begin_drop(at(10))
        assert filter_set_id("f1", "t9") in stores.quotas.sets(OWNER)
        stores.revisions.finish_drop("f1", ["t9"])
        assert list(stores.quotas.sets(OWNER)) == []

    def test_values_that_were_dropped_do_not_count_while_a_revision_is_kept(self, stores: SqlStores) -> None:
        filter_ = {"uid": "t9", "type": "redis_set_filter", "filter_expr": "root = this.a"}
        flow = a_flow(pipeline_config=a_config(transforms=[filter_]))
        stores.flows.create(flow)
        stores.flows.save(next_revision(flow, pipeline_config=a_config()))
        stores.revisions.record_removed_filters(at(9))
        assert filter_set_id("f1", "t9") in stores.quotas.sets(OWNER)
        stores.revisions.begin_drop(at(10))
        stores.revisions.finish_drop("f1", ["t9"])
        assert list(stores.quotas.sets(OWNER)) == []

    def test_removed_resources_do_not_count(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        deployment = stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        stores.datasets.create(a_dataset())
        stores.flows.delete(OWNER, "f1")
        assert stores.quotas.usage(OWNER)["workers"] == 1
        stores.deployments.write_observations([seen(deployment, Phase.ABSENT, observed_generation=9)])
        stores.flows.purge("f1")
        stores.datasets.set_state("s1", "deleting")
        assert set(stores.quotas.usage(OWNER).values()) == {0}


class TestOverrides:
    def test_overrides_replace_the_settings(self, opened: Open) -> None:
        stores = opened(QuotaDefaults({"workers": 5, "datasets": 2}))
        stores.quotas.set_limits(OWNER, {"workers": 9, "datasets": None, "configurations": 0}, [])
        allowed = stores.quotas.limits(OWNER)
        assert (allowed["workers"], allowed["datasets"], allowed["configurations"]) == (9, None, 0)
        assert stores.quotas.limits("bob")["workers"] == 5
        assert stores.quotas.overrides() == {OWNER: {"workers": 9, "datasets": None, "configurations": 0}}

    def test_removing_an_override_restores_the_settings(self, opened: Open) -> None:
        stores = opened(QuotaDefaults({"workers": 5}))
        stores.quotas.set_limits(OWNER, {"workers": 9, "datasets": 1}, [])
        stores.quotas.set_limits(OWNER, {}, ["workers"])
        assert stores.quotas.limits(OWNER)["workers"] == 5
        stores.quotas.set_limits(OWNER, {}, ["datasets"])
        assert stores.quotas.overrides() == {}


class TestEnforced:
    def test_configurations(self, stores: SqlStores) -> None:
        stores.quotas.set_limits(OWNER, {"configurations": 1}, [])
        stores.flows.create(a_flow())
        with pytest.raises(QuotaExceeded, match=r"You have 1 of 1 configurations .* would have 2") as caught:
            stores.flows.create(a_flow("f2"))
        assert (caught.value.used, caught.value.allowed) == (1, 1)
        assert [flow.id for flow in stores.flows.list(OWNER)] == ["f1"]
        stores.flows.create(a_flow("f3", "bob"))
        stores.flows.delete(OWNER, "f1")
        stores.flows.create(a_flow("f2"))

    @pytest.mark.parametrize("name", ["script_bytes", "stored_bytes"])
    def test_bytes(self, stores: SqlStores, name: Any) -> None:
        stores.quotas.set_limits(OWNER, {name: 2_000}, [])
        flow = sized(100)
        stores.flows.create(flow)
        with pytest.raises(QuotaExceeded):
            stores.flows.save(next_revision(flow, pipeline_config=a_config(transforms=[script(3_000)])))
        assert stores.flows.get(OWNER, "f1") == flow
        with pytest.raises(QuotaExceeded):
            stores.flows.create(sized(2_500, "f2"))

    def test_saves_that_do_not_grow_are_allowed_over_a_lowered_quota(self, stores: SqlStores) -> None:
        flow = sized(1_000)
        stores.flows.create(flow)
        stores.quotas.set_limits(OWNER, {"script_bytes": 10, "configurations": 0}, [])
        smaller = next_revision(flow, pipeline_config=a_config(transforms=[script(999)]))
        stores.flows.save(smaller)
        with pytest.raises(QuotaExceeded):
            stores.flows.save(next_revision(smaller, pipeline_config=a_config(transforms=[script(1_001)])))

    def test_saves_that_do_not_grow_are_allowed_at_the_stored_bytes_quota(self, stores: SqlStores) -> None:
        flow = sized(1_000)
        stores.flows.create(flow)
        stores.flows.create(sized(1_000, "f2", "bob"))
        used = stores.quotas.usage(OWNER)["stored_bytes"]
        stores.quotas.set_limits(OWNER, {"stored_bytes": used}, [])
        for size in (1_000, 999, 500, 1):
            smaller = next_revision(flow, pipeline_config=a_config(transforms=[script(size)]))
            stores.flows.save(smaller)
            flow = smaller
        assert stores.flows.get(OWNER, "f1") == flow
        stores.quotas.set_limits(OWNER, {"stored_bytes": 100}, [])
        with pytest.raises(QuotaExceeded):
            stores.flows.save(next_revision(flow, pipeline_config=a_config(transforms=[script(1_001)])))
        with pytest.raises(QuotaExceeded):
            stores.flows.create(sized(1, "f3"))

    def test_saves_that_do_not_grow_are_allowed_at_the_total_quota(self, opened: Open) -> None:
        stores = opened(QuotaDefaults(total={"stored_bytes": 3_600}))
        flow = sized(1_500)
        stores.flows.create(flow)
        stores.flows.create(sized(1_500, "f2", "bob"))
        stores.flows.save(next_revision(flow, pipeline_config=a_config(transforms=[script(1_499)])))
        with pytest.raises(QuotaExceeded):
            stores.flows.create(sized(1, "f3"))

    def test_deployments_and_workers(self, stores: SqlStores) -> None:
        stores.quotas.set_limits(OWNER, {"deployments": 2, "workers": 3}, [])
        for number, parallelism in ((1, 2), (2, 2), (3, 1), (4, 1)):
            config = a_config(parallelism=parallelism)
            stores.flows.create(a_flow(f"f{number}", pipeline_config=config))
        deploy = stores.deployments.request_deploy
        first = deploy(OWNER, "f1", a_deployment("d1"))
        before = stores.change_counter.value()
        with pytest.raises(QuotaExceeded, match="You have 2 of 3 workers"):
            deploy(OWNER, "f2", a_deployment("d2"))
        assert stores.deployments.active("f2") is None
        assert stores.change_counter.value() == before
        deploy(OWNER, "f3", a_deployment("d3"))
        with pytest.raises(QuotaExceeded, match="You have 2 of 2 deployments"):
            deploy(OWNER, "f4", a_deployment("d4"))
        assert stores.deployments.request_redeploy(OWNER, "f1").id == first.id

    def test_a_redeploy_counts_only_additional_workers(self, stores: SqlStores) -> None:
        stores.quotas.set_limits(OWNER, {"workers": 3}, [])
        flow = a_flow(pipeline_config=a_config(parallelism=2))
        stores.flows.create(flow)
        stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        larger = next_revision(flow, pipeline_config=a_config(parallelism=4))
        stores.flows.save(larger)
        with pytest.raises(QuotaExceeded):
            stores.deployments.request_redeploy(OWNER, "f1")
        stores.flows.save(next_revision(larger, pipeline_config=a_config(parallelism=3)))
        assert stores.deployments.request_redeploy(OWNER, "f1").desired_revision == 3

    def test_datasets(self, stores: SqlStores) -> None:
        stores.quotas.set_limits(OWNER, {"datasets": 1}, [])
        stores.datasets.create(a_dataset())
        with pytest.raises(QuotaExceeded):
            stores.datasets.create(a_dataset("s2", "other"))
        stores.datasets.set_state("s1", "deleting")
        stores.datasets.create(a_dataset("s2", "other"))

    def test_all_owners_together(self, opened: Open) -> None:
        stores = opened(QuotaDefaults(total={"configurations": 2}))
        stores.flows.create(a_flow("f1"))
        stores.flows.create(a_flow("f2", "bob"))
        with pytest.raises(QuotaExceeded) as refused:
            stores.flows.create(a_flow("f3", "eve"))
        assert "All owners together may have 2 configurations" in refused.value.detail
        assert stores.quotas.limits("eve")["configurations"] is None

    @pytest.mark.parametrize(
        "defaults", [QuotaDefaults({"configurations": 5}), QuotaDefaults(total={"configurations": 5})]
    )
    def test_concurrent_creates_never_exceed_the_quota(self, opened: Open, defaults: QuotaDefaults) -> None:
        stores = opened(defaults)

        def create(number: int) -> bool:
            try:
                stores.flows.create(a_flow(f"f{number}"))
            except QuotaExceeded:
                return False
            return True

        with ThreadPoolExecutor(16) as pool:
            assert sum(pool.map(create, range(32))) == 5
        assert len(stores.flows.list(OWNER)) == 5

    def test_concurrent_deploys_never_exceed_the_quota(self, opened: Open) -> None:
        stores = opened(QuotaDefaults({"workers": 7}))
        for number in range(16):
            stores.flows.create(a_flow(f"f{number}", pipeline_config=a_config(parallelism=2)))

        def deploy(number: int) -> bool:
            try:
                stores.deployments.request_deploy(OWNER, f"f{number}", a_deployment(f"d{number}"))
            except QuotaExceeded:
                return False
            return True

        with ThreadPoolExecutor(16) as pool:
            assert sum(pool.map(deploy, range(16))) == 3
        assert stores.quotas.usage(OWNER)["workers"] == 6


class TestSets:
    def test_filters_of_all_stored_revisions_and_datasets(self, stores: SqlStores) -> None:
        def with_filter(uid: str) -> Any:
            return a_config(transforms=[{"uid": uid, "type": "redis_set_filter", "filter_expr": "root = this.a"}])

        flow = a_flow(pipeline_config=with_filter("a"))
        stores.flows.create(flow)
        stores.flows.save(next_revision(flow, pipeline_config=with_filter("b")))
        stores.flows.create(a_flow("f2", "bob", pipeline_config=with_filter("c")))
        stores.datasets.create(a_dataset())
        mine = {filter_set_id("f1", "a"), filter_set_id("f1", "b"), dataset_set_id("s1")}
        assert set(stores.quotas.sets(OWNER)) == mine
        assert set(stores.quotas.sets()) == {*mine, filter_set_id("f2", "c")}
        assert len(stores.quotas.sets(OWNER)) == 3
