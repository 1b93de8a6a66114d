"""Migrations on every database: upgrade, downgrade, and the same tables as in the code."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, func, inspect, select, text

from headwater.errors import SetupError
from headwater.model.deployment import ObservedWorker, ObservedWorkerStatus
from headwater.model.value_sets import filter_set_id
from headwater.stores.sql import migrations
from headwater.stores.sql.connections import Connections, make_engine
from headwater.stores.sql.database import open_database
from headwater.stores.sql.encryption import FieldCipher
from headwater.stores.sql.migrate import SCRIPTS, migrate
from headwater.stores.sql.tables import metadata
from tests.support.sql import (
    OWNER,
    SECRET_KEY,
    T0,
    a_config,
    a_dataset,
    a_deployment,
    a_flow,
    a_line,
    next_revision,
    seen,
)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'headwater.db'}"
    found: str = request.getfixturevalue("empty_postgres_url")
    return found


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    made_engine = make_engine(url)
    yield made_engine
    made_engine.dispose()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", SCRIPTS)
    return config


def _move(engine: Engine, direction: str, revision: str) -> None:
    config = _config()
    with Connections(engine).writing() as connection:
        config.attributes["connection"] = connection
        (command.upgrade if direction == "up" else command.downgrade)(config, revision)


def _differences(engine: Engine) -> list[object]:
    with engine.connect() as connection:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))


def test_an_empty_database_gets_the_tables_of_the_code(engine: Engine) -> None:
    migrate(engine)
    migrate(engine)
    assert _differences(engine) == []


def test_one_linear_chain() -> None:
    scripts = ScriptDirectory.from_config(_config())
    assert len(scripts.get_heads()) == len(scripts.get_bases()) == 1
    numbers = [script.revision for script in scripts.walk_revisions()]
    assert numbers == sorted(numbers, reverse=True)


def test_every_downgrade_and_upgrade(engine: Engine) -> None:
    revisions = [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()]
    migrate(engine)
    for below in [*revisions[1:], "base"]:
        _move(engine, "down", below)
    assert inspect(engine).get_table_names() == ["alembic_version"]
    for revision in reversed(revisions):
        _move(engine, "up", revision)
    assert _differences(engine) == []


def test_migrations_keep_the_rows(url: str) -> None:
    database = open_database(url, FieldCipher(SECRET_KEY))
    database.flows.create(a_flow())
    database.datasets.create(a_dataset())
    database.close()
    again = open_database(url, FieldCipher(SECRET_KEY))
    assert again.flows.get(OWNER, "f1") == a_flow()
    again.close()


def test_every_downgrade_keeps_the_rows(url: str, engine: Engine) -> None:
    database = open_database(url, FieldCipher(SECRET_KEY))
    database.flows.create(a_flow())
    deployed = database.deployments.request_deploy(OWNER, "f1", a_deployment())
    database.deployments.write_observations([seen(deployed)])
    worker = ObservedWorker(name="w", status=ObservedWorkerStatus.RUNNING, is_ready=True, start_time=T0)
    database.deployments.report_workers({"d1": [worker]})
    database.deployments.write_logs({"d1": [a_line(1)]})
    database.datasets.create(a_dataset())
    database.close()
    before = _row_counts(engine)
    for script in ScriptDirectory.from_config(_config()).walk_revisions():
        if script.down_revision is not None:
            _move(engine, "down", str(script.down_revision))
            after = _row_counts(engine)
            assert after == {table: before[table] for table in after}, script.revision


def _row_counts(engine: Engine) -> dict[str, int]:
    """Return the number of rows of each table."""
    tables = inspect(engine).get_table_names()
    with engine.connect() as connection:
        return {
            table: connection.execute(select(func.count()).select_from(text(table))).scalar_one() for table in tables
        }


def test_stored_revisions_get_the_members_and_the_rollouts_of_their_configuration(url: str, engine: Engine) -> None:
    database = open_database(url, FieldCipher(SECRET_KEY))
    first = a_flow(external_id="x")
    database.flows.create(first)
    deployed = database.deployments.request_deploy(OWNER, "f1", a_deployment())
    database.deployments.write_observations([seen(deployed)])
    second = next_revision(first, name="second", tags=("c",))
    database.flows.save(second)
    database.close()
    _move(engine, "down", "0010")
    again = open_database(url, FieldCipher(SECRET_KEY))
    assert again.revisions.get(OWNER, "f1", 1) == replace(first, name="second", tags=("c",))
    assert again.revisions.get(OWNER, "f1", 2) == second
    [newest, oldest] = again.revisions.list(OWNER, "f1", None, 10)
    assert (newest.saved_by, newest.changed, newest.deployed_at) == (None, (), None)
    assert (oldest.deployed_at, oldest.condition) == (first.created_at, "Stable")
    again.close()


def test_revisions_of_an_older_version_during_an_update_have_the_newest_members(url: str, engine: Engine) -> None:
    database = open_database(url, FieldCipher(SECRET_KEY))
    database.flows.create(a_flow())
    with engine.begin() as connection:
        connection.execute(text("UPDATE flow_revisions SET name = NULL, description = NULL, tags = NULL"))
    assert database.revisions.get(OWNER, "f1", 1) == a_flow()
    database.close()


def test_concurrent_migrations(url: str) -> None:
    def start(_: int) -> int:
        database = open_database(url, FieldCipher(SECRET_KEY))
        try:
            return database.change_counter.value()
        finally:
            database.close()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(start, range(8))) == [0] * 8


def test_a_newer_schema_is_refused(url: str, engine: Engine) -> None:
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SetupError, match=r"newer Headwater \(schema 9999\)"):
        open_database(url, FieldCipher(SECRET_KEY))


def test_a_version_that_knows_no_key_ids_refuses_the_database(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_database(url, FieldCipher(SECRET_KEY)).close()
    ignored = shutil.ignore_patterns("r001[0-9]*", "__pycache__")
    older = shutil.copytree(migrations.__path__[0], tmp_path / "migrations", ignore=ignored)
    monkeypatch.setattr("headwater.stores.sql.migrate.SCRIPTS", str(older))
    with pytest.raises(SetupError, match=r"newer Headwater \(schema \d+\)"):
        open_database(url, FieldCipher(SECRET_KEY))


def test_revisions_that_are_stored_already_are_counted(url: str, engine: Engine) -> None:
    database = open_database(url, FieldCipher(SECRET_KEY))
    filter_ = {"uid": "t2", "type": "redis_set_filter", "filter_expr": "root = this.a"}
    database.flows.create(a_flow(pipeline_config=a_config(transforms=[filter_], parallelism=3)))
    used, sets = database.quotas.usage(OWNER), database.quotas.sets(OWNER)
    database.close()
    _move(engine, "down", "0006")
    migrate(engine)
    again = open_database(url, FieldCipher(SECRET_KEY))
    assert again.quotas.sets(OWNER) == sets == [filter_set_id("f1", "t2")]
    assert {**used, "stored_bytes": 0} == {**again.quotas.usage(OWNER), "stored_bytes": 0}
    again.close()
