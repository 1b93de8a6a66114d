"""Child processes end with their parent.

They get only the environment variables that they may have.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.children import inherited_environment, set_niceness, spawn
from tests.support.processes import alive
from tests.support.waiting import until

SLEEPER = ["/bin/sleep", "600"]


class TestSpawn:
    def test_exit_status(self) -> None:
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

    def test_a_failed_command_does_not_affect_other_children(self) -> None:
        child = spawn(SLEEPER)
        with pytest.raises(ValueError, match="null byte"):
            spawn([sys.executable, "\0"])
        assert spawn([sys.executable, "-c", ""]).wait(10) == 0
        assert child.poll() is None
        child.stop(0)

    def test_only_listed_variables_are_inherited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADWATER_SECRET_KEY", "secret")
        monkeypatch.setenv("SOMEBODYS_TOKEN", "secret")
        monkeypatch.setenv("LC_TIME", "C")
        assert {"PATH", "LC_TIME"} <= set(inherited_environment()) <= set(os.environ)
        assert set(inherited_environment("SOMEBODYS_*")) - set(inherited_environment()) == {"SOMEBODYS_TOKEN"}
        child = spawn([sys.executable, "-c", "import os; print(dict(os.environ))"], stdout=subprocess.PIPE)
        stdout = child._process.stdout
        assert stdout is not None
        with stdout:
            shown = stdout.read().decode()
        assert child.wait(10) == 0
        assert "'LC_TIME': 'C'" in shown
        assert "secret" not in shown

    def test_a_child_dies_with_its_parent(self) -> None:
        program = (
            "import sys, time; from headwater.children import spawn;"
            "print(spawn([sys.executable, '-c', 'import time; time.sleep(600)']).pid, flush=True); time.sleep(600)"
        )
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            os.kill(child, 0)
            parent.kill()
        until(lambda: not alive(child))


def test_a_lower_priority_is_that_of_all_threads_and_descendants() -> None:
    program = (
        "import subprocess, sys, threading, time;"
        "threading.Thread(target=time.sleep, args=[600], daemon=True).start();"
        "child = subprocess.Popen(['/bin/sleep', '600']); print(child.pid, flush=True); child.wait()"
    )
    parent = spawn([sys.executable, "-c", program], stdout=subprocess.PIPE)
    stdout = parent._process.stdout
    assert stdout is not None
    with stdout:
        grandchild = int(stdout.readline())
    own = os.getpriority(os.PRIO_PROCESS, 0)
    until(lambda: set_niceness(parent.pid, own + 3))
    threads = [int(each.name) for each in Path("/proc", str(parent.pid), "task").iterdir()]
    assert len(threads) == 2
    assert {os.getpriority(os.PRIO_PROCESS, each) for each in (*threads, grandchild)} == {own + 3}
    os.kill(grandchild, signal.SIGKILL)
    parent.stop(0)
    assert set_niceness(parent.pid, own + 3), "a process that has ended"
