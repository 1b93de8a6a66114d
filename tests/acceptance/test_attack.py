"""A short attack by somebody without a key; `python -m tests.chaos attack` is the long one, with figures."""

from pathlib import Path

import pytest

from tests.chaos.attack import attack


@pytest.mark.long
def test_a_user_beside_an_attacker_is_answered_and_no_process_grows(tmp_path: Path) -> None:
    report = attack(tmp_path, minutes=0.25, scale=0.05, warm_up_s=3)
    assert report.failed == []
    assert report.calls > 0
    assert all(mib < 50 for mib in report.growth_mib.values()), report.growth_mib
    did = report.attacker
    assert did["keys answered 401"] > 100
    assert did["bytes of heads"] > 1_000_000
    assert did["slow heads"] > 100
