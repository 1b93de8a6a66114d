"""A damaged row of a database does not affect other rows.

It can be repaired or removed.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from headwater.errors import SetupError, StoredDataUnreadable
from headwater.model.deployment import Condition, DesiredPhase, ObservedWorker, ObservedWorkerStatus, Phase
from headwater.model.positions import GroupPositions, StoredPositions
from headwater.stores.sql.connections import Connections, make_engine
from headwater.stores.sql.database import Database, open_database
from headwater.stores.sql.encryption import FieldCipher
from tests.support.sql import (
    FRESH_DATABASES,
    OWNER,
    SECRET_KEY,
    T0,
    a_config,
    a_deployment,
    a_flow,
    a_key,
    a_line,
    at,
    next_revision,
    seen,
)

Damage = Callable[..., None]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        path = tmp_path / "headwater.db"
        FRESH_DATABASES.copy_to(path)
        return f"sqlite:///{path}"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url, FieldCipher(SECRET_KEY))
    yield opened
    opened.close()


@pytest.fixture
def damage(url: str, database: Database) -> Iterator[Damage]:  # the tables must exist
    """Runs a statement on the database."""
    engine = make_engine(url)
    connections = Connections(engine)

    def run(statement: str, **values: object) -> None:
        with connections.writing() as connection:
            assert connection.execute(text(statement), values).rowcount > 0

    yield run
    engine.dispose()


@pytest.fixture
def two(database: Database) -> Database:
    """Deploy two configurations, d1 of f1 and d2 of f2, whose workers are ready."""
    for number in (1, 2):
        database.flows.create(a_flow(f"f{number}", created_s=number))
        deployment = database.deployments.request_deploy(
            OWNER, f"f{number}", a_deployment(f"d{number}", config_id=f"f{number}", created_at=at(number))
        )
        database.deployments.write_observations([seen(deployment)])
    return database


def reseal(damage: Damage, deployment_id: str) -> None:
    """Encrypt the passwords of a deployment with another key."""
    other = FieldCipher(bytes(32))
    for name in ("reader_password", "worker_password"):
        encrypted = other.encrypt("secret", deployment_id, name)
        damage(f"UPDATE deployments SET {name} = :encrypted WHERE id = :id", encrypted=encrypted, id=deployment_id)


class TestSecrets:
    @pytest.fixture(autouse=True)
    def resealed(self, two: Database, damage: Damage) -> None:  # there must be a secret to encrypt
        reseal(damage, "d1")

    def test_the_others_are_not_affected(self, two: Database) -> None:
        assert [(d.id, bool(d.unreadable_reason)) for d in two.deployments.list_active()] == [
            ("d2", False),
            ("d1", True),
        ]
        assert [(f.id, bool(f.unreadable_reason)) for f in two.flows.list(OWNER)] == [("f2", False), ("f1", True)]
        assert two.deployments.request_credential_rotation(OWNER, "f2", "new").reader_password == "new"

    def test_no_deployment_starts_for_it(self, two: Database) -> None:
        with pytest.raises(StoredDataUnreadable, match="another secret key"):
            two.deployments.request_redeploy(OWNER, "f1")
        with pytest.raises(StoredDataUnreadable, match="another secret key"):
            two.deployments.request_credential_rotation(OWNER, "f1", "new")

    def test_a_save_generates_new_passwords(self, two: Database) -> None:
        two.flows.save(next_revision(two.flows.get(OWNER, "f1"), decryption_error=""))
        renewed = two.deployments.active("f1")
        assert renewed is not None
        assert (renewed.unreadable_reason, renewed.has_readable_passwords) == ("", True)
        assert renewed.reader_password != renewed.worker_password
        assert (renewed.credentials_version, renewed.generation, renewed.desired_revision) == (2, 2, 1)
        assert renewed.condition is Condition.ROLLING_OUT
        assert two.deployments.request_redeploy(OWNER, "f1").desired_revision == 2

    def test_a_save_repairs_a_paused_deployment_which_stays_paused(self, two: Database, damage: Damage) -> None:
        positions = StoredPositions(groups={1: GroupPositions(topic="stream.base.log", topic_id="", offsets={0: 5})})
        pausing = two.deployments.request_pause(OWNER, "f2")
        two.deployments.write_observations([seen(pausing, Phase.PAUSED, positions=positions)])
        reseal(damage, "d2")
        with pytest.raises(StoredDataUnreadable, match="another secret key"):
            two.deployments.request_resume(OWNER, "f2")
        two.flows.save(next_revision(two.flows.get(OWNER, "f2"), decryption_error=""))
        renewed = two.deployments.active("f2")
        assert renewed is not None
        assert (renewed.unreadable_reason, renewed.has_readable_passwords) == ("", True)
        assert (renewed.desired, renewed.phase, renewed.is_reconciled) == (DesiredPhase.PAUSED, Phase.PAUSED, True)
        assert (renewed.credentials_version, renewed.condition) == (2, pausing.condition)
        resumed = two.deployments.request_resume(OWNER, "f2")
        assert (resumed.desired_revision, resumed.positions) == (2, positions)

    def test_it_is_torn_down_and_deleted(self, two: Database) -> None:
        two.flows.delete(OWNER, "f1")
        [_, gone] = two.deployments.list_active()
        assert (gone.id, gone.desired) == ("d1", DesiredPhase.ABSENT)
        two.deployments.write_observations([seen(gone, Phase.ABSENT)])
        two.flows.purge("f1")
        assert [d.id for d in two.deployments.list_active()] == ["d2"]
        assert list(two.flows.deleted()) == []

    def test_the_database_opens_if_one_secret_can_be_decrypted(self, url: str, two: Database, damage: Damage) -> None:
        reseal(damage, "d2")
        open_database(url, FieldCipher(SECRET_KEY)).close()
        assert len(two.unreadable()) == 4
        with pytest.raises(SetupError, match="another secret key"):
            open_database(url, FieldCipher(bytes(range(1, 33))))

    def test_doctor_names_both_rows(self, two: Database) -> None:
        assert [(row.kind, row.id, row.owner) for row in two.unreadable()] == [
            ("configuration", "f1", OWNER),
            ("deployment", "d1", OWNER),
        ]


def test_the_key_can_be_changed_if_it_has_encrypted_nothing(url: str, database: Database) -> None:
    database.flows.create(a_flow())
    open_database(url, FieldCipher(bytes(32))).close()


class TestPipelines:
    def test_of_a_running_deployment(self, two: Database, damage: Damage) -> None:
        limit_lowered = a_config().model_dump_json().replace('"parallelism":1', '"parallelism":1000')
        damage("UPDATE flow_revisions SET config = :config WHERE flow_id = 'f1'", config=limit_lowered)
        assert [(d.id, bool(d.unreadable_reason)) for d in two.deployments.list_active()] == [
            ("d2", False),
            ("d1", True),
        ]
        assert [marker.id for marker in two.deployments.active_versions()] == ["d1", "d2"]
        [configuration, deployment] = two.unreadable()
        assert (configuration.kind, deployment.kind) == ("configuration", "deployment")
        assert "/pipeline_config/parallelism: input should be less than or equal to 64" in configuration.reason

    def test_a_save_repairs_it_and_a_deploy_rolls_it_out(self, two: Database, damage: Damage) -> None:
        damage("UPDATE flow_revisions SET config = 'damaged' WHERE flow_id = 'f1'")
        two.flows.save(next_revision(two.flows.get(OWNER, "f1"), pipeline_config=a_config()))
        rolled_out = two.deployments.request_redeploy(OWNER, "f1")
        assert (rolled_out.unreadable_reason, rolled_out.desired_revision) == ("", 2)
        assert [revision.number for revision in rolled_out.previous_revisions] == [1]
        [old] = two.unreadable()
        assert (old.kind, old.id) == ("revision", "f1")
        assert re.fullmatch(
            r"Revision 1 can't be read: /pipeline_config: [^.]+\. No rollback to it is possible; .*", old.reason
        )

    def test_a_deployed_one_is_torn_down(self, two: Database, damage: Damage) -> None:
        damage("UPDATE flow_revisions SET config = 'damaged' WHERE flow_id = 'f1'")
        asked = two.deployments.request_teardown("f1")
        assert asked is not None
        two.deployments.write_observations([seen(asked, Phase.ABSENT)])
        assert two.deployments.active("f1") is None


class TestOtherRows:
    def test_states_of_another_version(self, two: Database, damage: Damage) -> None:
        damage("UPDATE deployments SET condition = 'Sleeping' WHERE id = 'd1'")
        [_, unknown] = two.deployments.list_active()
        assert "condition 'Sleeping' of the deployment was written by another version" in unknown.unreadable_reason
        assert set(two.deployments.progress(["f1", "f2"])) == {"f1", "f2"}
        damage("UPDATE deployments SET phase = 'dreaming' WHERE id = 'd1'")
        assert two.deployments.progress(["f1"])["f1"].phase is Phase.PENDING
        assert len(two.deployments.active_versions()) == 2

    def test_positions_are_not_replaced(self, two: Database, damage: Damage) -> None:
        pausing = two.deployments.request_pause(OWNER, "f1")
        two.deployments.write_observations([seen(pausing, Phase.PAUSED)])
        damage("UPDATE deployments SET positions = 'damaged' WHERE id = 'd1'")
        two.flows.save(next_revision(two.flows.get(OWNER, "f1")))
        for request in (two.deployments.request_resume, two.deployments.request_pause):
            with pytest.raises(StoredDataUnreadable, match="positions"):
                request(OWNER, "f1")

    def test_worker_states(self, two: Database, damage: Damage) -> None:
        worker = ObservedWorker(name="w", status=ObservedWorkerStatus.RUNNING, is_ready=True, start_time=T0)
        two.deployments.report_workers({"d1": [worker], "d2": [worker]})
        damage("UPDATE worker_states SET workers = 'damaged' WHERE deployment_id = 'd1'")
        assert [d.workers for d in two.deployments.list_active()] == [(worker,), ()]
        [row] = two.unreadable()
        assert (row.kind, row.id) == ("worker states", "d1")

    def test_log_lines(self, two: Database, damage: Damage) -> None:
        two.deployments.write_logs({"d1": [a_line(1), a_line(2), a_line(3)]})
        damage("UPDATE worker_logs SET line = '{}' WHERE number = 2")
        assert list(two.deployments.read_logs("d1", 10)) == [a_line(3), a_line(1)]
        [row] = two.unreadable()
        assert (row.kind, row.id) == ("log lines", "d1")

    def test_scopes_of_a_key(self, database: Database, damage: Damage) -> None:
        for key_id in ("k1", "k2"):
            database.keys.create(a_key(key_id))
        damage("UPDATE api_keys SET scopes = '5' WHERE id = 'k1'")
        assert {key.id: key.scopes for key in database.keys.list()} == {"k1": (), "k2": a_key().scopes}
        assert [row.kind for row in database.unreadable()] == ["API key"]

    def test_tags(self, two: Database, damage: Damage) -> None:
        damage("UPDATE flows SET tags = '{\"a\": 1}' WHERE id = 'f1'")
        assert [(f.tags, bool(f.unreadable_reason)) for f in two.flows.list(OWNER)] == [(("a", "b"), False), ((), True)]


def test_invalid_json_affects_its_row_only(two: Database, damage: Damage, url: str) -> None:
    """PostgreSQL rejects such values."""
    if url.startswith("sqlite"):
        two.keys.create(a_key())
        for table, column in (("flows", "tags"), ("api_keys", "scopes")):
            damage(f"UPDATE {table} SET {column} = '[\"a' WHERE id IN ('f1', 'k1')")
        assert [bool(f.unreadable_reason) for f in two.flows.list(OWNER)] == [False, True]
        assert [key.scopes for key in two.keys.list()] == [()]
