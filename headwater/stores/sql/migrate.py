"""Brings a database's tables to the form that this version of Headwater uses."""

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from headwater.errors import SetupError
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.postgresql import without_time_limits

SCRIPTS = "headwater.stores.sql:migrations"
# Any fixed number will do: PostgreSQL's advisory locks are named by one.
_LOCK = text("SELECT pg_advisory_xact_lock(4857726)")
# Of several processes that start at once, each waits for the one that migrates; that may take long, once.
_LOCK_TIMEOUT = text("SET LOCAL lock_timeout = '60s'")


def migrate(engine: Engine) -> None:
    """Create or upgrade the tables in one transaction; of several processes that try, the first one does it.

    Raises SetupError when the database is of a newer Headwater, and StoreUnavailable.
    """
    config = Config()
    config.set_main_option("script_location", SCRIPTS)
    scripts = ScriptDirectory.from_config(config)
    with Connections(engine).writing() as connection, without_time_limits(connection):
        if engine.dialect.name == "postgresql":
            connection.execute(_LOCK_TIMEOUT)
            connection.execute(_LOCK)
        revision = _revision(connection, scripts)
        if revision != scripts.get_current_head():
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def _revision(connection: Connection, scripts: ScriptDirectory) -> str | None:
    """The database's schema revision, None for an empty database."""
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is not None and revision not in {script.revision for script in scripts.walk_revisions()}:
        raise SetupError(
            f"The database was written by a newer Headwater (schema {revision}). Start that version or a later one, "
            "or name another database or data directory."
        )
    return revision
