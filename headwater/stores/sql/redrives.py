"""The redrives of deployments."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, not_, select, update

from headwater.errors import Conflict
from headwater.model.deployment import Deployment, DesiredPhase, Phase
from headwater.model.redrive import (
    MAX_KEPT_REDRIVES,
    MAX_OPEN_REDRIVES,
    MAX_OPEN_REDRIVES_OF_OWNER,
    OpenRedrive,
    Redrive,
    RedriveCounts,
    RedriveSelection,
    RedriveState,
)
from headwater.model.rollout import not_deployed_conflict
from headwater.stores.sql import audit_changes
from headwater.stores.sql.audit import record
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.deployment_mapper import DeploymentMapper
from headwater.stores.sql.flow_mapper import FlowMapper
from headwater.stores.sql.tables import deployments, redrives

_IS_OPEN = redrives.c.state == "running"
"""The condition for a redrive to be open. A redrive that waits for its worker has the state `running` too."""
_NO_LETTERS = RedriveSelection(ranges={}).model_dump_json()
_OPEN_REDRIVE_COLUMNS = [redrives.c[field.name] for field in fields(OpenRedrive)]


class SqlRedrives:
    """RedriveStore in SQL."""

    def __init__(self, connections: Connections, deployment_mapper: DeploymentMapper) -> None:
        self._connections = connections
        self._deployment_mapper = deployment_mapper
        self._flow_mapper = FlowMapper(deployment_mapper.credentials)

    def require_redrivable(self, owner: str, config_id: str) -> Deployment:
        """See RedriveStore."""
        with self._connections.writing() as connection:
            return self._lock_redrivable(connection, owner, config_id)

    def _lock_redrivable(self, connection: Connection, owner: str, config_id: str) -> Deployment:
        self._flow_mapper.get(connection, owner, config_id, lock=True)
        deployment = _redrivable(self._deployment_mapper.lock_active(connection, config_id))
        _require_few_open(connection, deployment)
        return deployment

    def request(
        self, deployment: Deployment, new_id: str, selection: RedriveSelection, requested: int, at: datetime
    ) -> Redrive:
        """See RedriveStore."""
        with self._connections.writing() as connection:
            active = self._lock_redrivable(connection, deployment.owner, deployment.config_id)
            if active.id != deployment.id:
                raise Conflict(
                    "The configuration was torn down and deployed again during this request, and its dead letters were "
                    "removed. Send the same request again to redrive the letters of the new deployment."
                )
            last = select(func.max(redrives.c.number)).where(redrives.c.deployment_id == deployment.id)
            number = 1 + (connection.scalar(last) or 0)
            redrive = Redrive(new_id, deployment.config_id, deployment.id, number, at, selection, requested)
            if not requested:
                redrive = replace(redrive, state="done", ended_at=at)
            connection.execute(insert(redrives).values(**_values(redrive)))
            _remove_old(connection, redrive)
            record(connection, audit_changes.redriven(deployment, redrive))
            return redrive

    def get(self, config_id: str, redrive_id: str) -> Redrive | None:
        """See RedriveStore."""
        query = select(redrives).where(redrives.c.id == redrive_id, redrives.c.config_id == config_id)
        with self._connections.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else _redrive(row)

    def open_selections(self, deployment_id: str) -> Mapping[str, RedriveSelection]:
        """See RedriveStore."""
        query = select(redrives.c.id, redrives.c.selection).where(redrives.c.deployment_id == deployment_id, _IS_OPEN)
        with self._connections.reading() as connection:
            return {row.id: RedriveSelection.model_validate_json(row.selection) for row in connection.execute(query)}

    def list_open(self) -> Sequence[OpenRedrive]:
        """See RedriveStore."""
        query = select(*_OPEN_REDRIVE_COLUMNS).where(_IS_OPEN).order_by(redrives.c.deployment_id, redrives.c.number)
        with self._connections.reading() as connection:
            return [OpenRedrive(*row) for row in connection.execute(query)]

    def finish(self, redrive_id: str, state: RedriveState, counts: RedriveCounts, at: datetime) -> None:
        """See RedriveStore."""
        values = {"state": state, "ended_at": at, "selection": _NO_LETTERS, **_counts(counts)}
        with self._connections.writing() as connection:
            connection.execute(update(redrives).where(redrives.c.id == redrive_id, _IS_OPEN).values(**values))


def _redrivable(deployment: Deployment | None) -> Deployment:
    """Return the deployment. Raises Conflict when its letters can't be redriven in its state."""
    if deployment is None or deployment.desired is DesiredPhase.ABSENT:
        raise not_deployed_conflict()
    if deployment.desired is DesiredPhase.PAUSED:
        raise Conflict("The pipeline is paused. Resume it with POST …/resume, and send the same request again.")
    if deployment.is_reconciled and deployment.phase is Phase.FAILED:
        raise Conflict(
            "The pipeline is failing, and has no workers. Read the reason with GET …/deploy, deploy it again with POST "
            "…/deploy, and send the same request again."
        )
    return deployment


def _require_few_open(connection: Connection, deployment: Deployment) -> None:
    """Raise Conflict when too many redrives of the deployment or of its owner have not ended."""
    of_owner = select(redrives.c.deployment_id).where(
        redrives.c.deployment_id == deployments.c.id, deployments.c.owner == deployment.owner, _IS_OPEN
    )
    open_redrives = list(connection.scalars(of_owner))
    if open_redrives.count(deployment.id) >= MAX_OPEN_REDRIVES:
        raise Conflict(
            f"{MAX_OPEN_REDRIVES} redrives of this pipeline are running or waiting. Wait until one of them is done."
        )
    if len(open_redrives) >= MAX_OPEN_REDRIVES_OF_OWNER:
        raise Conflict(
            f"{MAX_OPEN_REDRIVES_OF_OWNER} redrives of your pipelines are running or waiting. Wait until one of them "
            "is done."
        )


def _remove_old(connection: Connection, newest: Redrive) -> None:
    """Remove the redrives of a deployment that have ended, except the newest MAX_KEPT_REDRIVES."""
    of_deployment = redrives.c.deployment_id == newest.deployment_id
    is_old = redrives.c.number <= newest.number - MAX_KEPT_REDRIVES
    connection.execute(delete(redrives).where(of_deployment, is_old, not_(_IS_OPEN)))


def _counts(counts: RedriveCounts) -> dict[str, int]:
    return {"delivered": counts.delivered, "dropped": counts.dropped, "failed": counts.failed}


def _values(redrive: Redrive) -> dict[str, Any]:
    return {
        "id": redrive.id,
        "config_id": redrive.config_id,
        "deployment_id": redrive.deployment_id,
        "number": redrive.number,
        "created_at": redrive.created_at,
        "ended_at": redrive.ended_at,
        "state": redrive.state,
        "selection": redrive.selection.model_dump_json(),
        "requested": redrive.requested,
        **_counts(redrive.counts),
    }


def _redrive(row: Row[Any]) -> Redrive:
    return Redrive(
        id=row.id,
        config_id=row.config_id,
        deployment_id=row.deployment_id,
        number=row.number,
        created_at=row.created_at,
        selection=RedriveSelection.model_validate_json(row.selection),
        requested=row.requested,
        state=row.state,
        counts=RedriveCounts(row.delivered, row.dropped, row.failed),
        ended_at=row.ended_at,
    )
