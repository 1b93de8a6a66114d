"""Tests of SQLite: several processes, locks, and no secrets in the file."""

import multiprocessing
import sqlite3
import stat
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from headwater.errors import DatabaseUnavailable, SetupError
from headwater.model.deployment import Phase
from headwater.stores.sql import connections
from headwater.stores.sql.connections import Connections, make_engine
from headwater.stores.sql.database import Database
from tests.support.sql import OWNER, a_deployment, a_flow, a_key, at, open_sqlite, seen

PROCESSES = 4
WRITERS = 30
ROUNDS = 3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "headwater.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    opened = open_sqlite(path)
    yield opened
    opened.close()


@pytest.fixture
def other(path: Path, database: Database) -> Iterator[sqlite3.Connection]:
    """Open the same file as another program would."""
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def _write(database: Database, name: str) -> None:
    for number in range(ROUNDS):
        config_id = f"f-{name}-{number}"
        database.flows.create(a_flow(config_id))
        deployment = database.deployments.request_deploy(OWNER, config_id, a_deployment(f"d-{name}-{number}"))
        database.deployments.write_observations([seen(deployment)])
        database.keys.create(a_key(f"k-{name}-{number}"))
        assert database.flows.get(OWNER, config_id).id == config_id


def _write_in_threads(path: Path, process: int) -> None:
    """Open the file, which may not exist, and write from several threads.

    This runs in another process.
    """
    database = open_sqlite(path)
    names = [f"{process}-{writer}" for writer in range(process, WRITERS, PROCESSES)]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: _write(database, name), names))
    database.close()


class TestProcesses:
    @pytest.mark.long
    def test_concurrent_writers_wait_for_each_other(self, path: Path) -> None:
        with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
            list(pool.map(_write_in_threads, [path] * PROCESSES, range(PROCESSES)))
        database = open_sqlite(path)
        written = WRITERS * ROUNDS
        assert len(database.flows.list(OWNER)) == len(database.keys.list()) == written
        assert {d.phase for d in database.deployments.list_active()} == {Phase.RUNNING}
        assert database.change_counter.value() == written
        database.close()

    def test_processes_see_each_others_writes(self, path: Path, database: Database) -> None:
        second = open_sqlite(path)
        second.flows.create(a_flow())
        assert database.flows.get(OWNER, "f1") == a_flow()
        second.close()


class TestLocks:
    def test_readers_never_wait_and_writers_time_out(
        self, database: Database, other: sqlite3.Connection, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connections, "WRITE_LOCK_TIMEOUT_S", 0.05)
        impatient = open_sqlite(path)
        impatient.flows.create(a_flow())
        other.execute("BEGIN IMMEDIATE")
        assert impatient.flows.get(OWNER, "f1") == a_flow()
        with pytest.raises(DatabaseUnavailable):
            impatient.flows.create(a_flow("f2"))
        other.execute("ROLLBACK")
        impatient.flows.create(a_flow("f2"))
        impatient.close()

    def test_a_reader_does_not_block_writers(self, database: Database, other: sqlite3.Connection) -> None:
        other.execute("BEGIN")
        assert other.execute("SELECT count(*) FROM flows").fetchone() == (0,)
        database.flows.create(a_flow())
        assert other.execute("SELECT count(*) FROM flows").fetchone() == (0,)
        other.execute("COMMIT")
        assert other.execute("SELECT count(*) FROM flows").fetchone() == (1,)

    def test_a_damaged_database_is_unavailable(self, database: Database, other: sqlite3.Connection) -> None:
        other.execute("DROP TABLE api_keys")
        with pytest.raises(DatabaseUnavailable):
            database.keys.find("k1")

    def test_a_failed_transaction_is_rolled_back(self, database: Database, other: sqlite3.Connection) -> None:
        database.flows.create(a_flow())
        other.execute("DROP TABLE doorbell")
        with pytest.raises(DatabaseUnavailable):
            database.deployments.request_deploy(OWNER, "f1", a_deployment())
        assert database.deployments.active("f1") is None

    def test_the_table_itself_holds_one_active_deployment_per_flow(
        self, database: Database, other: sqlite3.Connection
    ) -> None:
        database.flows.create(a_flow())
        database.deployments.request_deploy(OWNER, "f1", a_deployment())
        with pytest.raises(sqlite3.IntegrityError):
            other.execute(
                "INSERT INTO deployments (id, flow_id, owner, created_at, desired, desired_revision, generation, "
                "delete_flow, phase, observed_generation, condition, reason) SELECT 'd2', flow_id, owner, created_at, "
                "desired, desired_revision, generation, delete_flow, phase, observed_generation, condition, reason "
                "FROM deployments"
            )

    def test_a_constraint_violation_is_not_an_outage(self, database: Database) -> None:
        database.flows.create(a_flow())
        with pytest.raises(IntegrityError):
            database.flows.create(a_flow())

    def test_settings(self, path: Path) -> None:
        with Connections(make_engine(f"sqlite:///{path}")).reading() as connection:
            names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names]
            connection.engine.dispose()
        assert found == ["wal", 1, 1, 20000]


