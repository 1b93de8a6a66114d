"""The controller's loop: it holds the lease, watches the doorbell, runs rounds in parallel and reports workers.

One failing deployment never delays another: each has its own back-off, and at most one round at a time.
"""

import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import structlog

from headwater.loop_health import Loop, failing
from headwater.children import Backoff
from headwater.controller.leadership import Leadership
from headwater.controller.purger import Purger
from headwater.controller.reconcile import Reconciler
from headwater.controller.sweeper import Sweeper
from headwater.errors import LeaseLost, OrchestratorUnavailable, Unavailable
from headwater.model.deployment import Condition, Deployment, Desired, Marker, Observed, Phase, WorkerStatus
from headwater.model.flow import Flow
from headwater.orchestrators.base import Orchestrator
from headwater.stores.base import DeploymentStore, Doorbell, FlowStore

log = structlog.get_logger(__name__)

ROUND_AGAIN_S = 15.0
"""The longest delay after a failed round of a deployment; a deploy call may be waiting for the next round."""
RENEW_EVERY_S = 3.0
TICK_S = 0.1
RESYNC_EVERY_S = 5.0
PROBATION_EVERY_S = 1.0
REPORT_EVERY_S = 1.0
SWEEP_EVERY_S = 30.0
PARALLEL_ROUNDS = 16
LONGEST_WAIT_S = 5.0
"""Shorter than the lease, so that a controller that waits for a store still leads when the store is available again."""

T = TypeVar("T")


@dataclass(slots=True)
class _Work:
    """A deployment under this controller's care."""

    deployment: Deployment
    running: Future[Observed | None] | None = None
    not_before: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(1.0, ROUND_AGAIN_S))


class ControlStores(Protocol):
    """The stores that the controller works on."""

    @property
    def flows(self) -> FlowStore: ...
    @property
    def deployments(self) -> DeploymentStore: ...
    @property
    def doorbell(self) -> Doorbell: ...


