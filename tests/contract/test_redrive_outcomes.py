"""The contract of RedriveOutcomeStore."""

import random
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from headwater.model.dead_letter import LetterId, RedriveOutcome
from headwater.model.redrive import LetterOutcome, RedriveCounts, RedriveProgress
from headwater.stores.protocols.redrives import RedriveOutcomeStore
from headwater.stores.redis.client import connect
from headwater.stores.redis.redrives import ENDED_TTL_MS, LETTERS_PER_BLOCK, RedisRedriveOutcomes
from tests.support.memory.redrives import MemoryRedriveOutcomes


@pytest.fixture(params=["memory", "valkey_url", "cluster_url"])
def store(request: pytest.FixtureRequest) -> Iterator[RedriveOutcomeStore]:
    if request.param == "memory":
        yield MemoryRedriveOutcomes()
        return
    with closing(connect(request.getfixturevalue(request.param))) as client:
        yield RedisRedriveOutcomes(client)


@pytest.fixture
def deployment() -> str:
    """Return the id of a deployment that no other test uses."""
    return secrets.token_hex(8)


def test_nothing(store: RedriveOutcomeStore, deployment: str) -> None:
    assert store.outcomes(deployment, [LetterId(0, 1)]) == {}
    assert store.outcomes(deployment, []) == {}
    assert store.progress(deployment, 1) == RedriveProgress()
    store.drop(deployment)


def test_outcomes(store: RedriveOutcomeStore, deployment: str) -> None:
    letters: dict[LetterId, RedriveOutcome] = {
        LetterId(0, 5): "delivered",
        LetterId(0, 7): "dropped",
        LetterId(0, LETTERS_PER_BLOCK): "failed",
        LetterId(3, 10**12): "delivered",
    }
    assert store.record(deployment, 1, letters, 1_767_323_045) is False
    asked = [*letters, LetterId(0, 6), LetterId(1, 5), LetterId(3, 10**12 + 1)]
    assert store.outcomes(deployment, asked) == {
        letter: LetterOutcome(outcome, 1_767_323_045, 1) for letter, outcome in letters.items()
    }
    assert store.progress(deployment, 1).counts == RedriveCounts(2, 1, 1)
    assert store.progress(deployment, 2).counts == RedriveCounts()


def test_a_letter_of_a_redrive_counts_once(store: RedriveOutcomeStore, deployment: str) -> None:
    store.record(deployment, 1, {LetterId(0, 1): "delivered", LetterId(0, 2): "failed"}, 10)
    store.record(deployment, 1, {LetterId(0, 1): "delivered", LetterId(0, 2): "dropped", LetterId(0, 3): "failed"}, 11)
    assert store.progress(deployment, 1).counts == RedriveCounts(1, 1, 1)
    assert store.outcomes(deployment, [LetterId(0, 2)])[LetterId(0, 2)] == LetterOutcome("dropped", 11, 1)


def test_outcomes_that_are_stored_in_a_transaction(store: RedriveOutcomeStore, deployment: str) -> None:
    letters: dict[LetterId, RedriveOutcome] = {LetterId(0, 1): "delivered", LetterId(0, 2): "dropped"}
    store.record(deployment, 1, letters | {LetterId(0, 3): "failed"}, 10, in_transaction=True)
    store.record(deployment, 1, {LetterId(0, 1): "delivered"}, 11)
    assert store.progress(deployment, 1).counts == RedriveCounts(1, 1, 1)
    assert store.outcomes(deployment, letters) == {
        LetterId(0, 1): LetterOutcome("delivered", 11, 1),
        LetterId(0, 2): LetterOutcome("dropped", 10, 1, in_transaction=True),
    }


def test_a_later_redrive(store: RedriveOutcomeStore, deployment: str) -> None:
    store.record(deployment, 1, {LetterId(0, 1): "failed"}, 10)
    store.record(deployment, 300, {LetterId(0, 1): "delivered"}, 20)
    assert store.progress(deployment, 1).counts == RedriveCounts(0, 0, 1)
    assert store.progress(deployment, 300).counts == RedriveCounts(1, 0, 0)
    assert store.outcomes(deployment, [LetterId(0, 1)])[LetterId(0, 1)] == LetterOutcome("delivered", 20, 300)


