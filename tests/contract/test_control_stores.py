"""One suite for every implementation of Leases, KeyStore and DatasetStore."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from headwater.errors import Conflict, NotFound
from tests.support.sql import OWNER, ControlStores, a_dataset, a_key, at


class TestLeases:
    def test_one_holder_until_it_expires(self, stores: ControlStores) -> None:
        assert stores.leases.acquire("controller", "a", at(0), 10) == 1
        assert stores.leases.acquire("controller", "b", at(9.999), 10) is None
        assert stores.leases.holder("controller", at(9.999)) == "a"
        assert stores.leases.holder("controller", at(10)) is None
        assert stores.leases.acquire("controller", "b", at(10), 10) == 2
        assert stores.leases.acquire("controller", "a", at(10), 10) is None

    def test_renewing_keeps_the_number(self, stores: ControlStores) -> None:
        for second in (0, 5, 100):
            assert stores.leases.acquire("controller", "a", at(second), 10) == 1
        assert stores.leases.holder("controller", at(109)) == "a"

    def test_released_is_free_at_once(self, stores: ControlStores) -> None:
        stores.leases.acquire("controller", "a", at(0), 10)
        stores.leases.release("controller", "b")
        assert stores.leases.holder("controller", at(1)) == "a"
        stores.leases.release("controller", "a")
        assert stores.leases.holder("controller", at(1)) is None
        assert stores.leases.acquire("controller", "b", at(1), 10) == 2
        stores.leases.release("controller", "b")
        assert stores.leases.acquire("controller", "b", at(2), 10) == 3

    def test_names_are_apart(self, stores: ControlStores) -> None:
        assert stores.leases.acquire("controller", "a", at(0), 10) == 1
        assert stores.leases.acquire("sweeper", "b", at(0), 10) == 1
        assert stores.leases.holder("unknown", at(0)) is None
        stores.leases.release("unknown", "a")

    def test_many_at_once_make_one_holder(self, stores: ControlStores) -> None:
        with ThreadPoolExecutor(16) as pool:
            numbers = pool.map(lambda name: stores.leases.acquire("controller", name, at(0), 10), "abcdefghijklmnop")
        assert sorted(number for number in numbers if number is not None) == [1]


class TestKeys:
    def test_find_returns_what_was_created(self, stores: ControlStores) -> None:
        key = a_key(expires_at=at(60), scopes=("flow:read",))
        stores.keys.create(key)
        assert stores.keys.find("k1") == key
        assert stores.keys.find("k2") is None

    def test_an_id_is_never_taken_over(self, stores: ControlStores) -> None:
        stores.keys.create(a_key())
        with pytest.raises(Conflict):
            stores.keys.create(a_key(owner="bob"))
        assert stores.keys.find("k1") == a_key()

    def test_ids_differ_by_case(self, stores: ControlStores) -> None:
        stores.keys.create(a_key("k"))
        stores.keys.create(a_key("K"))
        assert stores.keys.find("K") == a_key("K")

    def test_list_newest_first(self, stores: ControlStores) -> None:
        for key_id, created_s in (("k2", 1), ("k1", 0), ("k3", 1)):
            stores.keys.create(a_key(key_id, created_s))
        assert [key.id for key in stores.keys.list()] == ["k3", "k2", "k1"]

    def test_revoking_twice_keeps_the_first_time(self, stores: ControlStores) -> None:
        stores.keys.create(a_key())
        stores.keys.revoke("k1", at(5))
        stores.keys.revoke("k1", at(6))
        assert stores.keys.find("k1") == replace(a_key(), revoked_at=at(5))

    def test_revoking_an_unknown_key(self, stores: ControlStores) -> None:
        with pytest.raises(NotFound):
            stores.keys.revoke("k1", at(5))

    def test_last_use_only_moves_forward(self, stores: ControlStores) -> None:
        stores.keys.create(a_key("k1"))
        stores.keys.create(a_key("k2"))
        stores.keys.used({"k1": at(5), "k2": at(6), "unknown": at(7)})
        stores.keys.used({"k1": at(4), "k2": at(8)})
        stores.keys.used({})
        assert [key.last_used_at for key in stores.keys.list()] == [at(8), at(5)]


class TestDatasets:
    def live(self, stores: ControlStores, dataset_id: str, name: str, owner: str = OWNER, created_s: float = 0) -> None:
        stores.datasets.create(a_dataset(dataset_id, name, owner, created_s))
        stores.datasets.set_state(dataset_id, "live")

    def test_pending_shows_only_as_unsettled(self, stores: ControlStores) -> None:
        stores.datasets.create(a_dataset())
        with pytest.raises(NotFound):
            stores.datasets.get(OWNER, "s1")
        assert list(stores.datasets.list(OWNER)) == []
        assert list(stores.datasets.unsettled()) == [a_dataset()]

    def test_live(self, stores: ControlStores) -> None:
        self.live(stores, "s1", "wallets")
        live = replace(a_dataset(), state="live")
        assert stores.datasets.get(OWNER, "s1") == live
        assert list(stores.datasets.list(OWNER)) == [live]
        assert list(stores.datasets.unsettled()) == []

    def test_anothers_is_unknown(self, stores: ControlStores) -> None:
        self.live(stores, "s1", "wallets")
        with pytest.raises(NotFound):
            stores.datasets.get("bob", "s1")
        assert list(stores.datasets.list("bob", ["wallets"])) == []

    def test_list_newest_first_and_by_exact_names(self, stores: ControlStores) -> None:
        for number, name in enumerate(("a", "b", "A", "c")):
            self.live(stores, f"s{number}", name, created_s=number // 2)
        assert [d.name for d in stores.datasets.list(OWNER)] == ["c", "A", "b", "a"]
        assert [d.name for d in stores.datasets.list(OWNER, ["a", "c", "a", "x"])] == ["c", "a"]

    @pytest.mark.parametrize("state", ["pending", "live"])
    def test_name_is_unique_per_owner(self, stores: ControlStores, state: str) -> None:
        stores.datasets.create(a_dataset())
        if state == "live":
            stores.datasets.set_state("s1", "live")
        with pytest.raises(Conflict, match="wallets"):
            stores.datasets.create(a_dataset("s2"))
        self.live(stores, "s3", "wallets", owner="bob")

    def test_deleting_frees_the_name(self, stores: ControlStores) -> None:
        self.live(stores, "s1", "wallets")
        stores.datasets.set_state("s1", "deleting")
        self.live(stores, "s2", "wallets")
        with pytest.raises(NotFound):
            stores.datasets.get(OWNER, "s1")
        with pytest.raises(Conflict, match="wallets"):
            stores.datasets.set_state("s1", "live")
        assert [d.id for d in stores.datasets.unsettled()] == ["s1"]

    def test_remove(self, stores: ControlStores) -> None:
        self.live(stores, "s1", "wallets")
        stores.datasets.remove("s1")
        stores.datasets.remove("s1")
        stores.datasets.set_state("s1", "live")
        assert list(stores.datasets.list(OWNER)) == []
        stores.datasets.create(a_dataset("s2"))

    def test_many_of_one_name_at_once_make_one(self, stores: ControlStores) -> None:
        def create(number: int) -> bool:
            try:
                stores.datasets.create(a_dataset(f"s{number}"))
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(16) as pool:
            assert sum(pool.map(create, range(16))) == 1
