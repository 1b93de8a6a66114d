"""Migrates a database to the schema of this version of Headwater."""

from functools import cache

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from headwater.errors import SetupError
from headwater.stores.sql.connections import Connections, without_time_limits

SCRIPTS = "headwater.stores.sql:migrations"
_LOCK = text("SELECT pg_advisory_xact_lock(4857726)")
"""Takes the advisory lock of migrations, whose key is an arbitrary number."""
_SET_LOCK_TIMEOUT = text("SET LOCAL lock_timeout = '60s'")
"""If several processes start at once, one of them migrates and the others wait for the lock, which may take long."""


def migrate(engine: Engine) -> None:
    """Create or upgrade the tables in one transaction.

    If several processes call this at once, one of them migrates. Raises DatabaseUnavailable, and SetupError when the
    schema is of a newer version of Headwater.
    """
    scripts = _scripts(SCRIPTS)
    with Connections(engine).writing() as connection, without_time_limits(connection):
        if engine.dialect.name == "postgresql":
            connection.execute(_SET_LOCK_TIMEOUT)
            connection.execute(_LOCK)
        revision = _revision(connection, scripts)
        if revision != scripts.get_current_head():
            config = _config(SCRIPTS)
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def _config(location: str) -> Config:
    config = Config()
    config.set_main_option("script_location", location)
    return config


@cache
def _scripts(location: str) -> ScriptDirectory:
    """Return the migrations in a package or folder, whose files are read once."""
    return ScriptDirectory.from_config(_config(location))


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
