"""Maps deployments to rows and back, inside of the transactions of the SQL stores."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import ColumnElement, Connection, Row, Update, delete, false, func, insert, select, update

from headwater.errors import DecryptionFailed
from headwater.model import rollout
from headwater.model.deployment import (
    Condition,
    DeployedRevision,
    Deployment,
    DeploymentProgress,
    DeploymentVersion,
    DesiredPhase,
    ObservedWorker,
    Phase,
    ReportedWorkers,
    dead_letter_topic,
    output_topics,
)
from headwater.model.parallelism import Scaling
from headwater.model.rollout import RolloutHistoryEntry
from headwater.model.stored_config import read_pipeline_config
from headwater.stores.sql import logs, store_errors
from headwater.stores.sql.change_counter import increment
from headwater.stores.sql.credential_rows import FIELDS, CredentialRows
from headwater.stores.sql.encryption import FieldCipher
from headwater.stores.sql.id_chunks import id_chunks
from headwater.stores.sql.position_columns import position_columns, read_positions
from headwater.stores.sql.tables import (
    ACTIVE,
    deployment_revisions,
    deployments,
    flow_revisions,
    worker_states,
)

_WORKER_STATES = TypeAdapter(tuple[ObservedWorker, ...])

_REPLACEMENT_STATES: dict[str, StrEnum] = {
    "desired": DesiredPhase.RUNNING,
    "phase": Phase.PENDING,
    "condition": Condition.FAILED,
}
"""By column, the state that replaces a stored state that this version does not know."""

# `source_epoch` is the number at the end of the name of the consumer group that reads the stream.
_SELECT_DEPLOYMENTS = (
    select(deployments, flow_revisions.c.config, deployment_revisions.c.source_epoch, worker_states.c.workers)
    .join(
        flow_revisions,
        (flow_revisions.c.config_id == deployments.c.config_id)
        & (flow_revisions.c.revision == deployments.c.desired_revision),
    )
    .join(
        deployment_revisions,
        (deployment_revisions.c.deployment_id == deployments.c.id)
        & (deployment_revisions.c.revision == deployments.c.desired_revision),
    )
    .join(worker_states, worker_states.c.deployment_id == deployments.c.id, isouter=True)
    .order_by(deployments.c.created_at.desc(), deployments.c.id.desc())
)


_SELECT_PREVIOUS_REVISIONS = (
    select(
        deployments.c.id, deployment_revisions.c.revision, deployment_revisions.c.source_epoch, flow_revisions.c.config
    )
    .join(deployment_revisions, deployment_revisions.c.deployment_id == deployments.c.id)
    .join(
        flow_revisions,
        (flow_revisions.c.config_id == deployments.c.config_id)
        & (flow_revisions.c.revision == deployment_revisions.c.revision),
    )
    .where(
        deployment_revisions.c.retired == false(),
        deployment_revisions.c.revision != deployments.c.desired_revision,
    )
    .order_by(deployment_revisions.c.revision.desc())
)

_SELECT_CONFIGS_OF_ALL_REVISIONS = (
    select(deployments.c.config_id, flow_revisions.c.config)
    .join(deployment_revisions, deployment_revisions.c.deployment_id == deployments.c.id)
    .join(
        flow_revisions,
        (flow_revisions.c.config_id == deployments.c.config_id)
        & (flow_revisions.c.revision == deployment_revisions.c.revision),
        isouter=True,
    )
    .distinct()
)

_SELECT_VERSIONS = select(*(deployments.c[name] for name in DeploymentVersion._fields)).where(ACTIVE)

_ATTRIBUTES = {column.name: column.key for column in deployments.c}
"""By the name of a column in the database: the name of the attribute of Deployment that has its value."""


class DeploymentMapper:
    """Maps deployments to rows.

    A deployment that can't be read is returned like any other; its `unreadable_reason` says why.
    """

    def __init__(self, cipher: FieldCipher) -> None:
        self.credentials = CredentialRows(cipher)

    def list_active(self, connection: Connection, *where: ColumnElement[bool], lock: bool = False) -> list[Deployment]:
        """Return the active deployments, newest first.

        Args:
            connection: The transaction.
            where: Conditions on the table of deployments.
            lock: Whether to lock the rows (SELECT … FOR UPDATE) until the end of the transaction.
        """
        if lock:
            connection.execute(select(deployments.c.id).where(ACTIVE, *where).order_by("id").with_for_update())
        active = [self._deployment(row) for row in connection.execute(_SELECT_DEPLOYMENTS.where(ACTIVE, *where))]
        previous = _previous_revisions(connection, *where) if active else {}
        return [replace(deployment, previous_revisions=tuple(previous.get(deployment.id, ()))) for deployment in active]

    def progress(self, connection: Connection, config_ids: Sequence[str]) -> list[DeploymentProgress]:
        """Return the progress of the active deployments of these configurations."""
        columns = [deployments.c[field.name] for field in fields(DeploymentProgress)]
        rows = connection.execute(select(*columns).where(ACTIVE, deployments.c.config_id.in_(config_ids)))
        return [DeploymentProgress(**_attributes(row) | read_states(row)[0]) for row in rows]

    def reported_workers(self, connection: Connection, where: ColumnElement[bool]) -> list[ReportedWorkers]:
        """Return the reported workers of the active deployments for which a condition holds."""
        table = deployments.c
        query = (
            select(table.config_id.label("config_id"), table.owner, table.phase, table.desired, worker_states.c.workers)
            .join(worker_states, worker_states.c.deployment_id == table.id, isouter=True)
            .where(ACTIVE, where)
        )
        return [_reported_workers(row) for row in connection.execute(query)]

    def active_versions(self, connection: Connection, *where: ColumnElement[bool]) -> list[DeploymentVersion]:
        """Return the versions of the active deployments for which the conditions hold."""
        return [DeploymentVersion._make(row) for row in connection.execute(_SELECT_VERSIONS.where(*where))]

    def lock_active(self, connection: Connection, config_id: str) -> Deployment | None:
        """Lock and return the active deployment of a configuration; None when there is none."""
        return next(iter(self.list_active(connection, deployments.c.config_id == config_id, lock=True)), None)

    def requested_revisions(self, connection: Connection, deployment_id: str) -> Sequence[RolloutHistoryEntry]:
        """Return all revisions that were requested for a deployment."""
        table = deployment_revisions
        requested = select(table.c.revision, table.c.stream, table.c.source_epoch, table.c.retired).where(
            table.c.deployment_id == deployment_id
        )
        return [RolloutHistoryEntry(*row) for row in connection.execute(requested)]

    def written_topics(self, connection: Connection, config_ids: Sequence[str]) -> set[str]:
        """Return the topics that deployments of these configurations write.

        The sinks of a revision that was removed are unknown, so only the dead-letter topic of its configuration is
        returned.
        """
        rows = connection.execute(_SELECT_CONFIGS_OF_ALL_REVISIONS.where(deployments.c.config_id.in_(config_ids)))
        configs = {(row.config_id, row.config) for row in rows}
        topics = {dead_letter_topic(config_id) for config_id, _ in configs}
        for config_id, config in configs:
            if config is not None:
                topics.update(output_topics(config_id, read_pipeline_config(config)))
        return topics

    def insert(self, connection: Connection, new: Deployment) -> None:
        """Insert a new deployment, and increment the change counter."""
        constants = {"id": new.id, "config_id": new.config_id, "owner": new.owner, "created_at": new.created_at}
        values = constants | self.credentials.encrypt(new) | _desired_columns(new) | _observed_columns(new)
        values |= position_columns(new)
        connection.execute(insert(deployments).values(values))
        self._insert_revision(connection, new)
        increment(connection)

    def write_desired(self, connection: Connection, changed: Deployment) -> None:
        """Write a changed desired state, and increment the change counter.

        Positions that can't be read stay as they are.
        """
        values = {**_desired_columns(changed), "condition": changed.condition.value, "reason": changed.reason}
        values |= position_columns(changed) if changed.has_readable_positions else {}
        connection.execute(update(deployments).where(deployments.c.id == changed.id).values(**values))
        requested = {entry.revision for entry in self.requested_revisions(connection, changed.id)}
        if changed.desired_revision not in requested:
            self._insert_revision(connection, changed)
        connection.execute(_update_row_of_desired_revision(changed).values(condition=changed.condition.value))
        increment(connection)

    def write_rewind(self, connection: Connection, changed: Deployment) -> None:
        """Write the last request to rewind.

        The change counter stays, because the controller has nothing to do.
        """
        values = {"rewind": position_columns(changed)["rewind"]}
        connection.execute(update(deployments).where(deployments.c.id == changed.id).values(**values))

    def write_scaling(self, connection: Connection, deployment_id: str, scaling: Scaling) -> None:
        """Write the number of workers that the controller has chosen for an active deployment."""
        values = {"scaling": scaling.model_dump_json()}
        connection.execute(update(deployments).where(deployments.c.id == deployment_id, ACTIVE).values(**values))

    def record_deploy(self, connection: Connection, requested: Deployment) -> None:
        """Record that a deploy request has started a rollout of the desired revision now."""
        connection.execute(_update_row_of_desired_revision(requested).values(deployed_at=datetime.now(UTC)))

    def write_passwords(self, connection: Connection, changed: Deployment) -> None:
        """Write changed passwords, and increment the change counter."""
        values = {**self.credentials.encrypt(changed), "credentials_version": changed.credentials_version}
        connection.execute(update(deployments).where(deployments.c.id == changed.id).values(**values))
        increment(connection)

    def write_observed(self, connection: Connection, changed: Deployment) -> None:
        """Write a changed observed state.

        When the deployment has ended, its passwords, its workers' states and its log lines are deleted.
        """
        update_row = update(deployments).where(deployments.c.id == changed.id)
        connection.execute(update_row.values(**_observed_columns(changed), **position_columns(changed)))
        if not changed.previous_revisions:  # the rollout is complete: no previous revision has resources any more
            connection.execute(_retire_all_but_desired(changed))
        if changed.phase is not Phase.ABSENT:
            connection.execute(_update_row_of_desired_revision(changed).values(condition=changed.condition.value))
        else:
            ended = {**dict.fromkeys(FIELDS), "scaling": None, "ended_at": datetime.now(UTC)}
            connection.execute(update_row.values(ended))
            self.write_worker_states(connection, {changed.id: ()})
            logs.delete_all(connection, changed.id)

    def delete_ended(self, connection: Connection, before: datetime, kept: Collection[str]) -> int:
        """Delete the rows of deployments that ended before a time; return how many.

        See DeploymentStore.
        """
        ended = func.coalesce(deployments.c.ended_at, deployments.c.created_at)
        rows = connection.execute(select(deployments.c.id, deployments.c.config_id).where(~ACTIVE, ended < before))
        deleted = [row.id for row in rows if row.id not in kept and row.config_id not in kept]
        for ids in id_chunks(deleted):
            connection.execute(delete(deployments).where(deployments.c.id.in_(ids)))
        return len(deleted)

    def write_worker_states(self, connection: Connection, states: Mapping[str, Sequence[ObservedWorker]]) -> None:
        """Replace the states of the workers, by deployment id."""
        for ids in id_chunks(states):
            connection.execute(delete(worker_states).where(worker_states.c.deployment_id.in_(ids)))
        rows = [
            {"deployment_id": deployment_id, "workers": _WORKER_STATES.dump_json(tuple(workers)).decode()}
            for deployment_id, workers in states.items()
            if workers
        ]
        if rows:
            connection.execute(insert(worker_states), rows)

    def _insert_revision(self, connection: Connection, deployment: Deployment) -> None:
        values = {
            "deployment_id": deployment.id,
            "revision": deployment.desired_revision,
            "stream": rollout.stream_of(deployment.config.source),
            "source_epoch": deployment.source_epoch,
            "condition": deployment.condition.value,
        }
        connection.execute(insert(deployment_revisions).values(**values))

    def _deployment(self, row: Row[Any]) -> Deployment:
        states, state_error = read_states(row)
        positions, positions_error = read_positions(row)
        values = _attributes(row) | states | positions
        values.pop("ended_at")
        values["config"] = config = read_pipeline_config(row.config)
        values["workers"] = read_workers(row.workers) or ()
        values["scaling"] = _read_scaling(row.scaling)
        try:
            values |= self.credentials.decrypt(row, row.id)
            decryption_error = ""
        except DecryptionFailed:
            values |= dict.fromkeys(FIELDS, "")
            decryption_error = store_errors.UNREADABLE_PASSWORDS
        unreadable_reason = decryption_error or state_error or positions_error or config.unreadable_reason
        return Deployment(**values, unreadable_reason=unreadable_reason, has_readable_positions=not positions_error)


def _reported_workers(row: Any) -> ReportedWorkers:
    states = read_states(row)[0]
    is_deployed = states["desired"] is not DesiredPhase.ABSENT
    return ReportedWorkers(row.config_id, row.owner, states["phase"], is_deployed, read_workers(row.workers) or ())


def _attributes(row: Row[Any]) -> dict[str, Any]:
    """Return the values of a row by the names of Deployment's attributes."""
    return {_ATTRIBUTES.get(name, name): value for name, value in row._asdict().items()}


