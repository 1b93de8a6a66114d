"""The doorbell of the controller: one row with a counter.

LISTEN and NOTIFY of PostgreSQL are not used, because SQLite has nothing like them.
"""

from sqlalchemy import Connection, select, update

from headwater.stores.sql.connections import Connections
from headwater.stores.sql.tables import doorbell


def ring(connection: Connection) -> None:
    """Raise the counter in the transaction that changes a desired state."""
    connection.execute(update(doorbell).values(value=doorbell.c.value + 1))


class SqlDoorbell:
    """Doorbell in SQL."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def value(self) -> int:
        with self._connections.reading() as connection:
            value: int = connection.execute(select(doorbell.c.value)).scalar_one()
        return value
