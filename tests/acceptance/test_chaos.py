"""Short forms of `make chaos` and `make soak`: see docs/reliability.md."""

from pathlib import Path

import pytest

from tests.chaos import copy

RUN_NUMBER = 10900
"""Its first strikes: Kafka killed, a narrow link to Valkey, V8 child and Valkey killed, a sliced link to Kafka, worker
killed."""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_copy_test(tmp_path: Path) -> None:
    options = copy.Options(
        RUN_NUMBER,
        records=20_000,
        strikes=6,
        kind="contains",
        rate=1_000,
        gap_s=1.0,
        longest_stop_s=3.0,
        poison_every=1_000,
    )
    report = copy.run(tmp_path, options)
    assert report.faults == [], report.text()
    assert report.fed >= options.records
    assert report.dead_letters_planted >= report.fed // options.poison_every
