"""Writes the desired state of deployments and reads the observed state."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from headwater.errors import Conflict, DeployFailed, Fault, InvalidInput
from headwater.model import rollout
from headwater.model.deployment import Deployment, DeploymentProgress, DesiredPhase, LogLine, Phase, reader_user
from headwater.model.flow import Source
from headwater.model.positions import Rewind, RewindTarget
from headwater.model.rewind_target import unknown_partitions_error
from headwater.model.timestamps import parse_rfc_3339
from headwater.services.ids import NewId, Now
from headwater.services.redaction import Redact
from headwater.stores.protocols.configurations import FlowStore
from headwater.stores.protocols.deployments import DeploymentStore

MAX_CLOCK_SKEW = timedelta(minutes=1)
"""How far the clock of a client may be ahead of this machine's clock."""


@dataclass(frozen=True, slots=True)
class Login:
    """The Kafka login of a reader of outputs.

    The user name and the password are None when the operator has configured no login.
    """

    username: str | None
    password: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class KafkaEndpoint:
    """How users connect to Kafka, which is a part of each deployment's response body.

    Attributes:
        shared_login: The login of all readers, where the operator manages the users of Kafka; None where each
            deployment has a login of its own.
    """

    bootstrap_servers: str
    security_protocol: str
    sasl_mechanism: str | None
    shared_login: Login | None = None

    def login(self, deployment: Deployment) -> Login:
        """Return the login of the readers of a deployment."""
        return self.shared_login or Login(reader_user(deployment.id), deployment.reader_password)


