"""Filter values: …/transforms/{transform_uid}/filter-values."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from headwater.errors import RedisUnavailable
from headwater.model.value_sets import MAX_VALUES_PER_REQUEST, filter_set_id
from headwater.stores.redis.sets.set_digest import EMPTY, of_values
from tests.unit.api.installation import FLOW, Installation, Unread, User


@pytest.fixture
def flow(alice: User) -> dict[str, Any]:
    return alice.create()


@pytest.fixture
def path(flow: dict[str, Any]) -> str:
    return f"{FLOW}/{flow['id']}/transforms/{flow['pipeline_config']['transforms'][0]['uid']}/filter-values"


class TestAdd:
    def test_counts_the_new_ones(self, alice: User, path: str) -> None:
        response = alice.post(path, {"values": ["0xa", "0xb", "0xa"]})
        assert response.status_code == 200
        assert response.json() == {"added": 2, "version": 1}
        assert alice.post(path, {"values": ["0xb", "0xc"]}).json() == {"added": 1, "version": 2}

    def test_stores_trimmed_lower_case(self, alice: User, path: str) -> None:
        alice.post(path, {"values": ["\t0xAB \n"]})
        assert alice.get(path).json()["values"] == ["0xab"]

    @pytest.mark.parametrize("mark", ["\ufeff", "\u200b", "\u2060", "\u200e", "\u00a0"])
    def test_whitespace_around_values_is_trimmed_everywhere(self, alice: User, path: str, mark: str) -> None:
        assert alice.put(path, {"values": [f"{mark}0xABC", "0xdef"]}).json()["count"] == 2
        assert alice.post(path, {"values": [f"0xabc{mark}", f"{mark}0x1"]}).json()["added"] == 1
        assert alice.get(path).json()["total_count"] == 3
        for value in ("0xabc", f"{mark}0xabc{mark}"):
            assert alice.get(f"{path}/check", params={"value": value}).json()["is_member"]
        assert alice.delete(path, {"values": [f"{mark}0xABC{mark}"]}).json()["removed"] == 1
        assert list(alice.faults(alice.post(path, {"values": ["a", mark * 3]}))) == ["/values/1"]
        longest = "x" * 1024
        assert alice.post(path, {"values": [mark + longest]}).json()["added"] == 1

    def test_first_values_are_trimmed_alike(self, alice: User) -> None:
        transform = {"type": "redis_set_filter", "filter_expr": "root = this.to", "set_values": ["\ufeff0xABC"]}
        flow = alice.create(transforms=[transform])
        uid = flow["pipeline_config"]["transforms"][0]["uid"]
        values = alice.get(f"{FLOW}/{flow['id']}/transforms/{uid}/filter-values").json()["values"]
        assert values == ["0xabc"]

    def test_a_whole_request_of_values(self, alice: User, path: str) -> None:
        values = [f"0x{i:040x}" for i in range(MAX_VALUES_PER_REQUEST)]
        assert alice.post(path, {"values": values}).json()["added"] == MAX_VALUES_PER_REQUEST

    def test_one_value_too_many_changes_nothing(self, alice: User, path: str) -> None:
        response = alice.post(path, {"values": ["x"] * (MAX_VALUES_PER_REQUEST + 1)})
        assert list(alice.faults(response)) == ["/values"]
        assert alice.get(f"{path}/count").json()["count"] == 0

    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            ({"values": ["a", ""]}, "/values/1"),
            ({"values": ["a", " \t"]}, "/values/1"),
            ({"values": ["x" * 1024, "x" * 1025]}, "/values/1"),
            ({"values": ["a", 5, "b"]}, "/values/1"),
            ({"values": ["a", None]}, "/values/1"),
            ({"values": [["a"]]}, "/values/0"),
            ({"values": [{"a": "b"}]}, "/values/0"),
            ({"values": []}, "/values"),
            ({"values": "a"}, "/values"),
            ({"values": None}, "/values"),
            ({}, "/values"),
            ({"values": ["a"], "name": "x"}, "/name"),
            ({"valeus": ["a"]}, "/valeus"),
            (["a"], ""),
            ("a", ""),
            (5, ""),
        ],
    )
    def test_refused(self, alice: User, path: str, body: Any, pointer: str) -> None:
        assert list(alice.faults(alice.post(path, body))) == [pointer]
        assert alice.get(f"{path}/count").json()["count"] == 0

    def test_refuses_each_bad_value(self, alice: User, path: str) -> None:
        assert list(alice.faults(alice.post(path, {"values": ["", "a", " "]}))) == ["/values/0", "/values/2"]

    @pytest.mark.parametrize(
        "content",
        [b"", b"{", b'{"values": ["a"]', b'{"values": ["a"]} {}', b'{"values": ["\\udc00"]}', b'{"values": [NaN]}'],
    )
    def test_invalid_json(self, alice: User, path: str, content: bytes) -> None:
        response = alice.post(path, content=content, headers={"content-type": "application/json"})
        alice.problem(response, 400, "malformed-request")
        assert alice.get(f"{path}/count").json()["count"] == 0

    def test_the_body_is_read_only_up_to_the_first_error(self, alice: User, path: str) -> None:
        chunks = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal chunks
            yield b'{"values": ["a"'
            while True:
                chunks += 1
                yield b',"0x0123456789"' * 10_000

        response = alice.post(path, content=endless(), headers={"content-type": "application/json"})
        assert list(alice.faults(response)) == ["/values"]
        assert chunks <= 26

    def test_of_another_owner_is_not_read(self, bob: User, path: str) -> None:
        response = bob.post(path, content=Unread(), headers={"content-type": "application/json"})
        bob.problem(response, 404, "not-found")

    def test_needs_a_media_type(self, alice: User, path: str) -> None:
        alice.problem(alice.post(path, content=b'{"values": ["a"]}'), 415, "unsupported-media-type")

    def test_set_store_unavailable(
        self, headwater: Installation, alice: User, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object) -> None:
            raise RedisUnavailable("valkey at 10.0.0.7 does not answer")

        monkeypatch.setattr(headwater.sets, "add", away)
        body = alice.problem(alice.post(path, {"values": ["a"]}), 503, "set-store-unavailable")
        assert "10.0.0.7" not in str(body)

    def test_an_upload_during_a_delete_leaves_no_set(
        self, headwater: Installation, alice: User, flow: dict[str, Any], path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add = headwater.sets.add

        def add_after_delete(*arguments: Any) -> Any:
            assert alice.delete(f"{FLOW}/{flow['id']}").status_code == 200
            return add(*arguments)

        monkeypatch.setattr(headwater.sets, "add", add_after_delete)
        alice.problem(alice.post(path, {"values": ["a"]}), 404, "not-found")
        target = filter_set_id(flow["id"], flow["pipeline_config"]["transforms"][0]["uid"])
        assert headwater.sets.count(target) == (0, 0)


class TestReplace:
    def test_replaces_all(self, alice: User, path: str) -> None:
        alice.post(path, {"values": ["a", "b"]})
        response = alice.put(path, {"values": ["B ", "c", "d", "b"]})
        assert response.status_code == 200
        assert response.json() == {"count": 3, "version": 2}
        assert sorted(alice.get(path).json()["values"]) == ["b", "c", "d"]

    def test_an_empty_replacement_clears_the_set(self, alice: User, path: str) -> None:
        alice.post(path, {"values": ["a", "b"]})
        assert alice.put(path, {"values": []}).json() == {"count": 0, "version": 2}
        assert alice.get(f"{path}/count").json() == {"count": 0, "version": 2, "digest": EMPTY}

    def test_a_put_may_have_more_values_than_a_post(self, alice: User, path: str) -> None:
        values = [f"0x{i:040x}" for i in range(MAX_VALUES_PER_REQUEST + 1)]
        assert alice.put(path, {"values": values}).json()["count"] == MAX_VALUES_PER_REQUEST + 1

    @pytest.mark.parametrize(
        ("body", "pointers"),
        [
            ({"values": ["b", " ", "c"]}, ["/values/1"]),
            ({"values": [*["b"] * 20_000, "x" * 1025]}, ["/values/20000"]),
            ({"values": [*["b"] * 20_000, None, "c"]}, ["/values/20000"]),
            ({"values": {}}, ["/values"]),
            ({}, ["/values"]),
        ],
    )
    def test_an_invalid_body_changes_nothing(self, alice: User, path: str, body: Any, pointers: list[str]) -> None:
        alice.post(path, {"values": ["a"]})
        assert list(alice.faults(alice.put(path, body))) == pointers
        assert alice.get(path).json()["values"] == ["a"]

    @pytest.mark.parametrize("content", [b"", b'{"values": ["b", "c"', b'{"values": ["b", "c"]} x', b'{"values": [b]}'])
    def test_invalid_json_changes_nothing(self, alice: User, path: str, content: bytes) -> None:
        alice.post(path, {"values": ["a"]})
        response = alice.put(path, content=content, headers={"content-type": "application/json"})
        alice.problem(response, 400, "malformed-request")
        assert alice.get(path).json()["values"] == ["a"]

    def test_an_upload_during_a_delete_leaves_no_set(
        self, headwater: Installation, alice: User, flow: dict[str, Any], path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        replace_values = headwater.sets.replace

        def replace_after_delete(*arguments: Any) -> Any:
            assert alice.delete(f"{FLOW}/{flow['id']}").status_code == 200
            return replace_values(*arguments)

        monkeypatch.setattr(headwater.sets, "replace", replace_after_delete)
        alice.problem(alice.put(path, {"values": ["a"]}), 404, "not-found")
        target = filter_set_id(flow["id"], flow["pipeline_config"]["transforms"][0]["uid"])
        assert headwater.sets.count(target) == (0, 0)


class TestTransform:
    @pytest.mark.parametrize(
        ("method", "suffix"),
        [("GET", ""), ("POST", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/check?value=a"), ("GET", "/count")],
    )
    def test_must_be_a_filter_of_this_owner(
        self, alice: User, bob: User, flow: dict[str, Any], path: str, method: str, suffix: str
    ) -> None:
        script = path.replace(*(t["uid"] for t in flow["pipeline_config"]["transforms"]))
        options = {} if method == "GET" else {"json": {"values": ["a"]}}
        alice.problem(alice.request(method, script + suffix, **options), 409, "conflict")
        other = path.replace(flow["pipeline_config"]["transforms"][0]["uid"], "unknown")
        alice.problem(alice.request(method, other + suffix, **options), 404, "not-found")
        bob.problem(bob.request(method, path + suffix, **options), 404, "not-found")

    def test_filters_of_the_running_revision_can_be_read(
        self, headwater: Installation, alice: User, flow: dict[str, Any], path: str
    ) -> None:
        alice.post(path, {"values": ["a"]})
        alice.post(f"{FLOW}/{flow['id']}/deploy")
        saved = headwater.database.flows.get("alice", flow["id"])
        without = saved.pipeline_config.model_copy(update={"transforms": []})
        headwater.database.flows.save(replace(saved, pipeline_config=without, revision=2))
        assert alice.get(f"{path}/count").json()["count"] == 1
        alice.post(f"{FLOW}/{flow['id']}/teardown")
        alice.problem(alice.get(f"{path}/count"), 404, "not-found")


class TestRemove:
    def test_counts_the_removed_values(self, alice: User, path: str) -> None:
        alice.post(path, {"values": ["a", "b", "c"]})
        response = alice.delete(path, {"values": ["A ", "x"]})
        assert response.status_code == 200
        assert response.json() == {"removed": 1, "version": 2}
        assert sorted(alice.get(path).json()["values"]) == ["b", "c"]

    @pytest.mark.parametrize("body", [{"values": []}, {}, {"values": [1]}])
    def test_refused(self, alice: User, path: str, body: Any) -> None:
        alice.problem(alice.delete(path, body), 422, "invalid-input")


class TestPage:
    def test_pages_are_full_but_the_last(self, alice: User, path: str) -> None:
        values = {f"v{i}" for i in range(25)}
        alice.post(path, {"values": sorted(values)})
        cursor, sizes, listed = None, [], []
        while True:
            parameters = {"count": 10} | ({} if cursor is None else {"cursor": cursor})
            page = alice.get(path, params=parameters).json()
            assert page["total_count"] == 25
            sizes.append(len(page["values"]))
            listed += page["values"]
            cursor = page["cursor"]
            if cursor is None:
                break
            assert isinstance(cursor, int)
        assert sizes == [10, 10, 5]
        assert sorted(listed) == sorted(values)

    def test_a_page_has_100_values_by_default(self, alice: User, path: str) -> None:
        alice.post(path, {"values": [f"v{i}" for i in range(101)]})
        assert len(alice.get(path).json()["values"]) == 100
        assert len(alice.get(path, params={"count": 10_000}).json()["values"]) == 101

    @pytest.mark.parametrize(
        ("parameters", "pointer"),
        [
            ({"count": 0}, "/count"),
            ({"count": 10_001}, "/count"),
            ({"count": "x"}, "/count"),
            ({"cursor": -1}, "/cursor"),
            ({"cursor": 2**53}, "/cursor"),
            ({"cursor": "1.0"}, "/cursor"),
            ({"cursor": "1_0"}, "/cursor"),
            ({"cursor": "+5"}, "/cursor"),
            ({"cursor": " 7"}, "/cursor"),
            ({"cursor": "٧"}, "/cursor"),
            ({"count": "1e1"}, "/count"),
            ({"count": "10.0"}, "/count"),
            ({"cursor": "1.5"}, "/cursor"),
            ({"cursor": "none"}, "/cursor"),
        ],
    )
    def test_refused(self, alice: User, path: str, parameters: dict[str, Any], pointer: str) -> None:
        assert list(alice.faults(alice.get(path, params=parameters))) == [pointer]


class TestCheck:
    def test_membership(self, alice: User, path: str) -> None:
        alice.post(path, {"values": ["0xab"]})
        assert alice.get(f"{path}/check", params={"value": "0xab"}).json() == {"value": "0xab", "is_member": True}
        assert alice.get(f"{path}/check", params={"value": " 0xAB"}).json()["is_member"] is True
        assert alice.get(f"{path}/check", params={"value": "0xac"}).json()["is_member"] is False

    @pytest.mark.parametrize("parameters", [{}, {"value": ""}, {"value": "  "}, {"value": "x" * 1025}])
    def test_refused(self, alice: User, path: str, parameters: dict[str, str]) -> None:
        assert list(alice.faults(alice.get(f"{path}/check", params=parameters))) == ["/value"]


class TestCount:
    def test_counts(self, alice: User, path: str) -> None:
        assert alice.get(f"{path}/count").json() == {"count": 0, "version": 0, "digest": EMPTY}
        alice.post(path, {"values": ["a", "b"]})
        assert alice.get(f"{path}/count").json() == {"count": 2, "version": 1, "digest": of_values(["b", "a"])}
