"""Migrates a database to the schema of this version of Headwater."""

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from headwater.errors import SetupError
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.postgresql import without_time_limits

SCRIPTS = "headwater.stores.sql:migrations"
# The key of the advisory lock of migrations, an arbitrary number.
_LOCK = text("SELECT pg_advisory_xact_lock(4857726)")
# If several processes start at once, one migrates and the others wait for it, which may take long.
_LOCK_TIMEOUT = text("SET LOCAL lock_timeout = '60s'")


def migrate(engine: Engine) -> None:
    """Create or upgrade the tables in one transaction.

    If several processes try, the first one does it. Raises SetupError when the schema is of a newer version of
    Headwater, and DatabaseUnavailable.
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
    """Return the schema revision of the database; None for an empty database.

    Raises SetupError.
    """
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is not None and revision not in {script.revision for script in scripts.walk_revisions()}:
        raise SetupError(
            f"The database was written by a newer Headwater (schema {revision}). Start that version or a later one, "
            "or name another database or data directory."
        )
    return revision
