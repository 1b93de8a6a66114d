"""The messages, exit statuses and heartbeats between an orchestrator and its workers."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from headwater.model.metric import CountType, DurationType
from headwater.model.reading_plan import IsolationStatus
from headwater.model.value_sets import SetVersion
from headwater.model.worker_spec import WorkerSpec

FENCED_STATUS = 3
"""The exit status of a worker that another worker has fenced."""
JOIN = b"join\n"
"""The process orchestrator's message to a worker: join the consumer group and start to read. A Pod gets POST /join."""
LEAVE = b"leave\n"
"""The orchestrator's message before it stops a worker without a successor: leave the consumer group."""


class WorkerLogLine(BaseModel):
    """A log line in a heartbeat, of the worker itself or of the `console.log` of a script."""

    model_config = ConfigDict(frozen=True)

    time: datetime
    source: Literal["worker", "script"]
    level: str
    message: str


class TransformCounters(BaseModel):
    """The counts of a transform for the committed records since the start of the worker.

    Attributes:
        received: How many records it received.
        sent: How many records it passed on.
        dropped: How many of the received records have no output and no error.
        errors: How many of the received records it could not process.
        processing_ms: The sum of the processing latencies of the received records.
    """

    model_config = ConfigDict(frozen=True)

    received: int = 0
    sent: int = 0
    dropped: int = 0
    errors: int = 0
    processing_ms: float = 0.0


class Heartbeat(BaseModel):
    """The state of a worker.

    The worker makes a heartbeat each second, at every change of its state, and when the version of a set has changed. A
    process sends it as a JSON line; a Pod returns it in its report.

    Attributes:
        state: One of seven texts:
            "starting": The worker starts.
            "prepared": The worker can join its consumer group, and waits for the message JOIN.
            "ready": The worker reads and processes records.
            "waiting": A store or Kafka is unavailable, the transforms take long, or no partition can be read.
            "crashing": Many records crash the process of the scripts.
            "draining": The worker finishes its batches before it ends.
            "failed": The worker has failed. This is its last heartbeat.
        spec_hash: The hash of the spec that the worker runs.
        reason: Why the worker is in this state, as a sentence.
        progress: A counter of loop iterations and records read. A worker whose counter does not change is stuck.
        committed_batches: How many batches the worker has committed since its start.
        isolation: None for a worker that was started with the reading plan READ_ALL, and for a worker without
            partitions.
        counters: The counts of committed records since the start.
        times: Histograms of durations of committed records since the start: metric type → bin → count
            (model/metric.py).
        transforms: The counts of each transform since the start, by its uid.
        set_versions: The versions of the worker's sets by SetId.name, as the worker has read them: of all its filters,
            and of the datasets that its scripts have looked up. None before the first read.
        uptime_s: The seconds since the start of the worker.
        cpu_s: The CPU time of the worker's own process since its start, in seconds.
        scripts_cpu_s: The CPU time of the process that runs the scripts since its start, in seconds.
        logs: The log lines since the last heartbeat.
    """

    model_config = ConfigDict(frozen=True)

    state: str
    spec_hash: str
    reason: str = ""
    progress: int = 0
    committed_batches: int = 0
    isolation: IsolationStatus | None = None
    counters: dict[CountType, int] = Field(default_factory=dict)
    times: dict[DurationType, dict[int, int]] = Field(default_factory=dict)
    transforms: dict[str, TransformCounters] = Field(default_factory=dict)
    set_versions: dict[str, SetVersion] | None = None
    uptime_s: float = 0.0
    cpu_s: float = 0.0
    scripts_cpu_s: float = 0.0
    logs: list[WorkerLogLine] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """The last heartbeat of a worker.

    Attributes:
        worker: The name of the worker.
        spec: The spec of its worker set.
        heartbeat: None while the worker does not run.
        is_ready: Whether the worker counts as ready in `deploy/stats`.
    """

    worker: str
    spec: WorkerSpec = field(repr=False)
    heartbeat: Heartbeat | None
    is_ready: bool