class TestOpen:
    def test_only_the_owner_may_read_the_file(self, path: Path, database: Database) -> None:
        database.flows.create(a_flow())
        modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.glob("headwater.db*")}
        assert modes == {0o600}

    def test_a_file_that_is_not_a_database(self, path: Path) -> None:
        path.write_bytes(b"This is a text. " * 100)
        with pytest.raises(SetupError, match=r"can't be opened: file is not a database"):
            open_sqlite(path)

    def test_a_missing_directory(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match="No such file or directory"):
            open_sqlite(tmp_path / "missing" / "headwater.db")


class TestSecrets:
    def test_no_password_is_in_the_files(self, path: Path, database: Database) -> None:
        database.flows.create(a_flow())
        deployment = database.deployments.request_deploy(OWNER, "f1", a_deployment())
        stored = path.with_name("headwater.db-wal").read_bytes()
        database.close()
        stored += path.read_bytes()
        assert deployment.id.encode() in stored
        for password in (deployment.reader_password, deployment.worker_password):
            assert password.encode() not in stored

    def test_an_ended_deployment_has_no_passwords(self, database: Database, other: sqlite3.Connection) -> None:
        database.flows.create(a_flow())
        deployment = database.deployments.request_deploy(OWNER, "f1", a_deployment())
        database.deployments.write_observations([seen(deployment, Phase.ABSENT)])
        row = other.execute("SELECT phase, reader_password, worker_password FROM deployments").fetchone()
        assert row == ("absent", None, None)

    def test_another_key_is_detected_at_the_start(self, path: Path, database: Database) -> None:
        database.flows.create(a_flow())
        database.deployments.request_deploy(OWNER, "f1", a_deployment())
        with pytest.raises(SetupError, match="another secret key"):
            open_sqlite(path, key=bytes(32))

    def test_passwords_moved_to_another_row_cannot_be_decrypted(
        self, database: Database, other: sqlite3.Connection
    ) -> None:
        database.flows.create(a_flow())
        database.deployments.request_deploy(OWNER, "f1", a_deployment())
        other.execute("UPDATE deployments SET reader_password = worker_password")
        moved = database.deployments.active("f1")
        assert moved is not None
        assert (moved.reader_password, moved.worker_password, moved.has_readable_passwords) == ("", "", False)
        assert "can't be decrypted" in moved.unreadable_reason

    def test_key_digests_keep_their_bytes(self, database: Database) -> None:
        database.keys.create(a_key(digest=b"\0\xff" * 16, expires_at=at(1)))
        found = database.keys.find("k1")
        assert found is not None
        assert found.digest == b"\0\xff" * 16
