"""The controller's main loop.

It renews the lease, polls the database's counter of changes (`ChangeCounter`), reconciles deployments in parallel, and
stores the states of the workers. A failing deployment never delays another one: each has its own back-off, and at most
one reconciliation at a time.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

import structlog

from headwater.backoff import Backoff
from headwater.controller.actions import TopicSync
from headwater.controller.autoscaler import Autoscaler, is_elastic
from headwater.controller.leadership import Leadership
from headwater.controller.purger import Purger
from headwater.controller.reconciler import Reconciler
from headwater.controller.redrives import RedriveRunner
from headwater.controller.sweeper import Sweeper
from headwater.controller.topic_comparison import TopicComparison
from headwater.controller.worker_readiness import with_not_ready_since
from headwater.errors import LeaseLost, OrchestratorUnavailable, Unavailable
from headwater.loop_health import LoopHealth, current_errors
from headwater.model.deployment import (
    Condition,
    Deployment,
    DeploymentVersion,
    DesiredPhase,
    LogLine,
    Observation,
    ObservedWorker,
    Phase,
)
from headwater.model.flow import Flow
from headwater.model.parallelism import Scaling
from headwater.model.redrive import deployment_of
from headwater.orchestrators.base import Orchestrator
from headwater.stores.protocols.configurations import FlowStore
from headwater.stores.protocols.deployments import ChangeCounter, DeploymentStore

log = structlog.get_logger(__name__)

MAX_RETRY_DELAY_S = 15.0
"""The maximum delay after reconciling a deployment has failed. It is short, because a deploy call may be waiting."""
RENEW_EVERY_S = 3.0
"""How often the lease is renewed."""
TICK_S = 0.1
"""The time between two iterations of the main loop."""
RESYNC_EVERY_S = 5.0
"""How often the deployments are read from the database although its counter of changes is unchanged."""
PROBATION_CHECK_EVERY_S = 1.0
"""How often a deployment is checked whose last revision is not stable yet."""
REPORT_EVERY_S = 1.0
"""How often the states and log lines of workers are stored."""
REDRIVES_EVERY_S = 0.5
SCALE_EVERY_S = 3.0
"""How often the number of workers is chosen for deployments whose `parallelism` is a range (`min`, `max`)."""
COMPARE_TOPICS_EVERY_S = 60.0
"""How often the topics of all running deployments are compared with their sources."""
SWEEP_EVERY_S = 30.0
MAX_CONCURRENT_RECONCILES = 16
MAX_OUTAGE_DELAY_S = 5.0
"""The maximum delay while a store or Kafka is unavailable.