def read_workers(stored: str | None) -> tuple[ObservedWorker, ...] | None:
    """Decode the stored states of workers; return None when they can't be read.

    The controller replaces the stored states with each change of a worker.
    """
    try:
        return () if stored is None else _WORKER_STATES.validate_json(stored)
    except ValidationError:
        return None


def _read_scaling(stored: str | None) -> Scaling | None:
    """Decode the stored number of workers; return None when it can't be read.

    The number of workers then begins at the minimum again.
    """
    try:
        return None if stored is None else Scaling.model_validate_json(stored)
    except ValidationError:
        return None


def _previous_revisions(connection: Connection, *where: ColumnElement[bool]) -> dict[str, list[DeployedRevision]]:
    """Return the previous revisions that may have resources, by deployment, newest first."""
    revisions: dict[str, list[DeployedRevision]] = {}
    for row in connection.execute(_SELECT_PREVIOUS_REVISIONS.where(ACTIVE, *where)):
        config = read_pipeline_config(row.config)
        revisions.setdefault(row.id, []).append(DeployedRevision(row.revision, config, row.source_epoch))
    return revisions


def _update_row_of_desired_revision(deployment: Deployment) -> Update:
    table = deployment_revisions
    return update(table).where(table.c.deployment_id == deployment.id, table.c.revision == deployment.desired_revision)


