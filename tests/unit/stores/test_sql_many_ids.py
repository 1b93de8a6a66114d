"""Calls with more ids than a statement may have parameters."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event

from headwater.errors import DatabaseUnavailable
from headwater.model.deployment import Phase
from headwater.model.quota import NO_QUOTAS
from headwater.stores.sql import id_chunks
from headwater.stores.sql.connections import Connections, make_engine
from headwater.stores.sql.database import Database
from headwater.stores.sql.deployment_mapper import DeploymentMapper
from headwater.stores.sql.encryption import FieldCipher
from tests.support.deployments import deploy
from tests.support.sql import OWNER, SECRET_KEY, a_flow, a_line, at, open_sqlite, seen

MAX_PARAMETERS = 60
MANY_IDS = [f"x{number:03}" for number in range(2 * MAX_PARAMETERS)]


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """Return a database whose statements may have MAX_PARAMETERS parameters.

    It has the active deployment d1.
    """
    open_sqlite(tmp_path / "headwater.db").close()
    monkeypatch.setattr(id_chunks, "IDS_PER_QUERY", 20)
    engine = make_engine(f"sqlite:///{tmp_path / 'headwater.db'}")

    @event.listens_for(engine, "connect")
    def _(connection: sqlite3.Connection, _record: object) -> None:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, MAX_PARAMETERS)

    limited = Database(Connections(engine), DeploymentMapper(FieldCipher(SECRET_KEY)), NO_QUOTAS)
    limited.flows.create(a_flow())
    deploy(limited)
    yield limited
    limited.close()


def test_the_limit_is_in_force(database: Database) -> None:
    with pytest.raises(DatabaseUnavailable):
        database.datasets.list(OWNER, MANY_IDS)


def test_configurations_are_returned_newest_first(database: Database) -> None:
    database.flows.create(a_flow("f2", created_s=9))
    assert [flow.id for flow in database.flows.get_many(OWNER, ["f1", *MANY_IDS, "f2"])] == ["f2", "f1"]


def test_ids_are_recorded_as_ended(database: Database) -> None:
    database.deployments.record_as_ended(MANY_IDS, at(0))
    database.deployments.record_as_ended(MANY_IDS, at(1))
    assert database.deployments.ended_among([*MANY_IDS, "d1"]) == MANY_IDS


def test_observations_of_unknown_deployments_are_ignored(database: Database) -> None:
    [deployment] = database.deployments.list_active()
    observation = seen(deployment, Phase.RUNNING)
    unknown = [replace(observation, deployment_id=deployment_id) for deployment_id in MANY_IDS]
    database.deployments.write_observations([*unknown, observation])
    [deployment] = database.deployments.list_active()
    assert deployment.phase is Phase.RUNNING


def test_workers_and_logs_of_unknown_deployments_are_ignored(database: Database) -> None:
    database.deployments.report_workers({"d1": (), **dict.fromkeys(MANY_IDS, ())})
    database.deployments.write_logs({"d1": [a_line(1)], **dict.fromkeys(MANY_IDS, ())})
    assert database.deployments.read_logs("d1", 9) == [a_line(1)]
