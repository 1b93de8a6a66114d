"""Requests and observes the deployment of the configuration f1 in SQL stores."""

from headwater.model.deployment import Deployment, Phase
from headwater.model.flow import PipelineConfig
from tests.support.sql import OWNER, SqlStores, a_config, a_deployment, next_revision, seen

SOLANA = a_config("solana", "nonvoting_transaction")


def deploy(stores: SqlStores, deployment_id: str = "d1") -> Deployment:
    return stores.deployments.request_deploy(OWNER, "f1", a_deployment(deployment_id))


def save(stores: SqlStores, config: PipelineConfig) -> None:
    stores.flows.save(next_revision(stores.flows.get(OWNER, "f1"), pipeline_config=config))


def running(stores: SqlStores) -> Deployment:
    """Return the active deployment after a controller has observed it running."""
    return observed(stores, Phase.RUNNING)


def observed(stores: SqlStores, phase: Phase) -> Deployment:
    active = stores.deployments.active("f1")
    assert active is not None
    stores.deployments.write_observations([seen(active, phase)])
    after = stores.deployments.active("f1")
    assert after is not None
    return after
