"""A short attack without an API key has no effect on users.

`python -m tests.chaos attack` runs a long attack, and measures times.
"""

from pathlib import Path

import pytest

from tests.chaos.attack import attack


@pytest.mark.long
def test_a_users_requests_succeed_and_no_process_grows_during_an_attack(tmp_path: Path) -> None:
    report = attack(tmp_path, minutes=0.25, scale=0.05, warm_up_s=3)
    assert report.failed == []
    assert report.calls > 0
    assert all(mib < 50 for mib in report.growth_mib.values()), report.growth_mib
    counts = report.attacker
    assert counts["keys answered 401"] > 100
    assert counts["bytes of heads"] > 1_000_000
    assert counts["slow heads"] > 100
