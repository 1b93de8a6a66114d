"""Short forms of what `python -m tests.chaos` does (docs/reliability.md): content alone, no time."""

import signal
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.stack import Stack
from tests.chaos.copies import Strikes, copy
from tests.chaos.faults import hit
from tests.chaos.proofs import take_the_set_store
from tests.chaos.trial import Installation, Options, Report, observe

RUN_NUMBER = 10900
"""Its first strikes: Kafka killed, a narrow link to Valkey, V8 child and Valkey killed, a sliced link to Kafka, worker
killed."""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_copy_test(tmp_path: Path) -> None:
    options = Options(RUN_NUMBER, records=20_000, kinds=["contains"], rate=1_000, poison_every=1_000)
    report = copy(tmp_path, options, Strikes(6, gap_s=1.0, longest_s=3.0), print)
    assert report.faults == [], report.text()
    assert report.fed >= options.records
    assert report.pipelines["contains"].dead_letters == report.fed // options.poison_every


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_copy_test_on_pubsub(tmp_path: Path) -> None:
    options = Options(RUN_NUMBER, records=600, kinds=["plain"], rate=30, source="pubsub", network=False)
    strikes = Strikes(3, gap_s=1.0, longest_s=3.0, only=["worker KILL", "worker TERM", "parent KILL"])
    report = copy(tmp_path, options, strikes, print)
    assert report.faults == [], report.text()
    assert report.fed >= options.records


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("away_s", [10.0, 60.0])
def test_the_set_store_is_away(stack: Stack, away_s: float) -> None:
    [valkey] = stack.below("valkey-server")

    def disturb(made: Installation, report: Report) -> None:
        take_the_set_store(
            made, report, away_s, partial(hit, valkey, signal.SIGSTOP), partial(hit, valkey, signal.SIGCONT)
        )

    stream = ("polygon", "erc20_token_transfer" if away_s == 10.0 else "erc721_token_transfer")
    options = Options(1, 0, ["v8", "contains", "filter"], rate=200, poison_every=500, stream=stream)
    made = Installation(stack, stack.admin_config(), {}, stack.data_dir / "logs")
    assert observe(made, options, disturb).faults == []
