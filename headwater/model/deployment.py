"""Deployments: the running form of a configuration, the names of what it owns, and its workers' states."""

from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple, Self

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


class WorkerStatus(BaseModel):
    """One worker as `deploy/stats` shows it.

    Not shown: spec_hash tells which spec it runs, deaths how often it died with that one, waits whether it is alive
    and waits for a store or broker that is away.
    """

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
    deaths: int = 0
    waits: bool = False


class LogLine(BaseModel):
    """A line that a worker wrote (source "worker"), or a script with `console.log` (source "script")."""

    model_config = ConfigDict(frozen=True)

    time: datetime
    worker: str
    source: Literal["worker", "script"]
    level: str = "info"
    message: str


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision of the configuration that a deployment was asked to run, and the epoch of its source group."""

    number: int
    config: PipelineConfig
    source_epoch: int


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployment, desired and observed. A teardown ends it; a later deploy makes another, with another id.

    generation is raised by each change of the desired state; observed_generation follows when the controller has
    acted on it, successfully or not. credentials counts the passwords that readers were given; observed_credentials
    follows when the broker knows the last one. Passwords are sealed at rest.

    unreadable: why this version can't read a part of it, and what to do; empty when it can. Nothing is begun for such a
    deployment, and its workers are left alone; only a teardown goes on.

    stable_revision: what a rollout that fails goes back to: the last revision that was Stable; while there is none,
    the one that ran before. previous_revisions: the revisions beside the desired one that may own something on the
    broker still.
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
    stable_revision: int | None = None
    credentials: int = 1
    observed_credentials: int = 1
    condition: Condition = Condition.ROLLING_OUT
    reason: str = ""
    previous_revisions: tuple[Revision, ...] = ()
    workers: tuple[WorkerStatus, ...] = ()
    unreadable: str = ""

    @property
    def is_reconciled(self) -> bool:
        """True when the controller has finished with the newest desired state."""
        return self.observed_generation >= self.generation

    @property
    def has_secrets(self) -> bool:
        """False where its passwords can't be opened, and once it has ended."""
        return bool(self.reader_password and self.worker_password)

    @property
    def newest(self) -> Revision:
        """The desired revision."""
        return Revision(self.desired_revision, self.config, self.source_epoch)

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """All revisions that may own something on the broker, the desired one first."""
        return (self.newest, *self.previous_revisions)

    def revision(self, number: int | None) -> Revision | None:
        """One of `revisions`, or None."""
        return next((revision for revision in self.revisions if revision.number == number), None)

    @property
    def effective_revision(self) -> Revision:
        """What a reader is told of: the revision that runs, else the one that is wanted."""
        return self.revision(self.observed_revision) or self.newest


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a deployment has come, without its configuration and secrets: what a waiting call looks at."""

    id: str
    flow_id: str
    desired: Desired
    desired_revision: int
    generation: int
    phase: Phase
    observed_revision: int | None
    observed_generation: int
    credentials: int
    observed_credentials: int
    reason: str

    @classmethod
    def of(cls, deployment: Deployment) -> Self:
        """The progress of a deployment."""
        return cls(**{f.name: getattr(deployment, f.name) for f in fields(cls)})


class Marker(NamedTuple):
    """Tells, without its configuration, whether a deployment changed: two equal markers mean an equal deployment.

    Left out are the workers' states, and the retirement of previous revisions, which the controller itself writes.
    """

    id: str
    flow_id: str
    desired: str
    generation: int
    phase: str
    observed_revision: int | None
    observed_generation: int
    stable_revision: int | None
    credentials: int
    observed_credentials: int
    condition: str

    @classmethod
    def of(cls, deployment: Deployment) -> Self:
        """The marker of a deployment."""
        return cls(**{name: getattr(deployment, name) for name in cls._fields})


@dataclass(frozen=True, slots=True)
class Observed:
    """What the controller writes back after a round over one deployment.

    The condition STABLE makes observed_revision the stable one. retired: the other revisions own nothing any more.
    """

    deployment_id: str
    phase: Phase
    observed_revision: int | None
    observed_generation: int
    condition: Condition
    reason: str = ""
    observed_credentials: int = 1
    retired: bool = False


def sink_topic(config_id: str, sink_name: str) -> str:
    """The topic of a Kafka sink. The configuration's id in it keeps tenants apart."""
    return f"flow.{config_id}.{sink_name}"


def dead_letter_topic(config_id: str) -> str:
    """The topic of the records that could not be processed."""
    return sink_topic(config_id, DEAD_LETTER_NAME)


def output_topics(config_id: str, config: PipelineConfig) -> list[str]:
    """The topics that a configuration owns: one per Kafka sink, and the one of the dead letters."""
    sinks = [sink_topic(config_id, sink.name) for sink in config.sinks if sink.type == "kafka"]
    return [*sinks, dead_letter_topic(config_id)]


def reader(deployment_id: str) -> str:
    """The SCRAM user that the deploy answer hands out."""
    return f"dep-{deployment_id}"


def worker_user(deployment_id: str) -> str:
    """The SCRAM user of the deployment's workers."""
    return f"wrk-{deployment_id}"


def consumer_group(deployment_id: str) -> str:
    """The group that the deploy answer suggests; every group with the prefix `dep-<id>.` is allowed."""
    return f"{reader(deployment_id)}.main"


def transactional_ids(flow_id: str) -> str:
    """What the transactional ids of a configuration's workers begin with; the number of the slot follows.

    It is the same in each deployment and revision: whoever works in a slot shuts out the one before.
    """
    return f"headwater-{flow_id}-"


def source_group(deployment_id: str, epoch: int) -> str:
    """The workers' group on the source topic; epoch is raised at each change of source."""
    return f"{worker_user(deployment_id)}.{epoch}"
