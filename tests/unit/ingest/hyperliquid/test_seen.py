from hypothesis import given
from hypothesis import strategies as st

from headwater.ingest.hyperliquid.seen import MAX_RANGES, SeenBlocks


@given(st.lists(st.integers(0, 40), max_size=60))
def test_a_block_is_new_once(numbers: list[int]) -> None:
    seen, known = SeenBlocks(), set[int]()
    for number in numbers:
        assert seen.add(number) == (number not in known)
        known.add(number)
        assert {n for first, last in seen.ranges for n in range(first, last + 1)} == known
        assert all(a[1] + 1 < b[0] for a, b in zip(seen.ranges, seen.ranges[1:], strict=False)), "ranges are joined"


def test_few_ranges_are_kept_and_the_newest_are_exact() -> None:
    seen = SeenBlocks()
    assert all(seen.add(number) for number in range(0, 1000, 2))
    assert len(seen.ranges) == MAX_RANGES
    assert seen.ranges[0] == (0, 998 - 2 * (MAX_RANGES - 1))
    assert seen.add(997)
    assert not SeenBlocks(seen.ranges).add(997)
    assert not seen.add(3), "far below, a hole counts as seen"
