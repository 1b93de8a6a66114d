"""Datasets: /api/v1/flow/datasets."""

import json
import re
from typing import Any

import pytest

from headwater.errors import RedisUnavailable
from headwater.model.value_sets import MAX_VALUES_PER_REQUEST, dataset_set_id
from tests.unit.api.installation import FLOW, Installation, User

DATASETS = f"{FLOW}/datasets"


def create_dataset(user: User, name: str = "watched") -> str:
    response = user.post(DATASETS, {"name": name})
    assert response.status_code == 201, response.text
    dataset_id: str = response.json()["id"]
    return dataset_id


@pytest.fixture
def entries(alice: User) -> str:
    return f"{DATASETS}/{create_dataset(alice)}/entries"


def test_whitespace_around_values_is_trimmed_everywhere(alice: User, entries: str) -> None:
    assert alice.post(entries, {"values": ["\ufeff0xABC", "0xabc\u200b", "0xdef"]}).json() == {
        "count": 2,
        "version": 1,
    }
    by_name = {"name": "watched", "values": ["\u20600xDEF"]}
    assert alice.post(f"{DATASETS}/entries", by_name).json() == {"count": 0, "version": 1}
    assert alice.get(f"{entries}/check", params={"value": "\ufeff0xAbc"}).json() == {"exists": True}
    assert alice.delete(entries, {"values": ["0xdef\ufeff"]}).json() == {"count": 1, "version": 2}
    assert alice.get(entries).json()["values"] == ["0xabc"]


class TestCreate:
    def test_returns_the_dataset(self, headwater: Installation, alice: User) -> None:
        response = alice.post(DATASETS, {"name": " Watched "})
        assert response.status_code == 201
        body = response.json()
        assert response.headers["location"] == f"{DATASETS}/{body['id']}"
        assert re.fullmatch(r"[0-9a-z]{26}", body.pop("id"))
        now = "2026-01-02T03:04:05.678Z"
        assert body == {"name": " Watched ", "type": "redis", "created_at": now, "updated_at": now}

    def test_scripts_can_resolve_the_name_immediately(self, headwater: Installation, alice: User) -> None:
        dataset_id = create_dataset(alice)
        assert headwater.names.resolve("alice", ["watched", "Watched"]) == [dataset_id, None]
        assert headwater.names.resolve("bob", ["watched"]) == [None]

    def test_name_taken(self, alice: User, bob: User) -> None:
        create_dataset(alice)
        alice.problem(alice.post(DATASETS, {"name": "watched"}), 409, "conflict")
        create_dataset(bob)
        create_dataset(alice, "Watched")

    def test_concurrent_creates_with_one_name(self, alice: User) -> None:
        sent = [alice.start("POST", DATASETS, json={"name": "watched"}) for _ in range(20)]
        statuses = sorted(response.result().status_code for response in sent)
        assert statuses == [201] + [409] * 19

    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            ({"name": ""}, "/name"),
            ({"name": "x" * 201}, "/name"),
            ({"name": "a\0b"}, "/name"),
            ({"name": 5}, "/name"),
            ({}, "/name"),
            ({"name": "x", "type": "redis"}, "/type"),
        ],
    )
    def test_refused(self, alice: User, body: dict[str, Any], pointer: str) -> None:
        assert list(alice.faults(alice.post(DATASETS, body))) == [pointer]

    def test_a_request_that_the_set_store_interrupted_can_be_repeated(
        self, headwater: Installation, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object) -> None:
            raise RedisUnavailable("away")

        with monkeypatch.context() as patch:
            patch.setattr(headwater.names, "put", away)
            alice.problem(alice.post(DATASETS, {"name": "watched"}), 503, "set-store-unavailable")
        assert alice.get(DATASETS).json() == []
        create_dataset(alice)


