"""The rotation of the secret key on each kind of database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, update

from headwater.errors import SetupError
from headwater.model.deployment import Phase
from headwater.stores.sql import credential_rows
from headwater.stores.sql.connections import Connections, make_engine
from headwater.stores.sql.credential_rows import RotationResult
from headwater.stores.sql.database import Database, open_database
from headwater.stores.sql.encryption import KEY_ID_BYTES, FieldCipher
from headwater.stores.sql.tables import deployments
from tests.support.sql import FRESH_DATABASES, OWNER, SECRET_KEY, a_deployment, a_flow, at, seen

NEW_KEY = bytes(range(32, 64))
COUNT = 5


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        path = tmp_path / "headwater.db"
        FRESH_DATABASES.copy_to(path)
        return f"sqlite:///{path}"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture(autouse=True)
def deployed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deploy configurations f0 to f4 with the old key; that of f4 has ended.

    Transactions have two deployments.
    """
    monkeypatch.setattr(credential_rows, "_SELECT_BATCH", credential_rows._SELECT_BATCH.limit(2))
    database = open_database(url, FieldCipher(SECRET_KEY))
    for number in range(COUNT):
        database.flows.create(a_flow(f"f{number}", created_s=number))
        new = a_deployment(f"d{number}", config_id=f"f{number}", created_at=at(number))
        made = database.deployments.request_deploy(OWNER, f"f{number}", new)
    database.deployments.write_observations([seen(made, Phase.ABSENT)])
    database.close()


@pytest.fixture
def connections(url: str) -> Iterator[Connections]:
    opened = Connections(make_engine(url))
    yield opened
    opened.close()


@pytest.fixture
def both(url: str) -> Iterator[Database]:
    """Return the database with both keys, as all processes have it during a rotation."""
    opened = open_database(url, FieldCipher(NEW_KEY, SECRET_KEY))
    yield opened
    opened.close()


def readable(url: str, *keys: bytes) -> list[str]:
    """Return the ids of the active deployments whose passwords these keys decrypt."""
    database = open_database(url, FieldCipher(*keys))
    found = [one for one in database.deployments.list_active() if not one.unreadable_reason]
    database.close()
    assert all(one.reader_password == a_deployment(one.id).reader_password for one in found)
    return sorted(one.id for one in found)


def test_all_passwords_are_encrypted_with_the_new_key(url: str, both: Database) -> None:
    assert readable(url, NEW_KEY, SECRET_KEY) == ["d0", "d1", "d2", "d3"]
    assert both.rotate_secret_key() == RotationResult(4, 0)
    assert readable(url, NEW_KEY) == ["d0", "d1", "d2", "d3"]
    with pytest.raises(SetupError, match="HEADWATER_OLD_SECRET_KEY"):
        open_database(url, FieldCipher(SECRET_KEY))
    assert both.rotate_secret_key() == RotationResult(0, 0)


def test_new_deployments_use_the_new_key(url: str, both: Database) -> None:
    both.flows.create(a_flow("f9"))
    both.deployments.request_deploy(OWNER, "f9", a_deployment("d9", config_id="f9"))
    assert both.rotate_secret_key() == RotationResult(4, 0)
    assert "d9" in readable(url, NEW_KEY)


def test_values_without_a_number_are_read_and_get_one(url: str, both: Database, connections: Connections) -> None:
    with connections.writing() as connection:
        rows = connection.execute(select(deployments).where(deployments.c.reader_password.is_not(None))).all()
        for row in rows:
            values = {name: getattr(row, name)[KEY_ID_BYTES:] for name in credential_rows.FIELDS}
            connection.execute(update(deployments).where(deployments.c.id == row.id).values(**values))
    assert readable(url, SECRET_KEY) == ["d0", "d1", "d2", "d3"]
    assert both.rotate_secret_key() == RotationResult(4, 0)
    assert readable(url, NEW_KEY) == ["d0", "d1", "d2", "d3"]


def test_a_rotation_that_was_killed_continues(url: str, both: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third deployment is in the second transaction, which is rolled back."""
    encrypt, left = FieldCipher.encrypt, [True] * 7

    def killed(self: FieldCipher, text: str, deployment_id: str, field: str) -> bytes:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return encrypt(self, text, deployment_id, field)

    with monkeypatch.context() as patch:
        patch.setattr(FieldCipher, "encrypt", killed)
        with pytest.raises(KeyboardInterrupt):
            both.rotate_secret_key()
    assert readable(url, SECRET_KEY) == ["d2", "d3"]
    assert readable(url, NEW_KEY, SECRET_KEY) == ["d0", "d1", "d2", "d3"]
    assert both.rotate_secret_key() == RotationResult(2, 0)
    assert readable(url, NEW_KEY) == ["d0", "d1", "d2", "d3"]


def test_what_neither_key_decrypts_is_left_and_counted(url: str, both: Database, connections: Connections) -> None:
    lost = FieldCipher(bytes(32))
    with connections.writing() as connection:
        values = {name: lost.encrypt("x", "d1", name) for name in credential_rows.FIELDS}
        connection.execute(update(deployments).where(deployments.c.id == "d1").values(**values))
    assert both.rotate_secret_key() == RotationResult(3, 1)
    assert readable(url, NEW_KEY) == ["d0", "d2", "d3"]
    with connections.reading() as connection:
        [stored] = connection.execute(select(deployments.c.reader_password).where(deployments.c.id == "d1")).scalars()
    assert lost.decrypt(stored, "d1", "reader_password") == "x"