It is shorter than the lease, so that the controller still leads when the store is available again.
"""

_REACHED_PHASES = {
    DesiredPhase.RUNNING: Phase.RUNNING,
    DesiredPhase.PAUSED: Phase.PAUSED,
    DesiredPhase.ABSENT: Phase.ABSENT,
}
"""The phase of a deployment that has reached its desired phase."""

T = TypeVar("T")


@dataclass(slots=True)
class _ManagedDeployment:
    """A deployment that this controller reconciles.

    Attributes:
        deployment: The deployment, as it was last read from the database.
        reconciliation: The reconciliation in progress, if there is one.
        not_before: The time of the next reconciliation, in monotonic seconds.
        backoff: The delays after failed reconciliations.
    """

    deployment: Deployment
    reconciliation: Future[Observation | None] | None = None
    not_before: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(1.0, MAX_RETRY_DELAY_S))


class ControlStores(Protocol):
    """The stores that the controller uses."""

    @property
    def flows(self) -> FlowStore: ...
    @property
    def deployments(self) -> DeploymentStore: ...
    @property
    def change_counter(self) -> ChangeCounter: ...


class Controller:
    """Reconciles deployments until `stop` is set, or another controller leads.

    Attributes:
        reconcile_loop: The health of the main loop.
        sweep_loop: The health of the sweeps.
        purge_loop: The health of the removal of deleted configurations.
        redrive_loop: The health of the rounds of the redrives.
        scaling_loop: The health of the rounds of the autoscaler.
        comparison_loop: The health of the comparisons of topics.

    Args:
        clock: Returns monotonic seconds.
        now: Returns the present time.
    """

    def __init__(
        self,
        *,
        leadership: Leadership,
        stores: ControlStores,
        orchestrator: Orchestrator,
        reconciler: Reconciler,
        sweeper: Sweeper,
        purger: Purger,
        redrives: RedriveRunner,
        autoscaler: Autoscaler,
        topic_comparison: TopicComparison,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._leadership = leadership
        self._flows = stores.flows
        self._deployments = stores.deployments
        self._change_counter = stores.change_counter
        self._orchestrator = orchestrator
        self._reconciler = reconciler
        self._sweeper = sweeper
        self._purger = purger
        self._redrives = redrives
        self._autoscaler = autoscaler
        self._topic_comparison = topic_comparison
        self._clock = clock
        self._now = now
        self._pool = ThreadPoolExecutor(MAX_CONCURRENT_RECONCILES, thread_name_prefix="reconcile")
        self._managed: dict[str, _ManagedDeployment] = {}
        self._versions: dict[str, DeploymentVersion] = {}
        self._last_counter_value: int | None = None
        self._due_at: dict[str, float] = {}
        self._unstored_observations: list[Observation] = []
        self._reported_states: dict[str, Sequence[ObservedWorker]] = {}
        self._unstored_logs: Mapping[str, Sequence[LogLine]] = {}
        self._has_lost_lease = False
        self.reconcile_loop = LoopHealth("reconciling deployments")
        self.sweep_loop = LoopHealth("sweeping")
        self.purge_loop = LoopHealth("removing deleted configurations")
        self.redrive_loop = LoopHealth("redriving dead letters")
        self.scaling_loop = LoopHealth("choosing numbers of workers")
        self.comparison_loop = LoopHealth("comparing topics")
        self._sweeping: Future[None] | None = None
        self._purging: Future[None] | None = None
        self._redriving: Future[None] | None = None
        self._scaling: Future[Collection[str]] | None = None
        self._comparing: Future[Mapping[str, TopicSync]] | None = None

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set.

        While a store or Kafka is unavailable, retry with a back-off.
        """
        backoff = Backoff(TICK_S, MAX_OUTAGE_DELAY_S)
        while not stop.wait(TICK_S) and not self._has_lost_lease:
            try:
                self.tick()
                backoff.reset()
                self.reconcile_loop.on_success()
            except LeaseLost:
                log.error("another controller holds the lease; this controller stops, with its child processes")
            except Unavailable as error:
                log.warning("the controller waits", reason=error.detail)
                stop.wait(backoff.next_delay_s())
            except Exception as error:  # noqa: BLE001  # workers that are child processes would end with this process
                stop.wait(min(self.reconcile_loop.on_error(error), MAX_OUTAGE_DELAY_S))
        self._pool.shutdown(wait=True, cancel_futures=True)
        try:
            self._leadership.release()
        except Unavailable as error:
            log.warning("the lease can't be released; it expires by itself", reason=error.detail)

    def current_failure(self) -> str:
        """Return what currently fails in this controller; empty when nothing fails.

        The text is stored in the lease, where other processes read it.
        """
        return "; ".join(filter(None, (current_errors(self.loops), self._orchestrator.current_failure)))

    @property
    def leads(self) -> bool:
        """Whether this controller currently leads. Thread-safe."""
        return self._leadership.leads

    @property
    def loops(self) -> tuple[LoopHealth, ...]:
        """The background loops of this controller."""
        return (
            self.reconcile_loop,
            self.sweep_loop,
            self.purge_loop,
            self.redrive_loop,
            self.scaling_loop,
            self.comparison_loop,
        )

    def deployments(self) -> list[Deployment]:
        """Return the deployments that this controller manages, as they were last read. Thread-safe."""
        return [managed.deployment for managed in list(self._managed.values())]

    def tick(self) -> None:
        """Do all work that is due. Raises Unavailable, and LeaseLost when another controller leads."""
        try:
            if self._take_due("lease", RENEW_EVERY_S):
                self._renew()
            if self._leadership.leads:
                with self._leadership.fenced_writes():
                    self._do_leader_work()
        except LeaseLost:
            self._has_lost_lease = True
            raise

    def _do_leader_work(self) -> None:
        self._store_observations()
        counter_value = self._change_counter.value()
        if counter_value != self._last_counter_value or self._take_due("resync", RESYNC_EVERY_S):
            self._reload()
            self._last_counter_value = counter_value
        self._start_reconciliations()
        if self._take_due("report", REPORT_EVERY_S):
            self._report_workers()
        if self._take_due("redrives", REDRIVES_EVERY_S):
            self._run_redrives()
        self._finish_scaling()
        if self._scaling is None and self._take_due("scale", SCALE_EVERY_S):
            self._start_scaling()
        self._finish_comparison()
        if self._comparing is None and self._take_due("compare topics", COMPARE_TOPICS_EVERY_S):
            self._comparing = self._submit(self._topic_comparison.run, self.deployments())
        if self._take_due("sweep", SWEEP_EVERY_S):
            self._sweep()

    def _renew(self) -> None:
        self._leadership.renew(self.current_failure())
        if self._leadership.leads:
            self._orchestrator.set_lease_remaining(self._leadership.remaining_s)

    def _submit(self, work: Callable[..., T], *arguments: object) -> Future[T]:
        """Start work on a thread of the pool, with this leader's fencing token."""

        def run() -> T:
            with self._leadership.fenced_writes():
                return work(*arguments)

        return self._pool.submit(run)

    def _sweep(self) -> None:
        """Start a sweep on a thread of the pool, unless the last one is still running."""
        if self._sweeping is not None:
            if not self._sweeping.done():
                return
            error = self._sweeping.exception()
            if isinstance(error, LeaseLost):
                raise error
            if error is None:
                self.sweep_loop.on_success()
            else:
                self.sweep_loop.on_error(error)
        self._sweeping = self._submit(self._sweeper.sweep)

    def _run_redrives(self) -> None:
        """Start a round of the redrives on a thread of the pool, unless one is running."""
        if self._redriving is not None:
            if not self._redriving.done():
                return
            error = self._redriving.exception()
            if isinstance(error, LeaseLost):
                raise error
            if error is None:
                self.redrive_loop.on_success()
            elif isinstance(error, Unavailable):
                log.warning("redrives wait", reason=error.detail)
            else:
                self.redrive_loop.on_error(error)
        self._redriving = self._submit(self._redrives.run)

    def _finish_scaling(self) -> None:
        """Load the deployments whose number of workers has changed, so that they are reconciled."""
        if self._scaling is None or not self._scaling.done():
            return
        ended, self._scaling = self._scaling, None
        error = ended.exception()
        if isinstance(error, LeaseLost):
            raise error
        if error is None:
            self.scaling_loop.on_success()
            if changed := ended.result():
                self._reload(changed)
        elif isinstance(error, Unavailable):
            log.warning("the numbers of workers are not changed", reason=error.detail)
        else:
            self.scaling_loop.on_error(error)

    def _start_scaling(self) -> None:
        """Start to choose numbers of workers, on a thread of the pool.

        Nothing is started when no deployment has a range of workers.
        """
        if elastic := [each.deployment for each in self._managed.values() if is_elastic(each.deployment)]:
            self._scaling = self._submit(self._autoscaler.run, elastic)

    def _finish_comparison(self) -> None:
        """Request the syncs that a comparison of topics has found necessary.

        A deployment whose topics lack partitions is reconciled at once, and the others at their next check.
        """
        if self._comparing is None or not self._comparing.done():
            return
        ended, self._comparing = self._comparing, None
        if (error := ended.exception()) is not None:
            self.comparison_loop.on_error(error)
            return
        self.comparison_loop.on_success()
        due = {id_: sync for id_, sync in ended.result().items() if id_ in self._managed}
        self._reconciler.request_syncs(due)
        for id_, sync in due.items():
            if sync is TopicSync.PARTITIONS_AND_SETTINGS:
                self._managed[id_].not_before = 0.0

    def _take_due(self, work: str, every_s: float) -> bool:
        """Return whether periodic work is due. If it is, schedule it again in `every_s` seconds."""
        now = self._clock()
        if now < self._due_at.get(work, 0.0):
            return False
        self._due_at[work] = now + every_s
        return True

    def _reload(self, stored_ids: Collection[str] = ()) -> None:
        """Load the deployments that have changed, and the deployments in `stored_ids`.

        Unchanged deployments are not loaded. Deployments that have ended are removed from memory, and deleted
        configurations that no deployment uses are removed from the database.

        Args:
            stored_ids: The deployments whose observed state or number of workers this controller has just stored.
        """
        # The deleted configurations are read first: a configuration that is deleted by now can't get a new deployment.
        deleted = self._flows.deleted()
        versions = {version.id: version for version in self._deployments.active_versions()}
        changed_ids = {
            id_ for id_, version in versions.items() if id_ in stored_ids or self._versions.get(id_) != version
        }
        if changed_ids:
            for deployment in self._deployments.list_active(changed_ids):
                self._update_managed(deployment)
        self._versions = versions
        self._discard_ended()
        deployed_ids = {version.config_id for version in versions.values()}
        self._purge([flow for flow in deleted if flow.id not in deployed_ids])

    def _discard_ended(self) -> None:
        """Remove deployments from memory that have ended and are not being reconciled."""
        ended_ids = [
            id_
            for id_, managed in self._managed.items()
            if id_ not in self._versions and managed.reconciliation is None
        ]
        for deployment_id in ended_ids:
            del self._managed[deployment_id]
            self._reconciler.discard(deployment_id)

    def _update_managed(self, deployment: Deployment) -> None:
        managed = self._managed.setdefault(deployment.id, _ManagedDeployment(deployment))
        if _requested_state(managed.deployment) != _requested_state(deployment):
            managed.not_before = 0.0
            managed.backoff.reset()
        managed.deployment = deployment

    def _purge(self, flows: Sequence[Flow]) -> None:
        """Start to remove deleted configurations, unless the last removal is still running.

        The removal runs on a thread of the pool, because a hanging Valkey must not delay the main loop.
        """
        if self._purging is not None and self._purging.done():
            ended, self._purging = self._purging, None
            try:
                ended.result()
                self.purge_loop.on_success()
            except LeaseLost:
                raise
            except Unavailable as error:
                log.warning("the removal of deleted configurations waits", reason=error.detail)
            except Exception as error:  # noqa: BLE001  # a failed removal must not block deployments
                self.purge_loop.on_error(error)
        if flows and self._purging is None:
            self._purging = self._submit(self._purge_all, flows)

    def _purge_all(self, flows: Sequence[Flow]) -> None:
        """Remove configurations.

        After an unexpected error, the remaining configurations are still removed, and the last such error is raised.
        """
        last_error: Exception | None = None
        for flow in flows:
            try:
                self._purger.purge(flow)
            except (LeaseLost, Unavailable):
                raise
            except Exception as error:  # raised below
                log.error("a deleted configuration can't be removed", configuration=flow.id, exc_info=error)
                last_error = error
        if last_error is not None:
            raise last_error

    def _start_reconciliations(self) -> None:
        """Start to reconcile the deployments that are due.

        A deployment with nothing to do needs no thread.
        """
        now = self._clock()
        for managed in self._managed.values():
            if managed.reconciliation is None and now >= managed.not_before:
                managed.not_before = now + _check_interval_s(managed.deployment)
                if not self._is_idle(managed.deployment):
                    managed.reconciliation = self._submit(self._reconciler.reconcile, managed.deployment)

    def _is_idle(self, deployment: Deployment) -> bool:
        try:
            return self._reconciler.is_idle(deployment)
        except Exception:  # noqa: BLE001  # reconciling this deployment raises it again
            return False

    def _store_observations(self) -> None:
        """Store the observations of the reconciliations that have ended, in one transaction.

        While the database is unavailable, the observations are kept for the next call.
        """
        for managed in [each for each in self._managed.values() if each.reconciliation is not None]:
            if (observation := self._take_observation(managed)) is not None:
                self._unstored_observations.append(observation)
        if not self._unstored_observations:
            return
        # The workers come first: an API call that sees the phase RUNNING must also see that the workers are ready.
        self._report_workers()
        observations, self._unstored_observations = self._unstored_observations, []
        try:
            self._deployments.write_observations(observations)
        except Unavailable:
            self._unstored_observations = observations
            raise
        self._reload({observation.deployment_id for observation in observations})

    def _take_observation(self, managed: _ManagedDeployment) -> Observation | None:
        """Return the observed state from a reconciliation that has ended, and clear it.

        Returns None when no reconciliation has ended, when it has not changed the observed state, and after an error.
        An error is logged, and delays the next reconciliation of the deployment. Raises LeaseLost.
        """
        reconciliation = managed.reconciliation
        if reconciliation is None or not reconciliation.done():
            return None
        error = reconciliation.exception()
        if isinstance(error, LeaseLost):
            raise error
        managed.reconciliation = None
        if error is None:
            managed.backoff.reset()
            return reconciliation.result()
        delay_s = managed.backoff.next_delay_s()
        managed.not_before = self._clock() + delay_s
        detail = {"deployment": managed.deployment.id, "again_in_s": round(delay_s, 1)}
        if isinstance(error, Unavailable):
            log.warning("reconciling a deployment waits", reason=error.detail, **detail)
        else:
            log.error("reconciling a deployment failed", exc_info=error, **detail)
        return None

    def _report_workers(self) -> None:
        """Store the states of workers that have changed, and new log lines of workers."""
        states: dict[str, Sequence[ObservedWorker]] = {}
        for deployment_id in self._managed:
            try:
                workers = self._orchestrator.status(deployment_id)
            except OrchestratorUnavailable as error:
                log.warning("worker states can't be read", reason=error.detail)
                return
            previous = self._reported_states.get(deployment_id, ())
            states[deployment_id] = with_not_ready_since(workers, previous, self._now())
        changed = {id_: workers for id_, workers in states.items() if self._reported_states.get(id_) != workers}
        if changed:
            self._deployments.report_workers(changed)
        self._reported_states = states
        self._store_logs()

    def _store_logs(self) -> None:
        """Store the new log lines of workers.

        While the database is unavailable, the lines are kept for the next call.
        """
        lines, self._unstored_logs = self._unstored_logs or _by_deployment(self._orchestrator.take_logs()), {}
        if not lines:
            return
        try:
            self._deployments.write_logs(lines)
        except Unavailable:
            self._unstored_logs = lines
            raise


