"""The orchestrator with many deployments, and a teardown during a hand-over.

tests/contract/test_orchestrator.py tests its processes.
"""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from headwater.children import spawn
from headwater.model.worker_protocol import LEAVE
from headwater.orchestrators.memory_usage import OomKillDetector
from headwater.orchestrators.process import ProcessOrchestrator
from headwater.orchestrators.slot import Slot, SlotRole
from headwater.orchestrators.worker_process import WorkerProcess
from tests.contract.test_orchestrator import worker_set


def no_process(*_: object) -> list[str]:
    raise OSError("no process can be started")


@pytest.fixture
def orchestrator(tmp_path: Path) -> Iterator[ProcessOrchestrator]:
    with contextlib.closing(ProcessOrchestrator(tmp_path / "workers", no_process, 1 << 30)) as orchestrator:
        yield orchestrator


def lines_of_status(orchestrator: ProcessOrchestrator, deployment_id: str) -> int:
    """Return how many lines of Python one call executes.

    An iteration of a comprehension counts as a line.
    """
    count = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert len(orchestrator.status(deployment_id)) == 1
    finally:
        sys.settrace(before)
    return count


def test_the_work_of_a_status_call_does_not_grow_with_the_deployments(orchestrator: ProcessOrchestrator) -> None:
    orchestrator.ensure(worker_set(deployment_id="d0"))
    alone = lines_of_status(orchestrator, "d0")
    for number in range(1, 101):
        orchestrator.ensure(worker_set(deployment_id=f"d{number}"))
    assert len(orchestrator.worker_set_ids()) == 101
    assert lines_of_status(orchestrator, "d0") < alone + 50


def test_a_teardown_during_a_hand_over_lets_the_worker_leave_its_group(orchestrator: ProcessOrchestrator) -> None:
    control_socket, worker_end = socket.socketpair()
    worker_end.setblocking(False)
    process = WorkerProcess(
        spec_hash="first",
        child=spawn(["/bin/sleep", "60"], stdout=subprocess.DEVNULL),
        control_socket=control_socket,
        on_heartbeat=lambda _: None,
        clock=time.monotonic,
        oom_kills=OomKillDetector(time.monotonic, lambda: 0),
    )
    worker = SlotRole(wanted_spec_hash="second", process=process)
    with worker_end, contextlib.closing(process):
        orchestrator._stop_if_unwanted(Slot("d-0"), worker, 0.0)
        with pytest.raises(BlockingIOError):
            worker_end.recv(100)
        worker.set_wanted_spec(None)
        for _ in range(2):
            orchestrator._stop_if_unwanted(Slot("d-0"), worker, 1.0)
        assert worker_end.recv(100) == LEAVE
        process.child.stop(0)
