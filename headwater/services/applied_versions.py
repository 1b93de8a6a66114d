"""Reads which versions of a filter or dataset the workers have read.

A worker that has read a version of a set sees all writes up to it in every batch that it starts later (see
engine/set_versions.py). A report counts only while the version is a part of the set's present history: a server that
lost its last writes in a failover assigns the same numbers again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from headwater.errors import NotFound
from headwater.model.deployment import ObservedWorker, ObservedWorkerStatus, Phase, ReportedWorkers
from headwater.model.value_sets import SetHistory, SetId, SetVersion, dataset_set_id
from headwater.services.datasets import Datasets
from headwater.services.filters import Filters
from headwater.stores.protocols.deployments import DeploymentStore
from headwater.stores.protocols.sets import SetVersions

MAX_WAIT_S = 30
NOT_DEPLOYED = "This configuration is not deployed. Deploy it with POST …/deploy."


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
        number: None while the worker has not reported a version of the set as it is now.
    """

    worker: str
    number: int | None


@dataclass(frozen=True, slots=True)
class AppliedState:
    """The present version of a set, and what its workers have read.

    Attributes:
        workers: The workers that use the set.
        is_starting: Whether the pipeline is starting: its workers do not exist yet, so no version is applied.
    """

    current: int
    workers: tuple[WorkerVersion, ...]
    is_starting: bool = False

    def has_applied(self, version: int) -> bool:
        """Return whether every batch that starts from now on sees all writes up to this version."""
        if version > self.current or self.is_starting:
            return False
        return all(worker.number is not None and worker.number >= version for worker in self.workers)


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
        if not self._deployments.reported_workers([config_id], []):
            raise NotFound(NOT_DEPLOYED)
        return watched

    def dataset_set(self, owner: str, dataset_id: str) -> WatchedSet:
        """Return the set of a dataset. Raises NotFound."""
        return WatchedSet(owner, dataset_set_id(self._datasets.get(owner, dataset_id).id))

    def current(self, watched: WatchedSet) -> int:
        """Return the present version of a set."""
        return self._versions.versions([watched.set_id])[0].number

    def read(self, watched: Collection[WatchedSet]) -> Mapping[WatchedSet, AppliedState]:
        """Return the state of each set.

        Filters of configurations that are not deployed are left out.
        """
        config_ids = {item.config_id for item in watched if item.config_id}
        owners = {item.owner for item in watched if not item.config_id}
        reports = self._deployments.reported_workers(config_ids, owners)
        states = {}
        for item in watched:
            if item.config_id:
                report = next((report for report in reports if report.config_id == item.config_id), None)
                if report is not None:
                    states[item] = self._filter_state(item.set_id, report)
            else:
                workers = [w for report in reports if report.owner == item.owner for w in report.workers]
                states[item] = self._state(item.set_id, [w for w in workers if _uses_dataset(w, item.set_id)])
        return states

    def _filter_state(self, set_id: SetId, report: ReportedWorkers) -> AppliedState:
        is_starting = not report.workers and report.phase is not Phase.PAUSED
        return self._state(set_id, report.workers, is_starting=is_starting)

    def _state(self, set_id: SetId, workers: Sequence[ObservedWorker], *, is_starting: bool = False) -> AppliedState:
        """Compare the reports of workers with the history of a set.

        The history is read after the reports, so it contains the versions that the workers have read.
        """
        reported = [None if w.set_versions is None else w.set_versions.get(set_id.name) for w in workers]
        history = self._versions.history(set_id, {version.number for version in reported if version is not None})
        numbers = [_number(version, history) for version in reported]
        versions = tuple(WorkerVersion(w.name, number) for w, number in zip(workers, numbers, strict=True))
        return AppliedState(history.current.number, versions, is_starting)


def _number(version: SetVersion | None, history: SetHistory) -> int | None:
    return version.number if version is not None and history.contains(version) else None


def _uses_dataset(worker: ObservedWorker, set_id: SetId) -> bool:
    """Return whether a worker may hold something of a dataset.

    A worker that has not looked the dataset up reports no version of it, and holds nothing. Neither does a process that
    has not begun to work.
    """
    if worker.set_versions is None:
        return worker.status in (ObservedWorkerStatus.RUNNING, ObservedWorkerStatus.TERMINATING)
    return set_id.name in worker.set_versions
