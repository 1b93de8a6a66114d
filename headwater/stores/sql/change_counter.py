"""The change counter: one row that tells the controller that a desired state has changed.

LISTEN and NOTIFY of PostgreSQL are not used, because SQLite has nothing like them.
"""

from sqlalchemy import Connection, select, update

from headwater.stores.sql.connections import Connections
from headwater.stores.sql.tables import change_counter


def increment(connection: Connection) -> None:
    """Raise the counter in the transaction that changes a desired state."""
    connection.execute(update(change_counter).values(value=change_counter.c.value + 1))


class SqlChangeCounter:
    """ChangeCounter in SQL."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def value(self) -> int:
        with self._connections.reading() as connection:
            value: int = connection.execute(select(change_counter.c.value)).scalar_one()
        return value
