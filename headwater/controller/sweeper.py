"""Removes leftovers of calls and teardowns.

On the broker: topics, users and rules go before a teardown answers, but a group can only go when no member is left,
and a user's consumer stays a member until its session times out. The others are left over only when something odd
happened, as a broker that carries out late what a killed controller had asked. The same holds for groups on the other
clusters that streams come from, for subscriptions on Pub/Sub, and for workers. `inventory.py` has the rule: what the
database records as ended is removed, and what it does not record is reported and waits for `headwater sweep`.

Revisions: a save replaces the revision before it, which is removed when no rollout can go back to it. The values of
the filters that only it had are kept for some time.

Datasets: a kill between the row, the name and the values leaves a row that is not live.

Sets: a replace that was killed leaves values that nobody can see; so does a save that was killed after the first values
of its new filters were written.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import structlog

from headwater.brokers.base import Broker, Resources, TopicSpec, User
from headwater.controller.flow_locks import FlowLocks
from headwater.controller.inventory import Classified, Found, Recorded, ResourceNames, classify, flow_of
from headwater.controller.sources import Sources
from headwater.errors import LeaseLost, Unavailable
from headwater.model.audit import CONTROLLER, acting_as
from headwater.model.dataset import dataset_set
from headwater.orchestrators.base import Orchestrator
from headwater.stores.base import DatasetNames, DatasetStore, DeploymentStore, UnsavedSets, RevisionStore, SetStore
from headwater.stores.cleanup import remove_unsaved_sets, remove_superseded

log = structlog.get_logger(__name__)

UNSETTLED_FOR = timedelta(minutes=1)
"""How long a dataset may be in creation or deletion before that counts as abandoned."""
DRAFT_FOR = timedelta(minutes=10)
"""How long the first values of a filter may wait for its save."""
SUPERSEDED_FOR = timedelta(seconds=30)
"""How long a revision that was replaced is kept at least."""


def recorded(deployments: DeploymentStore, found: Found) -> Recorded:
    """The database's state of the found resources. List these first: a row is stored before its resources exist."""
    markers, names = deployments.versions(), found.names
    return Recorded(
        active=frozenset(marker.id for marker in markers),
        ended=frozenset(deployments.ended_among(names.deployments)),
        deployed=frozenset(marker.flow_id for marker in markers),
        undeployed=frozenset(deployments.undeployed_among(names.flows)),
        torn_down=None if found.inventory.lists_users else deployments.obsolete_topics(names.topics_by_flow()),
    )


