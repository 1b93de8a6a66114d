"""The contract of AuditLog, and the entries that other stores write."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from headwater.errors import RequestError
from headwater.model.audit import Actor, AuditEntry, AuditQuery, Change, with_actor
from tests.support.sql import OWNER, SqlStores, a_dataset, a_deployment, a_flow, a_key, at, next_revision, seen

WHO = Actor("k1", OWNER, "192.0.2.7", "r1")
SHA = re.compile("revision [0-9]+ sha256 [0-9a-f]{64}")


def read(stores: SqlStores, **query: object) -> list[AuditEntry]:
    return list(stores.audit.read(AuditQuery(**query)))  # type: ignore[arg-type]  # the fields of a query


def actions(stores: SqlStores) -> list[str]:
    return [entry.change.action for entry in reversed(read(stores))]


class TestRecorded:
    def test_who_and_when(self, stores: SqlStores) -> None:
        began = datetime.now(UTC)
        with with_actor(WHO):
            stores.flows.create(a_flow())
        (entry,) = read(stores)
        assert (entry.key_id, entry.ip, entry.request_id, entry.state) == ("k1", "192.0.2.7", "r1", "done")
        assert began <= entry.at <= datetime.now(UTC)

    def test_a_configuration(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        stores.flows.save(next_revision(a_flow(), name="other"))
        stores.flows.delete(OWNER, "f1")
        created, saved, deleted = (entry.change for entry in reversed(read(stores)))
        assert [c.action for c in (created, saved, deleted)] == ["flow.create", "flow.save", "flow.delete"]
        assert {(c.owner, c.object) for c in (created, saved, deleted)} == {(OWNER, "f1")}
        assert created.before == deleted.after == ""
        assert created.after == saved.before != saved.after == deleted.before
        assert SHA.fullmatch(created.after)
        assert saved.after.startswith("revision 2 ")

    def test_the_hash_depends_only_on_the_content(self, stores: SqlStores) -> None:
        for number, owner in enumerate(("ann", "bob")):
            stores.flows.create(a_flow(f"f{number}", owner, created_s=number))
        stores.flows.create(a_flow("f3", tags=("b", "a")))
        same, also, other = (entry.change.after for entry in reversed(read(stores)))
        assert same == also != other

    def test_a_deployment(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        running = stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        stores.deployments.write_observations([seen(running)])
        stores.deployments.request_deploy(OWNER, "f1", a_deployment("d2"))
        stores.flows.save(next_revision(a_flow()))
        stores.deployments.request_deploy(OWNER, "f1", a_deployment("d3"))
        stores.deployments.request_teardown("f1")
        stores.deployments.request_teardown("f1")
        changes = [entry.change for entry in reversed(read(stores)) if entry.change.action != "flow.save"]
        first, second = "deployment d1 revision 1", "deployment d1 revision 2"
        assert changes[1:] == [
            Change("flow.deploy", OWNER, "f1", "", first),
            Change("flow.deploy", OWNER, "f1", first, second),
            Change("flow.teardown", OWNER, "f1", second),
        ]

    def test_a_key(self, stores: SqlStores) -> None:
        stores.keys.create(a_key(scopes=("flow:read", "admin")))
        stores.keys.revoke("k1", at(1))
        stores.keys.revoke("k1", at(2))
        stores.keys.record_use({"k1": at(3)})
        assert [entry.change for entry in reversed(read(stores))] == [
            Change("key.create", OWNER, "k1", after="scopes flow:read admin"),
            Change("key.revoke", OWNER, "k1"),
        ]

    def test_a_dataset(self, stores: SqlStores) -> None:
        stores.datasets.create(a_dataset())
        stores.datasets.set_state("s1", "live")
        stores.datasets.set_state("s1", "deleting")
        stores.datasets.set_state("s1", "deleting")
        stores.datasets.remove("s1")
        assert [entry.change for entry in reversed(read(stores))] == [
            Change("dataset.create", OWNER, "s1"),
            Change("dataset.delete", OWNER, "s1"),
        ]

    def test_a_rejected_write_is_not_recorded(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        stores.keys.create(a_key())
        stores.datasets.create(a_dataset())
        before = actions(stores)
        for refused in (
            lambda: stores.flows.save(a_flow()),
            lambda: stores.flows.delete("bob", "f1"),
            lambda: stores.deployments.request_deploy("bob", "f1", a_deployment()),
            lambda: stores.keys.create(a_key()),
            lambda: stores.keys.revoke("unknown", at(1)),
            lambda: stores.datasets.create(a_dataset("s2")),
        ):
            with pytest.raises(RequestError):
                refused()
        stores.deployments.request_teardown("f1")
        assert actions(stores) == before

    def test_concurrent_writes(self, stores: SqlStores) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: stores.flows.create(a_flow(f"f{number}")), range(32)))
        entries = read(stores)
        assert {entry.change.object for entry in entries} == {f"f{number}" for number in range(32)}
        assert [entry.id for entry in entries] == sorted({entry.id for entry in entries}, reverse=True)


class TestPending:
    CHANGE = Change("filter_values.add", OWNER, "f1.t1")

    @pytest.mark.parametrize("state", ["done", "failed"])
    def test_a_pending_entry_is_closed_once(self, stores: SqlStores, state: str) -> None:
        with with_actor(WHO):
            entry_id = stores.audit.begin(self.CHANGE)
        assert [entry.state for entry in read(stores)] == ["pending"]
        stores.audit.close(entry_id, state, "version 1")  # type: ignore[arg-type]  # one of the two
        stores.audit.close(entry_id, "failed", "version 2")
        stores.audit.close(entry_id + 1000, "done")
        (entry,) = read(stores)
        assert (entry.id, entry.state, entry.key_id, entry.change.after) == (entry_id, state, "k1", "version 1")

    def test_completed_entries_never_change(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        (entry,) = read(stores)
        stores.audit.close(entry.id, "failed", "tampered")
        assert read(stores) == [entry]


class TestRead:
    def test_newest_first_and_limited(self, stores: SqlStores) -> None:
        for number in range(5):
            stores.flows.create(a_flow(f"f{number}"))
        assert [entry.change.object for entry in read(stores, limit=2)] == ["f4", "f3"]

    def test_by_owner(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow("f1"))
        stores.flows.create(a_flow("f2", "bob"))
        assert [entry.change.object for entry in read(stores, owner="bob")] == ["f2"]
        assert read(stores, owner="") == []

    def test_by_object_and_its_parts(self, stores: SqlStores) -> None:
        for name in ("f1", "f1.t1", "f10", "f1%", "f"):
            stores.audit.begin(Change("filter_values.add", OWNER, name))
        assert [entry.change.object for entry in read(stores, object="f1")] == ["f1.t1", "f1"]
        assert [entry.change.object for entry in read(stores, object="f1%")] == ["f1%"]

    def test_by_time(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow())
        (entry,) = read(stores)
        assert read(stores, since=entry.at, until=entry.at + timedelta(microseconds=1)) == [entry]
        assert read(stores, since=entry.at + timedelta(microseconds=1)) == []
        assert read(stores, until=entry.at) == []


def test_purge(stores: SqlStores) -> None:
    for number in range(3):
        stores.flows.create(a_flow(f"f{number}"))
    newest = read(stores)[0]
    assert stores.audit.purge(newest.at) == 2
    assert stores.audit.purge(newest.at) == 0
    assert read(stores) == [newest]
