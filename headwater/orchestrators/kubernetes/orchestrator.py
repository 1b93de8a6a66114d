"""Runs workers as Pods of Kubernetes, one per slot.

Headwater's controller creates, stops and deletes the Pods, and the kubelet restarts their containers. A thread runs an
event loop, which watches the Pods, follows each worker's reports over HTTP, and carries out the plans of pod_plan.py.
The Pods outlive this process: another controller finds them by their labels and continues.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import structlog
from lightkube import AsyncClient
from lightkube.resources.core_v1 import Pod, Secret

from headwater.errors import OrchestratorUnavailable
from headwater.loop_health import LoopHealth
from headwater.model.deployment import LogLine, ObservedWorker
from headwater.model.worker_protocol import WorkerSnapshot
from headwater.model.worker_report import WorkerReport
from headwater.model.worker_spec import WorkerSet
from headwater.orchestrators.kubernetes import labels, manifests
from headwater.orchestrators.kubernetes.cluster import ClusterState
from headwater.orchestrators.kubernetes.observed_pod import ObservedPod, observe
from headwater.orchestrators.kubernetes.pod_executor import PodExecutor
from headwater.orchestrators.kubernetes.pod_plan import CreatePod, DeletePod, WantedSet, plan_rollout, plan_teardown
from headwater.orchestrators.kubernetes.report_reader import ReportReader
from headwater.orchestrators.kubernetes.settings import PodSettings, PodTemplate
from headwater.orchestrators.kubernetes.slot_history import SlotHistory
from headwater.orchestrators.kubernetes.worker_client import WorkerClient
from headwater.orchestrators.kubernetes.worker_view import WorkerViews, missing_worker

log = structlog.get_logger(__name__)

RECHECK_INTERVAL_S = 5.0
"""How often all worker sets are planned again, even when nothing has changed."""
OVERDUE_AFTER_S = 15.0
"""A Pod that still exists this long after its grace period is deleted without waiting for its node.

