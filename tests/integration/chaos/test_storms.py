"""Short forms of `python -m tests.chaos storms` and `rolling` (docs/reliability.md): content alone, no time."""

from pathlib import Path

import pytest

from tests.chaos.rolling import RollingOptions, rolling
from tests.chaos.storms import StormOptions, storms

RUN_NUMBER = 5
"""Its strikes: a kill, a stop, a fencing, another stop, an orderly end, another stop."""


@pytest.mark.long
@pytest.mark.timeout(600)
def test_strikes_at_a_broker_while_members_come_and_go(tmp_path: Path) -> None:
    report = storms(tmp_path, StormOptions(RUN_NUMBER, strikes=6, rate=500), print)
    assert report.faults == [], report.text()
    assert sum(report.strikes.values()) == 6


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_rolling_restart(tmp_path: Path) -> None:
    report = rolling(tmp_path, RollingOptions(RUN_NUMBER, rate=1_000, steady_s=1.0), print)
    assert report.faults == [], report.text()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rolling_restarts_under_load(tmp_path: Path) -> None:
    report = rolling(tmp_path, RollingOptions(RUN_NUMBER, rate=10_000, rounds=2), print)
    assert report.faults == [], report.text()
