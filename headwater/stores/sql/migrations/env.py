"""Runs migrations on the connection of `migrate`.

For developers, the migrations run on the database in alembic.ini.
"""

from typing import Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy import Connection

from headwater.stores.sql.connections import Connections, make_engine
from headwater.stores.sql.tables import UtcDateTime, metadata


def _render(_kind: str, item: object, _context: AutogenContext) -> str | Literal[False]:
    """Write SQLAlchemy's type in place of UtcDateTime.

    So a migration never depends on later code.
    """
    return "sa.DateTime(timezone=True)" if isinstance(item, UtcDateTime) else False


def _run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, render_item=_render)
    with context.begin_transaction():
        context.run_migrations()


_connection_of_migrate: Connection | None = context.config.attributes.get("connection")
if _connection_of_migrate is not None:
    _run(_connection_of_migrate)
else:
    _url = context.config.get_main_option("sqlalchemy.url") or ""
    with Connections(make_engine(_url)).writing() as _new_connection:
        _run(_new_connection)
