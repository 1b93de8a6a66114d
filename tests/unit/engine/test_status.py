"""Crashes of V8 are counted per minute."""

import pytest

from headwater.engine.in_flight_batch import FailedRecord
from headwater.engine.status import CRASH_WINDOW_S, FEW_CRASHES, MAX_CRASH_PAUSE_S, MAX_CRASHES, CrashThrottle
from headwater.model.record import Failure


def crashed_records(count: int, error: str = "SandboxCrash") -> list[FailedRecord]:
    return [FailedRecord(0, n, 0, Failure(0, error, "", "t1")) for n in range(count)]


def test_a_few_crashes_do_not_slow_the_worker() -> None:
    crashes = CrashThrottle()
    assert crashes.record(crashed_records(MAX_CRASHES), 0.0) == 0.0
    assert crashes.reason == ""


@pytest.mark.parametrize(("new", "pause_s"), [(1, 1.0), (5, 5.0), (200, MAX_CRASH_PAUSE_S)])
def test_many_crashes_slow_the_worker(new: int, pause_s: float) -> None:
    crashes = CrashThrottle()
    crashes.record(crashed_records(MAX_CRASHES, "OutOfMemory"), 0.0)
    assert crashes.record(crashed_records(new), 30.0) == pause_s
    assert "a minute" in crashes.reason


def test_other_errors_do_not_count() -> None:
    crashes = CrashThrottle()
    crashes.record(crashed_records(1000, "TypeError"), 0.0)
    crashes.record(crashed_records(1000, "Timeout"), 0.0)
    assert crashes.reason == ""


def test_the_worker_recovers_when_crashes_are_few() -> None:
    crashes = CrashThrottle()
    crashes.record(crashed_records(MAX_CRASHES + 1), 0.0)
    crashes.record(crashed_records(FEW_CRASHES + 1), 10.0)
    crashes.expire(CRASH_WINDOW_S + 1)
    assert crashes.reason != ""
    assert crashes.record(crashed_records(0), CRASH_WINDOW_S + 2) == 0.0
    crashes.expire(CRASH_WINDOW_S + 10)
    assert crashes.reason == ""
