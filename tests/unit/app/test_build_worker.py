"""The exit of a worker process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.app import build_worker
from headwater.app.stop_signals import STOP_SIGNALS
from headwater.engine.heartbeat import HeartbeatReporter
from headwater.errors import Fenced, HeadwaterError, NoValidOffset
from headwater.model.worker_protocol import FENCED_STATUS, Heartbeat
from tests.contract.test_orchestrator import worker_set


@pytest.fixture
def signal_handlers() -> Iterator[None]:
    """Restore the signal handlers after the test."""
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signal_handlers")
@pytest.mark.parametrize(
    ("error", "status"), [(Fenced("another"), FENCED_STATUS), (NoValidOffset("gap"), build_worker.FAILED)]
)
def test_the_exit_status_of_a_fenced_worker(
    error: HeadwaterError, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(build_worker, "_transform_context", fail)
    assert build_worker.run_worker(worker_set().spec, 0, HeartbeatReporter()) == status


def test_a_worker_does_not_import_unused_modules() -> None:
    module = build_worker.command(Path("spec.json"), 0, 3)[2]
    script = f"import {module}, sys; print(*(name for name, found in sys.modules.items() if found is not None))"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert "headwater.app.build_worker" in loaded
    assert not {"aiokafka", "rich", "opentelemetry.sdk", "typer", "sqlalchemy"} & {*loaded}


def test_a_worker_that_hangs_in_the_kafka_client_reports_it_and_exits() -> None:
    read_fd, write_fd = os.pipe()
    script = f"""
import threading
from headwater.app.build_worker import _end_hung_process
from headwater.engine.heartbeat import HeartbeatReporter
from headwater.engine.orchestrator_channel import SocketPairChannel
threading.Thread(target=_end_hung_process, args=[HeartbeatReporter(SocketPairChannel({write_fd}))]).start()
threading.Event().wait()
"""
    ended = subprocess.run([sys.executable, "-c", script], check=False, pass_fds=[write_fd], timeout=60)
    os.close(write_fd)
    beat = Heartbeat.model_validate_json(os.read(read_fd, 1 << 16))
    os.close(read_fd)
    assert (ended.returncode, beat.state, beat.reason) == (
        build_worker.FAILED,
        "failed",
        build_worker.TRANSACTION_HANGS,
    )
