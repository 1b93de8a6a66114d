"""The protocols of the store of deployments, and of the change counter.

The controller reads the change counter to notice changes.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from headwater.model.deployment import (
    Deployment,
    DeploymentProgress,
    DeploymentVersion,
    LogLine,
    Observation,
    ObservedWorker,
    ReportedWorkers,
)
from headwater.model.parallelism import Scaling
from headwater.model.positions import RewindTarget

MAX_LOG_LINES = 1000
"""The number of log lines that are kept for each deployment."""


class DeploymentStore(Protocol):
    """The desired and observed state of deployments.

    The API writes the desired state, the controller the observed state. A deployment is active until its phase is
    ABSENT; a configuration has at most one active deployment. From the request of the teardown on, the configuration is
    not deployed, though its deployment is still active. A deployment that this version can't read is returned
    like any other; its `unreadable_reason` says why.
    """

    def request_deploy(self, owner: str, config_id: str, new: Deployment) -> Deployment:
        """Request that the configuration's newest revision runs, and increment the change counter.

        If no deployment is active, `new` is inserted, with its config and desired_revision taken from the
        configuration. If the active deployment is paused or at another revision, or its last rollout failed, its
        desired revision and generation are raised. If it runs the newest revision already, nothing changes. Concurrent
        calls never insert two deployments.

        Raises NotFound, TeardownInProgress, and StoredDataUnreadable when the configuration can't be read.
        """

    def request_redeploy(self, owner: str, config_id: str) -> Deployment:
        """Request that the newest revision runs, if the configuration is deployed and not paused.

        It is like `request_deploy`, but it never inserts a deployment, and changes nothing when the deployment is
        paused. Raises NotFound, also when the configuration is not deployed, and StoredDataUnreadable.
        """

    def request_resume(self, owner: str, config_id: str) -> Deployment:
        """Request that the newest revision runs, also when the pipeline is paused.

        It is like `request_deploy`, but it never inserts a deployment. Raises NotFound, Conflict when the configuration
        is not deployed, and StoredDataUnreadable.
        """

    def request_pause(self, owner: str, config_id: str) -> Deployment:
        """Request that no worker runs and the positions are stored.

        The request increments the change counter. Nothing changes when a pause was requested already. Raises NotFound,
        Conflict when the configuration is not deployed, and StoredDataUnreadable.
        """

    def request_rewind(self, owner: str, config_id: str, to: RewindTarget) -> Deployment:
        """Request that the positions are moved while no worker runs.

        The request increments the change counter, and replaces an earlier request that is still pending. A request with
        the same target as the last one is a retry of it, and changes nothing, while the last rewind is in progress.
        After that it is a retry until `mark_rewind_answered` is called, for at most REWIND_REPEATABLE_FOR
        (model/rollout.py). A later request with the same target is a new rewind, and so is one after a failed rewind or
        after another request, such as a pause. Raises NotFound, Conflict when the
        configuration is not deployed, and StoredDataUnreadable.
        """

    def mark_rewind_answered(self, config_id: str, generation: int) -> None:
        """Record that a client gets the result of the rewind that set this generation.

        From now on, a request with the same target is a new rewind. Nothing changes when another rewind was requested
        meanwhile, or the deployment has ended.
        """

    def request_credential_rotation(self, owner: str, config_id: str, reader_password: str) -> Deployment:
        """Replace the password of the readers, and increment the change counter.

        Raises NotFound (also when the configuration is not deployed), and StoredDataUnreadable when this version can't
        read the deployment.
        """

    def request_teardown(self, config_id: str) -> Deployment | None:
        """Request the teardown of the active deployment. Return None when there is none."""

    def active(self, config_id: str) -> Deployment | None:
        """Return the active deployment of a configuration, also during its teardown, or None."""

    def progress(self, config_ids: Collection[str]) -> Mapping[str, DeploymentProgress]:
        """Return the progress of the active deployments by configuration id.

        Configurations without an active deployment are left out.
        """

    def reported_workers(self, config_ids: Collection[str], owners: Collection[str]) -> Sequence[ReportedWorkers]:
        """Return the workers of active deployments.

        These are the deployments of the given configurations, and all deployments of the given owners.
        """

    def list_active(self, deployment_ids: Collection[str] | None = None) -> Sequence[Deployment]:
        """Return the active deployments: all of them, or only those with the given ids."""

    def active_versions(self, deployment_ids: Collection[str] | None = None) -> Sequence[DeploymentVersion]:
        """Return the versions of the active deployments, or only of those with the given ids.

        The controller compares these versions to notice changes.
        """

    def ended_among(self, deployment_ids: Collection[str]) -> Sequence[str]:
        """Return the given ids of deployments that are in phase ABSENT or were recorded as ended.

        Unknown ids are not returned.
        """

    def undeployed_among(self, config_ids: Collection[str]) -> Sequence[str]:
        """Return the given ids of configurations whose deployment has ended.

        Such a configuration had a deployment and has no active deployment. Configurations that were recorded as ended
        are included. Unknown ids are not returned.
        """

    def obsolete_topics(self, topics: Mapping[str, Collection[str]]) -> frozenset[str]:
        """Return the topics that ended deployments wrote.

        The sinks of a revision that was removed are unknown, so only the dead-letter topic of its configuration is
        returned. If a configuration was recorded as ended, all its given topics are returned. If a configuration has an
        active deployment, none of its topics is returned.

        Args:
            topics: The names of topics by the id of the configuration that they belong to.
        """

    def delete_ended(self, before: datetime, kept: Collection[str]) -> int:
        """Delete the rows of deployments that ended before a time; return how many.

        Args:
            kept: The ids of deployments and configurations that still have resources outside of the database. Their
                rows are kept, because they prove that these resources may be removed.
        """

    def record_as_ended(self, ids: Collection[str], at: datetime) -> None:
        """Record deployments and configurations that are not in this database as ended.

        Their ids are known only from resources on the broker, for example because the database was restored from an
        older backup. Afterwards the controller may remove these resources.
        """

    def write_observations(self, observations: Sequence[Observation]) -> None:
        """Write the observed states.

        Phase ABSENT ends a deployment and deletes its passwords and log lines.
        """

    def report_workers(self, workers: dict[str, Sequence[ObservedWorker]]) -> None:
        """Replace the states of the workers, by deployment id."""

    def write_scaling(self, scaling: Mapping[str, Scaling]) -> None:
        """Write the numbers of workers that the controller has chosen, by deployment id.

        Deployments that have ended are left out. The change counter stays, because only the controller writes them.
        """

    def write_logs(self, lines: Mapping[str, Sequence[LogLine]]) -> None:
        """Add log lines, oldest first, by deployment id.

        The last MAX_LOG_LINES of each deployment are kept.
        """

    def read_logs(self, deployment_id: str, limit: int) -> Sequence[LogLine]:
        """Return the last log lines, newest first."""


class ChangeCounter(Protocol):
    """A counter that every change of a desired state raises.

    The controller polls it to learn of changes at once.
    """

    def value(self) -> int:
        """Return the present value of the counter."""
