"""Children: they die with their parent, are stopped in order, and come back."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headwater.children import Backoff, Child, Service, Supervisor, inherited, spawn

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
REFUSER = [sys.executable, "-c", "raise SystemExit(2)"]


def gone(pid: int, within_s: float = 10.0) -> bool:
    """True when the process ends within the time (a zombie counts as ended)."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def pid_of(service: Service) -> int | None:
    return None if service.child is None else service.child.pid


class TestSpawn:
    def test_status_of_an_end_by_itself(self) -> None:
        assert spawn([sys.executable, "-c", "raise SystemExit(7)"]).wait(10) == 7

    def test_status_of_an_end_by_signal(self) -> None:
        child = spawn(SLEEPER)
        child.send(signal.SIGKILL)
        assert child.wait(10) == -signal.SIGKILL

    def test_stop_kills_what_ignores_sigterm(self) -> None:
        stubborn = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); time.sleep(600)"
        child = spawn([sys.executable, "-u", "-c", stubborn], stdout=subprocess.PIPE)
        stdout = child._process.stdout
        assert stdout is not None
        with stdout:
            assert stdout.readline() == b"up\n"
        assert child.stop(0.1) == -signal.SIGKILL

    def test_a_command_that_can_not_be_leaves_the_others_alive(self) -> None:
        child = spawn(SLEEPER)
        with pytest.raises(ValueError, match="null byte"):
            spawn([sys.executable, "\0"])
        assert spawn([sys.executable, "-c", ""]).wait(10) == 0
        assert child.poll() is None
        child.stop(0)

    def test_inherits_the_variables_of_a_list_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADWATER_SECRET_KEY", "secret")
        monkeypatch.setenv("SOMEBODYS_TOKEN", "secret")
        monkeypatch.setenv("LC_TIME", "C")
        assert {"PATH", "LC_TIME"} <= set(inherited()) <= set(os.environ)
        assert set(inherited("SOMEBODYS_*")) - set(inherited()) == {"SOMEBODYS_TOKEN"}
        child = spawn([sys.executable, "-c", "import os; print(dict(os.environ))"], stdout=subprocess.PIPE)
        stdout = child._process.stdout
        assert stdout is not None
        with stdout:
            shown = stdout.read().decode()
        assert child.wait(10) == 0
        assert "'LC_TIME': 'C'" in shown
        assert "secret" not in shown

    def test_dies_with_its_parent(self) -> None:
        program = (
            "import sys, time; from headwater.children import spawn;"
            "print(spawn([sys.executable, '-c', 'import time; time.sleep(600)']).pid, flush=True); time.sleep(600)"
        )
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            os.kill(child, 0)
            parent.kill()
        assert gone(child)


class TestBackoff:
    def test_doubles_to_its_ceiling_and_starts_over(self) -> None:
        backoff = Backoff(1.0, 5.0, random=lambda: 1.0)
        assert [backoff.next_s() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
        backoff.reset()
        assert backoff.next_s() == 1.0

    def test_draws_from_all_below_it(self) -> None:
        assert Backoff(4.0, random=lambda: 0.25).next_s() == 1.0


class TestSupervisor:
    def test_restarts_what_ends_after_its_delay(self) -> None:
        now = 0.0
        supervisor = Supervisor(clock=lambda: now)
        service = Service("sleeper", lambda: spawn(SLEEPER), backoff=Backoff(1.0, random=lambda: 1.0))
        first = supervisor.add(service)
        first.send(signal.SIGKILL)
        first.wait(10)
        supervisor.tick()
        supervisor.tick()
        assert pid_of(service) is None
        now = 1.0
        supervisor.tick()
        assert pid_of(service) not in (None, first.pid)
        supervisor.stop()

    def test_a_start_that_fails_is_tried_again_after_its_delay(self) -> None:
        now, failures = 0.0, list[OSError]()

        def start() -> Child:
            if failures:
                raise failures.pop()
            return spawn(SLEEPER)

        supervisor = Supervisor(clock=lambda: now)
        service = Service("sleeper", start, backoff=Backoff(1.0, random=lambda: 1.0))
        supervisor.add(service).stop(10)
        failures += [BlockingIOError(11, "Resource temporarily unavailable"), OSError(12, "Cannot allocate memory")]
        waited_for = []
        supervisor.tick()
        while service.child is None:
            waited_for.append(service.restart_at - now)
            now = service.restart_at
            supervisor.tick()
        assert waited_for == [1.0, 2.0, 4.0]
        assert service.child.poll() is None
        supervisor.stop()

    def test_tells_with_what_status_essential_services_ended(self) -> None:
        supervisor = Supervisor()
        for name, essential in (("refuses", True), ("refuses too", False)):
            supervisor.add(Service(name, lambda: spawn(REFUSER), essential=essential)).wait(10)
        supervisor.add(Service("sleeps", lambda: spawn(SLEEPER)))
        supervisor.tick()
        assert supervisor.essential_ended_with(2) == ["refuses"]
        supervisor.stop()

    def test_stops_the_last_one_first(self) -> None:
        supervisor = Supervisor()
        children = [supervisor.add(Service(name, lambda: spawn(SLEEPER))) for name in ("first", "second")]
        supervisor.stop()
        assert [child.poll() for child in children] == [-signal.SIGTERM] * 2
