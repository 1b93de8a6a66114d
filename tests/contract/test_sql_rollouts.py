"""The contract of DeploymentStore about rollouts.

Rollouts are the requested revisions of a deployment.
"""

import pytest

from headwater.model.deployment import Condition, DeployedRevision, Deployment, Phase
from headwater.model.flow import PipelineConfig
from tests.support.deployments import SOLANA, deploy, observed, running, save
from tests.support.sql import SqlStores, a_config, a_flow, seen


@pytest.fixture
def stores(stores: SqlStores) -> SqlStores:
    """Return the stores with one configuration."""
    stores.flows.create(a_flow())
    return stores


def other_stream(start_at: str, parallelism: int = 1) -> PipelineConfig:
    source = {"type": "pubsub", "chain": "base", "entity": "decoded_log", "start_at": start_at}
    return a_config(source=source, parallelism=parallelism)


def rolled_back(stores: SqlStores) -> None:
    """Roll back from the newest revision to the first one."""
    active = stores.deployments.active("f1")
    assert active is not None
    stores.deployments.write_observations([seen(active, observed_revision=1, condition=Condition.ROLLED_BACK)])


class TestRollback:
    def ready(self, stores: SqlStores) -> Deployment:
        """Return the active deployment, which is ready but not stable yet."""
        active = stores.deployments.active("f1")
        assert active is not None
        stores.deployments.write_observations([seen(active, condition=Condition.ROLLING_OUT)])
        after = stores.deployments.active("f1")
        assert after is not None
        return after

    def test_goes_back_to_the_last_stable_revision(self, stores: SqlStores) -> None:
        deploy(stores)
        running(stores)
        for parallelism in (2, 3):
            save(stores, a_config(parallelism=parallelism))
            deploy(stores)
            after = self.ready(stores)
        assert (after.observed_revision, after.rollback_revision) == (3, 1)
        assert [revision.number for revision in after.revisions] == [3, 2, 1]
        assert after.revision(1) == DeployedRevision(1, a_config(), 1)

    def test_goes_back_to_the_previous_revision_if_none_is_stable(self, stores: SqlStores) -> None:
        deploy(stores)
        self.ready(stores)
        save(stores, a_config(parallelism=2))
        assert deploy(stores).rollback_revision == 1

    def test_a_first_revision_has_nothing_to_go_back_to(self, stores: SqlStores) -> None:
        deploy(stores)
        observed(stores, Phase.FAILED)
        save(stores, a_config(parallelism=2))
        assert deploy(stores).rollback_revision is None

    def test_other_rollouts_are_removed_with_their_resources(self, stores: SqlStores) -> None:
        deploy(stores)
        running(stores)
        save(stores, a_config(parallelism=2))
        deploy(stores)
        stable = running(stores)
        assert (stable.rollback_revision, [other.number for other in stable.previous_revisions]) == (2, [1])
        stores.deployments.write_observations([seen(stable, previous_removed=True)])
        after = stores.deployments.active("f1")
        assert after is not None
        assert (after.rollback_revision, after.previous_revisions) == (2, ())

    def test_a_newly_requested_revision_retires_no_rollout(self, stores: SqlStores) -> None:
        deploy(stores)
        running(stores)
        save(stores, a_config(parallelism=2))
        second = deploy(stores)
        save(stores, a_config(parallelism=3))
        third = deploy(stores)
        stores.deployments.write_observations([seen(second, previous_removed=True)])
        after = stores.deployments.active("f1")
        assert after is not None
        assert (after.observed_revision, after.rollback_revision, after.previous_revisions) == (
            2,
            1,
            third.previous_revisions,
        )


class TestSourceEpoch:
    def epoch(self, stores: SqlStores, config: PipelineConfig) -> int:
        save(stores, config)
        return deploy(stores).source_epoch

    def test_stays_with_the_stream(self, stores: SqlStores) -> None:
        deploy(stores)
        running(stores)
        source = {"type": "pubsub", "chain": "base", "entity": "log", "start_at": "earliest"}
        assert self.epoch(stores, a_config(source=source, transforms=[])) == 1

    def test_another_start_applies_until_a_revision_has_run(self, stores: SqlStores) -> None:
        earliest = a_config(source={"type": "pubsub", "chain": "base", "entity": "log", "start_at": "earliest"})
        deploy(stores)
        observed(stores, Phase.FAILED)
        assert deploy(stores).source_epoch == 1
        assert self.epoch(stores, earliest) == 2
        observed(stores, Phase.FAILED)
        assert self.epoch(stores, a_config(transforms=[])) == 3

    @pytest.mark.parametrize(
        "source",
        [
            {"type": "pubsub", "chain": "polygon", "entity": "log"},
            {"type": "pubsub", "chain": "base", "entity": "decoded_log"},
            {"type": "pubsub", "chain": "base", "entity": "log", "is_zerolag": True},
        ],
    )
    def test_rises_with_another_stream(self, stores: SqlStores, source: dict[str, object]) -> None:
        deploy(stores)
        running(stores)
        assert self.epoch(stores, a_config(source=source)) == 2
        assert running(stores).source_epoch == 2

    def test_never_comes_back_after_another_stream_ran(self, stores: SqlStores) -> None:
        deploy(stores)
        running(stores)
        assert self.epoch(stores, SOLANA) == 2
        running(stores)
        assert self.epoch(stores, a_config()) == 3

    def test_another_start_applies_after_an_abandoned_rollout(self, stores: SqlStores) -> None:
        deploy(stores)
        running(stores)
        assert self.epoch(stores, other_stream("latest")) == 2
        assert self.epoch(stores, other_stream("latest", parallelism=2)) == 2
        rolled_back(stores)
        assert deploy(stores).source_epoch == 2
        assert self.epoch(stores, other_stream("earliest")) == 3
        rolled_back(stores)
        assert self.epoch(stores, other_stream("earliest", parallelism=2)) == 3
        rolled_back(stores)
        assert self.epoch(stores, other_stream("latest")) == 4

    def test_latest_of_an_abandoned_rollout_is_not_reused(self, stores: SqlStores) -> None:
        deploy(stores)
        running(stores)
        assert self.epoch(stores, other_stream("latest")) == 2
        rolled_back(stores)
        assert self.epoch(stores, other_stream("latest", parallelism=2)) == 3

    def test_a_failed_rollout_of_another_stream_loses_no_offset(self, stores: SqlStores) -> None:
        deploy(stores)
        running(stores)
        assert self.epoch(stores, SOLANA) == 2
        observed(stores, Phase.FAILED)
        assert deploy(stores).source_epoch == 2
        assert self.epoch(stores, a_config(parallelism=2)) == 1
        running(stores)
        assert self.epoch(stores, SOLANA) == 3