The node may be lost.
"""
MAX_RETRY_DELAY_S = 2.0
MAX_UPDATES = 4
"""How many outdated Pods of all worker sets are replaced at a time, after an upgrade or a change of settings."""

SlotKey = tuple[str, int]
"""The id of a worker set, and the number of a slot."""


class KubernetesOrchestrator:
    """Implements orchestrators.base.Orchestrator.

    Args:
        connect: Returns a client for the namespace of the workers. The event loop's thread calls it.
        settings: How Pods are made.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self, connect: Callable[[], AsyncClient], settings: PodSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connect = connect
        self._settings = settings
        self._clock = clock
        self._lock = threading.RLock()
        self._leads_until = float("-inf")
        self._wanted: dict[str, WorkerSet] = {}
        self._wanted_since: dict[str, datetime] = {}
        self._templates: dict[str, PodTemplate] = {}
        self._unwanted: set[str] = set()
        self._pods: dict[str, dict[str, ObservedPod]] = {}
        self._secrets: dict[str, set[str]] = {}
        self._updating: dict[str, int] = {}
        self._recheck_at = clock()
        self._histories: dict[SlotKey, SlotHistory] = {}
        self._views = WorkerViews()
        self._dirty: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event = asyncio.Event()
        self._is_closed = False
        self._loop_health = LoopHealth("managing Pods")
        self._cluster: ClusterState | None = None
        self._reports: ReportReader | None = None
        self._executor: PodExecutor | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="orchestrator", daemon=True)
        self._thread.start()

    # For the controller

    def ensure(self, wanted: WorkerSet) -> None:
        template = PodTemplate(self._settings, manifests.files_hash(wanted.spec))
        with self._lock:
            self._check_usable()
            before = self._wanted.get(wanted.id)
            if before != wanted:
                self._wanted_since[wanted.id] = datetime.now(UTC)
            self._wanted[wanted.id] = wanted
            self._templates[wanted.id] = template
            self._unwanted.discard(wanted.id)
            self._share_quarantines(wanted, is_new_spec=before is None or before.spec_hash != wanted.spec_hash)
        self._plan_soon(wanted.id)

    def set_lease_remaining(self, remaining_s: float) -> None:
        with self._lock:
            self._leads_until = self._clock() + remaining_s

    def stop_workers(self, worker_set_id: str) -> bool:
        with self._lock:
            self._check_usable()
            self._wanted.pop(worker_set_id, None)
            self._templates.pop(worker_set_id, None)
            if worker_set_id not in self._existing_ids():
                self._unwanted.discard(worker_set_id)
                return True
            self._unwanted.add(worker_set_id)
        self._plan_soon(worker_set_id)
        return False

    def status(self, worker_set_id: str) -> Sequence[ObservedWorker]:
        with self._lock:
            self._check_usable()
            pods = self._pods_of(worker_set_id)
            by_preference = sorted(pods, key=lambda pod: (not pod.is_deleting, pod.created_at))
            workers = {pod.slot: pod for pod in by_preference if pod.is_worker}
            observed = {slot: self._observed(pod) for slot, pod in workers.items()}
            wanted = self._wanted.get(worker_set_id)
            if wanted is not None:
                for slot in set(range(wanted.slots)) - observed.keys():
                    observed[slot] = self._missing(wanted, slot)
            return [worker for _, worker in sorted(observed.items())]

    def successors(self, worker_set_id: str) -> Sequence[ObservedWorker]:
        with self._lock:
            self._check_usable()
            wanted, pods = self._wanted.get(worker_set_id), self._pods_of(worker_set_id)
            if wanted is None or all(pod.spec_hash == wanted.spec_hash for pod in pods):
                return []
            found = {pod.slot: pod for pod in pods if not pod.is_worker and pod.spec_hash == wanted.spec_hash}
            return [
                self._observed(found[slot]) if slot in found else self._missing(wanted, slot)
                for slot in range(wanted.slots)
                if not any(pod.is_worker and pod.slot == slot and pod.spec_hash == wanted.spec_hash for pod in pods)
            ]

    def take_logs(self) -> dict[str, list[LogLine]]:
        with self._lock:
            self._check_open()
            logs: dict[str, list[LogLine]] = {}
            for (worker_set_id, _), history in self._histories.items():
                if history.lines:
                    logs.setdefault(worker_set_id, []).extend(history.lines)
                    history.lines.clear()
            for key in [key for key in self._histories if key[0] not in self._pods and key[0] not in self._wanted]:
                del self._histories[key]
            return {worker_set_id: sorted(lines, key=lambda line: line.time) for worker_set_id, lines in logs.items()}

    def worker_snapshots(self) -> Sequence[WorkerSnapshot]:
        with self._lock:
            self._check_usable()
            snapshots: list[WorkerSnapshot] = []
            for wanted in self._wanted.values():
                pods = [pod for pod in self._pods_of(wanted.id) if pod.is_worker and not pod.is_deleting]
                workers = {pod.slot: pod for pod in sorted(pods, key=lambda pod: pod.created_at)}
                snapshots += [self._snapshot(wanted, slot, workers.get(slot)) for slot in range(wanted.slots)]
            return snapshots

    def _snapshot(self, wanted: WorkerSet, slot: int, pod: ObservedPod | None) -> WorkerSnapshot:
        worker = f"{wanted.id}-{slot}"
        if pod is None:
            return WorkerSnapshot(worker, wanted.spec, None, is_ready=False)
        report = self._report(pod)
        heartbeat = report.heartbeat if report is not None else None
        return WorkerSnapshot(worker, wanted.spec, heartbeat, is_ready=self._observed(pod).is_ready)

    def worker_set_ids(self) -> frozenset[str]:
        with self._lock:
            self._check_usable()
            return frozenset(self._existing_ids() | self._wanted.keys())

    @property
    def current_failure(self) -> str:
        watch = self._cluster.health.error if self._cluster is not None else ""
        return self._loop_health.error or watch

    def close(self) -> None:
        """Stop managing the workers. Their Pods keep running."""
        with self._lock:
            self._is_closed = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake.set)
        self._thread.join()

    # State, under the lock

    def _check_open(self) -> None:
        if self._is_closed or not self._thread.is_alive():
            raise OrchestratorUnavailable("The orchestrator has stopped; restart the controller.")

    def _check_usable(self) -> None:
        self._check_open()
        if self._cluster is None or not self._cluster.is_current:
            raise OrchestratorUnavailable("The state of the Pods is not known: the Kubernetes API does not answer.")

    def _existing_ids(self) -> set[str]:
        """Return the ids of worker sets that have a Pod or a Secret."""
        return self._pods.keys() | self._secrets.keys()

    def _pods_of(self, worker_set_id: str) -> list[ObservedPod]:
        return list(self._pods.get(worker_set_id, {}).values())

    def _report(self, pod: ObservedPod) -> WorkerReport | None:
        return self._reports.latest(pod) if self._reports is not None else None

    def _observed(self, pod: ObservedPod) -> ObservedWorker:
        history = self._history(pod.worker_set_id, pod.slot)
        return self._views.view(pod, self._report(pod), history.excused_deaths.get(pod.uid, 0))

    def _missing(self, wanted: WorkerSet, slot: int) -> ObservedWorker:
        template, executor = self._templates[wanted.id], self._executor
        failure = executor.creation_failure(wanted, template, slot) if executor is not None else ""
        pods = [pod for pod in self._pods_of(wanted.id) if pod.slot == slot]
        restarts = max((pod.restarts + pod.earlier_restarts for pod in pods), default=0)
        return missing_worker(f"{wanted.id}-{slot}", wanted.spec_hash, failure, self._wanted_since[wanted.id], restarts)

    def _share_quarantines(self, wanted: WorkerSet, *, is_new_spec: bool) -> None:
        """Give each slot the quarantined positions of all slots (see OomHistory).

        Until the spec changes again, positions are only added: a slot whose worker has the spec already has forgotten
        its own, and a new leader gets them from later reports.
        """
        slots = {*range(wanted.slots), *(pod.slot for pod in self._pods_of(wanted.id))}
        histories = [self._history(wanted.id, slot).oom_history for slot in slots]
        quarantined = {position for history in histories for position in history.quarantined}
        if not is_new_spec:
            quarantined.update(*(history.quarantined_in_any_slot for history in histories))
        for history in histories:
            history.set_quarantined_in_any_slot(quarantined)

    def _history(self, worker_set_id: str, slot: int) -> SlotHistory:
        key = (worker_set_id, slot)
        if key not in self._histories:
            self._histories[key] = SlotHistory(f"{worker_set_id}-{slot}")
        return self._histories[key]

    @property
    def _is_leading(self) -> bool:
        return self._clock() < self._leads_until

    # The event loop

    def _plan_soon(self, worker_set_id: str) -> None:
        """Plan a worker set again as soon as possible. Thread-safe."""
        with self._lock:
            self._dirty.add(worker_set_id)
            if self._loop is not None and not self._is_closed:
                self._loop.call_soon_threadsafe(self._wake.set)

    async def _run(self) -> None:
        client, workers = self._connect(), WorkerClient()
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        self._cluster = ClusterState(client, self._settings.instance, self._on_change)
        self._executor = PodExecutor(client, workers, self._cluster, self._settings.port, self._plan_soon)
        self._reports = ReportReader(workers, self._executor.token, self._settings.port, self._on_report)
        watching = asyncio.create_task(self._cluster.follow())
        try:
            while not self._is_closed:
                try:
                    self._plan_all()
                    self._loop_health.on_success()
                    await self._wait()
                except Exception as error:  # noqa: BLE001  # only this loop manages the workers
                    await asyncio.sleep(min(self._loop_health.on_error(error), MAX_RETRY_DELAY_S))
        finally:
            watching.cancel()
            self._reports.close()
            self._executor.close()
            await asyncio.gather(watching, return_exceptions=True)
            await client.close()
            self._loop = None

    async def _wait(self) -> None:
        """Wait until something has changed.

        Every RECHECK_INTERVAL_S seconds, all worker sets count as changed.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, self._recheck_at - self._clock())):
                await self._wake.wait()
        self._wake.clear()
        if self._clock() >= self._recheck_at:
            self._recheck_at = self._clock() + RECHECK_INTERVAL_S
            with self._lock:
                self._dirty |= {*self._wanted, *self._unwanted}

    def _on_change(self, changed: Pod | Secret) -> None:
        """Store the present state of a Pod or a Secret that has changed, and plan its worker set."""
        assert self._cluster is not None
        assert self._reports is not None
        assert changed.metadata is not None
        worker_set_id, name = label_values(changed)[labels.WORKER_SET], changed.metadata.name or ""
        if isinstance(changed, Secret):
            with self._lock:
                self._on_secret(worker_set_id, name)
        else:
            with self._lock:
                pods = self._pods.setdefault(worker_set_id, {})
                previous = pods.pop(name, None)
                present = self._cluster.pods.get(name)
                if previous is not None and (present is None or _uid(present) != previous.uid):
                    self._reports.forget(previous)
                    self._views.forget(previous)
                if present is not None:
                    pod = pods[name] = observe(present)
                    self._history(worker_set_id, pod.slot).on_pod(pod, previous)
                    self._reports.follow(pod)
                if not pods:
                    del self._pods[worker_set_id]
        self._plan_soon(worker_set_id)

    def _on_secret(self, worker_set_id: str, name: str) -> None:
        assert self._cluster is not None
        names = self._secrets.setdefault(worker_set_id, set())
        if name in self._cluster.secrets:
            names.add(name)
        else:
            names.discard(name)
        if not names:
            del self._secrets[worker_set_id]

    def _on_report(self, pod: ObservedPod) -> None:
        report = self._report(pod)
        if report is not None:
            with self._lock:
                self._history(pod.worker_set_id, pod.slot).on_report(pod, report, self._clock())
        self._plan_soon(pod.worker_set_id)

    def _plan_all(self) -> None:
        """Plan the worker sets that have changed, if this controller leads."""
        assert self._cluster is not None
        assert self._executor is not None
        with self._lock:
            if not self._is_leading:
                self._wanted.clear()
                self._unwanted.clear()
                self._updating.clear()
            dirty, self._dirty = self._dirty, set()
            if not self._is_leading or not self._cluster.is_current:
                return
            for worker_set_id in dirty:
                self._plan(worker_set_id)

    def _plan(self, worker_set_id: str) -> None:
        """Plan a worker set, and start to carry out the actions."""
        assert self._executor is not None
        assert self._reports is not None
        pods = self._pods_of(worker_set_id)
        reports = {pod.uid: report for pod in pods if (report := self._reports.latest(pod)) is not None}
        wanted = self._wanted.get(worker_set_id)
        self._updating.pop(worker_set_id, None)
        if wanted is not None:
            template = self._templates[wanted.id]
            wanted_set = WantedSet(wanted.id, wanted.slots, wanted.spec_hash, template.hash)
            max_updates = max(0, MAX_UPDATES - sum(self._updating.values()))
            rollout = plan_rollout(wanted_set, pods, reports, max_updates=max_updates)
            if rollout.updating:
                self._updating[wanted.id] = len(rollout.updating)
            for action in rollout.actions:
                slot = action.slot if isinstance(action, CreatePod) else action.pod.slot
                reading_plan = self._history(wanted.id, slot).oom_history.reading_plan(wanted.spec_hash)
                self._executor.carry_out(wanted, template, action, reading_plan)
        elif worker_set_id in self._unwanted:
            for ending in plan_teardown(pods, reports):
                self._executor.end(ending)
        else:
            return
        self._clean_up(worker_set_id, pods, wanted)

    def _clean_up(self, worker_set_id: str, pods: Sequence[ObservedPod], wanted: WorkerSet | None) -> None:
        """Delete Pods whose node does not delete them, and Secrets that no Pod needs."""
        assert self._executor is not None
        for pod in pods:
            if pod.delete_by is not None and (datetime.now(UTC) - pod.delete_by).total_seconds() > OVERDUE_AFTER_S:
                self._executor.end(DeletePod(pod, at_once=True))
        needed = {pod.secret_name for pod in pods}
        if wanted is not None:
            needed.add(manifests.secret_name(wanted, self._templates[wanted.id]))
        for name in self._secrets.get(worker_set_id, set()) - needed:
            self._executor.delete_secret(worker_set_id, name)


def _uid(pod: Pod) -> str:
    assert pod.metadata is not None
    return pod.metadata.uid or ""


def label_values(labelled: Pod | Secret) -> dict[str, str]:
    """Return the labels of a Pod or Secret."""
    assert labelled.metadata is not None
    return labelled.metadata.labels or {}