class Deployments:
    """Requests changes of deployments, and reads their state.

    No method waits for the controller: callers poll `progress` and test it with `is_running`, `is_paused`,
    `is_rewound`, `is_rotated` or `is_removed`. All methods may raise DatabaseUnavailable.

    Args:
        new_password: Returns a new random password.
        source_ends: Returns the next offset of each partition of a source; None for a source without offsets. It may
            block and raises BrokerUnavailable.
        redact: Removes names of the operator's systems from reasons and log lines.
        manages_users: Whether Headwater creates the users of Kafka.
    """

    def __init__(
        self,
        *,
        flows: FlowStore,
        store: DeploymentStore,
        now: Now,
        new_id: NewId,
        new_password: Callable[[], str],
        source_ends: Callable[[Source], Mapping[int, int] | None],
        redact: Redact = str,
        manages_users: bool = True,
    ) -> None:
        self._source_ends = source_ends
        self._redact = redact
        self._manages_users = manages_users
        self._flows = flows
        self._store = store
        self._now = now
        self._new_id = new_id
        self._new_password = new_password

    def deploy(self, owner: str, config_id: str) -> Deployment:
        """Request that the newest revision runs. Idempotent.

        Raises NotFound, TeardownInProgress, QuotaExceeded, StoredDataUnreadable.
        """
        flow = self._flows.get(owner, config_id)
        new_deployment = Deployment(
            id=self._new_id(),
            config_id=config_id,
            owner=owner,
            config=flow.pipeline_config,
            desired=DesiredPhase.RUNNING,
            desired_revision=flow.revision,
            generation=1,
            reader_password=self._new_password(),
            worker_password=self._new_password(),
            created_at=self._now(),
        )
        return self._store.request_deploy(owner, config_id, new_deployment)

    def redeploy(self, owner: str, config_id: str) -> Deployment:
        """Request that the newest revision runs, when the configuration is deployed already.

        A paused deployment stays paused. Raises the errors of `deploy`, and NotFound when the configuration is not
        deployed.
        """
        return self._store.request_redeploy(owner, config_id)

    def resume(self, owner: str, config_id: str) -> Deployment:
        """Request that the newest revision runs, also when the deployment is paused. Idempotent.

        Raises NotFound, QuotaExceeded, StoredDataUnreadable, and Conflict when the configuration is not deployed.
        """
        return self._store.request_resume(owner, config_id)

    def pause(self, owner: str, config_id: str) -> Deployment:
        """Request that no worker runs. Idempotent.

        Raises NotFound, StoredDataUnreadable, and Conflict when the configuration is not deployed.
        """
        return self._store.request_pause(owner, config_id)

    def rewind(self, owner: str, config_id: str, to: RewindTarget) -> Deployment:
        """Request that the positions of a deployment are moved.

        An offset before the first record of its partition is moved to this record. Raises NotFound,
        StoredDataUnreadable, BrokerUnavailable, and Conflict when the configuration is not deployed. Raises
        InvalidInput when `to` is a time in the future, or has a partition that the source does not have or an offset
        after the end of its partition.
        """
        if isinstance(to, str):
            self._require_no_future_time(to)
        else:
            deployment = self.find(owner, config_id)
            if deployment is None:
                raise rollout.not_deployed_conflict()
            self._require_offsets(deployment, to)
        return self._store.request_rewind(owner, config_id, to)

    def mark_rewind_answered(self, requested: Deployment) -> None:
        """Record that a client gets the result of a rewind.

        From now on, the same request is a new rewind.
        """
        self._store.mark_rewind_answered(requested.config_id, requested.generation)

    def _require_no_future_time(self, to: str) -> None:
        if to not in ("earliest", "latest") and parse_rfc_3339(to) > self._now() + MAX_CLOCK_SKEW:
            detail = 'is in the future; send "latest" to continue with the records that arrive from now on'
            raise InvalidInput("The request was refused.", [Fault("/to", detail)])

    def _require_offsets(self, deployment: Deployment, to: dict[int, int]) -> None:
        ends = self._source_ends(deployment.effective_revision.config.source)
        if ends is None:
            detail = "has offsets, but this stream has none; send earliest, latest or an RFC 3339 time"
            raise InvalidInput("The request was refused.", [Fault("/to", detail)])
        if (error := unknown_partitions_error(to, len(ends))) is not None:
            raise error
        detail = "is after the end of its partition; send at most {}, the offset of its next record"
        faults = [
            Fault(f"/to/{partition}", detail.format(ends[partition]))
            for partition, offset in sorted(to.items())
            if offset > ends[partition]
        ]
        if faults:
            raise InvalidInput("The request was refused.", faults)

    def require_not_running(self, owner: str, config_id: str, revision: int) -> None:
        """Raise Conflict when a revision is the newest one and runs already.

        A rollback to it changes nothing. Raises NotFound.
        """
        flow, deployment = self._flows.get(owner, config_id), self._store.active(config_id)
        if flow.revision != revision or deployment is None:
            return
        is_running = deployment.desired is DesiredPhase.RUNNING and deployment.phase is Phase.RUNNING
        if is_running and deployment.desired_revision == deployment.observed_revision == revision:
            raise Conflict(
                f"The pipeline runs revision {revision} already, which is the newest one. Choose an earlier revision "
                "from GET …/revisions."
            )

    def rotate(self, owner: str, config_id: str) -> Deployment:
        """Request a new password for the readers.

        Raises NotFound, also when the configuration is not deployed. Raises Conflict where the operator manages the
        users of Kafka.
        """
        if not self._manages_users:
            self.get_not_terminating(owner, config_id)
            raise Conflict(
                "The operator of this installation manages the Kafka credentials of readers, so Headwater can't "
                "change them. Ask the operator for new ones."
            )
        return self._store.request_credential_rotation(owner, config_id, self._new_password())

    def tear_down(self, owner: str, config_id: str) -> Deployment | None:
        """Request a teardown.

        Returns the deployment; None when the configuration is not deployed. Raises NotFound.
        """
        self._flows.get(owner, config_id)
        return self._store.request_teardown(config_id)

    def progress(self, config_ids: Collection[str]) -> Mapping[str, DeploymentProgress]:
        """Return the progress of the deployments of these configurations.

        Configurations that are not deployed are left out.
        """
        progress_by_id = self._store.progress(config_ids)
        return {
            config_id: replace(progress, reason=self._redact(progress.reason))
            for config_id, progress in progress_by_id.items()
        }

    def find(self, owner: str, config_id: str) -> Deployment | None:
        """Return the deployment of a configuration; None when it is not deployed.

        Raises NotFound when the configuration does not exist.
        """
        self._flows.get(owner, config_id)
        deployment = self._store.active(config_id)
        return None if deployment is None else self._redacted(deployment)

    def get(self, owner: str, config_id: str) -> Deployment:
        """Return the deployment of a configuration, also while its teardown is in progress.

        Raises NotFound, also when there is none.
        """
        deployment = self.find(owner, config_id)
        if deployment is None:
            raise rollout.deployment_not_found()
        return deployment

    def get_not_terminating(self, owner: str, config_id: str) -> Deployment:
        """Return the deployment of a configuration whose teardown was not requested.

        Raises NotFound, also when there is none.
        """
        deployment = self.get(owner, config_id)
        if deployment.desired is DesiredPhase.ABSENT:
            raise rollout.deployment_not_found()
        return deployment

    def logs(self, owner: str, config_id: str, limit: int) -> Sequence[LogLine]:
        """Return the last log lines of the workers and scripts, newest first. Raises NotFound."""
        lines = self._store.read_logs(self.get(owner, config_id).id, limit)
        return [line if line.source == "script" else self._redacted_line(line) for line in lines]

    def _redacted(self, deployment: Deployment) -> Deployment:
        workers = (worker.model_copy(update={"reason": self._redact(worker.reason)}) for worker in deployment.workers)
        rewind = deployment.rewind
        if rewind is not None:
            rewind = rewind.model_copy(update={"error": self._redact(rewind.error)})
        return replace(deployment, reason=self._redact(deployment.reason), workers=tuple(workers), rewind=rewind)

    def _redacted_line(self, line: LogLine) -> LogLine:
        return line.model_copy(update={"message": self._redact(line.message)})


