"""Removes what calls and teardowns may leave behind.

On the broker: topics, users and rules go before a teardown answers, but a group can only go when no member is left,
and a user's consumer stays a member until its session times out. The others are left over only when something odd
happened, as a broker that carries out late what a killed controller had asked. Only what belongs to deployments that
this installation's database knows to be ended is touched: a shared cluster may hold other people's.

Where streams come from: the groups of ended deployments on other clusters, and their subscriptions on Pub/Sub.

Workers: those of deployments that have ended.

Revisions: a save replaces the revision before it, which is removed when no rollout can go back to it, with the values
of the filters that only it had.

Datasets: a kill between the row, the name and the values leaves a row that is not live.

Sets: a replace that was killed leaves values that nobody can see; so does a save that was killed after the first values
of its new filters were written.
"""

import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

import structlog

from headwater.brokers.base import Broker, Resources, TopicSpec, User
from headwater.controller.sources import Sources
from headwater.controller.turns import Turns
from headwater.errors import Unavailable
from headwater.model.audit import CONTROLLER, acting_as
from headwater.model.dataset import dataset_set
from headwater.orchestrators.base import Orchestrator
from headwater.stores.base import DatasetNames, DatasetStore, DeploymentStore, DraftSets, RevisionStore, SetStore
from headwater.stores.removal import remove_drafts, remove_superseded

log = structlog.get_logger(__name__)

_OF_DEPLOYMENT = re.compile(r"^(?:dep|wrk)-([0-9a-z]{26})(?:\.|$)")
_OF_FLOW = re.compile(r"^flow\.([0-9a-z]{26})\.")
UNSETTLED_FOR = timedelta(minutes=1)
"""How long a dataset may be half made or half deleted before it counts as abandoned."""
DRAFT_FOR = timedelta(minutes=10)
"""How long the first values of a filter may wait for its save."""
SUPERSEDED_FOR = timedelta(seconds=30)
"""How long a revision that was replaced is kept at least."""


class Sweeper:
    """Called by the controller's leader from time to time. now: UTC. purges: what else is removed when it is old."""

    def __init__(
        self,
        broker: Broker,
        sources: Sources,
        orchestrator: Orchestrator,
        turns: Turns,
        deployments: DeploymentStore,
        revisions: RevisionStore,
        datasets: DatasetStore,
        names: DatasetNames,
        sets: SetStore,
        drafts: DraftSets,
        now: Callable[[], datetime],
        purges: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._broker = broker
        self._sources = sources
        self._orchestrator = orchestrator
        self._turns = turns
        self._suspects: set[str] = set()
        self._deployments = deployments
        self._revisions = revisions
        self._datasets = datasets
        self._names = names
        self._sets = sets
        self._drafts = drafts
        self._now = now
        self._steps = (
            self.sweep_broker,
            self.sweep_sources,
            self.sweep_workers,
            self.sweep_revisions,
            self.sweep_datasets,
            self.sweep_sets,
            *purges,
        )

    def sweep(self) -> None:
        """One round over everything. What can't be reached waits for the next round."""
        for step in self._steps:
            try:
                with acting_as(CONTROLLER):
                    step()
            except Unavailable as error:
                log.warning("sweeping waits", step=step.__name__, reason=error.detail)

    def sweep_broker(self) -> None:
        """Remove the users, rules, groups and topics of ended deployments; groups that still have members wait."""
        seen = self._broker.inventory()
        names = seen.users | seen.rule_users
        kinds = [f"{kind}-{ended}" for ended in self._ended(names | seen.groups) for kind in ("dep", "wrk")]
        if orphans := sorted(names.intersection(kinds)):
            log.warning("users of ended deployments are removed", users=orphans)
            self._broker.drop(Resources((), tuple(User(name, "") for name in orphans), (), ()))
        if kinds:
            self._broker.drop_groups([f"{kind}." for kind in kinds])
        self._sweep_topics(seen.topics)

    def _ended(self, names: Collection[str]) -> Sequence[str]:
        """The ids of ended deployments among the owners of these names."""
        return self._deployments.ended(sorted({match[1] for name in names if (match := _OF_DEPLOYMENT.match(name))}))

    def sweep_sources(self) -> None:
        """Remove the subscriptions of ended deployments, and their groups on other clusters."""
        self._sources.sweep(lambda names: [f"wrk-{ended}." for ended in self._ended(names)])

    def _sweep_topics(self, topics: Collection[str]) -> None:
        """Remove topics that were left over in this round and the one before."""
        flows = {topic: match[1] for topic in topics if (match := _OF_FLOW.match(topic))}
        undeployed = set(self._deployments.undeployed(set(flows.values())))
        orphans = {topic for topic, flow_id in flows.items() if flow_id in undeployed}
        for topic in sorted(orphans & self._suspects):
            with self._turns.of(flows[topic]):  # a deploy that comes now makes its topics afterwards
                if self._deployments.undeployed([flows[topic]]):
                    log.warning("a topic of an ended deployment is removed", topic=topic)
                    self._broker.drop(Resources((TopicSpec(topic, 1),), (), (), ()))
        self._suspects = orphans

    def sweep_workers(self) -> None:
        """Stop the workers of deployments that have ended."""
        running = self._orchestrator.running()  # first: all of these had a row when they were started
        for orphan in sorted(running - {deployment.id for deployment in self._deployments.unfinished()}):
            log.warning("workers of an ended deployment are stopped", deployment=orphan)
            self._orchestrator.drop(orphan)

    def sweep_revisions(self) -> None:
        """Remove revisions that were replaced, and the values of filters that were removed with them."""
        remove_superseded(self._revisions, self._sets, self._now() - SUPERSEDED_FOR)

    def sweep_datasets(self) -> None:
        """Remove datasets whose creation or deletion was cut off."""
        for dataset in self._datasets.unsettled():
            if self._now() - dataset.updated_at > UNSETTLED_FOR:
                self._datasets.set_state(dataset.id, "deleting")
                self._names.discard(dataset.owner, dataset.name, dataset.id)
                self._sets.drop(dataset_set(dataset.id))
                self._datasets.remove(dataset.id)

    def sweep_sets(self) -> None:
        """Remove the values of replaces that were cut off, and of filters whose save was."""
        self._sets.sweep()
        remove_drafts(self._drafts, self._revisions, self._sets, self._now() - DRAFT_FOR)
