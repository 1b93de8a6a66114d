"""The store of the desired and observed state of deployments."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from sqlalchemy import Column, Connection, insert, select

from headwater.errors import HeadwaterError
from headwater.model import rollout
from headwater.model.audit import Change
from headwater.model.deployment import (
    Deployment,
    DeploymentProgress,
    DeploymentVersion,
    DesiredPhase,
    LogLine,
    Observation,
    ObservedWorker,
    ReportedWorkers,
)
from headwater.model.flow import Flow
from headwater.model.parallelism import Scaling
from headwater.model.positions import RewindTarget
from headwater.stores.sql import audit_changes, logs
from headwater.stores.sql.audit import record
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.deployment_mapper import DeploymentMapper
from headwater.stores.sql.flow_mapper import FlowMapper
from headwater.stores.sql.id_chunks import id_chunks
from headwater.stores.sql.quotas import QuotaChecker
from headwater.stores.sql.tables import ACTIVE, deployments, ended_ids


class SqlDeployments:
    """DeploymentStore in SQL."""

    def __init__(self, connections: Connections, mapper: DeploymentMapper, quotas: QuotaChecker) -> None:
        self._connections = connections
        self._mapper = mapper
        self._quotas = quotas
        self._flow_mapper = FlowMapper(mapper.credentials)

    def request_deploy(self, owner: str, config_id: str, new: Deployment) -> Deployment:
        with self._deploying(owner, config_id) as (connection, flow):
            current = self._mapper.lock_active(connection, config_id)
            if current is None:
                return self._insert(connection, rollout.first_rollout(new, flow))
            return self._roll_out(connection, current, flow, change_of=audit_changes.deployed)

    def request_redeploy(self, owner: str, config_id: str) -> Deployment:
        with self._deploying(owner, config_id) as (connection, flow):
            current = self._lock_deployed(connection, config_id, missing=rollout.deployment_not_found)
            if current.desired is DesiredPhase.PAUSED:
                return current
            return self._roll_out(connection, current, flow, change_of=audit_changes.deployed)

    def request_resume(self, owner: str, config_id: str) -> Deployment:
        with self._deploying(owner, config_id) as (connection, flow):
            current = self._lock_deployed(connection, config_id)
            return self._roll_out(connection, current, flow, change_of=audit_changes.resumed)

    @contextmanager
    def _deploying(self, owner: str, config_id: str) -> Iterator[tuple[Connection, Flow]]:
        """Begin a transaction that may start workers of a configuration, which is locked.

        Raises NotFound and StoredDataUnreadable, and QuotaExceeded at the end of the block.
        """
        with (
            self._connections.writing() as connection,
            self._quotas.enforced(connection, owner, "deployments", "workers"),
        ):
            flow = self._flow_mapper.get(connection, owner, config_id, lock=True)
            flow.require_readable()
            yield connection, flow

    def _roll_out(
        self,
        connection: Connection,
        current: Deployment,
        flow: Flow,
        *,
        change_of: Callable[[Deployment, Deployment], Change],
    ) -> Deployment:
        """Request that the newest revision runs, unless it does already.

        Args:
            connection: The transaction.
            current: The active deployment, which is locked.
            flow: The configuration.
            change_of: Returns the change for the audit log from the deployment before and after the request.
        """
        if not rollout.needs_rollout(current, flow):
            return current
        changed = rollout.roll_out(current, flow, self._mapper.requested_revisions(connection, current.id))
        self._mapper.write_desired(connection, changed)
        self._mapper.record_deploy(connection, changed)
        record(connection, change_of(current, changed))
        return changed

    def request_pause(self, owner: str, config_id: str) -> Deployment:
        with self._connections.writing() as connection:
            self._flow_mapper.get(connection, owner, config_id, lock=True)
            current = self._lock_deployed(connection, config_id)
            return self._write_request(connection, current, rollout.pause(current), audit_changes.paused)

    def request_rewind(self, owner: str, config_id: str, to: RewindTarget) -> Deployment:
        with self._connections.writing() as connection:
            self._flow_mapper.get(connection, owner, config_id, lock=True)
            current = self._lock_deployed(connection, config_id)
            rewound = rollout.rewind(current, to, datetime.now(UTC))
            return self._write_request(connection, current, rewound, audit_changes.rewound)

    def mark_rewind_answered(self, config_id: str, generation: int) -> None:
        with self._connections.writing() as connection:
            current = self._mapper.lock_active(connection, config_id)
            changed = None if current is None else rollout.mark_rewind_answered(current, generation)
            if changed is not None and changed != current:
                self._mapper.write_rewind(connection, changed)

    def _lock_deployed(
        self,
        connection: Connection,
        config_id: str,
        missing: Callable[[], HeadwaterError] = rollout.not_deployed_conflict,
    ) -> Deployment:
        """Lock and return the active deployment.

        Raises the error of `missing` when there is none, or its teardown was requested.
        """
        current = self._mapper.lock_active(connection, config_id)
        if current is None or current.desired is DesiredPhase.ABSENT:
            raise missing()
        return current

    def _write_request(
        self,
        connection: Connection,
        current: Deployment,
        changed: Deployment,
        change_of: Callable[[Deployment], Change],
    ) -> Deployment:
        """Write a changed desired state, and record the change in the audit log.

        An unchanged state is not written.
        """
        if changed != current:
            self._mapper.write_desired(connection, changed)
            record(connection, change_of(changed))
        return changed

    def _insert(self, connection: Connection, first: Deployment) -> Deployment:
        self._mapper.insert(connection, first)
        self._mapper.record_deploy(connection, first)
        record(connection, audit_changes.deployed(None, first))
        return first

    def request_credential_rotation(self, owner: str, config_id: str, reader_password: str) -> Deployment:
        with self._connections.writing() as connection:
            self._flow_mapper.get(connection, owner, config_id, lock=True)
            current = self._lock_deployed(connection, config_id, missing=rollout.deployment_not_found)
            changed = rollout.rotate_reader_password(current, reader_password)
            self._mapper.write_passwords(connection, changed)
            record(connection, audit_changes.rotated(changed))
            return changed

    def request_teardown(self, config_id: str) -> Deployment | None:
        with self._connections.writing() as connection:
            current = self._mapper.lock_active(connection, config_id)
            if current is None:
                return None
            changed = rollout.tear_down(current)
            self._mapper.write_desired(connection, changed)
            if changed != current:
                record(connection, audit_changes.torn_down(current))
            return changed

    def active(self, config_id: str) -> Deployment | None:
        with self._connections.reading() as connection:
            return next(iter(self._mapper.list_active(connection, deployments.c.config_id == config_id)), None)

    def progress(self, config_ids: Collection[str]) -> Mapping[str, DeploymentProgress]:
        with self._connections.reading() as connection:
            chunks = [self._mapper.progress(connection, ids) for ids in id_chunks(config_ids)]
        return {progress.config_id: progress for chunk in chunks for progress in chunk}

    def reported_workers(self, config_ids: Collection[str], owners: Collection[str]) -> Sequence[ReportedWorkers]:
        conditions = [
            *(deployments.c.config_id.in_(ids) for ids in id_chunks(config_ids)),
            *(deployments.c.owner.in_(ids) for ids in id_chunks(owners)),
        ]
        with self._connections.reading() as connection:
            found = [item for where in conditions for item in self._mapper.reported_workers(connection, where)]
        return [*{item.config_id: item for item in found}.values()]

    def list_active(self, deployment_ids: Collection[str] | None = None) -> Sequence[Deployment]:
        with self._connections.reading() as connection:
            if deployment_ids is None:
                return self._mapper.list_active(connection)
            conditions = (deployments.c.id.in_(ids) for ids in id_chunks(deployment_ids))
            return [active for condition in conditions for active in self._mapper.list_active(connection, condition)]

    def active_versions(self, deployment_ids: Collection[str] | None = None) -> Sequence[DeploymentVersion]:
        with self._connections.reading() as connection:
            if deployment_ids is None:
                return self._mapper.active_versions(connection)
            conditions = (deployments.c.id.in_(ids) for ids in id_chunks(deployment_ids))
            return [
                version for condition in conditions for version in self._mapper.active_versions(connection, condition)
            ]

    def ended_among(self, deployment_ids: Collection[str]) -> Sequence[str]:
        with self._connections.reading() as connection:
            active = set(connection.scalars(select(deployments.c.id).where(ACTIVE)))
            known = _known_ids(connection, deployments.c.id, deployment_ids)
        return sorted(known - active)

    def undeployed_among(self, config_ids: Collection[str]) -> Sequence[str]:
        with self._connections.reading() as connection:
            active = _active_configurations(connection)
            known = _known_ids(connection, deployments.c.config_id, config_ids)
        return sorted(known - active)

    def obsolete_topics(self, topics: Mapping[str, Collection[str]]) -> frozenset[str]:
        with self._connections.reading() as connection:
            active = _active_configurations(connection)
            inactive = {config_id: set(names) for config_id, names in topics.items() if config_id not in active}
            recorded = _recorded_as_ended(connection, inactive)
            written = {topic for ids in id_chunks(inactive) for topic in self._mapper.written_topics(connection, ids)}
        obsolete = (names if config_id in recorded else names & written for config_id, names in inactive.items())
        return frozenset().union(*obsolete)

    def delete_ended(self, before: datetime, kept: Collection[str]) -> int:
        with self._connections.writing() as connection:
            return self._mapper.delete_ended(connection, before, kept)

    def record_as_ended(self, ids: Collection[str], at: datetime) -> None:
        with self._connections.writing() as connection:
            for new_id in sorted(set(ids) - _recorded_as_ended(connection, ids)):
                connection.execute(insert(ended_ids).values(id=new_id, recorded_at=at))
                record(connection, audit_changes.recorded_as_ended(new_id))

    def write_observations(self, observations: Sequence[Observation]) -> None:
        with self._connections.writing() as connection:
            for ids in id_chunks([observation.deployment_id for observation in observations]):
                for current in self._mapper.list_active(connection, deployments.c.id.in_(ids), lock=True):
                    of_current = [item for item in observations if item.deployment_id == current.id]
                    self._mapper.write_observed(connection, reduce(rollout.apply_observation, of_current, current))

    def report_workers(self, workers: dict[str, Sequence[ObservedWorker]]) -> None:
        with self._connections.writing() as connection:
            for ids in id_chunks(workers):
                active = select(deployments.c.id).where(deployments.c.id.in_(ids), ACTIVE).order_by("id")
                locked_ids = connection.scalars(active.with_for_update()).all()
                self._mapper.write_worker_states(connection, {id_: workers[id_] for id_ in locked_ids})

    def write_scaling(self, scaling: Mapping[str, Scaling]) -> None:
        with self._connections.writing() as connection:
            for deployment_id in sorted(scaling):
                self._mapper.write_scaling(connection, deployment_id, scaling[deployment_id])

    def write_logs(self, lines: Mapping[str, Sequence[LogLine]]) -> None:
        with self._connections.writing() as connection:
            for ids in id_chunks(lines):
                active = select(deployments.c.id).where(deployments.c.id.in_(ids), ACTIVE)
                for deployment_id in sorted(connection.scalars(active)):
                    logs.write(connection, deployment_id, lines[deployment_id])

    def read_logs(self, deployment_id: str, limit: int) -> Sequence[LogLine]:
        with self._connections.reading() as connection:
            return logs.read(connection, deployment_id, limit)


def _active_configurations(connection: Connection) -> set[str]:
    """Return the ids of the configurations that have an active deployment."""
    return set(connection.scalars(select(deployments.c.config_id).where(ACTIVE)))


def _known_ids(connection: Connection, column: Column[Any], ids: Collection[str]) -> set[str]:
    """Return the given ids that a column contains, or that were recorded as ended.

    The column belongs to the table of deployments.
    """
    known = _recorded_as_ended(connection, ids)
    for chunk in id_chunks(ids):
        known.update(connection.scalars(select(column).where(column.in_(chunk)).distinct()))
    return known


def _recorded_as_ended(connection: Connection, ids: Collection[str]) -> set[str]:
    """Return the given ids that were recorded as ended."""
    queries = (select(ended_ids.c.id).where(ended_ids.c.id.in_(chunk)) for chunk in id_chunks(ids))
    return {recorded_id for query in queries for recorded_id in connection.scalars(query)}
