"""Lets the number of workers follow the load.

This concerns the pipelines whose `parallelism` is a range (`min`, `max`).
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from headwater.controller.deployment_sources import Sources
from headwater.controller.load_history import LoadHistory
from headwater.controller.scaling import Decision, Load, decide
from headwater.errors import BrokerUnavailable, DeployFailed
from headwater.model.access import KafkaAccess
from headwater.model.binding import KafkaTopic
from headwater.model.deployment import Condition, DeployedRevision, Deployment, DesiredPhase, Phase
from headwater.model.parallelism import MeasuredCapacity, Scaling, WorkerBounds
from headwater.model.worker_protocol import WorkerSnapshot
from headwater.model.worker_spec import PubSubPull
from headwater.orchestrators.base import Orchestrator
from headwater.stores.protocols.deployments import DeploymentStore

log = structlog.get_logger(__name__)

CAPACITY_VALID_FOR = timedelta(hours=1)
"""How long a measured capacity is used.

Until then, the number of workers is not lowered below what CAPACITY_SHARE of the capacity requires.
"""
PARTITION_COUNT_READ_EVERY_S = 60.0


class _KnownPartitions(NamedTuple):
    partitions: int
    read_at: float


@dataclass(slots=True, kw_only=True)
class Autoscaler:
    """Chooses the number of workers within the range of `parallelism`.

    Used by one thread at a time. A number is only chosen for a revision that has passed its probation and whose workers
    are all ready.

    Attributes:
        clock: Returns monotonic seconds.
        now: Returns the present time in UTC.
    """

    deployments: DeploymentStore
    orchestrator: Orchestrator
    sources: Sources
    clock: Callable[[], float]
    now: Callable[[], datetime]
    _histories: dict[str, LoadHistory] = field(default_factory=dict)
    _partitions: dict[KafkaTopic, _KnownPartitions] = field(default_factory=dict)

    def run(self, elastic: Sequence[Deployment]) -> Collection[str]:
        """Choose and store the numbers of workers.

        Return the ids of the deployments whose number has changed. Raises DatabaseUnavailable,
        OrchestratorUnavailable and LeaseLost.

        Args:
            elastic: All deployments for which `is_elastic` is true.
        """
        self._histories = {each.id: self._histories.get(each.id, LoadHistory()) for each in elastic}
        measured = self._measurable(elastic)
        lags = self._lags([snapshots[0] for snapshots in measured.values()])
        changed = dict[str, Scaling]()
        for deployment in elastic:
            snapshots = measured.get(deployment.id)
            if snapshots is None or (deployment.id not in lags and not _reads_pubsub(snapshots[0])):
                continue
            try:
                scaling = self._choose(deployment, lags.get(deployment.id), snapshots)
            except (BrokerUnavailable, DeployFailed) as error:
                log.warning("the number of workers is not changed", deployment=deployment.id, reason=error.detail)
                continue
            if scaling is not None:
                changed[deployment.id] = scaling
        if changed:
            self.deployments.write_scaling(changed)
        return changed.keys()

    def _measurable(self, elastic: Sequence[Deployment]) -> dict[str, list[WorkerSnapshot]]:
        """Return the snapshots of the workers of each deployment whose load can be measured now.

        The workers must all be ready. When their number is being changed, or one of them waits for a store or for
        Kafka, the measurement begins anew.
        """
        by_deployment: dict[str, list[WorkerSnapshot]] = {}
        for snapshot in self.orchestrator.worker_snapshots():
            if snapshot.spec.redrive is None:
                by_deployment.setdefault(snapshot.spec.deployment_id, []).append(snapshot)
        measurable = {}
        for deployment in elastic:
            revision, snapshots = deployment.effective_revision, by_deployment.get(deployment.id, [])
            is_complete = len(snapshots) == deployment.worker_count(revision) and _all_run(snapshots, revision)
            if not is_complete or any(_waits(snapshot) for snapshot in snapshots):
                self._histories[deployment.id].clear(self.clock())
            elif all(snapshot.is_ready for snapshot in snapshots):
                measurable[deployment.id] = snapshots
        return measurable

    def _lags(self, snapshots: Sequence[WorkerSnapshot]) -> dict[str, int]:
        """Return the lag by deployment id. Deployments whose lag can't be read are left out."""
        groups: dict[KafkaAccess | None, dict[str, str]] = {}
        for snapshot in snapshots:
            spec = snapshot.spec
            if not isinstance(spec.source, PubSubPull):
                groups.setdefault(spec.source, {})[spec.source_group] = spec.deployment_id
        lags: dict[str, int] = {}
        for access, ids in groups.items():
            try:
                read = self.sources.lag(access, ids)
            except BrokerUnavailable as error:
                log.warning("the numbers of workers are not changed, because the lag is not known", reason=error.detail)
            else:
                lags |= {ids[group]: lag for group, lag in read.items()}
        return lags

    def _choose(self, deployment: Deployment, lag: int | None, snapshots: Sequence[WorkerSnapshot]) -> Scaling | None:
        """Add a sample of the load, and return the new number of workers.

        Return None when the number stays. Raises BrokerUnavailable, and DeployFailed when the source topic does not
        exist.
        """
        now, revision, last = self.clock(), deployment.effective_revision, deployment.scaling
        bounds = revision.config.parallelism
        assert isinstance(bounds, WorkerBounds)
        heartbeats = {each.worker: each.heartbeat for each in snapshots if each.heartbeat is not None}
        samples = self._histories[deployment.id].add(now, lag, heartbeats)
        load = Load(
            now=now,
            workers=deployment.worker_count(revision),
            bounds=bounds,
            partitions=self._partition_count(revision, now),
            samples=samples,
            since_change_s=math.inf if last is None else (self.now() - last.changed_at).total_seconds(),
            capacity=_valid_capacity(last, revision, self.now()),
        )
        decision = decide(load)
        if decision.workers == load.workers:
            return None
        log.info(
            "the number of workers changes",
            deployment=deployment.id,
            before=load.workers,
            after=decision.workers,
            reason=decision.reason,
        )
        return self._scaling(decision, load, last, revision)

    def _scaling(self, decision: Decision, load: Load, last: Scaling | None, revision: DeployedRevision) -> Scaling:
        """Return what to store. A measured capacity is kept until another one is measured."""
        now, capacity = self.now(), None if last is None else last.capacity
        if decision.capacity:
            capacity = MeasuredCapacity(records_per_s=decision.capacity, measured_at=now, revision=revision.number)
        return Scaling(
            workers=decision.workers,
            reason=decision.reason,
            changed_at=now,
            capacity=capacity,
            partitions=load.partitions,
        )

    def _partition_count(self, revision: DeployedRevision, now: float) -> int | None:
        """Return the number of partitions of the source; None when it is no limit."""
        binding = self.sources.binding(revision.config.source)
        if not isinstance(binding, KafkaTopic):
            return None
        known = self._partitions.get(binding)
        if known is None or now - known.read_at >= PARTITION_COUNT_READ_EVERY_S:
            known = self._partitions[binding] = _KnownPartitions(self.sources.source_partition_count(binding), now)
        return known.partitions


