"""Two folders that tell the same events: each event is told by exactly one, in any order of reading."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.ingest.hyperliquid.spans import Spans


@given(st.lists(st.sampled_from([0, 1]), max_size=80), st.integers(1, 12), st.integers(1, 3))
def test_each_event_is_told_once(reads: list[int], blocks: int, events: int) -> None:
    """Both folders have the same blocks of some events, and are read one event at a time."""
    lines = [(block, event) for block in range(blocks) for event in range(events)]
    at, told, spans = [0, 0], list[tuple[int, int]](), Spans([None, None])

    def read(rank: int) -> bool:
        if at[rank] == len(lines):
            return False
        time, _ = line = lines[at[rank]]
        verdict = spans.judge(rank, time, [at[0] < len(lines), at[1] < len(lines)])
        if verdict == "wait":
            return False
        at[rank] += 1
        if verdict == "take":
            spans.took(rank, time)
            told.append(line)
        return True

    for rank in reads:
        read(rank)
    while read(0) or read(1):
        pass
    assert sorted(told) == lines


def test_a_folder_that_ends_is_followed_by_another() -> None:
    spans = Spans([None, None])
    spans.took(0, 10)
    assert spans.judge(1, 11, [True, True]) == "wait"
    assert spans.judge(1, 11, [False, True]) == "take"
    assert spans.judge(1, 10, [False, True]) == "drop"
    assert spans.judge(1, 9, [True, True]) == "take"