def test_the_end_of_a_redrive(store: RedriveOutcomeStore, deployment: str) -> None:
    store.record(deployment, 1, {LetterId(0, 1): "failed"}, 10)
    store.finish(deployment, 1)
    assert store.progress(deployment, 1) == RedriveProgress(RedriveCounts(failed=1), has_finished=True)
    assert not store.progress(deployment, 2).has_finished


def test_the_progress_stays_for_a_moment_after_the_end(store: RedriveOutcomeStore, deployment: str) -> None:
    store.record(deployment, 1, {LetterId(0, 1): "failed"}, 10)
    store.finish(deployment, 1)
    store.expire_progress(deployment, 1)
    store.expire_progress(deployment, 2)
    assert store.progress(deployment, 1) == RedriveProgress(RedriveCounts(failed=1), has_finished=True)


def test_keys_after_the_end(valkey_url: str, deployment: str) -> None:
    with closing(connect(valkey_url)) as client:
        store = RedisRedriveOutcomes(client)
        store.record(deployment, 1, {LetterId(0, 1): "failed", LetterId(7, 1): "failed"}, 10)
        store.finish(deployment, 1)
        store.expire_progress(deployment, 1)
        assert 0 < client.call("PTTL", f"{{dm:{deployment}}}:redrive:1") <= ENDED_TTL_MS
        store.drop(deployment)
        keys = [key.decode() for key in client.scan(f"{{dm:{deployment}}}:*")]
        assert keys == [f"{{dm:{deployment}}}:redrive:1"]


def test_throttling(store: RedriveOutcomeStore, deployment: str) -> None:
    store.set_throttled(deployment, 1, is_throttled=True)
    assert store.record(deployment, 1, {}, 10)
    assert store.record(deployment, 1, {LetterId(0, 1): "failed"}, 10)
    assert not store.record(deployment, 2, {}, 10)
    store.set_throttled(deployment, 1, is_throttled=False)
    assert not store.record(deployment, 1, {}, 10)


def test_drop(store: RedriveOutcomeStore, deployment: str) -> None:
    store.record(deployment, 1, {LetterId(0, 1): "failed", LetterId(1, 1): "failed"}, 10)
    another = f"{deployment}-2"
    store.record(another, 1, {LetterId(0, 1): "failed"}, 10)
    store.finish(deployment, 1)
    store.drop(deployment)
    assert store.outcomes(deployment, [LetterId(0, 1), LetterId(1, 1)]) == {}
    assert store.progress(deployment, 1).counts == RedriveCounts(failed=2)
    assert store.outcomes(another, [LetterId(0, 1)])
    assert store.progress(another, 1).counts == RedriveCounts(failed=1)
    store.drop(another)


@pytest.mark.parametrize("seed", range(5))
def test_many_letters(store: RedriveOutcomeStore, deployment: str, seed: int) -> None:
    rng = random.Random(seed)
    expected: dict[LetterId, RedriveOutcome] = {}
    for _ in range(5):
        first = rng.randrange(200 * LETTERS_PER_BLOCK)
        offsets = range(first, first + rng.randrange(5_000), rng.choice([1, 1, 7]))
        letters: dict[LetterId, RedriveOutcome] = {
            LetterId(rng.randrange(2), offset): rng.choice(["delivered", "dropped", "failed"]) for offset in offsets
        }
        store.record(deployment, 1, letters, 10)
        expected |= letters
    found = {letter: outcome.outcome for letter, outcome in store.outcomes(deployment, expected).items()}
    assert found == expected
    counts = Counter(expected.values())
    assert store.progress(deployment, 1).counts == RedriveCounts(
        counts["delivered"], counts["dropped"], counts["failed"]
    )
