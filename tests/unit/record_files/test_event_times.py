"""Event times of records: shifting them in their format, and pacing by them."""

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.record_files.event_times import EventTimes

NOW = datetime(2026, 7, 1, 12, 30, 15, 250_000, UTC).timestamp()
FORMS = [
    ("2026-01-02T03:04:05Z", "2026-07-01T12:30:15Z"),
    ("2026-01-02T03:04:05", "2026-07-01T12:30:15"),
    ("2026-01-02 03:04:05.678 UTC", "2026-07-01 12:30:15.250 UTC"),
    ("2026-01-02T03:04:05.678901234", "2026-07-01T12:30:15.250000000"),
    ("2026-01-02T03:04:05.6+02:00", "2026-07-01T14:30:15.2+02:00"),
    ("2026-01-02T03:04:05-0330", "2026-07-01T09:00:15-0330"),
    (1767323045, int(NOW)),
    (1767323045678, int(NOW * 1000)),
    (1767323045678901, int(NOW * 10**6)),
    (1767323045.5, NOW),
]
NO_TIMES: list[Any] = [None, True, "soon", "2026-01-02", "2026-13-45T00:00:00Z", [], {}, "0x65"]


def record(at: Any) -> bytes:
    return json.dumps({"n": 2**80, "at": at, "x": [1.50]}).encode()


def only(records: Iterator[bytes]) -> Any:
    [one] = records
    return json.loads(one)["at"]


class TestAtNow:
    @pytest.mark.parametrize(("at", "expected"), FORMS)
    def test_the_format_of_times_is_kept(self, at: Any, expected: Any) -> None:
        assert only(EventTimes("at").stamped_now([record(at)], lambda: NOW)) == expected

    def test_other_members_are_unchanged(self) -> None:
        [moved] = EventTimes("at").stamped_now(
            [b'{ "a": 1e2, "at": 1767323045, "z": 123456789012345678901 }'], lambda: NOW
        )
        assert moved == b'{"a":1e2,"at":1782909015,"z":123456789012345678901}'

    @pytest.mark.parametrize("at", NO_TIMES)
    def test_without_a_time(self, at: Any) -> None:
        times = EventTimes("at")
        assert list(times.stamped_now([record(at), b'{"b":1}'], lambda: NOW)) == [record(at), b'{"b":1}']
        assert times.records_without_time == 2


class TestShifted:
    @pytest.mark.parametrize("at", [at for at, _ in FORMS])
    @given(seconds=st.integers(-(10**8), 10**8))
    def test_shifting_back_and_forth(self, at: Any, seconds: int) -> None:
        times = EventTimes("at")
        there = list(times.shifted([record(at)], seconds))
        assert times.event_time(there[0]) == pytest.approx((times.event_time(record(at)) or 0) + seconds, abs=1e-5)
        assert only(times.shifted(there, -seconds)) == at

    def test_the_first_is_now(self) -> None:
        records = [record(None), *(record(f"2026-01-02T03:04:{second:02}.9Z") for second in (10, 5, 30))]
        moved = EventTimes("at").shifted(records, None, lambda: NOW)
        assert [json.loads(one)["at"] for one in moved] == [
            None, "2026-07-01T12:30:14.9Z", "2026-07-01T12:30:09.9Z", "2026-07-01T12:30:34.9Z",
        ]  # fmt: skip

    @pytest.mark.parametrize("at", NO_TIMES)
    def test_without_a_time(self, at: Any) -> None:
        assert only(EventTimes("at").shifted([record(at)], 5)) == at


def test_the_newest() -> None:
    times = EventTimes("at")
    assert times.newest([record(at) for at in (1767323045, None, "2026-01-02T03:04:06Z", 1)]) == 1767323046
    assert times.newest([record("soon")]) is None


@pytest.mark.parametrize("factor", [1.0, 10.0, 0.5])
def test_the_pace(factor: float) -> None:
    now = 100.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    records = [record(at) for at in (1000, None, 1004, 1002, 1010)]
    taken = [now - 100 for _ in EventTimes("at").paced(records, factor, lambda: now, sleep)]
    assert taken == pytest.approx([0, 0, 4 / factor, 4 / factor, 10 / factor])


def test_a_pace_without_an_end() -> None:
    """Record of a pipe are returned as they arrive."""
    endless = EventTimes("at").paced((record(None) for _ in itertools.count()), 1)
    assert next(endless) == record(None)
