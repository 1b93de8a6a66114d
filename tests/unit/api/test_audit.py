"""Entries of requests in the audit log."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

import pytest

from headwater.errors import DatabaseUnavailable, RedisUnavailable, UploadAborted
from headwater.model.audit import AuditEntry, AuditQuery
from headwater.model.value_sets import SetId
from headwater.stores.protocols.sets import SetWriteResult
from tests.unit.api.installation import FLOW, TOKEN, Installation, User


def entries(headwater: Installation, action: str = "") -> list[AuditEntry]:
    """Return the entries whose action begins with a prefix, oldest first."""
    found = headwater.database.audit.read(AuditQuery(limit=1000))
    return [entry for entry in reversed(found) if entry.change.action.startswith(action)]


def values_path(flow: dict[str, str], headwater: Installation) -> str:
    stored = headwater.database.flows.get("alice", flow["id"])
    return f"{FLOW}/{flow['id']}/transforms/{stored.pipeline_config.transforms[0].uid}/filter-values"


class TestWho:
    def test_key_address_and_request_of_every_change(self, headwater: Installation, alice: User) -> None:
        response = alice.post(f"{FLOW}/datasets", {"name": "wallets"})
        (entry,) = entries(headwater, "dataset.")
        assert alice.key.startswith(f"hw_live_{entry.key_id}_")
        assert (entry.ip, entry.request_id) == ("127.0.0.1", response.headers["x-request-id"])
        assert (entry.change.owner, entry.change.object) == ("alice", response.json()["id"])

    def test_concurrent_requests_are_distinguished(self, headwater: Installation, alice: User, bob: User) -> None:
        sent = [
            user.start("POST", f"{FLOW}/datasets", json={"name": f"n{number}"})
            for number in range(20)
            for user in (alice, bob)
        ]
        ids = {r.result().headers["x-request-id"]: r.result().json()["id"] for r in sent}
        audit_entries = entries(headwater, "dataset.")
        assert {entry.request_id: entry.change.object for entry in audit_entries} == ids
        for user, owner in ((alice, "alice"), (bob, "bob")):
            assert {e.key_id for e in audit_entries if e.change.owner == owner} == {user.key[8:20]}


class TestSets:
    def test_filter_values(self, headwater: Installation, alice: User) -> None:
        flow = alice.create()
        path = values_path(flow, headwater)
        for method, values in (("POST", [TOKEN, "0xaa"]), ("DELETE", [TOKEN]), ("PUT", ["0xbb"])):
            assert alice.request(method, path, json={"values": values}).status_code == 200
        found = entries(headwater, "filter_values.")
        assert [entry.change.action for entry in found] == [
            "filter_values.add",
            "filter_values.remove",
            "filter_values.replace",
        ]
        assert {entry.state for entry in found} == {"done"}
        assert {entry.change.owner for entry in found} == {"alice"}
        assert all(entry.change.object.startswith(f"{flow['id']}.") for entry in found)
        assert [entry.change.after.partition("changed ")[2] for entry in found] == [
            "2 count 2",
            "1 count 1",
            "1 count 1",
        ]

    def test_dataset_entries(self, headwater: Installation, alice: User) -> None:
        dataset = alice.post(f"{FLOW}/datasets", {"name": "wallets"}).json()["id"]
        alice.post(f"{FLOW}/datasets/{dataset}/entries", {"values": ["a"]})
        alice.post(f"{FLOW}/datasets/entries", {"name": "wallets", "values": ["b"]})
        alice.delete(f"{FLOW}/datasets/{dataset}/entries", {"values": ["a"]})
        assert [(e.change.action, e.change.object, e.state) for e in entries(headwater, "dataset_entries.")] == [
            ("dataset_entries.add", dataset, "done"),
            ("dataset_entries.add", dataset, "done"),
            ("dataset_entries.remove", dataset, "done"),
        ]

    def test_a_write_that_failed(self, headwater: Installation, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
        path = values_path(alice.create(), headwater)

        def fail(*_: object) -> SetWriteResult:
            raise DatabaseUnavailable("The database is away.")

        monkeypatch.setattr(headwater.sets, "add", fail)
        assert alice.post(path, {"values": ["a"]}).status_code == 503
        assert [entry.state for entry in entries(headwater, "filter_values.")] == ["failed"]

    def test_a_write_without_a_reply(
        self, headwater: Installation, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = values_path(alice.create(), headwater)
        add = headwater.sets.add

        def add_without_a_reply(set_id: SetId, values: Sequence[str]) -> SetWriteResult:
            add(set_id, values)
            raise RedisUnavailable("Valkey is away.")

        monkeypatch.setattr(headwater.sets, "add", add_without_a_reply)
        assert alice.post(path, {"values": ["a"]}).status_code == 503
        assert [entry.state for entry in entries(headwater, "filter_values.")] == ["pending"]

    def test_an_aborted_upload_has_changed_nothing(
        self, headwater: Installation, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = values_path(alice.create(), headwater)

        def abort(set_id: SetId, values: Iterable[str]) -> SetWriteResult:
            raise UploadAborted

        monkeypatch.setattr(headwater.sets, "replace", abort)
        assert alice.put(path, {"values": ["a"]}).status_code == 503
        assert [entry.state for entry in entries(headwater, "filter_values.")] == ["failed"]

    def test_a_change_that_cannot_be_recorded_is_not_made(
        self, headwater: Installation, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = values_path(alice.create(), headwater)

        def away(*_: object) -> int:
            raise DatabaseUnavailable("The database is away.")

        monkeypatch.setattr(headwater.database.audit, "begin", away)
        assert alice.post(path, {"values": ["a"]}).status_code == 503
        assert alice.get(f"{path}/count").json()["count"] == 0

    def test_a_completed_write_is_recorded_as_done(
        self, headwater: Installation, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = values_path(alice.create(), headwater)

        def away(*_: object) -> None:
            raise DatabaseUnavailable("The database is away.")

        monkeypatch.setattr(headwater.database.audit, "close", away)
        assert alice.post(path, {"values": ["a"]}).status_code == 200
        assert [entry.state for entry in entries(headwater, "filter_values.")] == ["pending"]


def test_no_secret_and_no_content(headwater: Installation, alice: User) -> None:
    flow = alice.create(
        transforms=[
            {"type": "redis_set_filter", "filter_expr": "root = this.a", "set_values": ["0xsecretvalue"]},
            {"type": "v8", "script": "function process(r) { return 'secretscript' }"},
        ]
    )
    answer = alice.post(f"{FLOW}/{flow['id']}/deploy").json()
    alice.post(values_path(flow, headwater), {"values": ["0xothersecret"]})
    alice.post(f"{FLOW}/{flow['id']}/teardown")
    alice.delete(f"{FLOW}/{flow['id']}")
    written = json.dumps([asdict(entry) for entry in entries(headwater)], default=str)
    assert [entry.change.action for entry in entries(headwater, "flow.")] == [
        "flow.create",
        "flow.deploy",
        "flow.teardown",
        "flow.delete",
    ]
    secret = alice.key[21:]
    for text in (secret, answer["sinks"][0]["password"], "0xsecretvalue", "secretscript", "0xothersecret"):
        assert text not in written
