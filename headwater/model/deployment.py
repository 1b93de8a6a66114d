"""Deployments: the running form of a configuration, the names of what it owns, and its workers' states."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from headwater.model.flow import PipelineConfig
from headwater.model.sink import DEAD_LETTER_NAME


class Desired(StrEnum):
    """What the API asked for."""

    RUNNING = "running"
    ABSENT = "absent"


class Phase(StrEnum):
    """What the controller has seen. RUNNING means that every worker of `observed_revision` was ready."""

    PENDING = "pending"
    RUNNING = "running"
    FAILED = "failed"
    ABSENT = "absent"


class Condition(StrEnum):
    """The rollout's condition, as GET …/deploy shows it."""

    STABLE = "Stable"
    ROLLING_OUT = "RollingOut"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"


class Status(StrEnum):
    """Worker states; the words are those of Kubernetes."""

    PENDING = "Pending"
    RUNNING = "Running"
    CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
    OOM_KILLED = "OOMKilled"
    TERMINATING = "Terminating"
    FAILED = "Failed"


class WorkerStatus(BaseModel):
    """One worker as `deploy/stats` shows it. spec_hash (not shown) tells which spec it runs."""

    model_config = ConfigDict(frozen=True)

    name: str
    status: Status
    is_ready: bool
    is_crash_looping: bool = False
    is_oom_killed: bool = False
    restart_count: int = 0
    start_time: datetime
    reason: str = ""
    spec_hash: str = ""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployment, desired and observed. A teardown ends it; a later deploy makes another, with another id.

    generation is raised by each change of the desired state; observed_generation follows when the controller has
    acted on it, successfully or not. Passwords are sealed at rest.
    """

    id: str
    flow_id: str
    owner: str
    config: PipelineConfig
    desired: Desired
    desired_revision: int
    generation: int
    reader_password: str = field(repr=False)
    worker_password: str = field(repr=False)
    created_at: datetime
    delete_flow: bool = False
    source_epoch: int = 1
    phase: Phase = Phase.PENDING
    observed_revision: int | None = None
    observed_generation: int = 0
    condition: Condition = Condition.ROLLING_OUT
    reason: str = ""
    workers: tuple[WorkerStatus, ...] = ()

    @property
    def settled(self) -> bool:
        """True when the controller has finished with the newest desired state."""
        return self.observed_generation >= self.generation


@dataclass(frozen=True, slots=True)
class Observed:
    """What the controller writes back after a round over one deployment."""

    deployment_id: str
    phase: Phase
    observed_revision: int | None
    observed_generation: int
    condition: Condition
    reason: str = ""


def sink_topic(config_id: str, sink_name: str) -> str:
    """The topic of a Kafka sink. The configuration's id in it keeps tenants apart."""
    return f"flow.{config_id}.{sink_name}"


def dead_letter_topic(config_id: str) -> str:
    """The topic of the records that could not be processed."""
    return sink_topic(config_id, DEAD_LETTER_NAME)


def reader(deployment_id: str) -> str:
    """The SCRAM user that the deploy answer hands out."""
    return f"dep-{deployment_id}"


def worker_user(deployment_id: str) -> str:
    """The SCRAM user of the deployment's workers."""
    return f"wrk-{deployment_id}"


def consumer_group(deployment_id: str) -> str:
    """The group that the deploy answer suggests; every group with the prefix `dep-<id>.` is allowed."""
    return f"{reader(deployment_id)}.main"


def source_group(deployment_id: str, epoch: int) -> str:
    """The workers' group on the source topic; epoch is raised at each change of source."""
    return f"{worker_user(deployment_id)}.{epoch}"
