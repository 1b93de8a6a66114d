"""Deployments: write what is desired, read what the controller has seen."""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.errors import Conflict, DeployFailed, NotFound
from headwater.model.deployment import Deployment, Desired, Phase
from headwater.services.ids import Clock, NewId
from headwater.stores.base import DeploymentStore, FlowStore


@dataclass(frozen=True, slots=True)
class KafkaEndpoint:
    """How users reach Kafka: part of each deploy answer."""

    bootstrap_servers: str
    security_protocol: str
    sasl_mechanism: str = "SCRAM-SHA-512"


class Deployments:
    """No method waits for the controller: callers poll `outcome` and `gone`. All may raise StoreUnavailable.

    new_password makes one random password per call.
    """

    def __init__(
        self, flows: FlowStore, store: DeploymentStore, now: Clock, new_id: NewId, new_password: Callable[[], str]
    ) -> None:
        self._flows = flows
        self._store = store
        self._now = now
        self._new_id = new_id
        self._new_password = new_password

    def start(self, owner: str, flow_id: str) -> Deployment:
        """Ask for the newest revision to run. Idempotent. Raises NotFound, Conflict (a teardown goes on)."""
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
        return self._store.desire_running(owner, flow_id, new)

    def outcome(self, started: Deployment) -> Deployment | None:
        """What became of `start`: the running deployment, or None while it goes on.

        Raises DeployFailed with the controller's reason, Conflict when it was torn down meanwhile.
        """
        seen = self._store.active(started.flow_id)
        if seen is None or seen.id != started.id or seen.desired is Desired.ABSENT:
            raise Conflict("The deployment was torn down while it was being deployed. Deploy it again.")
        if not seen.settled or seen.phase is Phase.PENDING:
            return None
        if seen.phase is Phase.RUNNING and seen.observed_revision == seen.desired_revision:
            return seen
        raise DeployFailed(seen.reason or "The workers of this revision did not become ready.")

    def stop(self, owner: str, flow_id: str) -> Deployment | None:
        """Ask for the deployment to go; None when there is none. Raises NotFound."""
        self._flows.get(owner, flow_id)
        return self._store.desire_absent(flow_id)

    def gone(self, stopped: Deployment) -> bool:
        """True when everything that a deployment owned is removed."""
        seen = self._store.active(stopped.flow_id)
        return seen is None or seen.id != stopped.id

    def none_left(self, flow_id: str) -> bool:
        """True when a deleted configuration has no deployment any more."""
        return self._store.active(flow_id) is None

    def find(self, owner: str, flow_id: str) -> Deployment | None:
        """The deployment of a configuration, or None. Raises NotFound when there is no such configuration."""
        self._flows.get(owner, flow_id)
        return self._store.active(flow_id)

    def get(self, owner: str, flow_id: str) -> Deployment:
        """The deployment of a configuration. Raises NotFound, also when it is not deployed."""
        deployment = self.find(owner, flow_id)
        if deployment is None:
            raise NotFound("This configuration is not deployed. Deploy it with POST …/deploy.")
        return deployment
