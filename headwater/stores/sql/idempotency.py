"""The state of requests with an Idempotency-Key."""

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from headwater.model.idempotency import Claim, StoredResponse
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.tables import calls

ROWS_PER_PURGE = 1_000


class SqlIdempotencyStore:
    """IdempotencyStore in SQL."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def claim(self, request: str, holder: str, now: datetime, until: datetime) -> Claim:
        try:
            with self._connections.writing() as connection:
                return _claim(connection, request, holder, now, until)
        except IntegrityError:  # another process inserted the row at the same time
            return "running"

    def renew(self, request: str, holder: str, until: datetime) -> None:
        self._write(request, holder, expires_at=until)

    def finish(self, request: str, holder: str, answered: StoredResponse, until: datetime) -> None:
        self._write(request, holder, holder=None, expires_at=until, **asdict(answered))

    def release(self, request: str, holder: str) -> None:
        with self._connections.writing() as connection:
            connection.execute(delete(calls).where(calls.c.id == request, calls.c.holder == holder))

    def purge(self, now: datetime) -> int:
        removed, old = 0, select(calls.c.id).where(calls.c.expires_at <= now).limit(ROWS_PER_PURGE)
        while True:
            with self._connections.writing() as connection:
                rows = connection.execute(delete(calls).where(calls.c.id.in_(old), calls.c.expires_at <= now)).rowcount
            removed += rows
            if rows < ROWS_PER_PURGE:
                return removed

    def _write(self, request: str, held_by: str, **values: object) -> None:
        held = (calls.c.id == request) & (calls.c.holder == held_by)
        with self._connections.writing() as connection:
            connection.execute(update(calls).where(held).values(**values))


def _claim(connection: Connection, request: str, holder: str, now: datetime, until: datetime) -> Claim:
    row = connection.execute(select(calls).where(calls.c.id == request).with_for_update()).one_or_none()
    running = {"holder": holder, "expires_at": until, "body_sha256": "", "status": 0, "headers": {}, "body": b""}
    if row is None:
        connection.execute(insert(calls).values(id=request, **running))
        return "claimed"
    if now >= row.expires_at:
        connection.execute(update(calls).where(calls.c.id == request).values(**running))
        return "claimed"
    # The request was processed: damaged headers are no reason to process it again.
    headers = row.headers if isinstance(row.headers, dict) else {}
    return StoredResponse(row.body_sha256, row.status, headers, row.body) if row.holder is None else "running"
