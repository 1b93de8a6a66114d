"""The contracts of Leases, KeyStore, SignInStore and DatasetStore."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from headwater.errors import Conflict, LeaseLost, NotFound
from headwater.model.key import ApiKey
from headwater.model.lease import Candidate, Fence, Leader, fenced_by
from tests.support.sql import OWNER, SqlStores, a_dataset, a_deployment, a_flow, a_key, a_line, at, seen

A, B = Candidate("a"), Candidate("b")

Write = Callable[[SqlStores], object]
WRITES: dict[str, Write] = {
    "observe": lambda stores: stores.deployments.write_observations([seen(a_deployment())]),
    "report_workers": lambda stores: stores.deployments.report_workers({"d1": ()}),
    "write_logs": lambda stores: stores.deployments.write_logs({"d1": [a_line()]}),
    "purge": lambda stores: stores.flows.purge("f1"),
    "remove": lambda stores: stores.revisions.remove("f1", [7], at(0)),
    "set_state": lambda stores: stores.datasets.set_state("s1", "deleting"),
    "remove_dataset": lambda stores: stores.datasets.remove("s1"),
    "record_as_ended": lambda stores: stores.deployments.record_as_ended(["d2"], at(0)),
}


class TestLeases:
    def test_one_holder_until_it_expires(self, stores: SqlStores) -> None:
        assert stores.leases.acquire("controller", A, 3600) == 1
        assert stores.leases.acquire("controller", B, 3600) is None
        assert stores.leases.leader("controller") == Leader("a")
        assert stores.leases.acquire("controller", A, 0) == 1
        assert stores.leases.leader("controller") is None
        assert stores.leases.acquire("controller", B, 3600) == 2
        assert stores.leases.acquire("controller", A, 3600) is None

    def test_renewing_keeps_the_fencing_token_and_reports_failures(self, stores: SqlStores) -> None:
        assert stores.leases.acquire("controller", A, 3600) == 1
        assert stores.leases.acquire("controller", replace(A, current_failure="Sweeping fails."), 3600) == 1
        assert stores.leases.leader("controller") == Leader("a", "Sweeping fails.")

    def test_a_released_lease_is_free_immediately(self, stores: SqlStores) -> None:
        stores.leases.acquire("controller", A, 3600)
        stores.leases.release("controller", "b")
        assert stores.leases.leader("controller") == Leader("a")
        stores.leases.release("controller", "a")
        assert stores.leases.leader("controller") is None
        assert stores.leases.acquire("controller", B, 3600) == 2
        stores.leases.release("controller", "b")
        assert stores.leases.acquire("controller", B, 3600) == 3

    def test_a_candidate_with_the_same_lock_takes_over_immediately(self, stores: SqlStores) -> None:
        assert stores.leases.acquire("controller", Candidate("a", "machine:file"), 3600) == 1
        assert stores.leases.acquire("controller", Candidate("b", "machine:copy of the file"), 3600) is None
        assert stores.leases.acquire("controller", Candidate("c"), 3600) is None
        assert stores.leases.acquire("controller", Candidate("d", "machine:file"), 3600) == 2

    def test_two_candidates_without_a_lock_do_not_share_one(self, stores: SqlStores) -> None:
        assert stores.leases.acquire("controller", A, 3600) == 1
        assert stores.leases.acquire("controller", B, 3600) is None

    def test_a_lease_that_a_wrong_clock_made_too_long_is_shortened(self, stores: SqlStores) -> None:
        stores.leases.acquire("controller", A, 3600)
        assert stores.leases.acquire("controller", B, 0) is None
        assert stores.leases.acquire("controller", B, 3600) == 2

    def test_leases_are_independent(self, stores: SqlStores) -> None:
        assert stores.leases.acquire("controller", A, 3600) == 1
        assert stores.leases.acquire("sweeper", B, 3600) == 1
        assert stores.leases.leader("unknown") is None
        stores.leases.release("unknown", "a")

    def test_one_of_many_concurrent_candidates_gets_the_lease(self, stores: SqlStores) -> None:
        with ThreadPoolExecutor(16) as pool:
            candidates = map(Candidate, "abcdefghijklmnop")
            numbers = pool.map(lambda one: stores.leases.acquire("controller", one, 3600), candidates)
        assert sorted(number for number in numbers if number is not None) == [1]


class TestFencing:
    """Writes of a deposed leader are rejected, whatever its clock says."""

    @pytest.fixture
    def deposed(self, stores: SqlStores) -> Fence:
        stores.flows.create(a_flow())
        stores.deployments.request_deploy(OWNER, "f1", a_deployment())
        number = stores.leases.acquire("controller", A, 0)
        assert number is not None
        stores.leases.acquire("controller", B, 3600)
        return Fence("controller", number)

    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    def test_a_deposed_leader_writes_nothing(self, stores: SqlStores, deposed: Fence, write: Write) -> None:
        before = stores.deployments.active("f1")
        with pytest.raises(LeaseLost), fenced_by(deposed):
            write(stores)
        assert stores.deployments.active("f1") == before
        assert stores.deployments.read_logs("d1", 10) == []
        assert stores.flows.get(OWNER, "f1")

    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    def test_the_leader_writes(self, stores: SqlStores, deposed: Fence, write: Write) -> None:
        with fenced_by(Fence("controller", deposed.fencing_token + 1)):
            write(stores)

    def test_checking(self, stores: SqlStores, deposed: Fence) -> None:
        with pytest.raises(LeaseLost):
            stores.leases.check(deposed)
        stores.leases.check(replace(deposed, fencing_token=deposed.fencing_token + 1))
        with pytest.raises(LeaseLost):
            stores.leases.check(Fence("unknown", 1))

    def test_the_api_needs_no_lease(self, stores: SqlStores, deposed: Fence) -> None:
        assert stores.deployments.request_teardown("f1") is not None


class TestKeys:
    def test_find_returns_what_was_created(self, stores: SqlStores) -> None:
        key = a_key(expires_at=at(60), scopes=("flow:read",))
        stores.keys.create(key)
        assert stores.keys.find("k1") == key
        assert stores.keys.find("k2") is None

    def test_an_id_is_never_reused(self, stores: SqlStores) -> None:
        stores.keys.create(a_key())
        with pytest.raises(Conflict):
            stores.keys.create(a_key(owner="bob"))
        assert stores.keys.find("k1") == a_key()

    def test_ids_differ_by_case(self, stores: SqlStores) -> None:
        stores.keys.create(a_key("k"))
        stores.keys.create(a_key("K"))
        assert stores.keys.find("K") == a_key("K")

    def test_list_newest_first(self, stores: SqlStores) -> None:
        for key_id, created_s in (("k2", 1), ("k1", 0), ("k3", 1)):
            stores.keys.create(a_key(key_id, created_s))
        assert [key.id for key in stores.keys.list()] == ["k3", "k2", "k1"]

    def test_revoking_twice_keeps_the_first_time(self, stores: SqlStores) -> None:
        stores.keys.create(a_key())
        stores.keys.revoke("k1", at(5))
        stores.keys.revoke("k1", at(6))
        assert stores.keys.find("k1") == replace(a_key(), revoked_at=at(5))

    def test_revoking_an_unknown_key(self, stores: SqlStores) -> None:
        with pytest.raises(NotFound):
            stores.keys.revoke("k1", at(5))

    def test_last_use_only_moves_forward(self, stores: SqlStores) -> None:
        stores.keys.create(a_key("k1"))
        stores.keys.create(a_key("k2"))
        stores.keys.record_use({"k1": at(5), "k2": at(6), "unknown": at(7)})
        stores.keys.record_use({"k1": at(4), "k2": at(8)})
        stores.keys.record_use({})
        assert [key.last_used_at for key in stores.keys.list()] == [at(8), at(5)]


class TestSignIns:
    """A code is exchanged for a key once, before it expires."""

    def made(self, owner: str, scopes: Sequence[str]) -> ApiKey:
        return a_key("k2", owner=owner, scopes=tuple(scopes), expires_at=at(100), is_from_code=True)

    def test_exchange(self, stores: SqlStores) -> None:
        source = a_key(scopes=("flow:read", "sets:write"))
        stores.sign_ins.add_code(b"a", source, at(60))
        assert stores.sign_ins.exchange(b"b", at(0), self.made) is None
        key = stores.sign_ins.exchange(b"a", at(59), self.made)
        assert key == self.made(OWNER, ("flow:read", "sets:write"))
        assert stores.keys.find("k2") == key
        assert stores.sign_ins.exchange(b"a", at(59), self.made) is None

    def test_an_expired_code(self, stores: SqlStores) -> None:
        stores.sign_ins.add_code(b"a", a_key(), at(60))
        assert stores.sign_ins.exchange(b"a", at(60), self.made) is None
        assert stores.keys.find("k2") is None

    def test_one_of_many_concurrent_exchanges_succeeds(self, stores: SqlStores) -> None:
        stores.sign_ins.add_code(b"a", a_key(), at(60))
        with ThreadPoolExecutor(8) as pool:
            keys = list(pool.map(lambda _: stores.sign_ins.exchange(b"a", at(0), self.made), range(8)))
        assert len([key for key in keys if key is not None]) == 1

    def test_expired_codes_and_their_keys_are_removed(self, stores: SqlStores) -> None:
        stores.keys.create(a_key("k1", expires_at=at(10)))
        for code in (b"a", b"b"):
            stores.sign_ins.add_code(code, a_key(), at(60))
        stores.sign_ins.exchange(b"a", at(0), self.made)
        stores.sign_ins.remove_expired(at(99))
        assert stores.sign_ins.exchange(b"b", at(0), self.made) is None
        assert {key.id for key in stores.keys.list()} == {"k1", "k2"}
        stores.sign_ins.remove_expired(at(100))
        assert {key.id for key in stores.keys.list()} == {"k1"}


class TestDatasets:
    def live(self, stores: SqlStores, dataset_id: str, name: str, owner: str = OWNER, created_s: float = 0) -> None:
        stores.datasets.create(a_dataset(dataset_id, name, owner, created_s))
        stores.datasets.set_state(dataset_id, "live")

    def test_pending_shows_only_as_unsettled(self, stores: SqlStores) -> None:
        stores.datasets.create(a_dataset())
        with pytest.raises(NotFound):
            stores.datasets.get(OWNER, "s1")
        assert list(stores.datasets.list(OWNER)) == []
        assert list(stores.datasets.incomplete()) == [a_dataset()]

    def test_live(self, stores: SqlStores) -> None:
        self.live(stores, "s1", "wallets")
        live = replace(a_dataset(), state="live")
        assert stores.datasets.get(OWNER, "s1") == live
        assert list(stores.datasets.list(OWNER)) == [live]
        assert list(stores.datasets.incomplete()) == []

    def test_a_dataset_of_another_owner_is_unknown(self, stores: SqlStores) -> None:
        self.live(stores, "s1", "wallets")
        with pytest.raises(NotFound):
            stores.datasets.get("bob", "s1")
        assert list(stores.datasets.list("bob", ["wallets"])) == []

    def test_list_newest_first_and_by_exact_names(self, stores: SqlStores) -> None:
        for number, name in enumerate(("a", "b", "A", "c")):
            self.live(stores, f"s{number}", name, created_s=number // 2)
        assert [d.name for d in stores.datasets.list(OWNER)] == ["c", "A", "b", "a"]
        assert [d.name for d in stores.datasets.list(OWNER, ["a", "c", "a", "x"])] == ["c", "a"]

    @pytest.mark.parametrize("state", ["pending", "live"])
    def test_name_is_unique_per_owner(self, stores: SqlStores, state: str) -> None:
        stores.datasets.create(a_dataset())
        if state == "live":
            stores.datasets.set_state("s1", "live")
        with pytest.raises(Conflict, match="wallets"):
            stores.datasets.create(a_dataset("s2"))
        self.live(stores, "s3", "wallets", owner="bob")

    def test_deleting_frees_the_name(self, stores: SqlStores) -> None:
        self.live(stores, "s1", "wallets")
        stores.datasets.set_state("s1", "deleting")
        self.live(stores, "s2", "wallets")
        with pytest.raises(NotFound):
            stores.datasets.get(OWNER, "s1")
        with pytest.raises(Conflict, match="wallets"):
            stores.datasets.set_state("s1", "live")
        assert [d.id for d in stores.datasets.incomplete()] == ["s1"]

    def test_a_dataset_in_deletion_can_be_removed(self, stores: SqlStores) -> None:
        stores.datasets.create(a_dataset())
        with pytest.raises(NotFound):
            stores.datasets.get_removable(OWNER, "s1")
        for state in ("live", "deleting"):
            stores.datasets.set_state("s1", state)
            assert stores.datasets.get_removable(OWNER, "s1").state == state
        with pytest.raises(NotFound):
            stores.datasets.get_removable("bob", "s1")
        stores.datasets.remove("s1")
        with pytest.raises(NotFound):
            stores.datasets.get_removable(OWNER, "s1")

    def test_remove(self, stores: SqlStores) -> None:
        self.live(stores, "s1", "wallets")
        stores.datasets.remove("s1")
        stores.datasets.remove("s1")
        stores.datasets.set_state("s1", "live")
        assert list(stores.datasets.list(OWNER)) == []
        stores.datasets.create(a_dataset("s2"))

    def test_concurrent_creates_with_one_name_create_one(self, stores: SqlStores) -> None:
        def create(number: int) -> bool:
            try:
                stores.datasets.create(a_dataset(f"s{number}"))
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(16) as pool:
            assert sum(pool.map(create, range(16))) == 1
