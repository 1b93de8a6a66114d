"""The contract of IdempotencyStore."""

from concurrent.futures import ThreadPoolExecutor

from headwater.model.idempotency import StoredResponse
from tests.support.sql import SqlStores, at

ANSWERED = StoredResponse("0" * 64, 201, {"location": "/api/v1/flow/f1"}, b'{"name": "Gr\xc3\xb6\xc3\x9fe\0"}')


def test_a_key_is_held_by_one_request_until_it_expires(stores: SqlStores) -> None:
    assert stores.idempotency.claim("c1", "a", at(0), at(30)) == "claimed"
    assert stores.idempotency.claim("c1", "b", at(29.9), at(60)) == "running"
    assert stores.idempotency.claim("c2", "b", at(0), at(30)) == "claimed"
    assert stores.idempotency.claim("c1", "b", at(30), at(60)) == "claimed"


def test_a_hold_can_be_renewed(stores: SqlStores) -> None:
    stores.idempotency.claim("c1", "a", at(0), at(30))
    stores.idempotency.renew("c1", "a", at(50))
    stores.idempotency.renew("c1", "b", at(90))
    assert stores.idempotency.claim("c1", "b", at(49), at(90)) == "running"
    assert stores.idempotency.claim("c1", "b", at(50), at(90)) == "claimed"


def test_a_stored_response_is_returned_until_it_expires(stores: SqlStores) -> None:
    stores.idempotency.claim("c1", "a", at(0), at(30))
    stores.idempotency.finish("c1", "a", ANSWERED, at(100))
    assert stores.idempotency.claim("c1", "b", at(99), at(130)) == ANSWERED
    assert stores.idempotency.claim("c1", "b", at(100), at(130)) == "claimed"


def test_a_request_that_lost_its_hold_changes_nothing(stores: SqlStores) -> None:
    stores.idempotency.claim("c1", "a", at(0), at(30))
    stores.idempotency.claim("c1", "b", at(30), at(60))
    stores.idempotency.finish("c1", "a", ANSWERED, at(100))
    stores.idempotency.release("c1", "a")
    assert stores.idempotency.claim("c1", "c", at(59), at(90)) == "running"
    stores.idempotency.finish("c1", "b", ANSWERED, at(100))
    stores.idempotency.release("c1", "b")
    assert stores.idempotency.claim("c1", "c", at(59), at(90)) == ANSWERED


def test_a_released_key_is_free_immediately(stores: SqlStores) -> None:
    stores.idempotency.claim("c1", "a", at(0), at(30))
    stores.idempotency.release("c1", "a")
    stores.idempotency.release("c1", "a")
    assert stores.idempotency.claim("c1", "b", at(1), at(30)) == "claimed"


def test_purge_removes_expired_keys(stores: SqlStores) -> None:
    for call, until in (("c1", 10), ("c2", 20), ("c3", 30)):
        stores.idempotency.claim(call, "a", at(0), at(until))
    stores.idempotency.finish("c2", "a", ANSWERED, at(25))
    assert stores.idempotency.purge(at(20)) == 1
    assert stores.idempotency.purge(at(25)) == 1
    assert stores.idempotency.purge(at(25)) == 0
    assert stores.idempotency.claim("c3", "b", at(29), at(60)) == "running"


def test_one_of_many_concurrent_requests_gets_the_hold(stores: SqlStores) -> None:
    with ThreadPoolExecutor(16) as pool:
        for call, now in (("c1", 0), ("c2", 0), ("c1", 30)):
            claims = pool.map(
                lambda name, c=call, n=now: stores.idempotency.claim(c, name, at(n), at(n + 30)), "abcdefghijklmnop"
            )
            assert sorted(map(str, claims)) == ["claimed", *["running"] * 15]
