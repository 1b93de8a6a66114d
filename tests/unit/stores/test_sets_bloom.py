"""The Bloom filter in front of sets."""

import numpy as np
import pytest

from headwater.stores.redis.bloom import Bloom, size_bytes


@pytest.mark.parametrize("capacity", [0, 1, 7, 1_000, 100_000])
def test_never_denies_what_was_added(capacity: int) -> None:
    rng = np.random.default_rng(capacity)
    bloom, added = Bloom(capacity), rng.integers(0, 2**64, 1_000, dtype=np.uint64)
    bloom.add(added)
    assert bloom.maybe(added).all()


def test_denies_nearly_all_others() -> None:
    rng = np.random.default_rng(1)
    bloom = Bloom(100_000)
    bloom.add(rng.integers(0, 2**64, 100_000, dtype=np.uint64))
    assert bloom.maybe(rng.integers(0, 2**64, 100_000, dtype=np.uint64)).mean() < 0.006
    assert size_bytes(100_000) == 200_000


def test_empty() -> None:
    assert not Bloom(0).maybe(np.arange(10, dtype=np.uint64)).any()
