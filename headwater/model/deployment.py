"""Deployments of configurations, with their workers and the names of their resources."""

from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict

from headwater.model.flow import PipelineConfig
from headwater.model.parallelism import Scaling
from headwater.model.positions import OffsetGap, Rewind, StoredPositions
from headwater.model.sink import DEAD_LETTER_NAME, TopicSink
from headwater.model.value_sets import SetVersion


class DesiredPhase(StrEnum):
    """The phase that the API has requested for a deployment."""

    RUNNING = "running"
    PAUSED = "paused"
    ABSENT = "absent"


class Phase(StrEnum):
    """The observed phase of a deployment.

    RUNNING means that every worker of `observed_revision` has been ready, and PAUSED that all workers have ended and
    their positions are stored.
    """

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    FAILED = "failed"
    ABSENT = "absent"


class Condition(StrEnum):
    """The condition of a rollout, as GET …/deploy shows it."""

    STABLE = "Stable"
    ROLLING_OUT = "RollingOut"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"


def effective_condition(desired: DesiredPhase, condition: Condition) -> Condition:
    """Return the condition that responses show.

    A pause ends a rollout that is in progress. The stored condition of the paused pipeline stays ROLLING_OUT, and
    responses show STABLE.
    """
    is_ended = desired is DesiredPhase.PAUSED and condition is Condition.ROLLING_OUT
    return Condition.STABLE if is_ended else condition


class ObservedWorkerStatus(StrEnum):
    """The status of a worker, in the words that Kubernetes uses for pods."""

    PENDING = "Pending"
    RUNNING = "Running"
    CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
    OOM_KILLED = "OOMKilled"
    TERMINATING = "Terminating"


