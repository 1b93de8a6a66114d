"""Limits on invalid API keys."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from anyio.from_thread import BlockingPortal
from hypothesis import given
from hypothesis import strategies as st

from headwater.api import invalid_credential_limiter
from headwater.api.invalid_credential_limiter import InvalidCredentialLimiter
from headwater.errors import DatabaseUnavailable
from headwater.model.key import KEY_CACHE_S, ApiKey, generate_key
from headwater.services.keys import Keys
from tests.unit.api.installation import FLOW, Installation, User


class Counted:
    """A key store that counts its queries."""

    def __init__(self, headwater: Installation) -> None:
        self._store = headwater.database.keys
        self.asked = 0
        self.is_away = False
        self.create = self._store.create
        self.record_use = self._store.record_use

    def find(self, key_id: str) -> ApiKey | None:
        self.asked += 1
        if self.is_away:
            raise DatabaseUnavailable("The database does not answer.")
        return self._store.find(key_id)


@pytest.fixture
def headwater(portal: BlockingPortal) -> Iterator[Installation]:
    headwater = Installation(portal)
    headwater.keys = Keys(Counted(headwater), headwater.clock, headwater.clock.monotonic)  # type: ignore[arg-type]
    with headwater.serving(invalid_keys_per_minute=5):
        yield headwater


def counted(headwater: Installation) -> Counted:
    store = headwater.keys._store
    assert isinstance(store, Counted)
    return store


def test_malformed_keys_never_reach_the_database(headwater: Installation) -> None:
    for key in ("x", "hw_live_", generate_key()[0][:-1] + "!", "hw_live_" + "a" * 65):
        nobody = headwater.nobody(key)
        for _ in range(10):
            nobody.problem(nobody.get(FLOW), 401, "unauthenticated")
    assert counted(headwater).asked == 0


def test_unknown_keys_per_address_are_limited(headwater: Installation) -> None:
    statuses = [headwater.nobody(generate_key()[0]).get(FLOW).status_code for _ in range(20)]
    assert statuses == [401] * 5 + [429] * 15
    assert counted(headwater).asked == 5
    nobody = headwater.nobody(generate_key()[0])
    body = nobody.problem(nobody.get(FLOW), 429, "rate-limited")
    assert body["detail"].startswith("Your address has sent too many invalid keys.")


def test_known_keys_are_accepted_during_a_flood(headwater: Installation) -> None:
    alice = headwater.user("alice")
    assert alice.get(FLOW).status_code == 200
    for _ in range(10):
        headwater.nobody(generate_key()[0]).get(FLOW)
    headwater.clock.forward(KEY_CACHE_S + 1)
    assert alice.get(FLOW).status_code == 200


def test_valid_keys_are_not_counted(headwater: Installation) -> None:
    users: list[User] = [headwater.user(f"user {number}") for number in range(20)]
    assert {user.get(FLOW).status_code for user in users} == {200}


def test_keys_that_could_not_be_checked_are_not_counted(headwater: Installation) -> None:
    store, nobody = counted(headwater), headwater.nobody(generate_key()[0])
    store.is_away = True
    for _ in range(10):
        nobody.problem(nobody.get(FLOW), 503, "store-unavailable")
    store.is_away = False
    assert [nobody.get(FLOW).status_code for _ in range(7)] == [401] * 5 + [429] * 2


def test_an_expired_key_counts_again(headwater: Installation) -> None:
    bob = headwater.user("bob", expires_at=headwater.clock.now + timedelta(seconds=60))
    assert bob.get(FLOW).status_code == 200
    headwater.clock.forward(61)
    assert [bob.get(FLOW).status_code for _ in range(8)] == [401] * 6 + [429] * 2


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 30)), max_size=200))
def test_an_address_never_gets_more_than_the_bucket_and_its_refill(events: list[tuple[int, float]]) -> None:
    clock, taken = [0.0], dict.fromkeys(range(3), 0)
    bucket = InvalidCredentialLimiter(10, lambda: clock[0])
    for address, pause_s in events:
        clock[0] += pause_s
        wait_s = bucket.take(f"127.0.0.{address}")
        taken[address] += not wait_s
        assert taken[address] <= 10 + clock[0] * 10 / 60
        assert 0 <= wait_s <= 7


def test_memory_is_bounded_for_any_number_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invalid_credential_limiter, "MAX_BUCKETS", 100)
    bucket = InvalidCredentialLimiter(10)
    for number in range(1_000):
        bucket.take(f"10.0.{number // 250}.{number % 250}")
    assert len(bucket._buckets) == 100
