"""API keys."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Row, bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from headwater.model.key import ApiKey
from headwater.stores.sql import audit_changes, store_errors
from headwater.stores.sql.audit import record
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.tables import api_keys

_UPDATE_LAST_USE = (
    update(api_keys)
    .where(api_keys.c.id == bindparam("key_id"))
    .where(func.coalesce(api_keys.c.last_used_at < bindparam("at"), True))
    .values(last_used_at=bindparam("at"))
)


class SqlKeys:
    """KeyStore in SQL."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def create(self, key: ApiKey) -> None:
        try:
            with self._connections.writing() as connection:
                connection.execute(insert(api_keys).values(**asdict(key)))
                record(connection, audit_changes.key_created(key))
        except IntegrityError as error:
            raise store_errors.key_exists(key.id) from error

    def find(self, key_id: str) -> ApiKey | None:
        with self._connections.reading() as connection:
            row = connection.execute(select(api_keys).where(api_keys.c.id == key_id)).one_or_none()
        return None if row is None else _key(row)

    def list(self) -> Sequence[ApiKey]:
        newest_first = select(api_keys).order_by(api_keys.c.created_at.desc(), api_keys.c.id.desc())
        with self._connections.reading() as connection:
            return [_key(row) for row in connection.execute(newest_first)]

    def revoke(self, key_id: str, at: datetime) -> None:
        has_id = api_keys.c.id == key_id
        with self._connections.writing() as connection:
            row = connection.execute(select(api_keys).where(has_id).with_for_update()).one_or_none()
            if row is None:
                raise store_errors.key_not_found(key_id)
            if row.revoked_at is None:
                connection.execute(update(api_keys).where(has_id).values(revoked_at=at))
                record(connection, audit_changes.key_revoked(_key(row)))

    def record_use(self, at: dict[str, datetime]) -> None:
        uses = [{"key_id": key_id, "at": time} for key_id, time in sorted(at.items())]
        if uses:
            with self._connections.writing() as connection:
                connection.execute(_UPDATE_LAST_USE, uses)


def has_scopes(stored: Any) -> bool:
    """Return whether stored scopes can be read."""
    return isinstance(stored, list) and all(isinstance(scope, str) for scope in stored)


def _key(row: Row[Any]) -> ApiKey:
    """Return the key in a row. A key whose scopes can't be read has no scopes."""
    return ApiKey(**{**row._asdict(), "scopes": tuple(row.scopes) if has_scopes(row.scopes) else ()})
