"""Workers as `deploy/stats` shows them, from Pods and reports."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from lightkube.resources.core_v1 import Pod

from headwater.model.deployment import ObservedWorker, ObservedWorkerStatus
from headwater.model.worker_protocol import Heartbeat
from headwater.model.worker_report import WorkerReport
from headwater.orchestrators.kubernetes import labels
from headwater.orchestrators.kubernetes.observed_pod import observe
from headwater.orchestrators.kubernetes.worker_view import WorkerViews, observed_worker

IMPORTED_AT = datetime.now(UTC).isoformat()
RUNNING = {"running": {"startedAt": IMPORTED_AT}}
FAILED = {"terminated": {"reason": "Error", "exitCode": 1, "message": "it fails", "finishedAt": IMPORTED_AT}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}


def pod(state: Any = None, last_state: Any = None, restarts: int = 0, **status: Any) -> Pod:
    container = {"name": "worker", "image": "i", "imageID": "i", "ready": False, "restartCount": restarts}
    containers = [container | {"state": state, "lastState": last_state}] if state else []
    return msgspec.convert(
        {
            "metadata": {
                "name": "d1-0-h",
                "uid": "u1",
                "creationTimestamp": IMPORTED_AT,
                "labels": {
                    labels.WORKER_SET: "d1",
                    labels.SLOT: "0",
                    labels.SPEC: "h",
                    labels.TEMPLATE: "t",
                    labels.ROLE: labels.WORKER,
                },
                "annotations": {labels.RESTARTS: "3"},
            },
            "status": {"phase": "Running", "containerStatuses": containers, **status},
        },
        Pod,
    )


def oom_killed(ago: timedelta = timedelta(0)) -> Any:
    """Return the state of a container that the kernel has killed for its memory.

    Args:
        ago: How long before now it was killed.
    """
    finished_at = (datetime.now(UTC) - ago).isoformat()
    return {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": finished_at}}


def report(state: str, reason: str = "", quiet_s: float = 0.0) -> WorkerReport:
    heartbeat = Heartbeat(state=state, spec_hash="h", reason=reason)
    return WorkerReport(
        version=1, heartbeat=heartbeat, quiet_s=quiet_s, may_join=True, has_ended=False, lines=[], next_line=0
    )


def view(observed: Pod, state: str = "", reason: str = "", quiet_s: float = 0.0, excused: int = 0) -> ObservedWorker:
    return observed_worker(observe(observed), report(state, reason, quiet_s) if state else None, excused)


def test_a_ready_worker() -> None:
    worker = view(pod(RUNNING), "ready")
    assert (worker.name, worker.status, worker.is_ready) == ("d1-0", ObservedWorkerStatus.RUNNING, True)
    assert (worker.restart_count, worker.deaths, worker.reason) == (3, 0, "")


def test_a_quiet_worker_is_not_ready() -> None:
    assert not view(pod(RUNNING), "ready", quiet_s=4).is_ready
    assert "made no progress" in view(pod(RUNNING), "ready", quiet_s=4).reason
    assert view(pod(RUNNING), "waiting", "Kafka is away", quiet_s=4).reason == "Kafka is away"


def test_a_pod_without_a_node_says_why() -> None:
    unschedulable = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    worker = view(pod(conditions=[unschedulable], phase="Pending"))
    assert (worker.status, worker.reason) == (ObservedWorkerStatus.PENDING, "0/3 nodes are available")


def test_an_image_that_can_not_be_pulled() -> None:
    worker = view(pod({"waiting": {"reason": "ErrImagePull", "message": "not found"}}))
    assert (worker.status, worker.reason) == (ObservedWorkerStatus.PENDING, "ErrImagePull: not found")


def test_a_worker_that_a_signal_has_killed() -> None:
    killed = {"terminated": {"reason": "Error", "exitCode": 137, "message": "it reads", "finishedAt": IMPORTED_AT}}
    assert view(pod(killed)).reason == "killed by SIGKILL; its last report: it reads"
    assert view(pod(FAILED)).reason == "ended with status 1; its last report: it fails"


def test_deaths_for_memory() -> None:
    dead = view(pod(oom_killed(), restarts=0))
    assert (dead.status, dead.is_oom_killed) == (ObservedWorkerStatus.OOM_KILLED, True)
    again = view(pod(RUNNING, oom_killed(), restarts=2), "ready", excused=1)
    assert (again.status, again.is_oom_killed, again.is_ready) == (ObservedWorkerStatus.RUNNING, True, True)
    assert (again.restart_count, again.deaths) == (5, 1)
    assert not view(pod(RUNNING, oom_killed(timedelta(hours=1)), restarts=2), "ready").is_oom_killed


def test_a_crash_loop_has_the_last_words() -> None:
    worker = view(pod(BACK_OFF, FAILED, restarts=3))
    assert (worker.status, worker.is_crash_looping) == (ObservedWorkerStatus.CRASH_LOOP_BACK_OFF, True)
    assert worker.reason == "ended with status 1; its last report: it fails"
    assert view(pod(RUNNING), "crashing", "scripts crash").is_crash_looping


def test_a_description_lasts_until_the_pod_the_report_or_the_deaths_change() -> None:
    views, running = WorkerViews(), observe(pod(RUNNING, restarts=2))
    ready = report("ready")
    described = views.view(running, ready, 0)
    assert described.is_ready
    assert views.view(running, ready, 0) is described
    assert not views.view(running, report("crashing"), 0).is_ready
    assert views.view(running, ready, 1).deaths == 1
    assert not views.view(observe(pod(BACK_OFF)), ready, 0).is_ready
    assert not views.view(running, None, 0).is_ready


def test_a_description_that_depends_on_the_time_is_made_each_time() -> None:
    views, killed = WorkerViews(), observe(pod(RUNNING, oom_killed(), restarts=1))
    ready = report("ready")
    assert views.view(killed, ready, 0) is not views.view(killed, ready, 0)
