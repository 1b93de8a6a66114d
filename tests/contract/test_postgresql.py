"""Tests of PostgreSQL: concurrent writers, locks, outages, and no secrets in the tables."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
from sqlalchemy.exc import IntegrityError

from headwater.errors import Conflict, DatabaseUnavailable, SetupError
from headwater.model.deployment import Phase
from headwater.stores.sql import connections
from headwater.stores.sql.database import Database
from headwater.stores.sql.postgresql import TimedConnection
from tests.support.ports import free_port
from tests.support.postgres_server import PASSWORD, USER, PostgresServer
from tests.support.sql import (
    OWNER,
    SECRET_KEY,
    a_config,
    a_deployment,
    a_flow,
    a_key,
    at,
    next_revision,
    open_postgres,
    seen,
)

WRITERS = 16


@pytest.fixture
def database(postgres_url: str) -> Iterator[Database]:
    opened = open_postgres(postgres_url)
    yield opened
    opened.close()


@pytest.fixture
def other(postgres_url: str, database: Database) -> Iterator[psycopg.Connection]:
    """Open the same database as another program would."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


class TestWriters:
    def test_a_save_that_waited_sees_the_newest_revision(
        self, shared_postgres: PostgresServer, database: Database, other: psycopg.Connection
    ) -> None:
        database.flows.create(a_flow())
        with ThreadPoolExecutor(WRITERS) as pool, other.transaction():
            other.execute("SELECT * FROM flows FOR UPDATE")
            saves = [pool.submit(database.flows.save, next_revision(a_flow())) for _ in range(WRITERS)]
            _until_waiting(shared_postgres, WRITERS)
            other.execute("UPDATE flows SET name = 'meanwhile'")
        refused = [isinstance(save.exception(), Conflict) for save in saves]
        assert sorted(refused) == [False] + [True] * (WRITERS - 1)
        assert database.flows.get(OWNER, "f1").revision == 2

    def test_deploys_that_waited_see_the_same_deployment(
        self, shared_postgres: PostgresServer, database: Database, other: psycopg.Connection
    ) -> None:
        database.flows.create(a_flow())
        with ThreadPoolExecutor(WRITERS) as pool, other.transaction():
            other.execute("SELECT * FROM flows FOR UPDATE")
            deployments = [
                pool.submit(database.deployments.request_deploy, OWNER, "f1", a_deployment(f"d{number}"))
                for number in range(WRITERS)
            ]
            _until_waiting(shared_postgres, WRITERS)
        assert len({deploy.result().id for deploy in deployments}) == 1

    def test_a_teardown_that_waited_sees_the_newest_rollout(
        self, shared_postgres: PostgresServer, database: Database, other: psycopg.Connection
    ) -> None:
        database.flows.create(a_flow())
        database.deployments.write_observations(
            [seen(database.deployments.request_deploy(OWNER, "f1", a_deployment()))]
        )
        database.flows.save(next_revision(a_flow(), pipeline_config=a_config(parallelism=2)))
        with ThreadPoolExecutor(2) as pool, other.transaction():
            other.execute("SELECT * FROM doorbell FOR UPDATE")
            rollout = pool.submit(database.deployments.request_deploy, OWNER, "f1", a_deployment("d2"))
            _until_waiting(shared_postgres, 1)
            teardown = pool.submit(database.deployments.request_teardown, "f1")
            _until_waiting(shared_postgres, 2)
        gone = teardown.result()
        assert gone is not None
        assert (gone.desired_revision, gone.generation) == (2, rollout.result().generation + 1)

    def test_everything_at_once(self, database: Database) -> None:
        def write(number: int) -> None:
            for turn in range(3):
                config_id = f"f-{number}-{turn}"
                database.flows.create(a_flow(config_id))
                deployment = database.deployments.request_deploy(OWNER, config_id, a_deployment(f"d-{number}-{turn}"))
                database.deployments.write_observations([seen(deployment)])
                database.keys.create(a_key(f"k-{number}-{turn}"))

        with ThreadPoolExecutor(20) as pool:
            list(pool.map(write, range(20)))
        assert {d.phase for d in database.deployments.list_active()} == {Phase.RUNNING}
        assert database.change_counter.value() == len(database.keys.list()) == 60


