"""The quota of set values is never exceeded by concurrent writes."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import DatabaseUnavailable, QuotaExceeded
from headwater.model.audit import Actor, set_actor
from headwater.model.quota import QuotaDefaults
from headwater.model.value_sets import SetId, dataset_set_id, filter_set_id
from headwater.services import quotas
from headwater.services.quotas import RESERVATION_TTL_S, QuotaEnforcingSets, QuotaStores, quota_usage
from headwater.stores.protocols.sets import SetWriteResult
from tests.support.memory.sets import MemoryReservations, MemorySetStore
from tests.support.sql import OWNER, a_config, a_dataset, a_flow, fresh_database

FILTER = {"uid": "t1", "type": "redis_set_filter", "filter_expr": "root = this.a"}
MINE, ALSO_MINE, OTHERS = filter_set_id("f1", "t1"), dataset_set_id("s1"), filter_set_id("f2", "t1")


class Scene:
    """Two owners with a filter each, and a dataset of one of them."""

    def __init__(self, defaults: QuotaDefaults) -> None:
        self.now = 1e9
        self.database = fresh_database(defaults)
        self.sets = MemorySetStore()
        self.reservations = MemoryReservations()
        stores = QuotaStores(self.database.quotas, self.sets, self.reservations, lambda: self.now)
        self.bounded = QuotaEnforcingSets(stores)
        for config_id, owner in (("f1", OWNER), ("f2", "bob")):
            config = a_config(transforms=[FILTER])
            self.database.flows.create(a_flow(config_id, owner, pipeline_config=config))
        self.database.datasets.create(a_dataset())
        set_actor(Actor("key", OWNER, "", ""))

    def used(self) -> int:
        return sum(self.sets.counts([MINE, ALSO_MINE]))


@pytest.fixture
def scene() -> Scene:
    return Scene(QuotaDefaults({"set_values": 10}))


def numbers(*bounds: int) -> list[str]:
    return [str(number) for number in range(*bounds)]


class TestAdd:
    def test_up_to_the_quota(self, scene: Scene) -> None:
        scene.bounded.add(MINE, numbers(6))
        scene.bounded.add(ALSO_MINE, numbers(4))
        with pytest.raises(QuotaExceeded, match=r"You have 10 of 10 values .* would have 11"):
            scene.bounded.add(ALSO_MINE, ["new"])
        assert scene.used() == 10
        assert scene.reservations.all() == []

    def test_existing_values_need_no_room(self, scene: Scene) -> None:
        scene.bounded.add(MINE, numbers(10))
        assert scene.bounded.add(MINE, numbers(10)).changed == 0
        assert scene.bounded.add(MINE, [*numbers(5), *numbers(5)]).changed == 0

    def test_other_owners_do_not_count(self, scene: Scene) -> None:
        scene.sets.add(OTHERS, numbers(100))
        assert scene.bounded.add(MINE, numbers(10)).changed == 10

    def test_removing_makes_room_also_above_a_lowered_quota(self, scene: Scene) -> None:
        scene.bounded.add(MINE, numbers(10))
        scene.database.quotas.set_limits(OWNER, {"set_values": 5}, [])
        with pytest.raises(QuotaExceeded):
            scene.bounded.add(MINE, ["new"])
        scene.bounded.remove(MINE, numbers(6))
        assert scene.bounded.add(MINE, ["new"]).changed == 1

    def test_without_a_quota_nothing_is_reserved(self) -> None:
        scene = Scene(QuotaDefaults())
        assert scene.bounded.add(MINE, numbers(100)).changed == 100
        assert scene.reservations.all() == []

    def test_all_owners_together(self) -> None:
        scene = Scene(QuotaDefaults(total={"set_values": 10}))
        scene.sets.add(OTHERS, numbers(8))
        with pytest.raises(QuotaExceeded, match="would exceed the limit for all owners together: 10 values"):
            scene.bounded.add(MINE, numbers(3))
        assert scene.bounded.add(MINE, numbers(2)).changed == 2


class TestReplace:
    def test_usage_is_counted_after_the_write(self, scene: Scene) -> None:
        scene.bounded.add(MINE, numbers(8))
        scene.bounded.add(ALSO_MINE, numbers(2))
        assert scene.bounded.replace(MINE, iter(numbers(100, 108))).count == 8
        with pytest.raises(QuotaExceeded):
            scene.bounded.replace(MINE, iter(numbers(9)))
        assert sorted(scene.sets.page(MINE, None, 10).values) == numbers(100, 108)
        assert scene.used() == 10

    def test_a_body_without_an_end_is_refused_in_time(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(quotas, "VALUES_PER_STEP", 4)
        given_out: list[str] = []

        def endless() -> Iterator[str]:
            while True:
                given_out.append(str(len(given_out)))
                yield given_out[-1]

        with pytest.raises(QuotaExceeded):
            scene.bounded.replace(MINE, endless())
        assert len(given_out) <= 12
        assert scene.reservations.all() == []

    def test_with_fewer_values_passes_above_a_lowered_quota(self, scene: Scene) -> None:
        scene.bounded.add(MINE, numbers(10))
        scene.database.quotas.set_limits(OWNER, {"set_values": 2}, [])
        assert scene.bounded.replace(MINE, iter(numbers(9))).count == 9


class TestReservations:
    def test_values_of_a_configuration_that_is_not_saved_yet_count(self, scene: Scene) -> None:
        scene.bounded.add(filter_set_id("f9", "t1"), numbers(8))
        with pytest.raises(QuotaExceeded):
            scene.bounded.add(MINE, numbers(100, 103))
        scene.database.flows.create(a_flow("f9", pipeline_config=a_config(transforms=[FILTER])))
        assert scene.bounded.add(MINE, numbers(100, 102)).changed == 2

    def test_values_of_a_configuration_that_was_refused_do_not(self, scene: Scene) -> None:
        scene.bounded.add(filter_set_id("f9", "t1"), numbers(8))
        scene.bounded.drop(filter_set_id("f9", "t1"))
        assert scene.bounded.add(MINE, numbers(10)).changed == 10

    def test_the_reservation_of_a_killed_writer_expires(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as killed:
            killed.setattr(scene.reservations, "remove", lambda _: None)
            killed.setattr(scene.sets, "add", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                scene.bounded.add(MINE, numbers(8))
        with pytest.raises(QuotaExceeded):
            scene.bounded.add(MINE, numbers(5))
        scene.now += RESERVATION_TTL_S + 1
        assert scene.bounded.add(MINE, numbers(5)).changed == 5

    def test_expired_reservations_are_removed_by_the_next_write(self, scene: Scene) -> None:
        scene.bounded.add(filter_set_id("unsaved", "t1"), numbers(3))
        assert [reservation.written for reservation in scene.reservations.all()] == [True]
        scene.now += RESERVATION_TTL_S + 1
        scene.bounded.add(MINE, numbers(3))
        assert scene.reservations.all() == []

    def test_a_write_succeeds_when_the_database_fails_after_it(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add = scene.sets.add

        def add_and_lose_the_database(set_id: SetId, values: Sequence[str]) -> SetWriteResult:
            written = add(set_id, values)
            monkeypatch.setattr(scene.database.quotas, "sets", _unavailable)
            return written

        monkeypatch.setattr(scene.sets, "add", add_and_lose_the_database)
        assert scene.bounded.add(MINE, numbers(3)).changed == 3
        monkeypatch.undo()
        assert [reservation.written for reservation in scene.reservations.all()] == [True]
        assert scene.bounded.add(MINE, numbers(10)).changed == 7


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _unavailable(*_: object) -> NoReturn:
    raise DatabaseUnavailable("The database is locked.")


class TestAtOnce:
    def test_concurrent_writers_never_exceed_the_quota(self) -> None:
        scene = Scene(QuotaDefaults({"set_values": 1_000}))
        most = 0
        stop = threading.Event()

        def watch() -> None:
            nonlocal most
            while not stop.is_set():
                with scene.sets._lock:
                    most = max(most, sum(len(found.values) for found in scene.sets._sets.values()))

        def write(number: int) -> bool:
            set_actor(Actor("key", OWNER, "", ""))
            target = MINE if number % 2 else ALSO_MINE
            values = numbers(number * 60, number * 60 + 60)
            try:
                if number % 5:
                    scene.bounded.add(target, values)
                else:
                    scene.bounded.replace(MINE, iter(values))
            except QuotaExceeded:
                return False
            return True

        watcher = threading.Thread(target=watch)
        watcher.start()
        with ThreadPoolExecutor(16) as pool:
            done = list(pool.map(write, range(64)))
        stop.set()
        watcher.join()
        assert any(done)
        assert most <= 1_000
        assert scene.reservations.all() == []

    @given(
        st.lists(
            st.tuples(st.sampled_from(["add", "replace", "remove"]), st.booleans(), st.sets(st.integers(0, 30))),
            max_size=30,
        )
    )
    def test_one_after_the_other_is_exact(self, writes: list[tuple[str, bool, set[int]]]) -> None:
        scene = Scene(QuotaDefaults({"set_values": 20}))
        model: dict[SetId, set[str]] = {MINE: set(), ALSO_MINE: set()}
        for verb, mine, chosen in writes:
            target, values = (MINE if mine else ALSO_MINE), {str(number) for number in chosen}
            wanted = {"add": model[target] | values, "replace": values, "remove": model[target] - values}[verb]
            fits = sum(map(len, (model | {target: wanted}).values())) <= 20
            try:
                getattr(scene.bounded, verb)(target, sorted(values))
                assert fits
                model[target] = wanted
            except QuotaExceeded:
                assert not fits
            assert scene.used() == sum(map(len, model.values()))


def test_limits_name_all_quotas(scene: Scene) -> None:
    scene.sets.add(MINE, numbers(3))
    found = {one.name: (one.used, one.limit) for one in quota_usage(scene.database.quotas, scene.sets, OWNER)}
    assert found["set_values"] == (3, 10)
    assert found["configurations"] == (1, None)
    assert len(found) == 7
