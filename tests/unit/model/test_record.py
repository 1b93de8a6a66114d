"""Batches against plain rows."""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.model.record import RecordBatch, count_values, find_runs
from tests.support.columns import Record, numbered, numbers, plain

TEXTS = st.none() | st.binary(max_size=20)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, NUMBERS, st.integers(0, 3), NUMBERS, NUMBERS), max_size=20)


def batch(rows: list[Record]) -> RecordBatch:
    columns: Any = zip(*rows, strict=True) if rows else [()] * 6
    return RecordBatch.of("t", *columns)


class TestBatch:
    @given(ROWS)
    def test_of_any_columns(self, rows: list[Record]) -> None:
        assert plain(batch(rows)) == rows
        assert len(batch(rows)) == len(rows)

    def test_empty(self) -> None:
        assert RecordBatch.empty("t") == batch([])

    def test_columns_of_one_length(self) -> None:
        with pytest.raises(ValueError, match="argument 2 is shorter"):
            plain(RecordBatch.of("t", [b"v"], [], [0], [0], [0], [0]))

    @given(ROWS, st.data())
    def test_select(self, rows: list[Record], data: st.DataObject) -> None:
        keep = data.draw(st.lists(st.booleans() | st.integers(0, 9), min_size=len(rows), max_size=len(rows)))
        assert plain(batch(rows).select(keep)) == [row for row, kept in zip(rows, keep, strict=True) if kept]

    @given(ROWS)
    def test_all_are_the_same_batch(self, rows: list[Record]) -> None:
        given_ = batch(rows)
        assert given_.select([True] * len(rows)) is given_.without({4}) is given_

    @given(ROWS, st.sets(st.integers(0, 3)))
    def test_without(self, rows: list[Record], partitions: set[int]) -> None:
        assert plain(batch(rows).without(partitions)) == [row for row in rows if row[3] not in partitions]

    @given(ROWS.filter(bool), st.data())
    def test_take(self, rows: list[Record], data: st.DataObject) -> None:
        numbers = data.draw(st.lists(st.sampled_from(range(len(rows))), max_size=30))
        taken = batch(rows).take(numbered(numbers))
        assert plain(taken) == [rows[number] for number in numbers]
        assert taken == batch(plain(taken))

    @given(ROWS)
    def test_ends_of_partitions(self, rows: list[Record]) -> None:
        assert batch(rows).last_offsets() == {row[3]: row[4] for row in rows}
        assert batch(rows).first_offsets() == {row[3]: row[4] for row in reversed(rows)}


@given(st.lists(st.integers(-3, 3) | NUMBERS))
@example([*range(200)] * 2)
@example([5, 5, 7, 5])
def test_runs(values: list[int]) -> None:
    assert count_values(numbers(values)) == Counter(values)
    found, ends = find_runs(np.array(values, np.int64))
    assert [
        value for value, start, end in zip(found, [0, *ends], ends, strict=False) for _ in range(start, end)
    ] == values
    assert all(one != next_ for one, next_ in pairwise(found))
