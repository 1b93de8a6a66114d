"""Short runs of `python -m tests.chaos storms` and `rolling` (docs/reliability.md).

Times are not checked.
"""

from pathlib import Path

import pytest

from tests.chaos.rolling import RollingOptions, rolling
from tests.chaos.storms import StormOptions, storms

RUN_NUMBER = 5
"""With this seed the strikes are KILL, STOP, FENCE, STOP, TERM, STOP."""


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nothing_is_lost_while_a_broker_fails_and_members_change(tmp_path: Path) -> None:
    report = storms(tmp_path, StormOptions(RUN_NUMBER, strikes=6, rate=500), print)
    assert report.faults == [], report.text()
    assert sum(report.strikes.values()) == 6


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_rolling_restart_loses_nothing(tmp_path: Path) -> None:
    report = rolling(tmp_path, RollingOptions(RUN_NUMBER, rate=1_000, steady_s=1.0), print)
    assert report.faults == [], report.text()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rolling_restarts_under_load_lose_nothing(tmp_path: Path) -> None:
    report = rolling(tmp_path, RollingOptions(RUN_NUMBER, rate=10_000, rounds=2), print)
    assert report.faults == [], report.text()
