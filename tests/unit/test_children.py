"""Child processes end with their parent.

They get only the environment variables that they may have.
"""

import os
import signal
import subprocess
import sys

import pytest

from headwater.children import inherited_environment, spawn
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
