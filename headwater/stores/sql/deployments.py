"""The store of the desired and observed state of deployments."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import Any

from sqlalchemy import Column, Connection, insert, select

from headwater.model import rollout
from headwater.model.deployment import (
    Deployment,
    DeploymentProgress,
    DeploymentVersion,
    LogLine,
    Observation,
    WorkerStatus,
)
from headwater.stores.sql import audit_changes, logs
from headwater.stores.sql.audit import record
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.deployment_mapper import IDS_PER_QUERY, DeploymentMapper
from headwater.stores.sql.flows import FlowMapper
from headwater.stores.sql.quotas import QuotaChecker
from headwater.stores.sql.tables import ACTIVE, deployments, tombstones


class SqlDeployments:
    """DeploymentStore in SQL."""

    def __init__(self, connections: Connections, rows: DeploymentMapper, quotas: QuotaChecker) -> None:
        self._connections = connections
        self._rows = rows
        self._quotas = quotas
        self._flows = FlowMapper(rows)

    def request_deploy(self, owner: str, config_id: str, new: Deployment | None) -> Deployment:
        with (
            self._connections.writing() as connection,
            self._quotas.enforced(connection, owner, "deployments", "workers"),
        ):
            flow = self._flows.visible(connection, owner, config_id, lock=True)
            flow.require_readable()
            current = self._rows.active(connection, config_id)
            if current is None:
                if new is None:
                    raise rollout.not_deployed()
                first = rollout.first_rollout(new, flow)
                self._rows.insert(connection, first)
                record(connection, audit_changes.deployed(None, first))
                return first
            if not rollout.needs_rollout(current, flow):
                return current
            changed = rollout.roll_out(current, flow, self._rows.history(connection, current.id))
            self._rows.write_desired(connection, changed)
            record(connection, audit_changes.deployed(current, changed))
            return changed

    def request_credential_rotation(self, owner: str, config_id: str, reader_password: str) -> Deployment:
        with self._connections.writing() as connection:
            self._flows.visible(connection, owner, config_id, lock=True)
            current = self._rows.active(connection, config_id)
            if current is None:
                raise rollout.not_deployed()
            changed = rollout.rotate_reader_password(current, reader_password)
            self._rows.write_secrets(connection, changed)
            record(connection, audit_changes.rotated(changed))
            return changed

    def request_teardown(self, config_id: str) -> Deployment | None:
        with self._connections.writing() as connection:
            current = self._rows.active(connection, config_id)
            if current is None:
                return None
            changed = rollout.tear_down(current)
            self._rows.write_desired(connection, changed)
            if changed != current:
                record(connection, audit_changes.torn_down(current))
            return changed

    def active(self, config_id: str) -> Deployment | None:
        with self._connections.reading() as connection:
            return next(iter(self._rows.unfinished(connection, deployments.c.config_id == config_id)), None)

    def progress(self, config_ids: Collection[str]) -> Mapping[str, DeploymentProgress]:
        with self._connections.reading() as connection:
            found = [p for ids in _chunks(config_ids) for p in self._rows.progress(connection, ids)]
        return {progress.config_id: progress for progress in found}

    def unfinished(self, deployment_ids: Collection[str] | None = None) -> Sequence[Deployment]:
        with self._connections.reading() as connection:
            if deployment_ids is None:
                return self._rows.unfinished(connection)
            wanted = (deployments.c.id.in_(ids) for ids in _chunks(deployment_ids))
            return [found for where in wanted for found in self._rows.unfinished(connection, where)]

    def versions(self) -> Sequence[DeploymentVersion]:
        with self._connections.reading() as connection:
            return self._rows.versions(connection)

    def ended_among(self, deployment_ids: Collection[str]) -> Sequence[str]:
        with self._connections.reading() as connection:
            active = set(connection.scalars(select(deployments.c.id).where(ACTIVE)))
            recorded = _known_ids(connection, deployments.c.id, deployment_ids)
        return sorted(recorded - active)

    def undeployed_among(self, config_ids: Collection[str]) -> Sequence[str]:
        with self._connections.reading() as connection:
            active = set(connection.scalars(select(deployments.c.config_id).where(ACTIVE)))
            recorded = _known_ids(connection, deployments.c.config_id, config_ids)
        return sorted(recorded - active)

    def obsolete_topics(self, topics: Mapping[str, Collection[str]]) -> frozenset[str]:
        with self._connections.reading() as connection:
            active = set(connection.scalars(select(deployments.c.config_id).where(ACTIVE)))
            ended = {config_id: set(names) for config_id, names in topics.items() if config_id not in active}
            abandoned = _recorded_as_ended(connection, ended)
            written = {topic for ids in _chunks(ended) for topic in self._rows.written_topics(connection, ids)}
        found = (names if config_id in abandoned else names & written for config_id, names in ended.items())
        return frozenset().union(*found)

    def delete_ended(self, before: datetime, kept: Collection[str]) -> int:
        with self._connections.writing() as connection:
            return self._rows.delete_ended(connection, before, kept)

    def record_as_ended(self, ids: Collection[str], at: datetime) -> None:
        with self._connections.writing() as connection:
            known = connection.scalars(select(tombstones.c.id).where(tombstones.c.id.in_(ids))).all()
            for each in sorted(set(ids).difference(known)):
                connection.execute(insert(tombstones).values(id=each, confirmed_at=at))
                record(connection, audit_changes.recorded_as_ended(each))

    def observe(self, observed: Sequence[Observation]) -> None:
        ids = {seen.deployment_id for seen in observed}
        with self._connections.writing() as connection:
            for current in self._rows.unfinished(connection, deployments.c.id.in_(ids), lock=True):
                news = (seen for seen in observed if seen.deployment_id == current.id)
                self._rows.write_observed(connection, reduce(rollout.apply_observation, news, current))

    def report_workers(self, workers: dict[str, Sequence[WorkerStatus]]) -> None:
        with self._connections.writing() as connection:
            known = select(deployments.c.id).where(deployments.c.id.in_(workers), ACTIVE)
            for deployment_id in connection.scalars(known.order_by("id").with_for_update()).all():
                self._rows.write_worker_states(connection, deployment_id, workers[deployment_id])

    def write_logs(self, lines: Mapping[str, Sequence[LogLine]]) -> None:
        with self._connections.writing() as connection:
            known = select(deployments.c.id).where(deployments.c.id.in_(lines), ACTIVE)
            for deployment_id in sorted(connection.scalars(known)):
                logs.write(connection, deployment_id, lines[deployment_id])

    def read_logs(self, deployment_id: str, limit: int) -> Sequence[LogLine]:
        with self._connections.reading() as connection:
            return logs.read(connection, deployment_id, limit)


def _chunks(ids: Collection[str]) -> list[list[str]]:
    distinct = sorted(set(ids))
    return [distinct[start : start + IDS_PER_QUERY] for start in range(0, len(distinct), IDS_PER_QUERY)]


def _known_ids(connection: Connection, column: Column[Any], ids: Collection[str]) -> set[str]:
    """Return the given ids in this column of the deployments, or recorded as ended."""
    found = _recorded_as_ended(connection, ids)
    for some in _chunks(ids):
        found.update(connection.scalars(select(column).where(column.in_(some)).distinct()))
    return found


def _recorded_as_ended(connection: Connection, ids: Collection[str]) -> set[str]:
    """Return the given ids that were recorded as ended."""
    wanted = (select(tombstones.c.id).where(tombstones.c.id.in_(some)) for some in _chunks(ids))
    return {each for query in wanted for each in connection.scalars(query)}
