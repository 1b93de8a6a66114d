"""Removes what calls and teardowns may leave behind.

Consumer groups: topics, users and rules go before a teardown answers, but a group can only go when no member is left,
and a user's consumer stays a member until its session times out. Only groups of deployments that this installation's
database knows to be ended are touched: a shared cluster may hold other people's.

Revisions: a save replaces the revision before it, which is removed when no rollout can go back to it, with the values
of the filters that only it had.

Datasets: a kill between the row, the name and the values leaves a row that is not live.

Sets: a replace that was killed leaves values that nobody can see.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import structlog

from headwater.brokers.base import Broker
from headwater.errors import Unavailable
from headwater.model.audit import CONTROLLER, acting_as
from headwater.model.dataset import dataset_set
from headwater.stores.base import DatasetNames, DatasetStore, DeploymentStore, RevisionStore, SetStore
from headwater.stores.removal import remove_superseded

log = structlog.get_logger(__name__)

_GROUP = re.compile(r"^(?:dep|wrk)-([0-9a-z]{26})\.")
UNSETTLED_FOR = timedelta(minutes=1)
"""How long a dataset may be half made or half deleted before it counts as abandoned."""
SUPERSEDED_FOR = timedelta(seconds=30)
"""How long a revision that was replaced is kept at least."""


class Sweeper:
    """Called by the controller's leader from time to time. now: UTC. purges: what else is removed when it is old."""

    def __init__(
        self,
        broker: Broker,
        deployments: DeploymentStore,
        revisions: RevisionStore,
        datasets: DatasetStore,
        names: DatasetNames,
        sets: SetStore,
        now: Callable[[], datetime],
        purges: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._broker = broker
        self._deployments = deployments
        self._revisions = revisions
        self._datasets = datasets
        self._names = names
        self._sets = sets
        self._now = now
        self._steps = (self.sweep_groups, self.sweep_revisions, self.sweep_datasets, self.sweep_sets, *purges)

    def sweep(self) -> None:
        """One round over everything. What can't be reached waits for the next round."""
        for step in self._steps:
            try:
                with acting_as(CONTROLLER):
                    step()
            except Unavailable as error:
                log.warning("sweeping waits", step=step.__name__, reason=error.detail)

    def sweep_groups(self) -> None:
        """Delete the groups of ended deployments; those that still have members wait."""
        groups = self._broker.inventory().groups
        ids = {match[1] for group in groups if (match := _GROUP.match(group))}
        prefixes = [f"{kind}-{ended}." for ended in self._deployments.ended(sorted(ids)) for kind in ("dep", "wrk")]
        if prefixes:
            self._broker.drop_groups(prefixes)

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
        """Remove the values of replaces that were cut off."""
        self._sets.sweep()
