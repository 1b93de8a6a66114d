"""Pagination of lists, and whole lists in bounded memory."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from headwater.model.flow import Flow, PipelineConfig
from headwater.model.pagination import PART_BYTES
from headwater.services.ids import new_id
from headwater.stores.sql.flows import SqlFlows
from tests.unit.api.installation import FLOW, Installation, User

SCRIPT = "function process(r) { return r; }"


def pages(user: User, path: str, limit: int, **parameters: Any) -> Iterator[list[dict[str, Any]]]:
    """Return the pages of a list by following its `Link` headers."""
    response = user.get(path, params={"limit": limit, **parameters})
    while True:
        assert response.status_code == 200, response.text
        yield response.json()
        link = response.headers.get("link")
        if link is None:
            return
        [following] = re.fullmatch('<(.*)>; rel="next"', link).groups()  # type: ignore[union-attr]
        response = user.get(following)


def make(headwater: Installation, user: User, count: int) -> list[str]:
    """Configurations, newest first; some have the same time of creation."""
    first = user.create()
    stored = headwater.database.flows.get("alice", first["id"])
    ids = [first["id"]]
    for number in range(1, count):
        if number % 3:
            headwater.clock.forward(1)
        ids.append(new_id())
        headwater.database.flows.create(replace(stored, id=ids[-1], created_at=headwater.clock.now))
    return [flow.id for flow in headwater.database.flows.list("alice")]


@pytest.mark.parametrize("limit", [1, 3, 7, 8, 1000])
def test_pages_together_are_the_whole_list(headwater: Installation, alice: User, limit: int) -> None:
    ids = make(headwater, alice, 8)
    found = list(pages(alice, FLOW, limit))
    assert [flow["id"] for page in found for flow in page] == ids
    assert all(len(page) == limit for page in found[:-1])
    assert [flow for page in found for flow in page] == alice.get(FLOW).json()


def test_without_a_limit_all_items_are_returned(headwater: Installation, alice: User) -> None:
    assert alice.get(FLOW).json() == []
    ids = make(headwater, alice, 4)
    whole = alice.get(FLOW)
    assert "link" not in whole.headers
    assert [flow["id"] for flow in whole.json()] == ids
    assert whole.json()[-1] == alice.get(f"{FLOW}/{ids[-1]}").json()


def test_unchanged_items_are_listed_once_during_changes(headwater: Installation, alice: User) -> None:
    ids = make(headwater, alice, 9)
    listed = []
    for page, gone in zip(pages(alice, FLOW, 2), [ids[1], ids[3], ids[0], ids[2], ids[5]], strict=False):
        listed += [flow["id"] for flow in page]
        headwater.clock.forward(1)
        alice.create()
        alice.delete(f"{FLOW}/{gone}")
    stays = [config_id for config_id in ids if config_id not in (ids[1], ids[3], ids[0], ids[2], ids[5])]
    assert [config_id for config_id in listed if config_id in stays] == stays
    assert len(set(listed)) == len(listed)


def test_datasets_have_pages_too(headwater: Installation, alice: User) -> None:
    names = [f"d{number}" for number in range(5)]
    for name in names:
        headwater.clock.forward(1)
        alice.post(f"{FLOW}/datasets", {"name": name})
    found = list(pages(alice, f"{FLOW}/datasets", 2))
    assert [one["name"] for page in found for one in page] == names[::-1]
    chosen = list(pages(alice, f"{FLOW}/datasets", 1, names=["d1", "d3", "nothing"]))
    assert [[one["name"] for one in page] for page in chosen] == [["d3"], ["d1"]]


@pytest.mark.parametrize("path", [FLOW, f"{FLOW}/datasets"])
@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({"limit": "0"}, "/limit"),
        ({"limit": "1001"}, "/limit"),
        ({"limit": "1.0"}, "/limit"),
        ({"cursor": "x"}, "/cursor"),
        ({"cursor": "17-"}, "/cursor"),
        ({"cursor": "-5-a"}, "/cursor"),
    ],
)
def test_refused(alice: User, path: str, parameters: dict[str, str], pointer: str) -> None:
    assert list(alice.faults(alice.get(path, params=parameters))) == [pointer]


@pytest.mark.parametrize("word", ["null", ""])
def test_the_first_page_may_have_an_explicit_cursor(headwater: Installation, alice: User, word: str) -> None:
    make(headwater, alice, 3)
    first = alice.get(FLOW, params={"limit": 2})
    named = alice.get(FLOW, params={"limit": 2, "cursor": word})
    assert (named.json(), named.headers["link"]) == (first.json(), first.headers["link"])


def test_a_long_list_is_read_in_chunks_of_bounded_size(
    headwater: Installation, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of configurations are read in parts of about one mebibyte."""
    first = alice.create()
    stored = headwater.database.flows.get("alice", first["id"])
    sizes = itertools.cycle([10, 100_000, 900_000, 50])
    for number in range(60):
        script = {"uid": "t", "type": "v8", "script": SCRIPT + "/" * next(sizes)}
        config = PipelineConfig.model_validate(
            stored.pipeline_config.model_dump(mode="json") | {"transforms": [script]}
        )
        headwater.database.flows.create(replace(stored, id=f"f{number:03}", pipeline_config=config))
    read: list[int] = []
    many = SqlFlows.get_many

    def measured(self: SqlFlows, owner: str, config_ids: Sequence[str]) -> Sequence[Flow]:
        found = many(self, owner, config_ids)
        read.append(sum(len(flow.pipeline_config.model_dump_json()) for flow in found))
        return found

    monkeypatch.setattr(SqlFlows, "get_many", measured)
    assert len(alice.get(FLOW).json()) == 61
    assert max(read) <= PART_BYTES
    assert len(read) < 61
