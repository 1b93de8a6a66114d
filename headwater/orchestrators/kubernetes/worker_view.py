"""Describes the workers of a worker set as `deploy/stats` shows them."""

from datetime import UTC, datetime

from headwater.model.deployment import ObservedWorker, ObservedWorkerStatus
from headwater.model.progress_clock import QUIET_AFTER_S
from headwater.model.worker_report import WorkerReport
from headwater.orchestrators.kubernetes.observed_pod import ObservedPod
from headwater.orchestrators.kubernetes.slot_history import describe_end
from headwater.orchestrators.slot import OOM_REPORTED_FOR_S, QUIET_REASON


def missing_worker(name: str, spec_hash: str, reason: str, since: datetime, restart_count: int) -> ObservedWorker:
    """Return the worker of a slot that has no Pod yet.

    Args:
        name: The name of the worker.
        spec_hash: The spec that it should run.
        reason: Why it has no Pod.
        since: When it was requested.
        restart_count: How often the workers of the slot were restarted.
    """
    return ObservedWorker(
        name=name,
        status=ObservedWorkerStatus.PENDING,
        is_ready=False,
        start_time=since,
        reason=reason,
        spec_hash=spec_hash,
        restart_count=restart_count,
    )


class WorkerViews:
    """Describes workers, and keeps each description until its Pod or report changes.

    The controller reads the states of all workers each second.
    """

    def __init__(self) -> None:
        self._views: dict[str, tuple[ObservedPod, WorkerReport | None, int, ObservedWorker]] = {}

    def view(self, pod: ObservedPod, report: WorkerReport | None, excused_deaths: int) -> ObservedWorker:
        """Return a worker, see `observed_worker`."""
        view = self._views.get(pod.uid)
        if view is not None and view[0] is pod and view[1] is report and view[2] == excused_deaths:
            return view[3]
        worker = observed_worker(pod, report, excused_deaths)
        if pod.last_end is None:  # after an end, `is_oom_killed` changes with time
            self._views[pod.uid] = pod, report, excused_deaths, worker
        return worker

    def forget(self, pod: ObservedPod) -> None:
        """Forget the worker of a Pod that does not exist any more."""
        self._views.pop(pod.uid, None)


def observed_worker(pod: ObservedPod, report: WorkerReport | None, excused_deaths: int) -> ObservedWorker:
    """Return a worker that has a Pod.

    Args:
        pod: The Pod.
        report: The last report of the present container; None before the first one.
        excused_deaths: How many deaths do not count against the spec (see SlotHistory).
    """
    heartbeat = report.heartbeat if report is not None else None
    state = heartbeat.state if heartbeat is not None else ""
    status = _status(pod, state)
    is_running = status is ObservedWorkerStatus.RUNNING
    is_quiet = is_running and report is not None and report.quiet_s >= QUIET_AFTER_S and state != "waiting"
    return ObservedWorker(
        name=pod.worker_name,
        status=status,
        is_ready=is_running and state == "ready" and not is_quiet,
        is_crash_looping=status is ObservedWorkerStatus.CRASH_LOOP_BACK_OFF,
        is_oom_killed=_was_oom_killed(pod),
        restart_count=pod.earlier_restarts + pod.restarts,
        start_time=pod.started_at or pod.created_at,
        reason=QUIET_REASON if is_quiet else _reason(pod, report),
        spec_hash=pod.spec_hash,
        deaths=pod.restarts - excused_deaths,
        waits=state == "waiting",
        set_versions=heartbeat.set_versions if heartbeat is not None else None,
    )


def _status(pod: ObservedPod, state: str) -> ObservedWorkerStatus:
    if pod.is_deleting:
        return ObservedWorkerStatus.TERMINATING
    if pod.waiting == "CrashLoopBackOff" or state == "crashing":
        return ObservedWorkerStatus.CRASH_LOOP_BACK_OFF
    if pod.is_running:
        return ObservedWorkerStatus.RUNNING if state else ObservedWorkerStatus.PENDING
    is_oom_kill = pod.last_end is not None and pod.last_end.is_oom_kill
    return ObservedWorkerStatus.OOM_KILLED if is_oom_kill else ObservedWorkerStatus.PENDING


def _was_oom_killed(pod: ObservedPod) -> bool:
    end = pod.last_end
    return end is not None and end.is_oom_kill and (datetime.now(UTC) - end.at).total_seconds() < OOM_REPORTED_FOR_S


def _reason(pod: ObservedPod, report: WorkerReport | None) -> str:
    if report is not None and report.heartbeat is not None and report.heartbeat.reason:
        return report.heartbeat.reason
    if pod.is_running and report is not None:
        return ""
    if pod.last_end is not None:
        return describe_end(pod.last_end)
    return f"{pod.waiting}: {pod.waiting_message}" if pod.waiting and pod.waiting_message else pod.waiting_message
