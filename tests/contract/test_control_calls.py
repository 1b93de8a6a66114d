"""One suite for every CallStore."""

from concurrent.futures import ThreadPoolExecutor

from headwater.model.idempotency import Answered
from tests.support.sql import ControlStores, at

ANSWERED = Answered("0" * 64, 201, {"location": "/api/v1/flow/f1"}, b'{"name": "Gr\xc3\xb6\xc3\x9fe\0"}')


def test_held_by_one_until_it_expires(stores: ControlStores) -> None:
    assert stores.calls.claim("c1", "a", at(0), at(30)) == "claimed"
    assert stores.calls.claim("c1", "b", at(29.9), at(60)) == "running"
    assert stores.calls.claim("c2", "b", at(0), at(30)) == "claimed"
    assert stores.calls.claim("c1", "b", at(30), at(60)) == "claimed"


def test_renewed(stores: ControlStores) -> None:
    stores.calls.claim("c1", "a", at(0), at(30))
    stores.calls.renew("c1", "a", at(50))
    stores.calls.renew("c1", "b", at(90))
    assert stores.calls.claim("c1", "b", at(49), at(90)) == "running"
    assert stores.calls.claim("c1", "b", at(50), at(90)) == "claimed"


def test_finished_is_answered_until_it_is_over(stores: ControlStores) -> None:
    stores.calls.claim("c1", "a", at(0), at(30))
    stores.calls.finish("c1", "a", ANSWERED, at(100))
    assert stores.calls.claim("c1", "b", at(99), at(130)) == ANSWERED
    assert stores.calls.claim("c1", "b", at(100), at(130)) == "claimed"


def test_one_that_lost_its_hold_changes_nothing(stores: ControlStores) -> None:
    stores.calls.claim("c1", "a", at(0), at(30))
    stores.calls.claim("c1", "b", at(30), at(60))
    stores.calls.finish("c1", "a", ANSWERED, at(100))
    stores.calls.release("c1", "a")
    assert stores.calls.claim("c1", "c", at(59), at(90)) == "running"
    stores.calls.finish("c1", "b", ANSWERED, at(100))
    stores.calls.release("c1", "b")
    assert stores.calls.claim("c1", "c", at(59), at(90)) == ANSWERED


def test_released_is_free_at_once(stores: ControlStores) -> None:
    stores.calls.claim("c1", "a", at(0), at(30))
    stores.calls.release("c1", "a")
    stores.calls.release("c1", "a")
    assert stores.calls.claim("c1", "b", at(1), at(30)) == "claimed"


def test_purge_removes_what_is_over(stores: ControlStores) -> None:
    for call, until in (("c1", 10), ("c2", 20), ("c3", 30)):
        stores.calls.claim(call, "a", at(0), at(until))
    stores.calls.finish("c2", "a", ANSWERED, at(25))
    assert stores.calls.purge(at(20)) == 1
    assert stores.calls.purge(at(25)) == 1
    assert stores.calls.purge(at(25)) == 0
    assert stores.calls.claim("c3", "b", at(29), at(60)) == "running"


def test_of_many_at_once_one_wins(stores: ControlStores) -> None:
    with ThreadPoolExecutor(16) as pool:
        for call, now in (("c1", 0), ("c2", 0), ("c1", 30)):
            claims = pool.map(
                lambda name, c=call, n=now: stores.calls.claim(c, name, at(n), at(n + 30)), "abcdefghijklmnop"
            )
            assert sorted(map(str, claims)) == ["claimed", *["running"] * 15]