class TestList:
    def test_lists_the_owners_resources_newest_first(self, headwater: Installation, alice: User, bob: User) -> None:
        first = create_dataset(alice, "a")
        headwater.clock.forward(1)
        second = create_dataset(alice, "b")
        create_dataset(bob)
        assert [dataset["id"] for dataset in alice.get(DATASETS).json()] == [second, first]

    def test_by_name(self, alice: User) -> None:
        ids = {name: create_dataset(alice, name) for name in ("a", "b", "c d")}
        found = alice.get(DATASETS, params=[("names", "a"), ("names", "c d"), ("names", "x")]).json()
        assert {dataset["id"] for dataset in found} == {ids["a"], ids["c d"]}
        assert alice.get(DATASETS, params={"names": "A"}).json() == []

    def test_a_name_with_nul(self, alice: User) -> None:
        assert list(alice.faults(alice.get(f"{DATASETS}?names=a%00"))) == ["/names/0"]


class TestRead:
    def test_returns_what_create_returned(self, alice: User) -> None:
        body = alice.post(DATASETS, {"name": "watched"}).json()
        assert alice.get(f"{DATASETS}/{body['id']}").json() == body

    def test_another_owners_resource_is_not_found(self, alice: User, bob: User) -> None:
        bob.problem(bob.get(f"{DATASETS}/{create_dataset(alice)}"), 404, "not-found")


class TestDelete:
    def test_removes_name_and_entries(self, headwater: Installation, alice: User, entries: str) -> None:
        dataset_id = entries.split("/")[-2]
        alice.post(entries, {"values": ["a"]})
        response = alice.delete(f"{DATASETS}/{dataset_id}")
        assert (response.status_code, response.content) == (204, b"")
        alice.problem(alice.get(f"{DATASETS}/{dataset_id}"), 404, "not-found")
        alice.problem(alice.delete(f"{DATASETS}/{dataset_id}"), 404, "not-found")
        assert headwater.names.resolve("alice", ["watched"]) == [None]
        assert headwater.sets.count(dataset_set_id(dataset_id)) == (0, 0)
        create_dataset(alice)

    @pytest.mark.parametrize(("part", "method"), [("names", "discard"), ("datasets", "remove")])
    def test_an_interrupted_delete_is_hidden_and_can_be_repeated(
        self, headwater: Installation, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch, part: str, method: str
    ) -> None:
        def away(*_: object) -> None:
            raise RedisUnavailable("away")

        path = f"{DATASETS}/{create_dataset(alice)}"
        alice.post(f"{path}/entries", {"values": ["a"]})
        with monkeypatch.context() as patch:
            owner = headwater.names if part == "names" else headwater.database.datasets
            patch.setattr(owner, method, away)
            for _ in range(2):
                alice.problem(alice.delete(path), 503, "set-store-unavailable")
        for address in (path, f"{path}/entries"):
            alice.problem(alice.get(address), 404, "not-found")
        bob.problem(bob.delete(path), 404, "not-found")
        assert alice.delete(path).status_code == 204
        alice.problem(alice.delete(path), 404, "not-found")
        assert headwater.sets.count(dataset_set_id(path.rsplit("/", 1)[1])) == (0, 0)
        assert headwater.database.datasets.incomplete() == []

    def test_another_owners_resource_is_not_found(self, alice: User, bob: User) -> None:
        path = f"{DATASETS}/{create_dataset(alice)}"
        bob.problem(bob.delete(path), 404, "not-found")
        assert alice.get(path).status_code == 200


