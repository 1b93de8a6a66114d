"""Backups of a database are restored into another database.

The other database may be of the other kind.
"""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from headwater.errors import SetupError
from headwater.model.audit import AuditQuery
from headwater.model.deployment import Phase
from headwater.model.idempotency import StoredResponse
from headwater.model.lease import Candidate
from headwater.stores.sql import backup
from headwater.stores.sql.connections import Connections, make_engine
from headwater.stores.sql.database import Database, open_database
from headwater.stores.sql.encryption import FieldCipher
from tests.support.deployments import deploy, observed, running
from tests.support.postgres_server import PostgresServer
from tests.support.sql import OWNER, SECRET_KEY, a_dataset, a_flow, a_key, a_line, at, next_revision, seen


@pytest.fixture(params=["sqlite", "postgresql"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'source.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'target.db'}"
        return
    server: PostgresServer = request.getfixturevalue("shared_postgres")
    server.execute("CREATE DATABASE target")
    yield server.url("target")
    server.execute("DROP DATABASE target WITH (FORCE)")


def opened(url: str) -> Database:
    return open_database(url, FieldCipher(SECRET_KEY))


def fill(stores: Database) -> None:
    """Write rows to every table."""
    stores.flows.create(a_flow())
    stores.flows.save(next_revision(a_flow(), name="Straße 🚿", tags=()))
    running_one = deploy(stores)
    running(stores)
    stores.deployments.write_logs({running_one.id: [a_line(1), a_line(2)]})
    stores.flows.create(a_flow("f2"))
    gone = stores.deployments.request_deploy(OWNER, "f2", replace(running_one, id="d2"))
    stores.deployments.write_observations([seen(gone, Phase.ABSENT)])
    stores.keys.create(a_key(expires_at=at(5)))
    stores.datasets.create(a_dataset())
    stores.idempotency.claim("c", "h", at(0), at(1))
    stores.idempotency.finish("c", "h", StoredResponse("sha", 201, {"a": "b"}, b"\x00\xff"), at(9))
    stores.deployments.record_as_ended(["d9"], at(3))
    stores.leases.acquire("controller", Candidate("a", "lock", "It fails."), 3600)


def content(stores: Database) -> list[object]:
    return [
        stores.flows.list(OWNER),
        stores.deployments.list_active(),
        stores.deployments.ended_among(["d1", "d2", "d9"]),
        stores.deployments.read_logs("d1", 9),
        stores.keys.list(),
        stores.datasets.incomplete(),
        stores.audit.read(AuditQuery()),
        stores.idempotency.claim("c", "x", at(2), at(3)),
        stores.change_counter.value(),
    ]


def copy(source: str, target: str) -> None:
    with backup.snapshot(source) as snapshot:
        assert backup.load(target, snapshot.revision, snapshot.rows)


def test_everything_arrives(source: str, target: str) -> None:
    before = opened(source)
    fill(before)
    copy(source, target)
    after = opened(target)
    assert content(after) == content(before)
    assert after.leases.leader("controller") is None
    assert after.leases.acquire("controller", Candidate("b"), 10) == 3
    after.flows.create(a_flow("f3"))  # the audit log's next id is free
    before.close()
    after.close()


def test_damaged_json_is_kept(tmp_path: Path, target: str) -> None:
    source = f"sqlite:///{tmp_path / 'source.db'}"
    before = opened(source)
    before.flows.create(a_flow())
    before.close()
    with sqlite3.connect(tmp_path / "source.db") as connection:
        connection.execute("UPDATE flows SET tags = '[1,'")
    connection.close()
    copy(source, target)
    after = opened(target)
    [flow] = after.flows.list(OWNER)
    assert "tags" in flow.unreadable_reason
    after.close()


def test_a_backup_of_the_first_schema_is_restored(target: str) -> None:
    backup.load(target, "0001", [])
    after = opened(target)
    after.flows.create(a_flow())
    after.close()


@pytest.mark.parametrize("revision", ["0001", "0004", "0005"])
def test_a_leader_is_found_in_a_schema_of_any_revision(target: str, revision: str) -> None:
    backup.load(target, revision, [])
    backup.require_unused(target, "controller")
    connections = Connections(make_engine(target))
    with connections.writing() as connection:
        expires_at = "datetime('now', '+1 hour')" if target.startswith("sqlite") else "now() + interval '1 hour'"
        values = f"VALUES ('controller', 'a', 1, {expires_at})"
        connection.execute(text(f"INSERT INTO leases (name, holder, fencing, expires_at) {values}"))
    connections.close()
    with pytest.raises(SetupError, match="holds the lease"):
        backup.require_unused(target, "controller")
    backup.require_unused(target, "another")


def test_existing_rows_are_replaced_and_leaders_are_fenced(source: str, target: str) -> None:
    before, other = opened(source), opened(target)
    fill(before)
    other.flows.create(a_flow("f7"))
    for holder in "abcdefg":
        other.leases.acquire("controller", Candidate(holder), 0)
    other.close()
    copy(source, target)
    after = opened(target)
    assert [flow.id for flow in after.flows.list(OWNER)] == ["f2", "f1"]
    assert (after.leases.acquire("controller", Candidate("z"), 10) or 0) > 7
    before.close()
    after.close()


def test_a_backup_is_a_consistent_snapshot_during_writes(source: str, target: str) -> None:
    before = opened(source)
    fill(before)
    with backup.snapshot(source) as snapshot:
        first = next(snapshot.rows)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(before.flows.create, a_flow("f5")).result()
        backup.load(target, snapshot.revision, [first, *snapshot.rows])
    after = opened(target)
    assert [flow.id for flow in after.flows.list(OWNER)] == ["f2", "f1"]
    before.close()
    after.close()


def test_a_database_in_use_is_not_replaced(shared_postgres: PostgresServer, postgres_url: str) -> None:
    user = opened(postgres_url)
    fill(user)
    assert observed(user, Phase.RUNNING)
    with backup.snapshot(postgres_url) as snapshot:
        rows = list(snapshot.rows)
    with pytest.raises(SetupError, match="uses this database"):
        backup.load(postgres_url, snapshot.revision, rows)
    with pytest.raises(SetupError, match="uses this database"):
        backup.require_unused(postgres_url, "another")
    assert user.flows.list(OWNER)
    user.close()


def test_rows_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'target.db'}"
    with pytest.raises(SetupError, match="newer Headwater"):
        backup.load(url, "9999", [])
    assert backup.is_empty(url)


def test_a_database_without_headwater_has_no_snapshot(tmp_path: Path) -> None:
    with (
        pytest.raises(SetupError, match="contains no Headwater schema"),
        backup.snapshot(f"sqlite:///{tmp_path / 'a.db'}"),
    ):
        pass
