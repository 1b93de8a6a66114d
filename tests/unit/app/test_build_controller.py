"""The retention times of the controller."""

from datetime import timedelta
from pathlib import Path

import pytest

from headwater.app import build_controller
from headwater.model.audit import AuditQuery, Change
from headwater.services.ids import utc_now
from headwater.settings import Settings
from headwater.stores.sql.database import open_database
from headwater.stores.sql.encryption import FieldCipher
from tests.support.memory.sets import MemorySetStore


@pytest.mark.parametrize(("days", "kept"), [(364, True), (366, False)])
def test_the_audit_log_is_kept_for_a_year_by_default(
    days: int, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'headwater.db'}", FieldCipher(bytes(32)))
    database.audit.begin(Change("flow.create", "owner", "f1"))
    monkeypatch.setattr(build_controller, "utc_now", lambda: utc_now() + timedelta(days=days))
    for remove in build_controller._expiry_steps(database, MemorySetStore(), Settings()):
        remove()
    assert bool(database.audit.read(AuditQuery())) == kept
    database.close()


def test_ended_deployments_are_kept_for_a_quarter_by_default() -> None:
    assert Settings().ended_deployment_days == 90
