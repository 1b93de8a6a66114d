"""Deployments: write what is desired, read what the controller has seen."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwater.errors import Conflict, DeployFailed, NotFound
from headwater.model.deployment import Deployment, Desired, LogLine, Phase, Progress, reader
from headwater.services.ids import Clock, NewId
from headwater.services.redaction import Redact
from headwater.stores.base import DeploymentStore, FlowStore


@dataclass(frozen=True, slots=True)
class Login:
    """The user and the password that a reader of outputs logs in with; None where nobody named them."""

    username: str | None
    password: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class KafkaEndpoint:
    """How users reach Kafka: part of each deploy answer.

    given_login: The login of all readers, where the operator of Kafka manages its users; None where each deployment has
    a login of its own.
    """

    bootstrap_servers: str
    security_protocol: str
    sasl_mechanism: str | None
    given_login: Login | None = None

    def login(self, deployment: Deployment) -> Login:
        """The login of the readers of a deployment."""
        return self.given_login or Login(reader(deployment.id), deployment.reader_password)


class Deployments:
    """No method waits for the controller: callers look at `progress`, and judge it with `is_running`, `is_rotated` or
    `is_gone`. All may raise StoreUnavailable.

    new_password makes one random password per call. redact: takes the operator's names out of reasons and log lines.
    manages_users: whether Headwater makes the users of Kafka.
    """

    def __init__(
        self,
        flows: FlowStore,
        store: DeploymentStore,
        now: Clock,
        new_id: NewId,
        new_password: Callable[[], str],
        redact: Redact = str,
        *,
        manages_users: bool = True,
    ) -> None:
        self._redact = redact
        self._manages_users = manages_users
        self._flows = flows
        self._store = store
        self._now = now
        self._new_id = new_id
        self._new_password = new_password

    def start(self, owner: str, flow_id: str) -> Deployment:
        """Ask for the newest revision to run. Idempotent. Raises NotFound, TeardownGoesOn."""
        flow = self._flows.get(owner, flow_id)
        new = Deployment(
            id=self._new_id(),
            flow_id=flow_id,
            owner=owner,
            config=flow.pipeline_config,
            desired=Desired.RUNNING,
            desired_revision=flow.revision,
            generation=1,
            reader_password=self._new_password(),
            worker_password=self._new_password(),
            created_at=self._now(),
        )
        return self._store.request_deploy(owner, flow_id, new)

    def redeploy(self, owner: str, flow_id: str) -> Deployment:
        """`start` for a configuration that is deployed. Raises NotFound, also when it is not, TeardownGoesOn."""
        return self._store.request_deploy(owner, flow_id, None)

    def rotate(self, owner: str, flow_id: str) -> Deployment:
        """Ask for another password of the readers. Raises NotFound, also when it is not deployed.

        Raises Conflict where the operator manages the users of Kafka.
        """
        if not self._manages_users:
            self.get(owner, flow_id)
            raise Conflict(
                "The operator of this installation gives out the Kafka credentials of readers, so Headwater can't "
                "change them. Ask the operator for new ones."
            )
        return self._store.request_credential_rotation(owner, flow_id, self._new_password())

    def stop(self, owner: str, flow_id: str) -> Deployment | None:
        """Ask for the deployment to go; None when there is none. Raises NotFound."""
        self._flows.get(owner, flow_id)
        return self._store.request_teardown(flow_id)

    def progress(self, flow_ids: Collection[str]) -> Mapping[str, Progress]:
        """How far the deployments of these flows have come; a flow without one is missing."""
        found = self._store.progress(flow_ids)
        return {flow_id: replace(seen, reason=self._redact(seen.reason)) for flow_id, seen in found.items()}

    def find(self, owner: str, flow_id: str) -> Deployment | None:
        """The deployment of a configuration, or None. Raises NotFound when there is no such configuration."""
        self._flows.get(owner, flow_id)
        found = self._store.active(flow_id)
        return None if found is None else self._shown(found)

    def get(self, owner: str, flow_id: str) -> Deployment:
        """The deployment of a configuration. Raises NotFound, also when it is not deployed."""
        deployment = self.find(owner, flow_id)
        if deployment is None:
            raise NotFound("This configuration is not deployed. Deploy it with POST …/deploy.")
        return deployment

    def logs(self, owner: str, flow_id: str, limit: int) -> Sequence[LogLine]:
        """The last lines of the workers and scripts, newest first. Raises NotFound."""
        lines = self._store.read_logs(self.get(owner, flow_id).id, limit)
        return [line if line.source == "script" else self._shown_line(line) for line in lines]

    def _shown(self, deployment: Deployment) -> Deployment:
        workers = (one.model_copy(update={"reason": self._redact(one.reason)}) for one in deployment.workers)
        return replace(deployment, reason=self._redact(deployment.reason), workers=tuple(workers))

    def _shown_line(self, line: LogLine) -> LogLine:
        return line.model_copy(update={"message": self._redact(line.message)})


def is_running(started: Deployment, seen: Progress | None) -> bool:
    """True when the revision that was asked for runs, False while it goes on.

    Raises DeployFailed with the controller's reason, Conflict when it was torn down meanwhile.
    """
    if is_gone(started, seen) or seen is None or seen.desired is Desired.ABSENT:
        raise Conflict("The deployment was torn down while it was being deployed. Deploy it again.")
    if seen.generation < started.generation:  # it was looked at before this was asked for
        return False
    if seen.observed_generation < seen.generation or seen.phase is Phase.PENDING:
        return False
    if seen.phase is Phase.RUNNING and seen.observed_revision == seen.desired_revision:
        return True
    raise DeployFailed(seen.reason or "The workers of this revision did not become ready.")


def is_rotated(asked: Deployment, seen: Progress | None) -> bool:
    """True when the broker knows the password that was asked for. Raises Conflict when it was torn down meanwhile."""
    if is_gone(asked, seen) or seen is None or seen.desired is Desired.ABSENT:
        raise Conflict("The deployment was torn down, and its credentials with it.")
    return seen.observed_credentials >= asked.credentials


def is_gone(stopped: Deployment, seen: Progress | None) -> bool:
    """True when everything that a deployment owned is removed."""
    return seen is None or seen.id != stopped.id
