"""Reads and writes deployments inside a transaction; flows.py and deployments.py decide what to write."""

from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import ColumnElement, Connection, Row, Update, delete, false, func, insert, select, update

from headwater.errors import SealBroken
from headwater.model import rollout
from headwater.model.deployment import (
    Condition,
    Deployment,
    Desired,
    Marker,
    Phase,
    Progress,
    Revision,
    WorkerStatus,
    dead_letter_topic,
    output_topics,
)
from headwater.model.rollout import Rollout
from headwater.model.stored import read_config
from headwater.stores.sql import logs, store_errors
from headwater.stores.sql.doorbell import ring
from headwater.stores.sql.encryption import Sealer
from headwater.stores.sql.tables import (
    ACTIVE,
    deployment_revisions,
    deployments,
    flow_revisions,
    secret_key_proof,
    worker_states,
)

# Databases limit the parameters of a statement; SQLite's limit is 32,766.
IDS_PER_QUERY = 10_000

_WORKERS = TypeAdapter(tuple[WorkerStatus, ...])
_SECRETS = ("reader_password", "worker_password")
_PROOF = ("headwater", "secret_key_proof", "sealed")
"""The text that proves a key, and the place that it is bound to."""

_ALL = (
    select(deployments, flow_revisions.c.config, deployment_revisions.c.source_epoch, worker_states.c.workers)
    .join(
        flow_revisions,
        (flow_revisions.c.flow_id == deployments.c.flow_id)
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


_PREVIOUS = (
    select(
        deployments.c.id, deployment_revisions.c.revision, deployment_revisions.c.source_epoch, flow_revisions.c.config
    )
    .join(deployment_revisions, deployment_revisions.c.deployment_id == deployments.c.id)
    .join(
        flow_revisions,
        (flow_revisions.c.flow_id == deployments.c.flow_id)
        & (flow_revisions.c.revision == deployment_revisions.c.revision),
    )
    .where(
        deployment_revisions.c.retired == false(),
        deployment_revisions.c.revision != deployments.c.desired_revision,
    )
    .order_by(deployment_revisions.c.revision.desc())
)

_WRITERS = (
    select(deployments.c.flow_id, flow_revisions.c.config)
    .join(deployment_revisions, deployment_revisions.c.deployment_id == deployments.c.id)
    .join(
        flow_revisions,
        (flow_revisions.c.flow_id == deployments.c.flow_id)
        & (flow_revisions.c.revision == deployment_revisions.c.revision),
        isouter=True,
    )
    .distinct()
)

_MARKERS = select(*(deployments.c[name] for name in Marker._fields)).where(ACTIVE)


class DeploymentRows:
    """Deployments as rows; their passwords are sealed there, and nowhere else.

    A deployment that can't be read is returned like any other, and says so.
    """

    SEALED_COLUMNS = (deployments.c.id.label("deployment_id"), *(deployments.c[name] for name in _SECRETS))
    """What `secrets_fault` reads, for a select."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def unfinished(self, connection: Connection, *where: ColumnElement[bool], lock: bool = False) -> list[Deployment]:
        """Deployments that are not ABSENT, newest first. lock: others wait with their changes."""
        if lock:
            connection.execute(select(deployments.c.id).where(ACTIVE, *where).order_by("id").with_for_update())
        rows = [self._deployment(row) for row in connection.execute(_ALL.where(ACTIVE, *where))]
        others = _previous_revisions(connection, *where) if rows else {}
        return [replace(row, previous_revisions=tuple(others.get(row.id, ()))) for row in rows]

    def progress(self, connection: Connection, flow_ids: Sequence[str]) -> list[Progress]:
        """How far the active deployments of these flows have come."""
        columns = [deployments.c[field.name] for field in fields(Progress)]
        found = connection.execute(select(*columns).where(ACTIVE, deployments.c.flow_id.in_(flow_ids)))
        return [Progress(**row._asdict() | _states(row).values) for row in found]

    def versions(self, connection: Connection) -> list[Marker]:
        """A marker of each active deployment."""
        return [Marker._make(row) for row in connection.execute(_MARKERS)]

    def active(self, connection: Connection, flow_id: str) -> Deployment | None:
        """The flow's active deployment, locked for a change."""
        return next(iter(self.unfinished(connection, deployments.c.flow_id == flow_id, lock=True)), None)

    def history(self, connection: Connection, deployment_id: str) -> Sequence[Rollout]:
        """All revisions that the deployment was asked to run."""
        table = deployment_revisions
        found = select(table.c.revision, table.c.stream, table.c.source_epoch, table.c.retired).where(
            table.c.deployment_id == deployment_id
        )
        return [Rollout(*row) for row in connection.execute(found)]

    def written(self, connection: Connection, flow_ids: Sequence[str]) -> set[str]:
        """The topics that deployments of these flows were asked to write, as far as their revisions are stored."""
        rows = connection.execute(_WRITERS.where(deployments.c.flow_id.in_(flow_ids)))
        configs = {(row.flow_id, row.config) for row in rows}
        found = {dead_letter_topic(flow_id) for flow_id, _ in configs}
        for flow_id, config in configs:
            if config is not None:
                found.update(output_topics(flow_id, read_config(config)))
        return found

    def insert(self, connection: Connection, new: Deployment) -> None:
        """A new deployment. Rings the doorbell."""
        first = {"id": new.id, "flow_id": new.flow_id, "owner": new.owner, "created_at": new.created_at}
        values = first | self._secrets(new) | _desired(new) | _observed(new)
        connection.execute(insert(deployments).values(values))
        self._record(connection, new)
        ring(connection)

    def desire(self, connection: Connection, changed: Deployment) -> None:
        """A changed desired state. Rings the doorbell."""
        asked = {**_desired(changed), "condition": changed.condition.value, "reason": changed.reason}
        connection.execute(update(deployments).where(deployments.c.id == changed.id).values(**asked))
        if all(rollout.revision != changed.desired_revision for rollout in self.history(connection, changed.id)):
            self._record(connection, changed)
        ring(connection)

    def reseal(self, connection: Connection, changed: Deployment) -> None:
        """Other passwords. Rings the doorbell."""
        values = {**self._secrets(changed), "credentials": changed.credentials}
        connection.execute(update(deployments).where(deployments.c.id == changed.id).values(**values))
        ring(connection)

    def observe(self, connection: Connection, changed: Deployment) -> None:
        """A changed observed state; the secrets, workers and log lines of an ended deployment go with it."""
        this = update(deployments).where(deployments.c.id == changed.id)
        connection.execute(this.values(**_observed(changed)))
        if not changed.previous_revisions:
            connection.execute(_retire_all_but_desired(changed))
        if changed.phase is Phase.ABSENT:
            connection.execute(this.values({**dict.fromkeys(_SECRETS), "ended_at": datetime.now(UTC)}))
            self.report(connection, changed.id, ())
            logs.erase(connection, changed.id)

    def delete_ended(self, connection: Connection, before: datetime, kept: Collection[str]) -> int:
        """Remove the rows of deployments that ended before a time, but for those of `kept`; returns how many."""
        ended = func.coalesce(deployments.c.ended_at, deployments.c.created_at)
        rows = connection.execute(select(deployments.c.id, deployments.c.flow_id).where(~ACTIVE, ended < before))
        old = [row.id for row in rows if row.id not in kept and row.flow_id not in kept]
        for start in range(0, len(old), IDS_PER_QUERY):
            connection.execute(delete(deployments).where(deployments.c.id.in_(old[start : start + IDS_PER_QUERY])))
        return len(old)

    def report(self, connection: Connection, deployment_id: str, workers: Sequence[WorkerStatus]) -> None:
        """Replace the workers' states."""
        connection.execute(delete(worker_states).where(worker_states.c.deployment_id == deployment_id))
        if workers:
            states = _WORKERS.dump_json(tuple(workers)).decode()
            connection.execute(insert(worker_states).values(deployment_id=deployment_id, workers=states))

    def check_key(self, connection: Connection) -> None:
        """Raise SetupError when the secret key opens nothing of what is sealed here; note it when it is the right one.

        Single passwords that were sealed with another key are no reason: they are those of unreadable deployments.
        """
        proof = connection.scalar(select(secret_key_proof.c.sealed))
        if proof is not None and self._opens(proof):
            return
        sealed = connection.execute(select(*self.SEALED_COLUMNS).where(ACTIVE)).all()
        faults = [self.secrets_fault(row) for row in sealed]
        if sealed and all(faults):
            raise SealBroken
        connection.execute(delete(secret_key_proof))
        connection.execute(insert(secret_key_proof).values(id=1, sealed=self._sealer.seal(*_PROOF)))

    def _opens(self, proof: bytes) -> bool:
        try:
            return self._sealer.open(proof, *_PROOF[1:]) == _PROOF[0]
        except SealBroken:
            return False

    def secrets_fault(self, row: Row[Any]) -> str:
        """Why the passwords of the deployment in a row can't be opened; empty where they can, and without one."""
        if row.deployment_id is None:
            return ""
        try:
            self._opened(row, row.deployment_id)
        except SealBroken:
            return store_errors.UNREADABLE_SECRETS
        return ""

    def _record(self, connection: Connection, asked: Deployment) -> None:
        stream = rollout.stream_of(asked.config.source)
        values = {"revision": asked.desired_revision, "stream": stream, "source_epoch": asked.source_epoch}
        connection.execute(insert(deployment_revisions).values(deployment_id=asked.id, **values))

    def _secrets(self, deployment: Deployment) -> dict[str, bytes]:
        return {name: self._sealer.seal(getattr(deployment, name), deployment.id, name) for name in _SECRETS}

    def _opened(self, row: Row[Any], deployment_id: str) -> dict[str, str]:
        return {name: self._sealer.open(getattr(row, name), deployment_id, name) for name in _SECRETS}

    def _deployment(self, row: Row[Any]) -> Deployment:
        states = _states(row)
        values = row._asdict() | states.values
        values.pop("ended_at")
        values["config"] = config = read_config(row.config)
        values["workers"] = read_workers(row.workers) or ()
        try:
            values |= self._opened(row, row.id)
            fault = ""
        except SealBroken:
            values |= dict.fromkeys(_SECRETS, "")
            fault = store_errors.UNREADABLE_SECRETS
        return Deployment(**values, unreadable=fault or states.fault or config.unreadable)


def read_workers(stored: str | None) -> tuple[WorkerStatus, ...] | None:
    """The workers' states; None where they can't be read. The controller writes them anew with each change."""
    try:
        return () if stored is None else _WORKERS.validate_json(stored)
    except ValidationError:
        return None


def _previous_revisions(connection: Connection, *where: ColumnElement[bool]) -> dict[str, list[Revision]]:
    """The revisions beside the desired one that own something still, by deployment id, newest first."""
    found: dict[str, list[Revision]] = {}
    for row in connection.execute(_PREVIOUS.where(ACTIVE, *where)):
        config = read_config(row.config)
        found.setdefault(row.id, []).append(Revision(row.revision, config, row.source_epoch))
    return found


def _retire_all_but_desired(deployment: Deployment) -> Update:
    table = deployment_revisions
    others = (table.c.deployment_id == deployment.id) & (table.c.revision != deployment.desired_revision)
    return update(table).where(others).values(retired=True)


class _States(NamedTuple):
    """The states in a row. fault: which of them this version does not know; another one stands in its place."""

    values: dict[str, Any]
    fault: str


_STATES: dict[str, StrEnum] = {
    "desired": Desired.RUNNING,
    "phase": Phase.PENDING,
    "condition": Condition.FAILED,
}
"""By column, what stands in the place of a state that is not known."""


def _states(row: Row[Any]) -> _States:
    values, fault = dict[str, Any](), ""
    for column, stands_in in _STATES.items():
        stored = getattr(row, column, None)
        if stored is None:
            continue
        try:
            values[column] = type(stands_in)(stored)
        except ValueError:
            values[column] = stands_in
            fault = store_errors.unreadable_state(column, stored)
    return _States(values, fault)


def _desired(deployment: Deployment) -> dict[str, Any]:
    return {
        "desired": deployment.desired.value,
        "desired_revision": deployment.desired_revision,
        "generation": deployment.generation,
        "delete_flow": deployment.delete_flow,
        "stable_revision": deployment.stable_revision,
    }


def _observed(deployment: Deployment) -> dict[str, Any]:
    return {
        "phase": deployment.phase.value,
        "observed_revision": deployment.observed_revision,
        "observed_generation": deployment.observed_generation,
        "stable_revision": deployment.stable_revision,
        "observed_credentials": deployment.observed_credentials,
        "condition": deployment.condition.value,
        "reason": deployment.reason,
    }
