"""Short runs of the tests of `python -m tests.chaos` (docs/reliability.md).

Times are not checked.
"""

import signal
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.installation import Installation
from tests.chaos.copy_under_faults import StrikePlan, copy
from tests.chaos.faults import send_signal
from tests.chaos.run import Environment, RunOptions, RunReport, run_in
from tests.chaos.single_faults import interrupt_valkey

RUN_NUMBER = 10900
"""With this seed the first strikes are: kafka KILL, valkey link narrow, script KILL, valkey KILL, kafka link sliced,
worker KILL."""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_pipeline_loses_nothing_under_strikes(tmp_path: Path) -> None:
    options = RunOptions(RUN_NUMBER, records=20_000, kinds=["contains"], rate=1_000, poison_every=1_000)
    report = copy(tmp_path, options, StrikePlan(6, gap_s=1.0, longest_s=3.0), print)
    assert report.faults == [], report.text()
    assert report.fed >= options.records
    assert report.pipelines["contains"].dead_letters == report.fed // options.poison_every


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_pipeline_from_pubsub_loses_nothing_under_strikes(tmp_path: Path) -> None:
    options = RunOptions(RUN_NUMBER, records=600, kinds=["plain"], rate=30, source="pubsub", network=False)
    strikes = StrikePlan(3, gap_s=1.0, longest_s=3.0, only=["worker KILL", "worker TERM", "parent KILL"])
    report = copy(tmp_path, options, strikes, print)
    assert report.faults == [], report.text()
    assert report.fed >= options.records


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("outage_s", [10.0, 60.0])
def test_pipelines_wait_while_valkey_hangs(installation: Installation, outage_s: float) -> None:
    [valkey] = installation.processes("valkey-server")

    def disturb(environment: Environment, report: RunReport) -> None:
        interrupt_valkey(
            environment,
            report,
            outage_s,
            partial(send_signal, valkey, signal.SIGSTOP),
            partial(send_signal, valkey, signal.SIGCONT),
        )

    stream = ("polygon", "erc20_token_transfer" if outage_s == 10.0 else "erc721_token_transfer")
    options = RunOptions(1, 0, ["v8", "contains", "filter"], rate=200, poison_every=500, stream=stream)
    environment = Environment(installation, installation.admin_config(), {}, installation.data_dir / "logs")
    assert run_in(environment, options, disturb).faults == []
