"""The database's records about the deployments and configurations of existing resources."""

from dataclasses import dataclass

from headwater.controller.resource_names import ExistingResources
from headwater.stores.protocols.deployments import DeploymentStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedState:
    """The deployments and configurations of existing resources, by their state in the database.

    Attributes:
        active_deployments: The ids of deployments that have not ended.
        ended_deployments: The ids of deployments that have ended, or that an operator has recorded as ended.
        deployed_configurations: The ids of configurations with an active deployment.
        undeployed_configurations: The ids of configurations whose deployments are all among the ended ones. They are
            read after `deployed_configurations`, so a configuration whose deployment ends meanwhile is in both.
        obsolete_topics: The topics that only ended deployments have written. They are read only where the operator
            manages the Kafka users; otherwise the set is empty.
    """

    active_deployments: frozenset[str] = frozenset()
    ended_deployments: frozenset[str] = frozenset()
    deployed_configurations: frozenset[str] = frozenset()
    undeployed_configurations: frozenset[str] = frozenset()
    obsolete_topics: frozenset[str] = frozenset()

    @property
    def unused_configurations(self) -> frozenset[str]:
        """The ids of configurations without an active deployment.

        A configuration in both sets is left out, because its deployment was active at the first read.
        """
        return self.undeployed_configurations - self.deployed_configurations

    @property
    def recorded_configurations(self) -> frozenset[str]:
        """The ids of all configurations that the database records."""
        return self.deployed_configurations | self.undeployed_configurations


def read_recorded_state(deployments: DeploymentStore, existing: ExistingResources) -> RecordedState:
    """Return what the database records about existing resources.

    List the resources before this call, because a row is stored before its resources are created.
    """
    versions, names = deployments.active_versions(), existing.names
    has_acls = existing.inventory.has_users_and_acls
    obsolete_topics = frozenset() if has_acls else deployments.obsolete_topics(names.topics_by_config_id())
    return RecordedState(
        active_deployments=frozenset(version.id for version in versions),
        ended_deployments=frozenset(deployments.ended_among(names.deployment_ids)),
        deployed_configurations=frozenset(version.config_id for version in versions),
        undeployed_configurations=frozenset(deployments.undeployed_among(names.config_ids)),
        obsolete_topics=obsolete_topics,
    )