class ObservedWorker(BaseModel):
    """A worker as its orchestrator observes it.

    `deploy/stats` shows it, and the database stores it as JSON. `spec_hash`, `deaths`, `waits`, `set_versions` and
    `not_ready_since` are not part of the response.

    Attributes:
        spec_hash: The hash of the spec that the worker should run. While a previous process of the worker ends, that
            process still runs the previous spec.
        restart_count: How often the worker has ended unexpectedly, with any spec.
        deaths: How often the worker has ended unexpectedly with the spec `spec_hash`. A death is not counted when the
            records that caused it have already killed workers with the previous spec.
        waits: True while the worker's last heartbeat has the state `waiting`.
        set_versions: The versions of sets in the worker's last heartbeat, see Heartbeat; None without a heartbeat.
        not_ready_since: Since when the controller has seen that the worker is not ready; None while it is ready.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    status: ObservedWorkerStatus
    is_ready: bool
    is_crash_looping: bool = False
    is_oom_killed: bool = False
    restart_count: int = 0
    start_time: datetime
    reason: str = ""
    spec_hash: str = ""
    deaths: int = 0
    waits: bool = False
    set_versions: dict[str, SetVersion] | None = None
    not_ready_since: datetime | None = None


class LogLine(BaseModel):
    """A stored log line, with the name of its worker.

    `source` says whether a script wrote the line by `console.log`.
    """

    model_config = ConfigDict(frozen=True)

    time: datetime
    worker: str
    source: Literal["worker", "script"]
    level: str = "info"
    message: str


@dataclass(frozen=True, slots=True)
class DeployedRevision:
    """A revision that a deploy has requested.

    Attributes:
        number: The number of the configuration's revision.
        config: The pipeline of the revision.
        source_epoch: The number at the end of the name of the workers' consumer group.
    """

    number: int
    config: PipelineConfig
    source_epoch: int


@dataclass(frozen=True, slots=True)
class Deployment:
    """The desired and the observed state of a deployment.

    A teardown ends the deployment. A later deploy creates a new deployment with a new id.

    Attributes:
        config: The pipeline of the desired revision. Its configuration has the id `config_id`.
        desired: The phase that the API has requested.
        desired_revision: The number of the revision that the API has requested.
        generation: A number that each change of the desired state increments.
        reader_password: The password of the deployment's Kafka user for readers. The database encrypts both passwords.
        worker_password: The password of the deployment's Kafka user for workers.
        delete_configuration: Whether the configuration is deleted when the teardown has ended.
        source_epoch: The number at the end of the name of the workers' consumer group. A new group gets the next
            number; `rollout` decides when a group is new.
        observed_revision: The revision whose workers became ready last.
        observed_generation: The last generation that the controller has finished, successfully or not.
        rollback_revision: The revision to roll back to when the rollout of the desired revision fails: the last
            revision that was Stable. Until a revision has been Stable, it is the first revision that became ready and
            was then replaced by a deploy.
        credentials_version: The version of the readers' password. Each rotation of the password increments it.
        observed_credentials_version: The last version of the readers' password that the broker knows.
        previous_revisions: The other revisions that may still own resources on the broker.
        positions: The positions from which the next workers start. Empty while the committed offsets of the workers'
            consumer groups are the only positions.
        rewind: The last request to rewind, with its result.
        gaps: The offsets that retention removed before the pipeline was last resumed.
        scaling: The number of workers that the controller has chosen; None until it has changed the number.
        unreadable_reason: Why this version of Headwater can't read the deployment, and what to do; empty when it can.
            Its workers keep running, and it can be torn down. Pause, rewind and new credentials refuse it. A save of
            the configuration repairs unreadable passwords. A deploy that begins a rollout replaces an unknown desired
            state and condition. An unknown phase needs the version that wrote it, or a teardown.
        has_readable_positions: Whether this version can read `positions`, `rewind` and `gaps`. If not, no deploy and no
            resume replaces them.
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
    rollback_revision: int | None = None
    credentials_version: int = 1
    observed_credentials_version: int = 1
    condition: Condition = Condition.ROLLING_OUT
    reason: str = ""
    previous_revisions: tuple[DeployedRevision, ...] = ()
    workers: tuple[ObservedWorker, ...] = ()
    positions: StoredPositions = field(default_factory=StoredPositions)
    rewind: Rewind | None = None
    gaps: tuple[OffsetGap, ...] = ()
    scaling: Scaling | None = None
    unreadable_reason: str = ""
    has_readable_positions: bool = True

    @property
    def is_reconciled(self) -> bool:
        """Whether the controller has finished with the current desired state, successfully or not."""
        return self.observed_generation >= self.generation

    @property
    def unreported_gaps(self) -> tuple[OffsetGap, ...]:
        """The gaps of a resume whose workers are not ready yet, so that no response has had them."""
        return () if self.phase is Phase.RUNNING else self.gaps

    @property
    def has_readable_passwords(self) -> bool:
        """Whether the passwords are available.

        After the teardown, or when the passwords can't be decrypted, they are not available.
        """
        return bool(self.reader_password and self.worker_password)

    @property
    def desired_revision_record(self) -> DeployedRevision:
        """The desired revision, with its pipeline and its source epoch."""
        return DeployedRevision(self.desired_revision, self.config, self.source_epoch)

    @property
    def revisions(self) -> tuple[DeployedRevision, ...]:
        """All revisions that may own resources on the broker, the desired revision first."""
        return (self.desired_revision_record, *self.previous_revisions)

    def revision(self, number: int | None) -> DeployedRevision | None:
        """Return the revision with this number; None when it is not in `revisions`."""
        return next((revision for revision in self.revisions if revision.number == number), None)

    def worker_count(self, revision: DeployedRevision) -> int:
        """Return how many workers a revision has.

        When the revision's `parallelism` is bounds, it is the number that the controller has chosen last, within these
        bounds; `min` until the controller has changed the number.
        """
        parallelism = revision.config.parallelism
        if isinstance(parallelism, int):
            return parallelism
        return parallelism.min if self.scaling is None else self.scaling.workers_within(parallelism)

    @property
    def effective_revision(self) -> DeployedRevision:
        """The revision that responses describe.

        It is the observed revision, or the desired one when there is no observed revision.
        """
        return self.revision(self.observed_revision) or self.desired_revision_record


