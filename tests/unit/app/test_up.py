"""The essential children of `headwater up`."""

import sys
import threading

import pytest

from headwater.app.up import supervised, wait_until_serving
from headwater.children import spawn
from headwater.errors import SetupError
from headwater.settings import Settings
from headwater.supervisor import SupervisedProcess


def test_the_start_fails_if_an_essential_child_exits() -> None:
    refuser = [sys.executable, "-c", "raise SystemExit(2)"]
    with supervised() as supervisor:
        for name, essential in (("ingest live", False), ("controller", True)):
            supervisor.start(SupervisedProcess(name, lambda: spawn(refuser), essential=essential)).wait(10)
        with pytest.raises(SetupError, match="The controller process"):
            wait_until_serving(Settings(), supervisor, threading.Event())
