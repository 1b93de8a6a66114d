"""The state of requests with an Idempotency-Key."""

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from headwater.model.idempotency import ClaimResult, StoredResponse
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.tables import idempotent_requests

ROWS_PER_PURGE = 1_000


class SqlIdempotencyStore:
    """IdempotencyStore in SQL."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def claim(self, idempotency_id: str, request_id: str, now: datetime, until: datetime) -> ClaimResult:
        try:
            with self._connections.writing() as connection:
                return _claim(connection, idempotency_id, request_id, now, until)
        except IntegrityError:  # another process inserted the row at the same time
            return "running"

    def renew(self, idempotency_id: str, request_id: str, until: datetime) -> None:
        self._update(idempotency_id, request_id, expires_at=until)

    def finish(self, idempotency_id: str, request_id: str, response: StoredResponse, until: datetime) -> None:
        self._update(idempotency_id, request_id, holder=None, expires_at=until, **asdict(response))

    def _update(self, idempotency_id: str, request_id: str, **values: object) -> None:
        with self._connections.writing() as connection:
            connection.execute(
                update(idempotent_requests).where(_is_claimed(idempotency_id, request_id)).values(**values)
            )

    def release(self, idempotency_id: str, request_id: str) -> None:
        with self._connections.writing() as connection:
            connection.execute(delete(idempotent_requests).where(_is_claimed(idempotency_id, request_id)))

    def purge(self, now: datetime) -> int:
        removed, expired = 0, idempotent_requests.c.expires_at <= now
        batch = select(idempotent_requests.c.id).where(expired).limit(ROWS_PER_PURGE)
        while True:
            with self._connections.writing() as connection:
                rows = connection.execute(
                    delete(idempotent_requests).where(idempotent_requests.c.id.in_(batch), expired)
                ).rowcount
            removed += rows
            if rows < ROWS_PER_PURGE:
                return removed


def _is_claimed(idempotency_id: str, request_id: str) -> ColumnElement[bool]:
    return (idempotent_requests.c.id == idempotency_id) & (idempotent_requests.c.holder == request_id)


def _claim(connection: Connection, idempotency_id: str, request_id: str, now: datetime, until: datetime) -> ClaimResult:
    has_id = idempotent_requests.c.id == idempotency_id
    row = connection.execute(select(idempotent_requests).where(has_id).with_for_update()).one_or_none()
    claim = {"holder": request_id, "expires_at": until, "body_sha256": "", "status": 0, "headers": {}, "body": b""}
    if row is None:
        connection.execute(insert(idempotent_requests).values(id=idempotency_id, **claim))
        return "claimed"
    if now >= row.expires_at:
        connection.execute(update(idempotent_requests).where(has_id).values(**claim))
        return "claimed"
    if row.holder is not None:
        return "running"
    # The request was processed: damaged headers are no reason to process it again.
    headers = row.headers if isinstance(row.headers, dict) else {}
    return StoredResponse(row.body_sha256, row.status, headers, row.body)
