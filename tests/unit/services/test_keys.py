"""API keys."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from headwater.errors import DatabaseUnavailable, InvalidInput, NotFound, Unauthenticated
from headwater.model.key import ALPHABET, DEFAULT_SCOPES, KEY_CACHE_S, ApiKey, _checksum, generate_key
from headwater.services.keys import Keys
from tests.support.sql import fresh_database

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class World:
    def __init__(self) -> None:
        self.now = NOW
        self.store = fresh_database().keys
        self.keys = Keys(self.store, lambda: self.now, lambda: self.now.timestamp())

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def world() -> World:
    return World()


class TestCreate:
    def test_stores_no_secret(self, world: World) -> None:
        text = world.keys.create("alice")
        (key,) = world.keys.list()
        assert (key.id, key.owner, key.scopes, key.created_at) == (text[8:20], "alice", DEFAULT_SCOPES, NOW)
        assert text[21:64] not in repr(key)

    def test_unknown_scope(self, world: World) -> None:
        with pytest.raises(InvalidInput, match=r"flow:fly.*flow:read"):
            world.keys.create("alice", ["flow:fly"])
        assert world.keys.list() == []

    @pytest.mark.parametrize("owner", ["", " ", " alice", "alice\n", "a" * 201])
    def test_no_real_owner(self, world: World, owner: str) -> None:
        with pytest.raises(InvalidInput, match="1 to 200 characters"):
            world.keys.create(owner)
        assert world.keys.list() == []

    @pytest.mark.parametrize("late_s", [0, 1])
    def test_expired_already(self, world: World, late_s: int) -> None:
        with pytest.raises(InvalidInput, match="is in the past"):
            world.keys.create("alice", expires_at=NOW - timedelta(seconds=late_s))
        assert world.keys.list() == []


class TestLiveKeys:
    def test_until_it_expires_or_is_revoked(self, world: World) -> None:
        first = world.keys.create("alice", expires_at=NOW + timedelta(seconds=5))[8:20]
        second = world.keys.create("alice")[8:20]
        assert [world.keys.is_live(key_id) for key_id in (first, second, "unknown")] == [True, True, False]
        world.forward(5)
        assert [world.keys.is_live(key_id) for key_id in (first, second)] == [False, True]
        world.keys.revoke(second)
        assert not world.keys.is_live(second)


class TestTypos:
    def test_ten_thousand_invalid_keys_need_no_lookup(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """One to three changed, lost, added or swapped characters each."""
        random, text = Random(1), world.keys.create("alice")

        def asked(_: str) -> ApiKey:
            raise AssertionError("the store was asked")

        monkeypatch.setattr(world.store, "find", asked)
        for _ in range(10_000):
            mutated = _mutated(random, text)
            assert world.keys.authenticate_cached(mutated) is None
            with pytest.raises(Unauthenticated):
                world.keys.authenticate(mutated)


def _mutated(random: Random, text: str) -> str:
    """Return a text with typos in `text`."""
    mutated = text
    while mutated == text:
        for _ in range(random.randint(1, 3)):
            position, length = random.randrange(len(text)), random.choice((0, 1, 2))
            new = "".join(random.choice(ALPHABET + "_- \0é") for _ in range(random.choice((0, 1, 1, 1, 2))))
            mutated = mutated[:position] + new + mutated[position + length :]
    return mutated


class TestAuthenticate:
    def test_finds_the_key(self, world: World) -> None:
        assert world.keys.authenticate(world.keys.create("alice")).owner == "alice"

    def test_same_id_with_another_secret(self, world: World) -> None:
        text, key_id, _ = generate_key()
        _, _, other = generate_key()
        world.store.create(ApiKey(key_id, "alice", other, DEFAULT_SCOPES, NOW))
        with pytest.raises(Unauthenticated):
            world.keys.authenticate(text)


class TestRecall:
    def test_only_valid_keys_are_cached(self, world: World) -> None:
        text = world.keys.create("alice")
        assert world.keys.authenticate_cached(text) is None
        world.keys.authenticate(text)
        assert world.keys.authenticate_cached(text) is not None
        world.forward(KEY_CACHE_S + 0.001)
        assert world.keys.authenticate_cached(text) is None

    def test_expiry_and_own_revocation_take_effect_immediately(self, world: World) -> None:
        expiring = world.keys.create("alice", expires_at=NOW + timedelta(seconds=1))
        revoked = world.keys.create("alice")
        for text in (expiring, revoked):
            world.keys.authenticate(text)
        world.forward(1)
        world.keys.revoke(revoked[8:20])
        assert world.keys.authenticate_cached(expiring) is None
        assert world.keys.authenticate_cached(revoked) is None

    def test_rejected_keys_are_not_cached(self, world: World) -> None:
        text = world.keys.create("alice")
        world.keys.authenticate(text)
        world.store.revoke(text[8:20], NOW)
        with pytest.raises(Unauthenticated):
            world.keys.authenticate(text)
        assert world.keys.authenticate_cached(text) is None


class TestRevoke:
    def test_unknown(self, world: World) -> None:
        with pytest.raises(NotFound):
            world.keys.revoke("x" * 12)


class TestWriteLastUse:
    def test_writes_the_last_one(self, world: World) -> None:
        text = world.keys.create("alice")
        world.keys.authenticate(text)
        world.forward(119)
        world.keys.authenticate(text)
        assert world.keys.list()[0].last_used_at is None
        world.keys.write_last_use()
        assert world.keys.list()[0].last_used_at == NOW + timedelta(minutes=1)

    def test_keeps_what_could_not_be_written(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(_: object) -> None:
            raise DatabaseUnavailable("away")

        world.keys.authenticate(world.keys.create("alice"))
        with monkeypatch.context() as patch:
            patch.setattr(world.store, "record_use", away)
            with pytest.raises(DatabaseUnavailable):
                world.keys.write_last_use()
        world.keys.write_last_use()
        assert world.keys.list()[0].last_used_at == NOW

    def test_nothing_is_written_without_use(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(world.store, "record_use", None)
        world.keys.write_last_use()


def test_a_valid_id_with_another_secret_is_rejected(world: World) -> None:
    text = world.keys.create("alice")
    world.keys.authenticate(text)
    body = text[:21] + generate_key()[0][21:64]
    forged = body + _checksum(body)
    assert not world.keys.was_valid(forged)
    with pytest.raises(Unauthenticated):
        world.keys.authenticate(forged)
    assert world.keys.was_valid(text)
    assert world.keys.authenticate_cached(text) is not None
