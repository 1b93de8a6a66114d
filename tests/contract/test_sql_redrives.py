"""The contract of RedriveStore."""

from datetime import timedelta

import pytest

from headwater.errors import Conflict, NotFound
from headwater.model.audit import AuditQuery
from headwater.model.deployment import Phase
from headwater.model.redrive import (
    MAX_OPEN_REDRIVES,
    LetterRange,
    OpenRedrive,
    Redrive,
    RedriveCounts,
    RedriveSelection,
)
from headwater.stores.sql import redrives as sql_redrives
from tests.support.deployments import SOLANA, deploy, observed, running, save
from tests.support.sql import OWNER, T0, SqlStores, a_deployment, a_flow

SELECTION = RedriveSelection(
    ranges={0: LetterRange(3, 9), 7: LetterRange(0, 1)}, ids=((0, 3), (7, 0)), error="x", transform_uid="t"
)


@pytest.fixture
def stores(stores: SqlStores) -> SqlStores:
    """Return the stores with one deployed configuration."""
    stores.flows.create(a_flow())
    deploy(stores)
    running(stores)
    return stores


def request(stores: SqlStores, name: str = "r1", requested: int = 2) -> Redrive:
    deployment = stores.redrives.require_redrivable(OWNER, "f1")
    return stores.redrives.request(deployment, name, SELECTION, requested, T0)


def test_a_redrive(stores: SqlStores) -> None:
    first = request(stores)
    assert first == Redrive("r1", "f1", "d1", 1, T0, SELECTION, 2)
    assert stores.redrives.get("f1", "r1") == first
    assert stores.redrives.get("f1", "r2") is None
    assert stores.redrives.get("f2", "r1") is None


def test_numbers(stores: SqlStores) -> None:
    redrives = [request(stores, name) for name in ("c", "b", "a")]
    assert [each.number for each in redrives] == [1, 2, 3]
    opened = [OpenRedrive(each.id, "f1", "d1", each.number, T0) for each in redrives]
    assert list(stores.redrives.list_open()) == opened
    stores.redrives.finish("b", "done", RedriveCounts(), T0)
    assert list(stores.redrives.list_open()) == [opened[0], opened[2]]
    assert request(stores, "d").number == 4


def test_open_selections(stores: SqlStores) -> None:
    for name in ("a", "b"):
        request(stores, name)
    stores.redrives.finish("a", "done", RedriveCounts(), T0)
    assert stores.redrives.open_selections("d1") == {"b": SELECTION}
    assert stores.redrives.open_selections("d2") == {}


def test_the_end(stores: SqlStores) -> None:
    request(stores)
    ended_at = T0 + timedelta(seconds=9)
    stores.redrives.finish("r1", "stopped", RedriveCounts(1, 2, 3), ended_at)
    stores.redrives.finish("r1", "done", RedriveCounts(), T0)
    ended = stores.redrives.get("f1", "r1")
    assert ended is not None
    assert (ended.state, ended.counts, ended.ended_at) == ("stopped", RedriveCounts(1, 2, 3), ended_at)


def test_the_selection_is_removed_at_the_end(stores: SqlStores) -> None:
    request(stores)
    stores.redrives.finish("r1", "done", RedriveCounts(), T0)
    ended = stores.redrives.get("f1", "r1")
    assert ended is not None
    assert ended.selection == RedriveSelection(ranges={})


def test_old_redrives_are_removed(stores: SqlStores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_redrives, "MAX_KEPT_REDRIVES", 2)
    stores.flows.create(a_flow("f2"))
    stores.deployments.request_deploy(OWNER, "f2", a_deployment("d2", config_id="f2"))
    of_another = stores.redrives.require_redrivable(OWNER, "f2")
    stores.redrives.request(of_another, "another", SELECTION, 0, T0)
    request(stores, "open")
    for number in range(4):
        request(stores, f"r{number}", requested=0)
    ids = ("open", "r0", "r1", "r2", "r3")
    assert [id_ for id_ in ids if stores.redrives.get("f1", id_) is not None] == ["open", "r2", "r3"]
    assert stores.redrives.get("f2", "another") is not None
    assert request(stores, "r4").number == 6


def test_no_letters(stores: SqlStores) -> None:
    assert request(stores, requested=0).state == "done"
    assert list(stores.redrives.list_open()) == []


def test_audit(stores: SqlStores) -> None:
    request(stores)
    (entry, *_) = stores.audit.read(AuditQuery(object="f1"))
    assert (entry.change.action, entry.change.owner) == ("dead_letters.redrive", OWNER)
    assert entry.change.after.endswith("redrive r1 letters 2")


def test_too_many(stores: SqlStores) -> None:
    for number in range(MAX_OPEN_REDRIVES):
        request(stores, f"r{number}")
    with pytest.raises(Conflict):
        request(stores, "more")
    stores.redrives.finish("r0", "done", RedriveCounts(), T0)
    request(stores, "more")


def test_too_many_of_an_owner(stores: SqlStores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_redrives, "MAX_OPEN_REDRIVES_OF_OWNER", 2)
    for number, owner in ((2, OWNER), (3, "bob")):
        stores.flows.create(a_flow(f"f{number}", owner))
        deployment = a_deployment(f"d{number}", config_id=f"f{number}", owner=owner)
        stores.deployments.request_deploy(owner, f"f{number}", deployment)
    request(stores, "r1")
    of_second = stores.redrives.require_redrivable(OWNER, "f2")
    stores.redrives.request(of_second, "r2", SELECTION, 2, T0)
    with pytest.raises(Conflict, match="of your pipelines"):
        request(stores, "r3")
    of_bob = stores.redrives.require_redrivable("bob", "f3")
    stores.redrives.request(of_bob, "r4", SELECTION, 2, T0)
    stores.redrives.finish("r2", "done", RedriveCounts(), T0)
    request(stores, "r5")


def test_configurations_without_a_deployment(stores: SqlStores) -> None:
    with pytest.raises(NotFound):
        stores.redrives.require_redrivable("bob", "f1")
    with pytest.raises(NotFound):
        stores.redrives.require_redrivable(OWNER, "f2")
    stores.deployments.request_teardown("f1")
    with pytest.raises(Conflict, match="state draft"):
        request(stores)
    observed_end(stores)
    with pytest.raises(Conflict, match="state draft"):
        stores.redrives.require_redrivable(OWNER, "f1")


def test_a_deployment_that_has_ended_meanwhile(stores: SqlStores) -> None:
    ended = stores.redrives.require_redrivable(OWNER, "f1")
    stores.deployments.request_teardown("f1")
    observed_end(stores)
    with pytest.raises(Conflict, match="draft"):
        stores.redrives.request(ended, "r1", SELECTION, 2, T0)
    deploy(stores, "d2")
    with pytest.raises(Conflict, match="deployed again"):
        stores.redrives.request(ended, "r1", SELECTION, 2, T0)
    assert list(stores.redrives.list_open()) == []


def test_a_failing_pipeline(stores: SqlStores) -> None:
    observed(stores, Phase.FAILED)
    with pytest.raises(Conflict, match="failing"):
        request(stores)
    save(stores, SOLANA)
    deploy(stores)
    request(stores)


def observed_end(stores: SqlStores) -> None:
    with pytest.raises(AssertionError):
        observed(stores, Phase.ABSENT)
    assert stores.deployments.active("f1") is None
