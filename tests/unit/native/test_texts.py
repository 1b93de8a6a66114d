"""Columns of texts against plain lists."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.native import Texts, split_lines
from tests.support.columns import numbered

Plain = list[bytes | None]

LINES: st.SearchStrategy[Plain] = st.lists(
    st.binary(max_size=40).map(lambda text: text.replace(b"\n", b" ")), max_size=20
)
COLUMNS = LINES | st.lists(
    st.none() | st.binary(max_size=40) | st.sampled_from([b"", b"\n", b"\n\n", b"a\nb", b"x" * 5000]), max_size=20
)


def some_rows(values: Plain) -> st.SearchStrategy[tuple[Plain, list[int]]]:
    """A column, and rows of it in any order, some of them again."""
    rows = st.lists(st.sampled_from(range(len(values))), max_size=20) if values else st.just([])
    return st.tuples(st.just(values), rows)


def check(texts: Texts, values: Plain) -> None:
    """A column is this list, however one looks at it."""
    assert texts == Texts.of(values)
    assert texts == values
    assert len(texts) == len(values)
    assert [*texts] == values
    assert [texts[row] for row in range(len(values))] == values


class TestOf:
    @given(COLUMNS)
    def test_any_texts(self, values: Plain) -> None:
        check(Texts.of(values), values)

    @given(COLUMNS, COLUMNS)
    def test_equal_are_those_with_equal_texts(self, ones: Plain, others: Plain) -> None:
        assert (Texts.of(ones) == Texts.of(others)) == (ones == others)
        assert (Texts.of(ones) == others) == (ones == others)

    @pytest.mark.parametrize("other", [[b""], [], [None, None], (None,), None])
    def test_none_is_no_empty_text(self, other: object) -> None:
        assert Texts.of([None]) != other
        assert Texts.of([None]) != Texts.of([b""])

    def test_it_shows_its_texts(self) -> None:
        assert repr(Texts.of([b"a\n", None])) == "Texts.of([b'a\\n', None])"


class TestRows:
    @given(COLUMNS)
    def test_from_either_end(self, values: Plain) -> None:
        texts, count = Texts.of(values), len(values)
        assert [texts[row] for row in range(-count, count)] == values * 2
        for row in (count, -count - 1):
            with pytest.raises(IndexError):
                texts[row]

    @given(COLUMNS.flatmap(lambda values: st.tuples(st.just(values), st.slices(len(values)))))
    def test_slices(self, part: tuple[Plain, slice]) -> None:
        values, rows = part
        check(Texts.of(values)[rows], values[rows])

    @given(COLUMNS.flatmap(some_rows))
    def test_some_of_them(self, part: tuple[Plain, list[int]]) -> None:
        (values, rows), texts = part, Texts.of(part[0])
        taken = texts.take(numbered(rows))
        check(taken, [values[row] for row in rows])
        assert texts.size_of(numbered(rows)) == len(taken.text) == sum(len(values[row] or b"") + 1 for row in rows)
        check(taken.take(numbered(range(len(rows))[::-1])), [values[row] for row in reversed(rows)])
        check(texts, values)


class TestLines:
    @given(LINES)
    def test_of_a_text(self, lines: Plain) -> None:
        split = split_lines(Texts.of(lines).text, len(lines), b"!", b"t")
        check(split.lines, lines)
        assert split.marked == any((line or b"").startswith(b"!") for line in lines)
        assert split.with_letter == any(b"t" in (line or b"") for line in lines)

    @given(LINES, st.integers(-20, 20).filter(bool))
    def test_not_so_many(self, lines: Plain, more: int) -> None:
        with pytest.raises(ValueError, match="lines"):
            split_lines(Texts.of(lines).text, max(len(lines) + more, 0) if lines else abs(more), b"!", b"t")

    @pytest.mark.parametrize(("text", "count"), [(b"a\nb", 1), (b"a", 0), (b"a", 1)])
    def test_a_line_without_an_end(self, text: bytes, count: int) -> None:
        with pytest.raises(ValueError, match="lines"):
            split_lines(text, count, b"!", b"t")


@given(COLUMNS)
def test_what_they_are_like(values: Plain) -> None:
    texts, sizes = Texts.of(values), [-1 if value is None else len(value) for value in values]
    assert (texts.smallest, texts.largest) == (min(sizes, default=0), max(0, *sizes, 0))
    assert texts.filled().tolist() == [row for row, value in enumerate(values) if value]


def test_several_threads_may_look_first() -> None:
    sizes = numbered([1] * 50_000)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(50):
            texts = Texts(b"x\n" * len(sizes), sizes)
            ends = pool.map(lambda _, texts=texts: texts.starts[-1], range(4))
            assert {*ends} == {2 * (len(sizes) - 1)}
