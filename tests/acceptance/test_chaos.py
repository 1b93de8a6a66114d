"""Short forms of `make chaos` and `make soak`: see docs/reliability.md."""

from pathlib import Path

import pytest

from tests.chaos.copy import Strikes, copy
from tests.chaos.trial import Options

RUN_NUMBER = 10900
"""Its first strikes: Kafka killed, a narrow link to Valkey, V8 child and Valkey killed, a sliced link to Kafka, worker
killed."""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_copy_test(tmp_path: Path) -> None:
    options = Options(RUN_NUMBER, records=20_000, kinds=["contains"], rate=1_000, poison_every=1_000)
    report = copy(tmp_path, options, Strikes(6, gap_s=1.0, longest_s=3.0), print)
    assert report.faults == [], report.text()
    assert report.fed >= options.records
    assert report.pipelines["contains"].dead_letters == report.fed // options.poison_every