@dataclass(frozen=True, slots=True)
class DeploymentProgress:
    """The progress of a deployment, without its configuration and secrets.

    An API call that waits for a deployment polls its progress.
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
        return cls(**{attribute.name: getattr(deployment, attribute.name) for attribute in fields(cls)})


@dataclass(frozen=True, slots=True)
class ReportedWorkers:
    """The workers of an active deployment, without its configuration.

    They are the workers as the controller has reported them most recently.

    Attributes:
        is_deployed: False once a teardown was requested. The workers may run until the teardown ends.
    """

    config_id: str
    owner: str
    phase: Phase
    is_deployed: bool
    workers: tuple[ObservedWorker, ...]


class DeploymentVersion(NamedTuple):
    """Identifies the state of a deployment, without its configuration.

    The controller reads a deployment again when its version has changed. The version leaves out fields whose changes
    the controller need not notice: the statuses of the workers, the positions, the scaling and `Rewind.is_answered`. It
    also leaves out the pipeline and the passwords, which change only together with the generation or a version of the
    credentials, and the previous revisions, which the controller itself removes.
    """

    id: str
    config_id: str
    desired: str
    generation: int
    phase: str
    observed_revision: int | None
    observed_generation: int
    rollback_revision: int | None
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

    With the condition STABLE and the phase RUNNING, `observed_revision` becomes the `rollback_revision` of the
    deployment, if it is the desired revision and the generation is the newest one.

    Attributes:
        previous_removed: Whether the resources of all revisions but `observed_revision` have been removed.
        positions: The positions to store; None keeps the stored positions, and empty ones remove them.
        rewind: The result of a rewind; None keeps the stored request.
        gaps: The gaps of a resume; None keeps the stored gaps.
    """

    deployment_id: str
    phase: Phase
    observed_revision: int | None
    observed_generation: int
    condition: Condition
    reason: str = ""
    observed_credentials_version: int = 1
    previous_removed: bool = False
    positions: StoredPositions | None = None
    rewind: Rewind | None = None
    gaps: tuple[OffsetGap, ...] | None = None


def sink_topic(config_id: str, sink_name: str) -> str:
    """Return the topic of a Kafka sink.

    The name contains the id of the configuration, so the topics of different configurations differ.
    """
    return f"flow.{config_id}.{sink_name}"


def dead_letter_topic(config_id: str) -> str:
    """Return the topic of the records that could not be processed."""
    return sink_topic(config_id, DEAD_LETTER_NAME)


def output_topics(config_id: str, config: PipelineConfig) -> list[str]:
    """Return the topics that a configuration with this pipeline owns.

    These are one topic for each TopicSink, and the dead-letter topic.
    """
    sinks = [sink_topic(config_id, sink.name) for sink in config.sinks if isinstance(sink, TopicSink)]
    return [*sinks, dead_letter_topic(config_id)]


def reader_user(deployment_id: str) -> str:
    """Return the name of the readers' SCRAM user, which the deploy response contains."""
    return f"dep-{deployment_id}"


def worker_user(deployment_id: str) -> str:
    """Return the name of the SCRAM user of the deployment's workers."""
    return f"wrk-{deployment_id}"


def suggested_reader_group(deployment_id: str) -> str:
    """Return the consumer group that the deploy response suggests to readers.

    Readers may use any group whose name begins with `dep-<deployment_id>.`.
    """
    return f"{reader_user(deployment_id)}.main"


def transactional_id_prefix(config_id: str) -> str:
    """Return the prefix of the transactional ids of a configuration's workers.

    The number of the worker's slot follows the prefix. The transactional id of a slot is the same in all deployments
    and revisions, so that a new worker of the slot fences the previous worker.
    """
    return f"headwater-{config_id}-"


def worker_group(deployment_id: str, epoch: int) -> str:
    """Return the workers' consumer group on the source topic. See Deployment.source_epoch."""
    return f"{worker_user(deployment_id)}.{epoch}"