class Controller:
    """Drives rounds until `stop` is set, or another controller leads. clock: monotonic seconds."""

    def __init__(
        self,
        leadership: Leadership,
        stores: ControlStores,
        orchestrator: Orchestrator,
        reconciler: Reconciler,
        sweeper: Sweeper,
        purger: Purger,
        clock: Callable[[], float],
    ) -> None:
        self._leadership = leadership
        self._flows = stores.flows
        self._deployments = stores.deployments
        self._doorbell = stores.doorbell
        self._orchestrator = orchestrator
        self._reconciler = reconciler
        self._sweeper = sweeper
        self._purger = purger
        self._clock = clock
        self._pool = ThreadPoolExecutor(PARALLEL_ROUNDS, thread_name_prefix="round")
        self._work: dict[str, _Work] = {}
        self._markers: dict[str, Marker] = {}
        self._heard: int | None = None
        self._due: dict[str, float] = {}
        self._reported: dict[str, Sequence[WorkerStatus]] = {}
        self._deposed = False
        self.loop = Loop("looking after deployments")
        self.sweeps = Loop("sweeping")
        self.purges = Loop("removing deleted configurations")
        self._sweeping: Future[None] | None = None
        self._purging: Future[None] | None = None

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set. Outages of the stores and the broker are waited out."""
        backoff = Backoff(TICK_S, LONGEST_WAIT_S)
        while not stop.wait(TICK_S) and not self._deposed:
            try:
                self.tick()
                backoff.reset()
                self.loop.succeeded()
            except LeaseLost:
                log.error("another controller took the lease; this one ends, and its workers with it")
            except Unavailable as error:
                log.warning("the controller waits", reason=error.detail)
                stop.wait(backoff.next_s())
            except Exception as error:  # noqa: BLE001  # the workers are its children: it must not end
                stop.wait(min(self.loop.failed(error), LONGEST_WAIT_S))
        self._pool.shutdown(wait=True, cancel_futures=True)
        try:
            self._leadership.release()
        except Unavailable as error:
            log.warning("the lease runs out by itself", reason=error.detail)

    def failing(self) -> str:
        """What fails in this controller now, as the lease shows it to other processes; empty when nothing fails."""
        loops = (self.loop, self.sweeps, self.purges)
        return "; ".join(filter(None, (failing(loops), self._orchestrator.failing)))

    def tick(self) -> None:
        """Do everything that is due. Raises Unavailable, and LeaseLost when another controller leads."""
        try:
            if self._is_due("lease", RENEW_EVERY_S):
                self._renew()
            if self._leadership.leads:
                with self._leadership.acting():
                    self._lead()
        except LeaseLost:
            self._deposed = True
            raise

    def _lead(self) -> None:
        self._collect()
        if self._rang() or self._is_due("resync", RESYNC_EVERY_S):
            self._reload()
        self._start_rounds()
        if self._is_due("report", REPORT_EVERY_S):
            self._report()
        if self._is_due("sweep", SWEEP_EVERY_S):
            self._sweep()

    def _renew(self) -> None:
        self._leadership.renew(self.failing())
        if self._leadership.leads:
            self._orchestrator.lead(self._leadership.remaining_s)

    def _submit(self, work: Callable[..., T], *arguments: object) -> Future[T]:
        """Start work on a thread of the pool, under this leader's fencing number."""

        def run() -> T:
            with self._leadership.acting():
                return work(*arguments)

        return self._pool.submit(run)

    def _sweep(self) -> None:
        """Start a sweep in parallel to the rounds, unless the last one is still running."""
        if self._sweeping is not None:
            if not self._sweeping.done():
                return
            error = self._sweeping.exception()
            if isinstance(error, LeaseLost):
                raise error
            if error is None:
                self.sweeps.succeeded()
            else:
                self.sweeps.failed(error)
        self._sweeping = self._submit(self._sweeper.sweep)

    def _is_due(self, what: str, every_s: float) -> bool:
        now = self._clock()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every_s
        return True

    def _rang(self) -> bool:
        value = self._doorbell.value()
        rang, self._heard = value != self._heard, value
        return rang

    def _reload(self, observed: Collection[str] = ()) -> None:
        """Read the deployments that changed, and those that were just observed; all others stay as they are."""
        deleted = self._flows.deleted()  # first: what is deleted by now gets no new deployment
        markers = {marker.id: marker for marker in self._deployments.versions()}
        changed = {d for d, marker in markers.items() if d in observed or self._markers.get(d) != marker}
        if changed:
            for deployment in self._deployments.unfinished(changed):
                self._take_up(deployment)
        self._markers = markers
        for deployment_id in [d for d, work in self._work.items() if d not in markers and work.running is None]:
            del self._work[deployment_id]
            self._reconciler.discard(deployment_id)
        busy = {marker.flow_id for marker in markers.values()}
        self._purge([flow for flow in deleted if flow.id not in busy])

    def _take_up(self, deployment: Deployment) -> None:
        work = self._work.setdefault(deployment.id, _Work(deployment))
        if work.deployment.generation != deployment.generation:
            work.not_before = 0.0
            work.backoff.reset()
        work.deployment = deployment

    def _purge(self, flows: Sequence[Flow]) -> None:
        """Remove deleted configurations in parallel to the rounds, which a set store that hangs must not delay."""
        if self._purging is not None and self._purging.done():
            ended, self._purging = self._purging, None
            try:
                ended.result()
                self.purges.succeeded()
            except LeaseLost:
                raise
            except Unavailable as error:
                log.warning("deleted configurations wait", reason=error.detail)
            except Exception as error:  # noqa: BLE001  # one that can't be removed holds up no deployment
                self.purges.failed(error)
        if flows and self._purging is None:
            self._purging = self._submit(self._purge_all, flows)

    def _purge_all(self, flows: Sequence[Flow]) -> None:
        """Remove configurations. After an error of one, the others are still removed, and the last error is raised."""
        failed: Exception | None = None
        for flow in flows:
            try:
                self._purger.purge(flow)
            except (LeaseLost, Unavailable):
                raise
            except Exception as error:  # raised below
                log.error("a deleted configuration can't be removed", configuration=flow.id, exc_info=error)
                failed = error
        if failed is not None:
            raise failed

    def _start_rounds(self) -> None:
        """Start the rounds that are due; a round that would do nothing takes no thread."""
        now = self._clock()
        for work in self._work.values():
            if work.running is None and now >= work.not_before:
                work.not_before = now + _next_round_s(work.deployment)
                if not self._is_idle(work.deployment):
                    work.running = self._submit(self._reconciler.round, work.deployment)

    def _is_idle(self, deployment: Deployment) -> bool:
        try:
            return self._reconciler.is_idle(deployment)
        except Exception:  # noqa: BLE001  # the round raises it again, for this deployment alone
            return False

    def _collect(self) -> None:
        """Store what the rounds that ended have observed, all in one transaction."""
        news = []
        for work in self._work.values():
            if work.running is not None and work.running.done():
                observed = self._outcome(work, work.running)
                work.running = None
                if observed is not None:
                    news.append(observed)
        if news:
            self._report()
            self._deployments.observe(news)
            self._reload({observed.deployment_id for observed in news})

    def _outcome(self, work: _Work, ended: Future[Observed | None]) -> Observed | None:
        error = ended.exception()
        if error is None:
            work.backoff.reset()
            return ended.result()
        if isinstance(error, LeaseLost):
            raise error
        delay_s = work.backoff.next_s()
        work.not_before = self._clock() + delay_s
        detail = {"deployment": work.deployment.id, "again_in_s": round(delay_s, 1)}
        if isinstance(error, Unavailable):
            log.warning("a round waits", reason=error.detail, **detail)
        else:
            log.error("a round failed", exc_info=error, **detail)
        return None

    def _report(self) -> None:
        """Write the workers' states that changed."""
        states = {}
        for deployment_id in self._work:
            try:
                states[deployment_id] = self._orchestrator.status(deployment_id)
            except OrchestratorUnavailable as error:
                log.warning("worker states can't be read", reason=error.detail)
                return
        changed = {d: workers for d, workers in states.items() if self._reported.get(d) != workers}
        if changed:
            self._deployments.report_workers(changed)
        self._reported = states
        if lines := self._orchestrator.take_logs():
            self._deployments.write_logs(lines)


def _next_round_s(deployment: Deployment) -> float:
    wanted = Phase.RUNNING if deployment.desired is Desired.RUNNING else Phase.ABSENT
    if not deployment.is_reconciled or deployment.phase not in (wanted, Phase.FAILED):
        return TICK_S
    retires = deployment.condition is Condition.STABLE and deployment.previous_revisions
    return PROBATION_EVERY_S if retires or deployment.condition is Condition.ROLLING_OUT else RESYNC_EVERY_S