def _retire_all_but_desired(deployment: Deployment) -> Update:
    table = deployment_revisions
    is_other = (table.c.deployment_id == deployment.id) & (table.c.revision != deployment.desired_revision)
    return update(table).where(is_other).values(retired=True)


def read_states(row: Any) -> tuple[dict[str, Any], str]:
    """Return the states in a row by column, and the error message for an unknown state.

    A state that this version does not know is replaced by the state in _REPLACEMENT_STATES, and the message names the
    unknown state. The message is empty when all states are known.
    """
    states, error = dict[str, Any](), ""
    for column, replacement in _REPLACEMENT_STATES.items():
        stored = getattr(row, column, None)
        if stored is None:
            continue
        try:
            states[column] = type(replacement)(stored)
        except ValueError:
            states[column] = replacement
            error = store_errors.unreadable_state(column, stored)
    return states, error


def _desired_columns(deployment: Deployment) -> dict[str, Any]:
    return {
        "desired": deployment.desired.value,
        "desired_revision": deployment.desired_revision,
        "generation": deployment.generation,
        "delete_configuration": deployment.delete_configuration,
        "rollback_revision": deployment.rollback_revision,
    }


def _observed_columns(deployment: Deployment) -> dict[str, Any]:
    return {
        "phase": deployment.phase.value,
        "observed_revision": deployment.observed_revision,
        "observed_generation": deployment.observed_generation,
        "rollback_revision": deployment.rollback_revision,
        "observed_credentials_version": deployment.observed_credentials_version,
        "condition": deployment.condition.value,
        "reason": deployment.reason,
    }
