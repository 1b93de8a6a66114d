"""The Bloom filter in front of sets."""

import numpy as np
import pytest

from headwater.stores.redis.sets.bloom import BloomFilter, size_bytes


@pytest.mark.parametrize("capacity", [0, 1, 7, 1_000, 100_000])
def test_never_denies_what_was_added(capacity: int) -> None:
    rng = np.random.default_rng(capacity)
    bloom, added = BloomFilter(capacity), rng.integers(0, 2**64, 1_000, dtype=np.uint64)
    bloom.add(added)
    assert bloom.may_contain(added).all()


def test_denies_nearly_all_others() -> None:
    rng = np.random.default_rng(1)
    bloom = BloomFilter(100_000)
    bloom.add(rng.integers(0, 2**64, 100_000, dtype=np.uint64))
    assert bloom.may_contain(rng.integers(0, 2**64, 100_000, dtype=np.uint64)).mean() < 0.006
    assert size_bytes(100_000) == 200_000


@pytest.mark.parametrize("in_order", [False, True])
def test_grows_by_layers(in_order: bool) -> None:
    rng = np.random.default_rng(2)
    bloom, added = BloomFilter(100), rng.integers(0, 2**64, 200_000, dtype=np.uint64)
    if in_order:  # like writes
        added.sort()
    for part in np.array_split(added, 40):
        bloom.add(part)
    assert bloom.may_contain(added).all()
    assert bloom.may_contain(rng.integers(0, 2**64, 100_000, dtype=np.uint64)).mean() < 0.006 * bloom.layers
    assert bloom.layers < 8
    assert bloom.size_bytes < 4.5 * size_bytes(200_000)


def test_adding_again_needs_no_room() -> None:
    bloom, added = BloomFilter(1_000), np.arange(900, dtype=np.uint64) << np.uint64(40)
    for _ in range(10):
        bloom.add(added)
    assert bloom.layers == 1


def test_a_full_filter_reports_it() -> None:
    rng = np.random.default_rng(3)
    bloom, added = BloomFilter(1_000, lambda _: False), rng.integers(0, 2**64, 3_000, dtype=np.uint64)
    bloom.add(added[:1_000])
    assert not bloom.is_over_capacity
    bloom.add(added[1_000:])
    assert (bloom.layers, bloom.is_over_capacity) == (1, True)
    assert bloom.may_contain(added).all()


def test_empty() -> None:
    assert not BloomFilter(0).may_contain(np.arange(10, dtype=np.uint64)).any()
