"""The report of a worker in a Pod to its orchestrator."""

from pydantic import BaseModel, ConfigDict

from headwater.model.reading_plan import IsolationStatus
from headwater.model.worker_protocol import Heartbeat, WorkerLogLine


class WorkerReport(BaseModel):
    """The state of a worker, as it answers `GET /status`.

    Attributes:
        version: A number that grows with each change of the state, its reason, the versions of sets, the isolation
            status and the log. It is larger than all numbers of earlier containers of the Pod.
        heartbeat: The last heartbeat, without log lines; None before the first one.
        quiet_s: Seconds since the last progress, see ProgressClock.
        may_join: Whether the worker has been permitted to join its consumer group. It stays true after the worker has
            joined.
        has_ended: Whether the worker was asked to stop, and has closed its Kafka clients.
        lines: The log lines that the orchestrator has not read yet.
        next_line: The number of the first line after them. It is larger than all numbers of earlier containers.
        previous_isolation: The isolation status of the previous container of the Pod.
    """

    model_config = ConfigDict(frozen=True)

    version: int
    heartbeat: Heartbeat | None
    quiet_s: float
    may_join: bool
    has_ended: bool
    lines: list[WorkerLogLine]
    next_line: int
    previous_isolation: IsolationStatus | None = None
