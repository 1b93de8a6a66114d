"""Encoding by several threads: a portion of the same columns for each partition."""

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from headwater.native import Portion, Texts, encode_records
from tests.support.columns import numbered, numbers

ROWS, THREADS, ROUNDS = 2000, 8, 500


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_threads_share_columns() -> None:
    values = [b"%d" % row * 30 for row in range(ROWS)]
    parts = [numbered(range(first, ROWS, THREADS)) for first in range(THREADS)]
    times = numbers([1] * ROWS)

    def encode(rows: int, columns: Texts, barrier: Barrier) -> bytes:
        barrier.wait()
        return bytes(encode_records([Portion(parts[rows], columns, columns, times)], b"\0"))

    expected = [encode(part, Texts.of(values), Barrier(1)) for part in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(ROUNDS):
            shared = Texts.of(values), Barrier(THREADS)
            made = [pool.submit(encode, part, *shared) for part in range(THREADS)]
            assert [each.result() for each in made] == expected


def test_nothing_stays_of_an_encoding() -> None:
    def encode(size: int) -> None:
        values = Texts.of([b"x" * size])
        encode_records([Portion(numbered([0]), values, values, numbers([1]))], b"\0")

    def count() -> int:
        return len(gc.get_objects())

    encode(1)
    gc.collect()
    gc.disable()
    try:
        before = count()
        for size in range(2, 200):
            encode(size)
        assert count() - before < 100
    finally:
        gc.enable()
