"""Cursors, and parts of a list."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.pagination import PART_BYTES, ListPosition, parse_list_cursor, split_by_size

TIMES = st.datetimes(datetime(1970, 1, 1), datetime(5000, 1, 1), timezones=st.just(UTC))
IDS = st.from_regex(r"\A[0-9a-z]{1,64}\Z")


@given(TIMES, IDS)
def test_a_cursor_round_trips(created_at: datetime, object_id: str) -> None:
    position = ListPosition(created_at, object_id)
    assert parse_list_cursor(position.cursor()) == position


@pytest.mark.parametrize("text", ["", "1", "-", "1-", "-a", "1-A", "1-a b", "1.5-a", "٧-a", "1" * 18 + "-a", "1-a\n"])
def test_invalid_cursors_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="must be a cursor"):
        parse_list_cursor(text)


@given(st.lists(st.integers(0, 2 * PART_BYTES)))
def test_parts_keep_the_order_and_are_small(sizes: list[int]) -> None:
    positions = [ListPosition(datetime(2026, 1, 1, tzinfo=UTC), str(number), size) for number, size in enumerate(sizes)]
    parts = list(split_by_size(positions, lambda position: position.size))
    assert [position for part in parts for position in part] == positions
    assert all(len(part) == 1 or sum(position.size for position in part) <= PART_BYTES for part in parts)
    assert all(parts)
