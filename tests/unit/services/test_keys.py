"""API keys."""

from datetime import UTC, datetime, timedelta

import pytest

from headwater.errors import InvalidInput, NotFound, StoreUnavailable, Unauthenticated
from headwater.model.key import DEFAULT_SCOPES, ApiKey, mint
from headwater.services.keys import CACHE_S, Keys
from headwater.stores.memory.control import MemoryDatabase

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class World:
    def __init__(self) -> None:
        self.now = NOW
        self.store = MemoryDatabase().keys
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


class TestAuthenticate:
    def test_finds_the_key(self, world: World) -> None:
        assert world.keys.authenticate(world.keys.create("alice")).owner == "alice"

    def test_same_id_with_another_secret(self, world: World) -> None:
        text, key_id, _ = mint()
        _, _, other = mint()
        world.store.create(ApiKey(key_id, "alice", other, DEFAULT_SCOPES, NOW))
        with pytest.raises(Unauthenticated):
            world.keys.authenticate(text)


class TestRecall:
    def test_only_what_was_found_good(self, world: World) -> None:
        text = world.keys.create("alice")
        assert world.keys.recall(text) is None
        world.keys.authenticate(text)
        assert world.keys.recall(text) is not None
        world.forward(CACHE_S + 0.001)
        assert world.keys.recall(text) is None

    def test_sees_expiry_and_own_revocation_at_once(self, world: World) -> None:
        expiring = world.keys.create("alice", expires_at=NOW + timedelta(seconds=1))
        revoked = world.keys.create("alice")
        for text in (expiring, revoked):
            world.keys.authenticate(text)
        world.forward(1)
        world.keys.revoke(revoked[8:20])
        assert world.keys.recall(expiring) is None
        assert world.keys.recall(revoked) is None

    def test_never_a_key_that_was_refused_since(self, world: World) -> None:
        text = world.keys.create("alice")
        world.keys.authenticate(text)
        world.store.revoke(text[8:20], NOW)
        with pytest.raises(Unauthenticated):
            world.keys.authenticate(text)
        assert world.keys.recall(text) is None


class TestRevoke:
    def test_unknown(self, world: World) -> None:
        with pytest.raises(NotFound):
            world.keys.revoke("x" * 12)


class TestWriteLastUse:
    def test_writes_the_last_one(self, world: World) -> None:
        text = world.keys.create("alice")
        world.keys.authenticate(text)
        world.forward(1)
        world.keys.recall(text)
        assert world.keys.list()[0].last_used_at is None
        world.keys.write_last_use()
        assert world.keys.list()[0].last_used_at == NOW + timedelta(seconds=1)

    def test_keeps_what_could_not_be_written(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(_: object) -> None:
            raise StoreUnavailable("away")

        world.keys.authenticate(world.keys.create("alice"))
        with monkeypatch.context() as patch:
            patch.setattr(world.store, "used", away)
            with pytest.raises(StoreUnavailable):
                world.keys.write_last_use()
        world.keys.write_last_use()
        assert world.keys.list()[0].last_used_at == NOW

    def test_writes_nothing_when_nothing_was_used(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(world.store, "used", None)
        world.keys.write_last_use()