def is_elastic(deployment: Deployment) -> bool:
    """Whether the number of workers of a deployment follows the load now."""
    is_steady = (
        deployment.desired is DesiredPhase.RUNNING
        and deployment.phase is Phase.RUNNING
        and deployment.is_reconciled
        and deployment.condition is not Condition.ROLLING_OUT
        and not deployment.unreadable_reason
    )
    return is_steady and isinstance(deployment.effective_revision.config.parallelism, WorkerBounds)


def _all_run(snapshots: Sequence[WorkerSnapshot], revision: DeployedRevision) -> bool:
    """Whether there are workers, and all of them run this revision."""
    return bool(snapshots) and all(snapshot.spec.revision == revision.number for snapshot in snapshots)


def _waits(snapshot: WorkerSnapshot) -> bool:
    return snapshot.heartbeat is None or snapshot.heartbeat.state == "waiting"


def _reads_pubsub(snapshot: WorkerSnapshot) -> bool:
    return isinstance(snapshot.spec.source, PubSubPull)


def _valid_capacity(scaling: Scaling | None, revision: DeployedRevision, now: datetime) -> float | None:
    """Return the measured capacity of a worker.

    Return None when it is out of date or of another revision.
    """
    measured = None if scaling is None else scaling.capacity
    if measured is None or measured.revision != revision.number or now - measured.measured_at > CAPACITY_VALID_FOR:
        return None
    return measured.records_per_s
