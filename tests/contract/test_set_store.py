"""The contract of SetStore."""

import random
import threading
from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from headwater.stores.protocols.sets import SetStore
from headwater.stores.redis.sets import set_digest, value_encoding
from tests.examples import examples
from tests.support.sets import OTHER, TARGET, VALUES, everything, listing, numbers


class TestUnknownSet:
    def test_is_empty(self, store: SetStore) -> None:
        assert store.count(TARGET) == (0, 0)
        assert store.contains_many(TARGET, ["a", "b"]) == [False, False]
        page = store.page(TARGET, None, 10)
        assert (page.values, page.cursor, page.total) == ([], None, 0)
        assert store.remove(TARGET, ["a"]).changed == 0
        store.drop(TARGET)


class TestAdd:
    def test_counts_new_values_only(self, store: SetStore) -> None:
        first = store.add(TARGET, ["a", "b", "a"])
        second = store.add(TARGET, ["b", "c"])
        assert (first.changed, first.count) == (2, 2)
        assert (second.changed, second.count) == (1, 3)
        assert second.version > first.version
        assert store.count(TARGET) == (3, second.version)

    def test_without_a_change_the_version_stays(self, store: SetStore) -> None:
        version = store.add(TARGET, ["a"]).version
        assert store.add(TARGET, ["a"]).version == version
        assert store.add(TARGET, []) == store.remove(TARGET, ["b"])

    def test_every_form_of_value_is_stored(self, store: SetStore) -> None:
        store.add(TARGET, VALUES)
        assert sorted(everything(store, TARGET)) == sorted(VALUES)
        assert all(store.contains_many(TARGET, VALUES))

    def test_more_values_than_one_write_takes(self, store: SetStore) -> None:
        written = store.add(TARGET, numbers(0, 3500))
        assert (written.changed, written.count) == (3500, 3500)
        assert store.remove(TARGET, numbers(1000, 5000)).changed == 2500
        assert sorted(everything(store, TARGET)) == numbers(0, 1000)

    def test_sets_are_independent(self, store: SetStore) -> None:
        store.add(TARGET, ["a"])
        store.add(OTHER, ["b"])
        assert store.contains_many(OTHER, ["a", "b"]) == [False, True]

    def test_at_once_from_several_threads(self, store: SetStore) -> None:
        changed: list[int] = []

        def add(first: int) -> None:
            changed.append(store.add(TARGET, numbers(first, first + 1500)).changed)

        threads = [threading.Thread(target=add, args=(500 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(changed) == store.count(TARGET).size == 3000


class TestReplace:
    def test_all_values(self, store: SetStore) -> None:
        before = store.add(TARGET, ["a", "b"])
        written = store.replace(TARGET, iter(["b", "c", "d", "b"]))
        assert (written.changed, written.count) == (3, 3)
        assert written.version > before.version
        assert sorted(everything(store, TARGET)) == ["b", "c", "d"]

    def test_by_nothing_clears(self, store: SetStore) -> None:
        store.add(TARGET, ["a"])
        assert store.replace(TARGET, []).count == 0
        assert store.contains_many(TARGET, ["a"]) == [False]
        assert everything(store, TARGET) == []

    def test_of_an_unknown_set(self, store: SetStore) -> None:
        assert store.replace(TARGET, ["a"]).changed == 1
        assert store.remove(TARGET, ["a"]).changed == 1

    def test_an_interrupted_replace_changes_nothing(self, store: SetStore) -> None:
        def broken() -> Iterator[str]:
            yield from numbers(0, 10)
            raise ValueError("the body ended")

        version = store.add(TARGET, ["a"]).version
        with pytest.raises(ValueError, match="the body ended"):
            store.replace(TARGET, broken())
        assert store.count(TARGET) == (1, version)
        assert everything(store, TARGET) == ["a"]

    def test_the_replace_that_ends_last_wins_completely(self, store: SetStore) -> None:
        def slow() -> Iterator[str]:
            yield "slow"
            assert store.replace(TARGET, ["fast"]).count == 1
            assert store.add(TARGET, ["meanwhile"]).count == 2
            yield "slower"

        store.replace(TARGET, slow())
        assert sorted(everything(store, TARGET)) == ["slow", "slower"]

    def test_readers_see_all_old_or_all_new(self, store: SetStore) -> None:
        old, new = numbers(0, 300), numbers(300, 600)
        store.add(TARGET, old)
        stop = threading.Event()
        seen: set[tuple[int, int]] = set()

        def read() -> None:
            while not stop.is_set():
                answers = store.contains_many(TARGET, old + new)
                page = store.page(TARGET, None, 1000)
                seen.add((sum(answers[:300]), sum(answers[300:])))
                seen.add((len(set(page.values) & set(old)), len(set(page.values) & set(new))))

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(5):
            store.replace(TARGET, new)
            store.replace(TARGET, old)
        stop.set()
        reader.join()
        assert seen <= {(300, 0), (0, 300)}


class TestContains:
    def test_keeps_order_and_repeats(self, store: SetStore) -> None:
        store.add(TARGET, ["a", "b"])
        assert store.contains_many(TARGET, ["x", "b", "a", "b", "x"]) == [False, True, True, True, False]
        assert store.contains_many(TARGET, []) == []

    def test_many(self, store: SetStore) -> None:
        store.add(TARGET, numbers(0, 5000))
        assert store.contains_many(TARGET, numbers(4000, 9500)) == [True] * 1000 + [False] * 4500


class TestPage:
    @pytest.mark.parametrize("count", [1, 7, 100, 1000, 5000])
    def test_exact_sizes_and_each_value_once(self, store: SetStore, count: int) -> None:
        values = numbers(0, 1000) if count > 1 else numbers(0, 30)
        store.add(TARGET, values)
        pages = listing(store, TARGET, count)
        assert all(len(page) == count for page in pages[:-1])
        assert 0 < len(pages[-1]) <= count
        assert sorted(value for page in pages for value in page) == values
        assert store.page(TARGET, None, count).total == len(values)

    def test_a_full_last_page_has_no_cursor(self, store: SetStore) -> None:
        store.add(TARGET, numbers(0, 10))
        assert store.page(TARGET, None, 10).cursor is None

    def test_the_order_outlives_a_replace(self, store: SetStore) -> None:
        store.add(TARGET, numbers(0, 200))
        order = everything(store, TARGET)
        store.replace(TARGET, numbers(0, 200))
        assert everything(store, TARGET) == order

    def test_the_highest_cursor(self, store: SetStore) -> None:
        store.add(TARGET, numbers(0, 10))
        assert store.page(TARGET, 2**53 - 1, 5).values == []

    def test_values_of_one_position_stay_together(self, store: SetStore, monkeypatch: pytest.MonkeyPatch) -> None:
        def hashes_of_four_positions(encoded: Iterable[bytes], hash_seed: int) -> list[int]:
            return [(value[-1] % 4) << 62 | value[-1] for value in encoded]

        monkeypatch.setattr(value_encoding, "hashes", hashes_of_four_positions)
        store.add(TARGET, numbers(0, 12))
        pages = listing(store, TARGET, 1)
        assert [len(page) for page in pages] == [3, 3, 3, 3]
        assert sorted(value for page in pages for value in page) == numbers(0, 12)

    @pytest.mark.parametrize("count", [37, 777])
    def test_stable_values_come_once_while_others_come_and_go(self, store: SetStore, count: int) -> None:
        stable, rng = numbers(0, 2000), random.Random(count)
        others = numbers(10_000, 12_000)
        store.add(TARGET, stable + others[:1000])
        found: list[str] = []
        cursor = None
        while True:
            page = store.page(TARGET, cursor, count)
            assert len(page.values) == count or page.cursor is None
            found += page.values
            cursor = page.cursor
            if cursor is None:
                break
            store.remove(TARGET, rng.sample(others, 20))
            store.add(TARGET, rng.sample(others, 20))
        assert sorted(value for value in found if value <= stable[-1]) == stable


class TestDrop:
    def test_removes_the_set(self, store: SetStore) -> None:
        store.add(TARGET, ["a"])
        store.drop(TARGET)
        assert store.count(TARGET) == (0, 0)
        assert store.contains_many(TARGET, ["a"]) == [False]

    def test_a_recreated_set_is_empty(self, store: SetStore) -> None:
        store.add(TARGET, ["a", "b"])
        store.drop(TARGET)
        assert store.add(TARGET, ["b"]).changed == 1
        assert everything(store, TARGET) == ["b"]


class TestDigest:
    def test_does_not_depend_on_how_the_values_were_written(self, store: SetStore) -> None:
        assert store.summary(TARGET).digest == store.summary(OTHER).digest == set_digest.of_values([])
        store.replace(TARGET, [*numbers(0, 30_000), *numbers(10_000, 11_000)])
        store.add(OTHER, numbers(20_000, 31_000))
        store.add(OTHER, numbers(0, 20_500))
        assert store.summary(TARGET).digest != store.summary(OTHER).digest
        store.remove(OTHER, numbers(30_000, 40_000))
        assert store.summary(TARGET).digest == store.summary(OTHER).digest == set_digest.of_values(numbers(0, 30_000))


class Machine(RuleBasedStateMachine):
    """Any sequence of calls has the same results as with a Python set."""

    make: Callable[[], SetStore]
    values = st.lists(st.sampled_from(numbers(0, 40) + VALUES), max_size=60)

    def __init__(self) -> None:
        super().__init__()
        self.store = type(self).make()
        self.store.drop(TARGET)
        self.model: set[str] = set()
        self.version = 0

    @rule(values=values)
    def add(self, values: list[str]) -> None:
        written = self.store.add(TARGET, values)
        assert written.changed == len(set(values) - self.model)
        self.model |= set(values)
        self.check(written.version, written.count, written.changed > 0)

    @rule(values=values)
    def remove(self, values: list[str]) -> None:
        written = self.store.remove(TARGET, values)
        assert written.changed == len(self.model & set(values))
        self.model -= set(values)
        self.check(written.version, written.count, written.changed > 0)

    @rule(values=values)
    def replace(self, values: list[str]) -> None:
        written = self.store.replace(TARGET, iter(values))
        self.model = set(values)
        assert written.changed == len(self.model)
        self.check(written.version, written.count, raised=True)

    @rule()
    def drop(self) -> None:
        self.store.drop(TARGET)
        self.model, self.version = set(), 0

    @rule(count=st.integers(1, 50))
    def page(self, count: int) -> None:
        pages = listing(self.store, TARGET, count)
        assert all(len(page) == count for page in pages[:-1])
        assert sorted(value for page in pages for value in page) == sorted(self.model)

    @invariant()
    def same_members(self) -> None:
        asked = sorted(self.model)[:20] + numbers(0, 10) + VALUES
        assert self.store.contains_many(TARGET, asked) == [value in self.model for value in asked]
        assert self.store.count(TARGET) == (len(self.model), self.version)
        assert self.store.summary(TARGET) == (len(self.model), self.version, set_digest.of_values(self.model))

    def check(self, version: int, count: int, raised: bool) -> None:
        assert count == len(self.model)
        assert (version > self.version) == raised
        self.version = version


def test_any_sequence_of_calls(store: SetStore) -> None:
    machine = type("StoreMachine", (Machine,), {"make": staticmethod(lambda: store)})
    few = settings(max_examples=examples(15), stateful_step_count=15, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=few)
