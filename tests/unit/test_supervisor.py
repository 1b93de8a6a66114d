"""Supervised processes are restarted after a delay.

They are stopped in the reverse order of their start.
"""

import signal
import sys

from headwater.backoff import Backoff
from headwater.children import Child, spawn
from headwater.supervisor import SupervisedProcess, Supervisor

SLEEPER = ["/bin/sleep", "600"]
REFUSER = [sys.executable, "-c", "raise SystemExit(2)"]


def pid_of(process: SupervisedProcess) -> int | None:
    return None if process.child is None else process.child.pid


def test_an_ended_process_is_restarted_after_its_delay() -> None:
    now = 0.0
    supervisor = Supervisor(clock=lambda: now)
    process = SupervisedProcess("sleeper", lambda: spawn(SLEEPER), backoff=Backoff(1.0, jitter=lambda: 1.0))
    first = supervisor.start(process)
    first.send(signal.SIGKILL)
    first.wait(10)
    supervisor.restart_ended()
    supervisor.restart_ended()
    assert pid_of(process) is None
    now = 1.0
    supervisor.restart_ended()
    assert pid_of(process) not in (None, first.pid)
    supervisor.stop()


def test_a_failed_start_is_retried_after_its_delay() -> None:
    now, failures = 0.0, list[OSError]()

    def start() -> Child:
        if failures:
            raise failures.pop()
        return spawn(SLEEPER)

    supervisor = Supervisor(clock=lambda: now)
    process = SupervisedProcess("sleeper", start, backoff=Backoff(1.0, jitter=lambda: 1.0))
    supervisor.start(process).stop(10)
    failures += [BlockingIOError(11, "Resource temporarily unavailable"), OSError(12, "Cannot allocate memory")]
    waited_for = []
    supervisor.restart_ended()
    while process.child is None:
        waited_for.append(process.restart_at - now)
        now = process.restart_at
        supervisor.restart_ended()
    assert waited_for == [1.0, 2.0, 4.0]
    assert process.child.poll() is None
    supervisor.stop()


def test_only_a_process_that_has_run_for_some_time_resets_the_delay() -> None:
    now = 0.0
    supervisor = Supervisor(clock=lambda: now)
    backoff = Backoff(1.0, jitter=lambda: 1.0)
    process = SupervisedProcess("sleeper", lambda: spawn(SLEEPER), healthy_after_s=10.0, backoff=backoff)
    supervisor.start(process)

    def delay_after(run_s: float) -> float:
        nonlocal now
        assert process.child is not None
        process.child.stop(10)
        now += run_s
        supervisor.restart_ended()
        delay_s = process.restart_at - now
        now = process.restart_at
        supervisor.restart_ended()
        return delay_s

    assert [delay_after(run_s) for run_s in (1.0, 1.0, 11.0, 1.0)] == [1.0, 2.0, 1.0, 2.0]
    supervisor.stop()


def test_the_essential_processes_that_ended_with_a_status() -> None:
    supervisor = Supervisor()
    for name, essential in (("refuses", True), ("refuses too", False)):
        supervisor.start(SupervisedProcess(name, lambda: spawn(REFUSER), essential=essential)).wait(10)
    supervisor.start(SupervisedProcess("sleeps", lambda: spawn(SLEEPER)))
    supervisor.restart_ended()
    assert supervisor.essential_ended_with(2) == ["refuses"]
    supervisor.stop()


def test_the_last_process_is_stopped_first() -> None:
    supervisor = Supervisor()
    children = [supervisor.start(SupervisedProcess(name, lambda: spawn(SLEEPER))) for name in ("first", "second")]
    supervisor.stop()
    assert [child.poll() for child in children] == [-signal.SIGTERM] * 2