def _by_deployment(logs: Mapping[str, Sequence[LogLine]]) -> Mapping[str, Sequence[LogLine]]:
    """Return the log lines by deployment.

    A deployment has a worker set for its pipeline, and one for a redrive.
    """
    lines: dict[str, list[LogLine]] = {}
    for worker_set_id, of_set in logs.items():
        lines.setdefault(deployment_of(worker_set_id), []).extend(of_set)
    return {id_: sorted(of_deployment, key=lambda line: line.time) for id_, of_deployment in lines.items()}


def _requested_state(deployment: Deployment) -> tuple[int, int, Scaling | None]:
    """Return the counters that requests increment, and the stored choice of the autoscaler."""
    return deployment.generation, deployment.credentials_version, deployment.scaling


def _check_interval_s(deployment: Deployment) -> float:
    """Return after how many seconds a deployment is checked again."""
    if not deployment.is_reconciled or deployment.phase not in (_REACHED_PHASES[deployment.desired], Phase.FAILED):
        return TICK_S
    if deployment.phase is Phase.PAUSED:
        return RESYNC_EVERY_S
    must_remove_previous = deployment.condition is Condition.STABLE and deployment.previous_revisions
    if must_remove_previous or deployment.condition is Condition.ROLLING_OUT:
        return PROBATION_CHECK_EVERY_S
    return RESYNC_EVERY_S