class Sweeper:
    """Called by the controller's leader from time to time.

    confirm: returns while this controller leads, and raises otherwise; called right before each removal. now: UTC.
    purges: what else is removed when it is old. ended_for: how long the rows of ended deployments are kept; without it,
    for ever.
    """

    def __init__(
        self,
        broker: Broker,
        sources: Sources,
        orchestrator: Orchestrator,
        flow_locks: FlowLocks,
        deployments: DeploymentStore,
        revisions: RevisionStore,
        datasets: DatasetStore,
        names: DatasetNames,
        sets: SetStore,
        drafts: UnsavedSets,
        confirm: Callable[[], None],
        now: Callable[[], datetime],
        purges: Sequence[Callable[[], None]] = (),
        ended_for: timedelta | None = None,
    ) -> None:
        self._ended_for = ended_for
        self._broker = broker
        self._sources = sources
        self._orchestrator = orchestrator
        self._flow_locks = flow_locks
        self._suspects: frozenset[str] = frozenset()
        self._deployments = deployments
        self._revisions = revisions
        self._datasets = datasets
        self._names = names
        self._sets = sets
        self._drafts = drafts
        self._confirm = confirm
        self._now = now
        self.unknown = ResourceNames()
        self._steps = (
            self.sweep_remains,
            self.sweep_revisions,
            self.sweep_datasets,
            self.sweep_sets,
            *purges,
        )

    def sweep(self) -> None:
        """Run all steps. A step whose store or broker is unavailable waits for the next sweep.

        After an unexpected error of one step, the others still run, and the last such error is raised at the end.
        """
        failed: Exception | None = None
        for step in self._steps:
            try:
                with acting_as(CONTROLLER):
                    self._confirm()
                    step()
            except Unavailable as error:
                log.warning("sweeping waits", step=step.__name__, reason=error.detail)
            except LeaseLost:
                raise
            except Exception as error:  # raised below
                log.error("a step of the sweep failed", step=step.__name__, exc_info=error)
                failed = error
        if failed is not None:
            raise failed

    def sweep_remains(self) -> None:
        """Remove what is left of ended deployments; report what the database does not record."""
        found = Found(self._broker.inventory(), self._sources.names(), self._orchestrator.running())
        result = classify(found, recorded(self._deployments, found))
        self._report(result.unknown)
        self._remove(result)
        self._forget_ended(found.names)

    def _forget_ended(self, names: ResourceNames) -> None:
        """Remove old rows of ended deployments, except those whose resources still exist."""
        if self._ended_for is not None:
            self._confirm()
            self._deployments.delete_ended(self._now() - self._ended_for, names.deployments | names.flows)

    def _report(self, unknown: ResourceNames) -> None:
        """Log the unknown resources when they have changed."""
        if unknown and unknown != self.unknown:
            log.warning(
                "there are things of deployments that this database does not know; they stay. Is it a restored "
                "backup, or is the cluster shared? `headwater sweep` lists them, and removes what you confirm",
                deployments=sorted(unknown.deployments),
                configurations=sorted(unknown.flows),
            )
        self.unknown = unknown

    def _remove(self, result: Classified) -> None:
        old = result.removable
        for deployment_id in sorted(old.workers):
            log.warning("workers of an ended deployment are stopped", deployment=deployment_id)
            self._orchestrator.drop(deployment_id)
        if old.users:
            log.warning("users of ended deployments are removed", users=sorted(old.users))
            self._confirm()
            self._broker.drop(Resources((), tuple(User(name, "") for name in sorted(old.users)), (), ()))
        prefixes = [f"{kind}-{ended}." for ended in sorted(old.deployments) for kind in ("dep", "wrk")]
        if old.groups:
            self._confirm()
            self._broker.drop_groups(prefixes)
        if old.elsewhere:
            self._confirm()
            self._sources.drop(prefixes)
        self._remove_topics(old.topics)

    def _remove_topics(self, topics: frozenset[str]) -> None:
        """Remove topics that were left over in this round and the one before."""
        for topic in sorted(topics & self._suspects):
            flow_id = flow_of(topic) or ""
            with self._flow_locks.of(flow_id):  # a deploy that comes now makes its topics afterwards
                if self._deployments.undeployed_among([flow_id]):
                    log.warning("a topic of an ended deployment is removed", topic=topic)
                    self._confirm()
                    self._broker.drop(Resources((TopicSpec(topic, 1),), (), (), ()))
        self._suspects = topics

    def sweep_revisions(self) -> None:
        """Remove revisions that were replaced; the values of filters that were removed with them are kept."""
        remove_superseded(self._revisions, self._now() - SUPERSEDED_FOR, self._now())

    def sweep_datasets(self) -> None:
        """Remove datasets whose creation or deletion was cut off."""
        for dataset in self._datasets.incomplete():
            if self._now() - dataset.updated_at > UNSETTLED_FOR:
                self._datasets.set_state(dataset.id, "deleting")
                self._names.discard(dataset.owner, dataset.name, dataset.id)
                self._sets.drop(dataset_set(dataset.id))
                self._datasets.remove(dataset.id)

    def sweep_sets(self) -> None:
        """Remove the values of replaces that were cut off, and of filters whose save was."""
        self._sets.sweep()
        remove_unsaved_sets(self._drafts, self._revisions, self._sets, self._now() - DRAFT_FOR)
