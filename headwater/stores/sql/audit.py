"""The audit log."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update

from headwater.model.audit import AuditEntry, AuditQuery, Change, State, current_actor
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.tables import audit

ROWS_PER_PURGE = 10_000
"""The most rows that one transaction deletes, so that other writers do not wait for long."""


def record(connection: Connection, change: Change, state: State = "done") -> int:
    """Add an entry to the log in the transaction of the change; return the id of the entry."""
    current = current_actor()
    values = {"key_id": current.key_id, "ip": current.ip, "request_id": current.request_id, **asdict(change)}
    new_entry = insert(audit).values(at=datetime.now(UTC), state=state, **values)
    entry_id: int = connection.execute(new_entry.returning(audit.c.id)).scalar_one()
    return entry_id


class SqlAudit:
    """AuditLog in SQL."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def begin(self, change: Change) -> int:
        with self._connections.writing() as connection:
            return record(connection, change, "pending")

    def close(self, entry_id: int, state: Literal["done", "failed"], after: str = "") -> None:
        pending = (audit.c.id == entry_id) & (audit.c.state == "pending")
        with self._connections.writing() as connection:
            connection.execute(update(audit).where(pending).values(state=state, after=after))

    def read(self, query: AuditQuery) -> Sequence[AuditEntry]:
        newest = select(audit).where(*_conditions(query)).order_by(audit.c.id.desc()).limit(query.limit)
        with self._connections.reading() as connection:
            return [_entry(row) for row in connection.execute(newest)]

    def purge(self, before: datetime) -> int:
        batch = select(audit.c.id).where(audit.c.at < before).limit(ROWS_PER_PURGE)
        removed = 0
        while True:
            with self._connections.writing() as connection:
                rows = connection.execute(delete(audit).where(audit.c.id.in_(batch))).rowcount
            removed += rows
            if rows < ROWS_PER_PURGE:
                return removed


def _conditions(query: AuditQuery) -> list[ColumnElement[bool]]:
    conditions = []
    if query.owner is not None:
        conditions.append(audit.c.owner == query.owner)
    if query.object is not None:
        # The set of a filter belongs to its configuration: `<config_id>.<transform_uid>`.
        belongs_to_object = audit.c.object.startswith(f"{query.object}.", autoescape=True)
        conditions.append((audit.c.object == query.object) | belongs_to_object)
    if query.since is not None:
        conditions.append(audit.c.at >= query.since)
    if query.until is not None:
        conditions.append(audit.c.at < query.until)
    return conditions


def _entry(row: Row[Any]) -> AuditEntry:
    change = Change(row.action, row.owner, row.object, row.before, row.after)
    return AuditEntry(row.id, row.at, row.key_id, row.ip, row.request_id, change, row.state)
