"""The history of a slot: the kills of its workers for memory, and log lines."""

import signal
from collections import deque
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime

from headwater.model.deployment import LogLine
from headwater.model.worker_report import WorkerReport
from headwater.orchestrators.kubernetes.observed_pod import ContainerEnd, ObservedPod
from headwater.orchestrators.oom_history import OomHistory
from headwater.orchestrators.slot import MAX_PENDING_LINES, OVER_LIMIT_REASON

SIGNAL_STATUS = 128
"""A container that a signal ended has this exit status plus the number of the signal."""


@dataclass(slots=True)
class SlotHistory:
    """The history of a slot.

    Attributes:
        name: The name of the worker.
        oom_history: The out-of-memory kills of the slot's workers.
        lines: Log lines that the controller has not taken yet.
        excused_deaths: By uid of a Pod, how many of its deaths do not count against the present spec, because the same
            records had killed workers with the previous spec.
    """

    name: str
    _: KW_ONLY
    oom_history: OomHistory = field(default_factory=OomHistory)
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=MAX_PENDING_LINES))
    excused_deaths: dict[str, int] = field(default_factory=dict)
    _recorded_restarts: dict[str, int] = field(default_factory=dict)

    def on_report(self, pod: ObservedPod, report: WorkerReport, now: float) -> None:
        """Take note of a report of the slot's worker or successor.

        Args:
            pod: The Pod of the worker.
            report: The report.
            now: Monotonic seconds.
        """
        self.lines.extend(
            LogLine(time=line.time, worker=self.name, source=line.source, level=line.level, message=line.message)
            for line in report.lines
        )
        if not pod.is_worker:
            return
        self._record_restart(pod, report, now)
        if report.heartbeat is not None and report.heartbeat.isolation is not None:
            self.oom_history.on_isolation_status(pod.spec_hash, report.heartbeat.isolation)

    def on_pod(self, pod: ObservedPod, previous: ObservedPod | None) -> None:
        """Log an unexpected end of the worker."""
        self._recorded_restarts.setdefault(pod.uid, pod.restarts)
        has_ended = pod.last_end is not None and (previous is None or previous.last_end != pod.last_end)
        if has_ended and previous is not None and pod.last_end is not None and not pod.is_deleting:
            self.log("error", describe_end(pod.last_end))

    def _record_restart(self, pod: ObservedPod, report: WorkerReport, now: float) -> None:
        if pod.restarts <= self._recorded_restarts.get(pod.uid, pod.restarts):
            return
        self._recorded_restarts[pod.uid] = pod.restarts
        if pod.last_end is not None and pod.last_end.is_oom_kill and not report.may_join:
            killed_previous_spec = self.oom_history.record_kill(pod.spec_hash, report.previous_isolation, now)
            self.excused_deaths[pod.uid] = self.excused_deaths.get(pod.uid, 0) + killed_previous_spec

    def log(self, level: str, message: str) -> None:
        """Add a line to the deployment's log."""
        self.lines.append(
            LogLine(time=datetime.now(UTC), worker=self.name, source="worker", level=level, message=message)
        )


def describe_end(end: ContainerEnd) -> str:
    """Return why a worker ended, given the end of its container."""
    if end.is_oom_kill:
        return OVER_LIMIT_REASON
    killer = next((each.name for each in signal.Signals if each == end.exit_status - SIGNAL_STATUS), None)
    text = f"killed by {killer}" if killer else f"ended with status {end.exit_status}"
    return f"{text}; its last report: {end.message}" if end.message else text
