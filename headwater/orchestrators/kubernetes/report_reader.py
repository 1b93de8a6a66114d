"""Follows the reports of all workers, with one task per Pod."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from headwater.model.worker_report import WorkerReport
from headwater.orchestrators.kubernetes.observed_pod import ObservedPod
from headwater.orchestrators.kubernetes.worker_client import WorkerClient, WorkerRequestError

RETRY_S = 0.5
MAX_FAILURES = 6
"""After this many failed requests in a row, the last report no longer counts."""
CURRENT_FOR_S = 20.0
"""An older report does not count either. A worker answers within 15 s."""


@dataclass(slots=True)
class _FollowedPod:
    pod: ObservedPod
    task: asyncio.Task[None]
    report: WorkerReport | None = None
    received_at: float = 0.0


class ReportReader:
    """Reads the reports of workers. All methods but `latest` run in the event loop.

    Args:
        workers: The client.
        token: Returns the token of a Pod's worker; empty while it is not known.
        port: The port of the workers.
        on_report: Is called when there is a new report, and when the last one no longer counts because of MAX_FAILURES.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        workers: WorkerClient,
        token: Callable[[ObservedPod], str],
        port: int,
        on_report: Callable[[ObservedPod], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._workers = workers
        self._token = token
        self._port = port
        self._on_report = on_report
        self._followed: dict[str, _FollowedPod] = {}

    def latest(self, pod: ObservedPod) -> WorkerReport | None:
        """Return the last report of the present container of a Pod. Thread-safe."""
        followed = self._followed.get(pod.uid)
        if followed is None or self._clock() - followed.received_at > CURRENT_FOR_S:
            return None
        return followed.report

    def follow(self, pod: ObservedPod) -> None:
        """Follow the worker of a new Pod, or store the new state of a Pod that is followed already."""
        followed = self._followed.get(pod.uid)
        if followed is None:
            self._followed[pod.uid] = _FollowedPod(pod, asyncio.create_task(self._read(pod.uid)))
            return
        if followed.pod.restarts != pod.restarts or not pod.is_running:
            followed.report = None
        followed.pod = pod

    def forget(self, pod: ObservedPod) -> None:
        """Stop following the worker of a Pod that does not exist any more."""
        followed = self._followed.pop(pod.uid, None)
        if followed is not None:
            followed.task.cancel()

    def close(self) -> None:
        """Stop following all workers."""
        for followed in self._followed.values():
            followed.task.cancel()

    async def _read(self, uid: str) -> None:
        seen_version = next_line = failures = 0
        await asyncio.sleep(0)
        while (followed := self._followed.get(uid)) is not None:
            pod, token = followed.pod, self._token(followed.pod)
            if not (pod.ip and pod.is_running and token):
                await asyncio.sleep(RETRY_S)
                continue
            try:
                report = await self._workers.report(f"{pod.ip}:{self._port}", token, seen_version, next_line)
            except WorkerRequestError:
                failures += 1
                if failures == MAX_FAILURES and followed.report is not None:
                    followed.report = None
                    self._on_report(followed.pod)
                await asyncio.sleep(RETRY_S)
                continue
            failures, seen_version, next_line = 0, report.version, report.next_line
            followed.report, followed.received_at = report, self._clock()
            self._on_report(followed.pod)