class TestAddEntries:
    def test_five_concurrent_uploads(self, alice: User, entries: str) -> None:
        n = MAX_VALUES_PER_REQUEST // 5
        bodies = [
            json.dumps({"values": [f"0x{i:08x}" for i in range(n * part, n * (part + 1))]}).encode()
            for part in range(5)
        ]
        headers = {"content-type": "application/json"}
        sent = [alice.start("POST", entries, content=body, headers=headers) for body in bodies]
        assert [response.result().json()["count"] for response in sent] == [n] * 5
        assert alice.get(entries, params={"limit": 1}).json()["total_count"] == 5 * n

    def test_too_many(self, alice: User, entries: str) -> None:
        response = alice.post(entries, {"values": ["x"] * (MAX_VALUES_PER_REQUEST + 1)})
        assert list(alice.faults(response)) == ["/values"]

    def test_another_owners_resource_is_not_found(self, bob: User, entries: str) -> None:
        bob.problem(bob.post(entries, {"values": ["a"]}), 404, "not-found")

    def test_an_upload_during_a_delete_leaves_no_set(
        self, headwater: Installation, alice: User, entries: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dataset_id = entries.split("/")[-2]
        add = headwater.sets.add

        def add_after_delete(*arguments: Any) -> Any:
            assert alice.delete(f"{DATASETS}/{dataset_id}").status_code == 204
            return add(*arguments)

        monkeypatch.setattr(headwater.sets, "add", add_after_delete)
        alice.problem(alice.post(entries, {"values": ["a"]}), 404, "not-found")
        assert headwater.sets.count(dataset_set_id(dataset_id)) == (0, 0)


class TestAddEntriesByName:
    PATH = f"{DATASETS}/entries"

    def test_finds_the_dataset_of_the_owner(self, headwater: Installation, alice: User, bob: User) -> None:
        create_dataset(bob)
        create_dataset(alice)
        rotated = headwater.user("alice")
        assert rotated.post(self.PATH, {"name": "watched", "values": ["a", "b"]}).json() == {"count": 2, "version": 1}
        assert alice.get(DATASETS).json()[0]["name"] == "watched"
        assert bob.post(self.PATH, {"name": "watched", "values": ["a"]}).json() == {"count": 1, "version": 1}

    def test_members_in_any_order(self, alice: User) -> None:
        create_dataset(alice)
        assert alice.post(self.PATH, {"values": ["a"], "name": "watched"}).status_code == 200

    @pytest.mark.parametrize("name", ["unwatched", "Watched", "watched "])
    def test_unknown_name(self, alice: User, name: str) -> None:
        create_dataset(alice)
        alice.problem(alice.post(self.PATH, {"name": name, "values": ["a"]}), 404, "not-found")

    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            ({"values": ["a"]}, "/name"),
            ({"name": "", "values": ["a"]}, "/name"),
            ({"name": None, "values": ["a"]}, "/name"),
            ({"name": ["x"], "values": ["a"]}, "/name"),
            ({"name": "watched"}, "/values"),
            ({"name": "watched", "values": [""]}, "/values/0"),
        ],
    )
    def test_refused(self, alice: User, body: dict[str, Any], pointer: str) -> None:
        create_dataset(alice)
        assert list(alice.faults(alice.post(self.PATH, body))) == [pointer]


class TestRemoveEntries:
    def test_counts_the_removed_values(self, alice: User, entries: str) -> None:
        alice.post(entries, {"values": ["a", "b"]})
        assert alice.delete(entries, {"values": ["B", "x"]}).json()["count"] == 1

    def test_another_owners_resource_is_not_found(self, bob: User, entries: str) -> None:
        bob.problem(bob.delete(entries, {"values": ["a"]}), 404, "not-found")


class TestPage:
    def test_cursor_is_a_string(self, alice: User, entries: str) -> None:
        alice.post(entries, {"values": ["a", "b", "c"]})
        first = alice.get(entries, params={"limit": 2}).json()
        assert isinstance(first["cursor"], str)
        second = alice.get(entries, params={"limit": 2, "cursor": first["cursor"]}).json()
        assert second["cursor"] is None
        assert sorted(first["values"] + second["values"]) == ["a", "b", "c"]
        assert first["total_count"] == second["total_count"] == 3

    @pytest.mark.parametrize(
        "parameters",
        [{"limit": 0}, {"limit": 500_001}, {"cursor": "x"}, {"cursor": str(2**53)}, {"cursor": "1.0"}, {"limit": "+5"}],
    )
    def test_refused(self, alice: User, entries: str, parameters: dict[str, Any]) -> None:
        assert list(alice.faults(alice.get(entries, params=parameters))) == ["/" + next(iter(parameters))]

    def test_another_owners_resource_is_not_found(self, bob: User, entries: str) -> None:
        bob.problem(bob.get(entries), 404, "not-found")


class TestCheck:
    def test_existence(self, alice: User, entries: str) -> None:
        alice.post(entries, {"values": ["0xab"]})
        assert alice.get(f"{entries}/check", params={"value": " 0xAB"}).json() == {"exists": True}
        assert alice.get(f"{entries}/check", params={"value": "0xac"}).json() == {"exists": False}

    def test_another_owners_resource_is_not_found(self, bob: User, entries: str) -> None:
        bob.problem(bob.get(f"{entries}/check", params={"value": "a"}), 404, "not-found")
