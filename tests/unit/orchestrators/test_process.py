"""The orchestrator with many deployments.

tests/contract/test_orchestrator.py tests its processes.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from headwater.orchestrators.process import ProcessOrchestrator
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
    assert len(orchestrator.running_deployments()) == 101
    assert lines_of_status(orchestrator, "d0") < alone + 50