def is_running(requested: Deployment, progress: DeploymentProgress | None) -> bool:
    """Whether the requested revision runs; False while the rollout is in progress.

    Raises DeployFailed with the controller's reason, and Conflict when the deployment was torn down or paused
    meanwhile.
    """
    if is_removed(requested, progress) or progress is None or progress.desired is DesiredPhase.ABSENT:
        raise Conflict("The deployment was torn down while it was being deployed. Deploy it again.")
    if progress.generation < requested.generation:  # the progress is older than the request
        return False
    if progress.desired is DesiredPhase.PAUSED:
        raise Conflict("The pipeline was paused while it was being deployed. Resume it with POST …/resume.")
    if progress.observed_generation < progress.generation or progress.phase is Phase.PENDING:
        return False
    if progress.phase is Phase.RUNNING and progress.observed_revision == progress.desired_revision:
        return True
    raise DeployFailed(progress.reason or "The workers of this revision did not become ready.")


def is_paused(requested: Deployment, progress: DeploymentProgress | None) -> bool:
    """Whether all workers have ended and their positions are stored.

    Raises Conflict when the deployment was torn down or resumed meanwhile.
    """
    if is_removed(requested, progress) or progress is None or progress.desired is DesiredPhase.ABSENT:
        raise Conflict("The deployment was torn down while it was being paused.")
    if progress.generation < requested.generation:  # the progress is older than the request
        return False
    if progress.desired is not DesiredPhase.PAUSED:
        raise Conflict("The pipeline was resumed while it was being paused. Pause it again.")
    return progress.observed_generation >= progress.generation and progress.phase is Phase.PAUSED


def is_rewound(requested: Deployment, progress: DeploymentProgress | None) -> bool:
    """Whether the positions were moved, and the workers of a running pipeline are ready again.

    Raises DeployFailed with the controller's reason, and Conflict when the deployment was torn down meanwhile.
    """
    if is_removed(requested, progress) or progress is None or progress.desired is DesiredPhase.ABSENT:
        raise Conflict("The deployment was torn down while it was being rewound.")
    if progress.observed_generation < max(progress.generation, requested.generation):
        return False
    if progress.phase is Phase.FAILED:
        raise DeployFailed(progress.reason or "The workers did not become ready after the rewind.")
    return progress.phase in (Phase.RUNNING, Phase.PAUSED)


def rewind_result(requested: Deployment, current: Deployment) -> Rewind:
    """Return the result of a requested rewind, after `is_rewound`.

    Raises DeployFailed when the rewind was not possible, and Conflict when another one has replaced it.
    """
    result, request = current.rewind, requested.rewind
    if result is None or request is None or result.generation != request.generation or result.is_pending:
        raise Conflict(
            "A later request has rewound the pipeline meanwhile. GET …/deploy has its positions in `rewind`; if you "
            "need others, rewind the pipeline again."
        )
    if result.error:
        raise DeployFailed(result.error)
    return result


def is_rotated(requested: Deployment, progress: DeploymentProgress | None) -> bool:
    """Whether Kafka knows the new password.

    Raises Conflict when the deployment was torn down meanwhile.
    """
    if is_removed(requested, progress) or progress is None or progress.desired is DesiredPhase.ABSENT:
        raise Conflict(
            "The deployment was torn down, and its credentials were removed. Deploy it again to get new ones."
        )
    return progress.observed_credentials_version >= requested.credentials_version


def is_removed(requested: Deployment, progress: DeploymentProgress | None) -> bool:
    """Whether a deployment and everything that belongs to it have been removed."""
    return progress is None or progress.id != requested.id
