"""Removes data and resources that API calls and teardowns have left behind.

Kafka resources: a teardown removes topics, users and ACLs before it returns. A consumer group can only be
removed when it is empty, and a user's consumer stays a member until its session times out. Topics, users and ACLs
are left behind only in rare cases, for example when Kafka executes a request of a killed controller late.
Consumer groups on other clusters, Pub/Sub subscriptions and workers are treated in the same way. classification.py
decides which resources are removed, and which are only reported for `headwater sweep`.

Revisions: the newest revisions of a configuration are kept, and all revisions that a deployment runs or may roll back
to. The others are removed. A filter of an earlier revision that is neither in the newest revision nor in a revision of
a deployment is recorded as removed, and its values are kept for some time.

Datasets: creating a dataset writes its row and its name; deleting the dataset removes its name, its values and its row.
A process that is killed in between leaves a row that is not live.

Sets: a process that is killed while it replaces the values of a set leaves new values that are not visible. A process
that is killed during a save leaves the first values of new filters, which no saved configuration has.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import structlog

from headwater.brokers.base import ClusterAdmin, DeploymentResources, TopicSpec, User
from headwater.controller.classification import classify
from headwater.controller.deployment_sources import Sources
from headwater.controller.flow_locks import FlowLocks
from headwater.controller.recorded_state import read_recorded_state
from headwater.controller.resource_names import ExistingResources, ResourceNames, config_id_of
from headwater.errors import LeaseLost, Unavailable
from headwater.model.audit import CONTROLLER_ACTOR, with_actor
from headwater.model.redrive import is_redrive
from headwater.model.value_sets import dataset_set_id
from headwater.orchestrators.base import Orchestrator
from headwater.stores.cleanup import remove_abandoned_sets, remove_superseded
from headwater.stores.protocols.configurations import RevisionStore
from headwater.stores.protocols.datasets import DatasetNameStore, DatasetStore
from headwater.stores.protocols.deployments import DeploymentStore
from headwater.stores.protocols.sets import PendingSets, SetStore

log = structlog.get_logger(__name__)

INTERRUPTED_AFTER = timedelta(minutes=1)
"""How long ago a dataset must have been created before its unfinished creation or deletion counts as interrupted."""
ABANDONED_AFTER = timedelta(minutes=10)
"""How long the first values of a filter may wait for the save of its configuration; then the save counts as failed."""
REPLACED_REVISION_KEPT_FOR = timedelta(seconds=30)
"""The minimum time for which a replaced revision is kept."""
DEFAULT_REVISIONS_KEPT = 100
"""How many newest revisions of each configuration are kept by default."""


class Sweeper:
    """Removes leftover data and resources. The leading controller calls `sweep` periodically.

    Attributes:
        unknown: The resources whose removal an operator must confirm, as the last sweep found them. See
            ClassifiedResources.

    Args:
        dataset_names: The names of datasets that scripts look up.
        pending_sets: The sets that belong to a save in progress.
        require_lease: Raises LeaseLost unless this controller leads; called before each step, and directly before each
            removal from Kafka or Pub/Sub.
        now: Returns the current time in UTC.
        revisions_kept: How many newest revisions of each configuration are kept.
        remove_expired: Further steps, which remove expired data.
        ended_deployments_kept_for: How long the rows of ended deployments are kept; None keeps them for ever.
    """

    def __init__(
        self,
        *,
        own_cluster: ClusterAdmin,
        sources: Sources,
        orchestrator: Orchestrator,
        flow_locks: FlowLocks,
        deployments: DeploymentStore,
        revisions: RevisionStore,
        datasets: DatasetStore,
        dataset_names: DatasetNameStore,
        sets: SetStore,
        pending_sets: PendingSets,
        require_lease: Callable[[], None],
        now: Callable[[], datetime],
        revisions_kept: int = DEFAULT_REVISIONS_KEPT,
        remove_expired: Sequence[Callable[[], None]] = (),
        ended_deployments_kept_for: timedelta | None = None,
    ) -> None:
        self._revisions_kept = revisions_kept
        self._ended_deployments_kept_for = ended_deployments_kept_for
        self._own_cluster = own_cluster
        self._sources = sources
        self._orchestrator = orchestrator
        self._flow_locks = flow_locks
        self._removable_in_last_sweep: frozenset[str] = frozenset()
        self._deployments = deployments
        self._revisions = revisions
        self._datasets = datasets
        self._dataset_names = dataset_names
        self._sets = sets
        self._pending_sets = pending_sets
        self._require_lease = require_lease
        self._now = now
        self.unknown = ResourceNames()
        self._steps = (
            self.sweep_resources,
            self.sweep_revisions,
            self.sweep_datasets,
            self.sweep_sets,
            *remove_expired,
        )

    def sweep(self) -> None:
        """Run all steps.

        A step is skipped until the next sweep while its store or Kafka is unavailable. After an unexpected error of a
        step, the remaining steps still run. The last unexpected error is raised at the end.
        """
        last_error: Exception | None = None
        for step in self._steps:
            try:
                with with_actor(CONTROLLER_ACTOR):
                    self._require_lease()
                    step()
            except Unavailable as error:
                log.warning("sweeping waits", step=step.__name__, reason=error.detail)
            except LeaseLost:
                raise
            except Exception as error:  # raised below
                log.error("a step of the sweep failed", step=step.__name__, exc_info=error)
                last_error = error
        if last_error is not None:
            raise last_error

    def sweep_resources(self) -> None:
        """Remove the resources of ended deployments, and report unknown resources."""
        worker_set_ids = self._orchestrator.worker_set_ids()
        existing = ExistingResources(
            self._own_cluster.inventory(),
            external_groups=self._sources.external_groups(),
            subscriptions=self._sources.subscriptions(),
            running_deployment_ids=frozenset(each for each in worker_set_ids if not is_redrive(each)),
        )
        classified = classify(existing, read_recorded_state(self._deployments, existing))
        self._report_unknown(classified.unknown)
        self._remove(classified.removable)
        self._remove_old_rows(existing.names)

    def _remove_old_rows(self, names: ResourceNames) -> None:
        """Remove old rows of ended deployments, except the rows whose resources still exist."""
        if self._ended_deployments_kept_for is not None:
            self._require_lease()
            ended_before = self._now() - self._ended_deployments_kept_for
            self._deployments.delete_ended(ended_before, names.deployment_ids | names.config_ids)

    def _report_unknown(self, unknown: ResourceNames) -> None:
        """Store the unknown resources in `unknown`, and log them when they have changed."""
        if unknown and unknown != self.unknown:
            log.warning(
                "there are resources of deployments that this database does not record; they are kept. Either "
                "the database is a restored backup or another installation shares Kafka, Pub/Sub or the place where "
                "workers run. List them with `headwater sweep`, which also removes those that you confirm",
                deployments=sorted(unknown.deployment_ids),
                configurations=sorted(unknown.config_ids),
            )
        self.unknown = unknown

    def _remove(self, removable: ResourceNames) -> None:
        for deployment_id in sorted(removable.running_deployment_ids):
            log.warning("workers of an ended deployment are stopped", deployment=deployment_id)
            self._orchestrator.stop_workers(deployment_id)
        if removable.users:
            log.warning("users of ended deployments are removed", users=sorted(removable.users))
            self._require_lease()
            self._own_cluster.remove_all(
                DeploymentResources((), tuple(User(name, "") for name in sorted(removable.users)), ())
            )
        prefixes = [f"{kind}-{ended}." for ended in sorted(removable.deployment_ids) for kind in ("dep", "wrk")]
        if removable.groups:
            self._require_lease()
            self._own_cluster.delete_groups(prefixes)
        if removable.external_groups or removable.subscriptions:
            self._require_lease()
            self._sources.remove_subscriptions_and_groups(prefixes)
        self._remove_topics(removable.topics)

    def _remove_topics(self, topics: frozenset[str]) -> None:
        """Remove the topics that were removable in this sweep and in the previous one."""
        for topic in sorted(topics & self._removable_in_last_sweep):
            config_id = config_id_of(topic) or ""
            with self._flow_locks.lock_of(config_id):  # a deploy that starts now creates its topics afterwards
                if self._deployments.undeployed_among([config_id]):
                    log.warning("a topic of an ended deployment is removed", topic=topic)
                    self._require_lease()
                    self._own_cluster.remove_all(DeploymentResources((TopicSpec(topic, 1),), (), ()))
        self._removable_in_last_sweep = topics

    def sweep_revisions(self) -> None:
        """Remove old revisions, and record removed filters, whose values are kept for some time."""
        before = self._now() - REPLACED_REVISION_KEPT_FOR
        remove_superseded(self._revisions, before, self._revisions_kept, self._now())

    def sweep_datasets(self) -> None:
        """Remove datasets whose creation or deletion was interrupted."""
        for dataset in self._datasets.incomplete():
            if self._now() - dataset.updated_at > INTERRUPTED_AFTER:
                self._datasets.set_state(dataset.id, "deleting")
                self._dataset_names.discard(dataset.owner, dataset.name, dataset.id)
                self._sets.drop(dataset_set_id(dataset.id))
                self._datasets.remove(dataset.id)

    def sweep_sets(self) -> None:
        """Remove the values that interrupted replacements and saves have left behind."""
        self._sets.sweep()
        remove_abandoned_sets(self._pending_sets, self._revisions, self._sets, self._now() - ABANDONED_AFTER)
