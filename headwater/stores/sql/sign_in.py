"""One-time codes for signing in."""

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import delete, insert

from headwater.model.key import ApiKey
from headwater.stores.protocols.sign_in import MakeKey
from headwater.stores.sql import audit_changes
from headwater.stores.sql.audit import record
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.keys import has_scopes
from headwater.stores.sql.tables import api_keys, sign_in_codes


class SqlSignIns:
    """SignInStore in SQL."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def add_code(self, digest: bytes, source: ApiKey, expires_at: datetime) -> None:
        values = {"digest": digest, "owner": source.owner, "scopes": source.scopes, "expires_at": expires_at}
        with self._connections.writing() as connection:
            connection.execute(insert(sign_in_codes).values(values))
            record(connection, audit_changes.sign_in_code_created(source))

    def exchange(self, digest: bytes, now: datetime, make_key: MakeKey) -> ApiKey | None:
        valid = (sign_in_codes.c.digest == digest) & (sign_in_codes.c.expires_at > now)
        removal = delete(sign_in_codes).where(valid).returning(sign_in_codes.c.owner, sign_in_codes.c.scopes)
        with self._connections.writing() as connection:
            code = connection.execute(removal).one_or_none()
            if code is None or not has_scopes(code.scopes):
                return None
            key = make_key(code.owner, code.scopes)
            connection.execute(insert(api_keys).values(**asdict(key)))
            record(connection, audit_changes.signed_in(key))
        return key

    def remove_expired(self, now: datetime) -> None:
        with self._connections.writing() as connection:
            connection.execute(delete(sign_in_codes).where(sign_in_codes.c.expires_at <= now))
            connection.execute(delete(api_keys).where(api_keys.c.is_from_code, api_keys.c.expires_at <= now))
