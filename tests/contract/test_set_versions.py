"""The contract of SetVersions: versions that a worker has read, and the history of a set."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from headwater.model.value_sets import SetId, SetVersion, dataset_set_id, filter_set_id
from headwater.stores.protocols.sets import SetStore, SetVersions, SetWriteResult
from headwater.stores.redis.client import connect
from headwater.stores.redis.sets.set_store import RedisSetStore
from headwater.stores.redis.sets.set_versions import RedisSetVersions
from tests.support.memory.sets import MemorySetStore

FILTER = filter_set_id("01j00000000000000000000000", "t1")
DATASET = dataset_set_id("01j00000000000000000000000")


@dataclass(frozen=True)
class Stores:
    """A set store, and the versions of its sets."""

    sets: SetStore
    versions: SetVersions


@pytest.fixture(params=["memory", "valkey_url", "cluster_url"])
def stores(request: pytest.FixtureRequest) -> Iterator[Stores]:
    if request.param == "memory":
        memory = MemorySetStore()
        yield Stores(memory, memory)
        return
    with closing(connect(request.getfixturevalue(request.param))) as client:
        yield Stores(RedisSetStore(client), RedisSetVersions(client))


def test_an_unknown_set_has_the_version_0(stores: Stores) -> None:
    nothing = SetVersion(0, "")
    assert stores.versions.versions([]) == []
    assert stores.versions.versions([FILTER, DATASET]) == [nothing, nothing]
    assert stores.versions.histories({}) == {}
    history = stores.versions.histories({FILTER: [0, 1, 7]})[FILTER]
    assert history.current == nothing
    assert history.contains(nothing)
    assert not history.contains(SetVersion(1, ""))


def test_each_write_raises_the_version_and_changes_its_stamp(stores: Stores) -> None:
    seen = [stores.versions.versions([DATASET])[0]]
    writes: list[Callable[[], SetWriteResult]] = [
        lambda: stores.sets.add(DATASET, ["a", "b"]),
        lambda: stores.sets.remove(DATASET, ["b"]),
        lambda: stores.sets.replace(DATASET, ["c"]),
    ]
    for write in writes:
        written = write()
        other, version = stores.versions.versions([FILTER, DATASET])
        assert (other.number, version.number) == (0, written.version)
        seen.append(version)
    assert [version.number for version in seen] == [0, 1, 2, 3]
    assert len({version.stamp for version in seen}) == 4


def test_earlier_versions_are_in_the_history_until_the_values_are_replaced(stores: Stores) -> None:
    reported: list[SetVersion] = []
    for value in "abc":
        stores.sets.add(FILTER, [value])
        reported += stores.versions.versions([FILTER])
    history = stores.versions.histories({FILTER: [version.number for version in reported]})[FILTER]
    assert history.current == reported[-1]
    assert all(history.contains(version) for version in reported)
    assert not history.contains(reported[0]._replace(stamp="of a lost write"))
    stores.sets.replace(FILTER, ["d"])
    history = stores.versions.histories({FILTER: [version.number for version in reported]})[FILTER]
    assert not any(history.contains(version) for version in reported)
    assert history.contains(stores.versions.versions([FILTER])[0])


def test_a_write_that_changes_nothing_keeps_the_version(stores: Stores) -> None:
    stores.sets.add(FILTER, ["a"])
    before = stores.versions.versions([FILTER])
    assert stores.sets.add(FILTER, ["a"]).version == before[0].number
    assert stores.versions.versions([FILTER]) == before


def test_histories_of_several_sets(stores: Stores) -> None:
    seen: dict[SetId, list[SetVersion]] = {FILTER: [], DATASET: [], filter_set_id("c", "t2"): []}
    for set_id, values in zip(seen, ("a", "abc", ""), strict=True):
        for value in values:
            stores.sets.add(set_id, [value])
            seen[set_id] += stores.versions.versions([set_id])
    histories = stores.versions.histories({set_id: {each.number for each in seen[set_id]} for set_id in seen})
    assert {set_id: each.current.number for set_id, each in histories.items()} == dict(
        zip(seen, (1, 3, 0), strict=True)
    )
    for set_id, versions in seen.items():
        assert histories[set_id].stamps == {each.number: each.stamp for each in versions}
