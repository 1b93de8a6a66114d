"""Deployments: running configurations, their resource names, and the states of workers."""

from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict

from headwater.model.flow import PipelineConfig
from headwater.model.sink import DEAD_LETTER_NAME, TopicSink


class DesiredPhase(StrEnum):
    """The phase that the API has requested."""

    RUNNING = "running"
    ABSENT = "absent"


class Phase(StrEnum):
    """The observed phase of a deployment.

    RUNNING means that every worker of `observed_revision` was ready.
    """

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
    """The status of a worker, in the words of Kubernetes."""

    PENDING = "Pending"
    RUNNING = "Running"
    CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
    OOM_KILLED = "OOMKilled"
    TERMINATING = "Terminating"


class WorkerStatus(BaseModel):
    """One worker as `deploy/stats` shows it. The last three attributes are internal.

    Attributes:
        spec_hash: The spec that the worker runs.
        deaths: The number of deaths with this spec.
        waits: Whether the worker waits for an unavailable store or broker.
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
    """A line of a worker (source "worker"), or of a script's `console` (source "script")."""

    model_config = ConfigDict(frozen=True)

    time: datetime
    worker: str
    source: Literal["worker", "script"]
    level: str = "info"
    message: str


@dataclass(frozen=True, slots=True)
class Revision:
    """A requested revision of the configuration, and the epoch of its consumer group."""

    number: int
    config: PipelineConfig
    source_epoch: int


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployment: its desired and its observed state.

    A teardown ends the deployment. A later deploy creates another one, with another id.

    Attributes:
        config: The configuration of the desired revision.
        generation: Raised by each change of the desired state.
        reader_password, worker_password: The passwords of the deployment's Kafka users. They are encrypted at rest.
        delete_configuration: Whether the configuration is deleted when the teardown has ended.
        source_epoch: The number in the name of the consumer group; a change of the source raises it.
        observed_revision: The revision whose workers became ready last.
        observed_generation: The last generation that the controller has finished, successfully or not.
        stable_revision: The revision to roll back to: the last one that was Stable or, if there is none, the one that
            ran before.
        credentials_version: The version of the readers' password. A rotation raises it.
        observed_credentials_version: The last version of the readers' password that the broker knows.
        previous_revisions: Other revisions that may still own resources on the broker.
        unreadable: Why this version can't read the deployment, and what to do; empty when it can. Such a deployment is
            not changed, and its workers keep running. It can only be torn down.
    """

    id: str
    config_id: str
    owner: str
    config: PipelineConfig
    desired: DesiredPhase
    desired_revision: int
    generation: int
    reader_password: str = field(repr=False)
    worker_password: str = field(repr=False)
    created_at: datetime
    delete_configuration: bool = False
    source_epoch: int = 1
    phase: Phase = Phase.PENDING
    observed_revision: int | None = None
    observed_generation: int = 0
    stable_revision: int | None = None
    credentials_version: int = 1
    observed_credentials_version: int = 1
    condition: Condition = Condition.ROLLING_OUT
    reason: str = ""
    previous_revisions: tuple[Revision, ...] = ()
    workers: tuple[WorkerStatus, ...] = ()
    unreadable: str = ""

    @property
    def is_reconciled(self) -> bool:
        """Whether the controller has finished with the current desired state, successfully or not."""
        return self.observed_generation >= self.generation

    @property
    def has_secrets(self) -> bool:
        """Whether the passwords are available.

        They are not when they can't be decrypted, or after the teardown.
        """
        return bool(self.reader_password and self.worker_password)

    @property
    def desired_revision_record(self) -> Revision:
        """The desired revision."""
        return Revision(self.desired_revision, self.config, self.source_epoch)

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """All revisions that may own resources on the broker, the desired one first."""
        return (self.desired_revision_record, *self.previous_revisions)

    def revision(self, number: int | None) -> Revision | None:
        """Return the revision of this number; None when it is not in `revisions`."""
        return next((revision for revision in self.revisions if revision.number == number), None)

    @property
    def effective_revision(self) -> Revision:
        """The revision that responses describe: the running one, or else the desired one."""
        return self.revision(self.observed_revision) or self.desired_revision_record


@dataclass(frozen=True, slots=True)
class DeploymentProgress:
    """The progress of a deployment, without its configuration and secrets.

    API calls that wait for it poll this.
    """

    id: str
    config_id: str
    desired: DesiredPhase
    desired_revision: int
    generation: int
    phase: Phase
    observed_revision: int | None
    observed_generation: int
    credentials_version: int
    observed_credentials_version: int
    reason: str

    @classmethod
    def of(cls, deployment: Deployment) -> Self:
        """Return the progress of a deployment."""
        return cls(**{f.name: getattr(deployment, f.name) for f in fields(cls)})


class DeploymentVersion(NamedTuple):
    """Identifies the state of a deployment, without its configuration.

    While it is equal, the deployment is unchanged. It does not cover the states of the workers and the retirement of
    previous revisions, because only the controller writes these.
    """

    id: str
    config_id: str
    desired: str
    generation: int
    phase: str
    observed_revision: int | None
    observed_generation: int
    stable_revision: int | None
    credentials_version: int
    observed_credentials_version: int
    condition: str

    @classmethod
    def of(cls, deployment: Deployment) -> Self:
        """Return the version of a deployment."""
        return cls(**{name: getattr(deployment, name) for name in cls._fields})


@dataclass(frozen=True, slots=True)
class Observation:
    """The observed state that the controller stores after it has reconciled a deployment.

    With the condition STABLE, observed_revision becomes the stable revision.

    Attributes:
        retired: Whether the resources of all other revisions have been removed.
    """

    deployment_id: str
    phase: Phase
    observed_revision: int | None
    observed_generation: int
    condition: Condition
    reason: str = ""
    observed_credentials_version: int = 1
    retired: bool = False


def sink_topic(config_id: str, sink_name: str) -> str:
    """Return the topic of a Kafka sink.

    It contains the configuration's id, so topics of different owners differ.
    """
    return f"flow.{config_id}.{sink_name}"


def dead_letter_topic(config_id: str) -> str:
    """Return the topic of the records that could not be processed."""
    return sink_topic(config_id, DEAD_LETTER_NAME)


def output_topics(config_id: str, config: PipelineConfig) -> list[str]:
    """Return the topics that a configuration owns.

    These are one topic per TopicSink, and the dead-letter topic.
    """
    sinks = [sink_topic(config_id, sink.name) for sink in config.sinks if isinstance(sink, TopicSink)]
    return [*sinks, dead_letter_topic(config_id)]


def reader_user(deployment_id: str) -> str:
    """Return the name of the readers' SCRAM user, which the deploy response contains."""
    return f"dep-{deployment_id}"


def worker_user(deployment_id: str) -> str:
    """Return the name of the SCRAM user of the deployment's workers."""
    return f"wrk-{deployment_id}"


def consumer_group(deployment_id: str) -> str:
    """Return the consumer group that the deploy response suggests.

    Readers may use any group with the prefix `dep-<id>.`.
    """
    return f"{reader_user(deployment_id)}.main"


def transactional_id_prefix(config_id: str) -> str:
    """Return the prefix of the transactional ids of a configuration's workers.

    The slot number follows it. It is the same in all deployments and revisions, so that a new worker of a slot fences
    the previous one.
    """
    return f"headwater-{config_id}-"


def source_group(deployment_id: str, epoch: int) -> str:
    """Return the workers' consumer group on the source topic.

    A change of the source raises the epoch.
    """
    return f"{worker_user(deployment_id)}.{epoch}"
