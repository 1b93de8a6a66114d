"""Reads and writes the last log lines of a deployment, in a caller's transaction."""

from collections.abc import Sequence

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Connection, delete, func, insert, select

from headwater.model.deployment import LogLine
from headwater.stores.protocols.deployments import MAX_LOG_LINES
from headwater.stores.sql.tables import worker_logs


def write(connection: Connection, deployment_id: str, lines: Sequence[LogLine]) -> None:
    """Add lines, oldest first, and delete all but the last MAX_LOG_LINES."""
    last = connection.scalar(select(func.max(worker_logs.c.number)).where(_belongs_to(deployment_id))) or 0
    kept = lines[-MAX_LOG_LINES:]
    rows = [
        {"deployment_id": deployment_id, "number": number, "line": line.model_dump_json()}
        for number, line in enumerate(kept, last + 1)
    ]
    if rows:
        connection.execute(insert(worker_logs), rows)
        oldest = last + len(rows) - MAX_LOG_LINES
        connection.execute(delete(worker_logs).where(_belongs_to(deployment_id), worker_logs.c.number <= oldest))


def read(connection: Connection, deployment_id: str, limit: int) -> Sequence[LogLine]:
    """Return the last lines, newest first, without lines that can't be read."""
    newest = (
        select(worker_logs.c.line).where(_belongs_to(deployment_id)).order_by(worker_logs.c.number.desc()).limit(limit)
    )
    lines = map(read_line, connection.scalars(newest))
    return [line for line in lines if line is not None]


def read_line(stored: str) -> LogLine | None:
    """Decode a stored line; return None when it can't be read."""
    try:
        return LogLine.model_validate_json(stored)
    except ValidationError:
        return None


def delete_all(connection: Connection, deployment_id: str) -> None:
    """Delete all lines of a deployment."""
    connection.execute(delete(worker_logs).where(_belongs_to(deployment_id)))


def _belongs_to(deployment_id: str) -> ColumnElement[bool]:
    return worker_logs.c.deployment_id == deployment_id