def _until_waiting(server: PostgresServer, count: int) -> None:
    """Wait until `count` sessions wait for a lock."""
    while server.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") != [(count,)]:
        threading.Event().wait(0.01)


class TestOutages:
    def test_a_lock_that_is_held_too_long(
        self, postgres_url: str, database: Database, other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connections, "LOCK_TIMEOUT_S", 0.05)
        database.flows.create(a_flow())
        impatient = open_postgres(postgres_url)
        with other.transaction():
            other.execute("SELECT * FROM flows FOR UPDATE")
            assert impatient.flows.get(OWNER, "f1") == a_flow()
            with pytest.raises(DatabaseUnavailable):
                impatient.flows.save(next_revision(a_flow()))
        impatient.flows.save(next_revision(a_flow()))
        impatient.close()

    def test_a_statement_that_takes_too_long(
        self, postgres_url: str, database: Database, other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connections, "STATEMENT_TIMEOUT_S", 0.5)
        impatient = open_postgres(postgres_url)
        with other.transaction():
            other.execute("LOCK TABLE flows")
            with pytest.raises(DatabaseUnavailable):
                impatient.flows.list(OWNER)
        assert impatient.flows.list(OWNER) == []
        impatient.close()

    @pytest.mark.long
    def test_a_server_that_hangs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(TimedConnection, "reply_timeout_s", 0.5)
        monkeypatch.setattr(connections, "LOCK_TIMEOUT_S", 2)
        server = PostgresServer()
        try:
            server.start()
            opened = open_postgres(server.url())
            assert opened.flows.list(OWNER) == []
            with server.hanging():
                for _ in range(2):  # the first connection is discarded
                    with pytest.raises(DatabaseUnavailable):
                        opened.flows.list(OWNER)
            assert opened.flows.list(OWNER) == []
            opened.close()
        finally:
            server.remove()

    def test_broken_connections_are_reopened(self, database: Database, other: psycopg.Connection) -> None:
        database.flows.create(a_flow())
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headwater'"
        assert other.execute(cut).fetchall()
        assert database.flows.get(OWNER, "f1") == a_flow()

    def test_a_connection_that_breaks_inside_a_transaction(
        self, shared_postgres: PostgresServer, database: Database, other: psycopg.Connection
    ) -> None:
        database.flows.create(a_flow())
        with ThreadPoolExecutor(1) as pool, other.transaction():
            other.execute("SELECT * FROM flows FOR UPDATE")
            save = pool.submit(database.flows.save, next_revision(a_flow()))
            _until_waiting(shared_postgres, 1)
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            assert isinstance(save.exception(), DatabaseUnavailable)
        database.flows.save(next_revision(a_flow()))

    def test_a_server_that_is_killed_and_comes_back_under_load(self, postgres_server: PostgresServer) -> None:
        database = open_postgres(postgres_server.url())
        stop, errors = threading.Event(), list[BaseException]()
        written = [0] * 8

        def write(number: int) -> None:
            while not stop.is_set():
                try:
                    database.flows.create(a_flow(f"f-{number}-{written[number]}"))
                except DatabaseUnavailable as error:
                    errors.append(error)
                    stop.wait(0.05)
                except IntegrityError:  # committed, but the server died before it confirmed it
                    written[number] += 1
                else:
                    written[number] += 1

        with closing(database), ThreadPoolExecutor(8) as pool:
            writers = [pool.submit(write, number) for number in range(8)]
            for _ in range(2):
                _until_all(written, more_by=3)
                before = len(errors)
                postgres_server.kill()
                while len(errors) < before + 8:
                    stop.wait(0.01)
                postgres_server.start()
                _until_all(written, more_by=3)
            stop.set()
            for writer in writers:
                writer.result()
            assert len(database.flows.list(OWNER)) >= sum(written)

    def test_a_table_that_is_missing(self, empty_postgres_url: str) -> None:
        database = open_postgres(empty_postgres_url)
        with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
            connection.execute("DROP TABLE api_keys")
        with pytest.raises(DatabaseUnavailable):
            database.keys.find("k1")
        database.close()

    def test_no_server(self) -> None:
        with pytest.raises(SetupError, match="can't be opened") as refused:
            open_postgres(f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{free_port()}/postgres")
        assert PASSWORD not in str(refused.value)

    def test_a_wrong_password(self, shared_postgres: PostgresServer) -> None:
        with pytest.raises(SetupError, match="password authentication failed"):
            open_postgres(shared_postgres.url().replace(PASSWORD, "wrong"))


def _until_all(counts: list[int], more_by: int) -> None:
    """Wait until every count has risen by `more_by`."""
    goals = [count + more_by for count in counts]
    while any(count < goal for count, goal in zip(counts, goals, strict=True)):
        threading.Event().wait(0.01)


class TestRules:
    def test_a_constraint_violation_is_not_an_outage(self, database: Database) -> None:
        database.flows.create(a_flow())
        with pytest.raises(IntegrityError):
            database.flows.create(a_flow())

    def test_the_table_itself_holds_one_active_deployment_per_flow(
        self, database: Database, other: psycopg.Connection
    ) -> None:
        database.flows.create(a_flow())
        database.deployments.request_deploy(OWNER, "f1", a_deployment())
        other.execute("CREATE TEMP TABLE copy AS SELECT * FROM deployments")
        other.execute("UPDATE copy SET id = 'd2'")
        with pytest.raises(psycopg.errors.UniqueViolation):
            other.execute("INSERT INTO deployments SELECT * FROM copy")

    def test_a_workers_last_log_lines_may_contain_nul(self, database: Database) -> None:
        database.flows.create(a_flow())
        deployment = database.deployments.request_deploy(OWNER, "f1", a_deployment())
        database.deployments.write_observations([seen(deployment, Phase.FAILED, reason="it said \0")])
        found = database.deployments.active("f1")
        assert found is not None
        assert found.reason == "it said \N{SYMBOL FOR NULL}"

    def test_key_digests_keep_their_bytes(self, database: Database) -> None:
        database.keys.create(a_key(digest=b"\0\xff" * 16, expires_at=at(1)))
        found = database.keys.find("k1")
        assert found is not None
        assert found.digest == b"\0\xff" * 16

    def test_times_do_not_depend_on_the_zone_of_the_server(self, postgres_url: str) -> None:
        database = open_postgres(f"{postgres_url}?options=-c%20timezone%3DAsia/Kathmandu")
        database.flows.create(a_flow())
        assert database.flows.get(OWNER, "f1") == a_flow()
        database.close()


class TestUrls:
    @pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
    def test_schemes(self, shared_postgres: PostgresServer, postgres_url: str, scheme: str) -> None:
        database = open_postgres(shared_postgres.url("shared", scheme))
        assert database.change_counter.value() == 0
        database.close()

    @pytest.mark.parametrize("scheme", ["postgres", "mysql", "postgresql+psycopg2"])
    def test_other_schemes_are_rejected_with_advice(self, shared_postgres: PostgresServer, scheme: str) -> None:
        with pytest.raises(SetupError, match=r"Write .*postgresql://") as refused:
            open_postgres(shared_postgres.url("shared", scheme))
        assert PASSWORD not in str(refused.value)


class TestSecrets:
    def test_no_password_is_in_the_tables(self, database: Database, other: psycopg.Connection) -> None:
        database.flows.create(a_flow())
        deployment = database.deployments.request_deploy(OWNER, "f1", a_deployment())
        stored = str(other.execute("SELECT * FROM deployments").fetchall())
        assert deployment.id in stored
        for password in (deployment.reader_password, deployment.worker_password):
            assert password not in stored
            assert password.encode().hex() not in stored

    def test_another_key_is_detected_at_the_start(self, postgres_url: str, database: Database) -> None:
        database.flows.create(a_flow())
        database.deployments.request_deploy(OWNER, "f1", a_deployment())
        with pytest.raises(SetupError, match="another secret key"):
            open_postgres(postgres_url, key=bytes(len(SECRET_KEY)))
