"""Reads which versions of a filter or dataset the workers have read.

A worker that has read a version of a set sees all writes up to it in every batch that it starts later (see
engine/set_versions.py). A report counts only while the version is a part of the set's present history: a server that
lost its last writes in a failover assigns the same numbers again.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from headwater.model import rollout
from headwater.model.deployment import ObservedWorker, ObservedWorkerStatus, Phase, ReportedWorkers
from headwater.model.value_sets import SetHistory, SetId, SetVersion, dataset_set_id
from headwater.services.datasets import Datasets
from headwater.services.filters import Filters
from headwater.stores.protocols.deployments import DeploymentStore
from headwater.stores.protocols.sets import SetVersions

MAX_WAIT_S = 30


@dataclass(frozen=True, slots=True)
class WatchedSet:
    """A set whose versions are awaited.

    Attributes:
        config_id: The configuration whose workers use the filter; empty for a dataset, which all workers of the owner
            can look up.
    """

    owner: str
    set_id: SetId
    config_id: str = ""


@dataclass(frozen=True, slots=True)
class WorkerVersion:
    """The version of a set that a worker has read.

    Attributes:
        number: None until the worker has reported a version that is in the present history of the set.
    """

    worker: str
    number: int | None


@dataclass(frozen=True, slots=True)
class AppliedState:
    """The present version of a set, and what its workers have read.

    Attributes:
        workers: For a filter all workers of the pipeline; for a dataset the workers that may have looked it up.
        lacks_workers: Whether the pipeline has no workers although it is not paused: they do not exist yet, or its
        rollout has failed. Then no version is applied.
    """

    current: int
    workers: tuple[WorkerVersion, ...]
    lacks_workers: bool = False

    def has_applied(self, version: int) -> bool:
        """Return whether every batch that starts from now on sees all writes up to this version."""
        if version > self.current or self.lacks_workers:
            return False
        return all(worker.number is not None and worker.number >= version for worker in self.workers)


@dataclass(frozen=True, slots=True)
class _WorkersOfSet:
    """The workers that use a set.

    Attributes:
        workers: The last reports of the workers.
        lacks_workers: Whether the pipeline has no workers although it is not paused.
    """

    workers: Sequence[ObservedWorker]
    lacks_workers: bool = False

    def versions(self, set_id: SetId) -> list[SetVersion | None]:
        """Return the version of a set that each worker has read."""
        return [None if w.set_versions is None else w.set_versions.get(set_id.name) for w in self.workers]

    def numbers(self, set_id: SetId) -> set[int]:
        """Return the numbers of the versions of a set that the workers have read."""
        return {version.number for version in self.versions(set_id) if version is not None}

    def state(self, set_id: SetId, history: SetHistory) -> AppliedState:
        """Compare the reports of the workers with the history of a set."""
        numbers = [
            version.number if version is not None and history.contains(version) else None
            for version in self.versions(set_id)
        ]
        versions = tuple(WorkerVersion(w.name, number) for w, number in zip(self.workers, numbers, strict=True))
        return AppliedState(history.current.number, versions, self.lacks_workers)


class AppliedVersions:
    """Reads which versions of a set the workers have read.

    All methods may block, and raise DatabaseUnavailable and RedisUnavailable.

    Args:
        versions: The versions of sets, on the servers that the workers' lookups use.
    """

    def __init__(
        self, *, filters: Filters, datasets: Datasets, deployments: DeploymentStore, versions: SetVersions
    ) -> None:
        self._filters = filters
        self._datasets = datasets
        self._deployments = deployments
        self._versions = versions

    def filter_set(self, owner: str, config_id: str, uid: str) -> WatchedSet:
        """Return the set of a filter.

        Raises NotFound, also when the configuration is not deployed, and Conflict when the transform is no filter.
        """
        watched = WatchedSet(owner, self._filters.set_id(owner, config_id, uid), config_id)
        if not any(report.is_deployed for report in self._deployments.reported_workers([config_id], [])):
            raise rollout.deployment_not_found()
        return watched

    def dataset_set(self, owner: str, dataset_id: str) -> WatchedSet:
        """Return the set of a dataset. Raises NotFound."""
        return WatchedSet(owner, dataset_set_id(self._datasets.get(owner, dataset_id).id))

    def current(self, watched: WatchedSet) -> int:
        """Return the present version of a set."""
        return self._versions.versions([watched.set_id])[0].number

    def read(self, watched: Collection[WatchedSet]) -> Mapping[WatchedSet, AppliedState]:
        """Return the state of each set, in one round trip per server for all sets.

        Filters of configurations that are not deployed are left out.
        """
        by_set = self._workers_by_set(watched)
        # The histories are read after the reports, so they contain the versions that the workers have read.
        histories = self._versions.histories(
            {item.set_id: workers.numbers(item.set_id) for item, workers in by_set.items()}
        )
        return {item: workers.state(item.set_id, histories[item.set_id]) for item, workers in by_set.items()}

    def _workers_by_set(self, watched: Collection[WatchedSet]) -> Mapping[WatchedSet, _WorkersOfSet]:
        """Return the workers that use each set.

        Filters of configurations that are not deployed are left out.
        """
        config_ids = {item.config_id for item in watched if item.config_id}
        owners = {item.owner for item in watched if not item.config_id}
        by_config: dict[str, ReportedWorkers] = {}
        by_owner: defaultdict[str, list[ObservedWorker]] = defaultdict(list)
        for report in self._deployments.reported_workers(config_ids, owners):
            if report.is_deployed:
                by_config[report.config_id] = report
            by_owner[report.owner] += report.workers
        by_set = {}
        for item in watched:
            if not item.config_id:
                by_set[item] = _WorkersOfSet([w for w in by_owner[item.owner] if _uses_dataset(w, item.set_id)])
            elif (of_filter := by_config.get(item.config_id)) is not None:
                lacks_workers = not of_filter.workers and of_filter.phase is not Phase.PAUSED
                by_set[item] = _WorkersOfSet(of_filter.workers, lacks_workers)
        return by_set


def _uses_dataset(worker: ObservedWorker, set_id: SetId) -> bool:
    """Return whether a worker may have looked a dataset up.

    A worker whose last report has no version of the dataset has not looked it up since its start, or has looked up
    MAX_REPORTED_DATASETS others since then (see engine/set_versions.py). A worker that has not sent a report yet may
    have looked it up, if it runs or is terminating; a worker in any other status has not begun to work.
    """
    if worker.set_versions is None:
        return worker.status in (ObservedWorkerStatus.RUNNING, ObservedWorkerStatus.TERMINATING)
    return set_id.name in worker.set_versions
