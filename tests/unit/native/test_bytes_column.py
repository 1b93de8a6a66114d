"""BytesColumn and split_lines against plain lists."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.native import BytesColumn, split_lines
from tests.support.columns import numbered

Plain = list[bytes | None]

LINES: st.SearchStrategy[Plain] = st.lists(
    st.binary(max_size=40).map(lambda text: text.replace(b"\n", b" ")), max_size=20
)
COLUMNS = LINES | st.lists(
    st.none() | st.binary(max_size=40) | st.sampled_from([b"", b"\n", b"\n\n", b"a\nb", b"x" * 5000]), max_size=20
)


def some_rows(values: Plain) -> st.SearchStrategy[tuple[Plain, list[int]]]:
    """A column, and some of its rows in any order, with repetitions."""
    rows = st.lists(st.sampled_from(range(len(values))), max_size=20) if values else st.just([])
    return st.tuples(st.just(values), rows)


def check(column: BytesColumn, values: Plain) -> None:
    """Assert that a column equals a list in all of its methods."""
    assert column == BytesColumn.of(values)
    assert column == values
    assert len(column) == len(values)
    assert [*column] == values
    assert [column[row] for row in range(len(values))] == values


class TestOf:
    @given(COLUMNS)
    def test_any_strings(self, values: Plain) -> None:
        check(BytesColumn.of(values), values)

    @given(COLUMNS, COLUMNS)
    def test_columns_with_equal_strings_are_equal(self, ones: Plain, others: Plain) -> None:
        assert (BytesColumn.of(ones) == BytesColumn.of(others)) == (ones == others)
        assert (BytesColumn.of(ones) == others) == (ones == others)

    @pytest.mark.parametrize("other", [[b""], [], [None, None], (None,), None])
    def test_none_is_not_an_empty_string(self, other: object) -> None:
        assert BytesColumn.of([None]) != other
        assert BytesColumn.of([None]) != BytesColumn.of([b""])

    def test_repr(self) -> None:
        assert repr(BytesColumn.of([b"a\n", None])) == "BytesColumn.of([b'a\\n', None])"


class TestRows:
    @given(COLUMNS)
    def test_from_either_end(self, values: Plain) -> None:
        column, count = BytesColumn.of(values), len(values)
        assert [column[row] for row in range(-count, count)] == values * 2
        for row in (count, -count - 1):
            with pytest.raises(IndexError):
                column[row]

    @given(COLUMNS.flatmap(lambda values: st.tuples(st.just(values), st.slices(len(values)))))
    def test_slices(self, part: tuple[Plain, slice]) -> None:
        values, rows = part
        check(BytesColumn.of(values)[rows], values[rows])

    @given(COLUMNS.flatmap(some_rows))
    def test_a_selection_of_rows(self, part: tuple[Plain, list[int]]) -> None:
        (values, rows), column = part, BytesColumn.of(part[0])
        selected = column.select_rows(numbered(rows))
        check(selected, [values[row] for row in rows])
        assert (
            column.size_of_rows(numbered(rows))
            == len(selected.buffer)
            == sum(len(values[row] or b"") + 1 for row in rows)
        )
        check(selected.select_rows(numbered(range(len(rows))[::-1])), [values[row] for row in reversed(rows)])
        check(column, values)


class TestLines:
    @given(LINES)
    def test_of_a_text(self, lines: Plain) -> None:
        split = split_lines(BytesColumn.of(lines).buffer, len(lines), b"!", b"t")
        check(split.lines, lines)
        assert split.has_first_byte == any((line or b"").startswith(b"!") for line in lines)
        assert split.has_byte == any(b"t" in (line or b"") for line in lines)

    @given(LINES, st.integers(-20, 20).filter(bool))
    def test_a_wrong_number_of_rows(self, lines: Plain, more: int) -> None:
        with pytest.raises(ValueError, match="lines"):
            split_lines(BytesColumn.of(lines).buffer, max(len(lines) + more, 0) if lines else abs(more), b"!", b"t")

    @pytest.mark.parametrize(("text", "count"), [(b"a\nb", 1), (b"a", 0), (b"a", 1)])
    def test_a_line_without_an_end(self, text: bytes, count: int) -> None:
        with pytest.raises(ValueError, match="lines"):
            split_lines(text, count, b"!", b"t")


@given(COLUMNS)
def test_sizes(values: Plain) -> None:
    column, sizes = BytesColumn.of(values), [-1 if value is None else len(value) for value in values]
    assert (column.min_size, column.max_size) == (min(sizes, default=0), max(0, *sizes, 0))
    assert column.non_empty_rows().tolist() == [row for row, value in enumerate(values) if value]


def test_several_threads_may_compute_the_starts() -> None:
    sizes = numbered([1] * 50_000)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(50):
            column = BytesColumn(b"x\n" * len(sizes), sizes)
            ends = pool.map(lambda _, column=column: column.starts[-1], range(4))
            assert {*ends} == {2 * (len(sizes) - 1)}
