"""Two controllers on one PostgreSQL: one leads, and when it is gone the other one takes over; no record is lost.

Each has a data directory of its own, as on a machine of its own.
"""

import base64
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.conftest import external_parts
from tests.acceptance.stack import (
    HEADWATER,
    STOP_WITHIN_S,
    Deployed,
    Stack,
    beside,
    deployed,
    descendants,
    pipeline,
    reading,
    until,
)
from tests.acceptance.test_lossless import SCRIPT, all_gone, assert_lossless, healthy, numbered
from tests.acceptance.test_metrics import sums

PER_FEED = 20


class Part:
    """One part of Headwater in a process of its own, which can be started again."""

    def __init__(self, stack: Stack, data_dir: Path, *command: str) -> None:
        data_dir.mkdir(exist_ok=True)
        self._log = data_dir / "log"
        self._command = [*HEADWATER, *command, "--data-dir", str(data_dir)]
        self._environment = stack.environment
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)

    def workers(self) -> list[int]:
        return [one.pid for one in descendants(self.process.pid) if "worker --spec " in one.command]

    def close(self) -> None:
        self.process.terminate()
        self.process.send_signal(signal.SIGCONT)
        self.process.wait(STOP_WITHIN_S)


class Feed:
    """Numbered records, as long as it is told."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.count = 0

    def __call__(self, stop: threading.Event) -> None:
        while not stop.wait(0.05):
            self._stack.feed("base", "erc20_token_transfer", numbered(PER_FEED, self.count))
            self.count += PER_FEED


class Installation:
    """An API and two controllers."""

    def __init__(self, stack: Stack, directory: Path, parts: contextlib.ExitStack) -> None:
        self._parts = parts
        self.stack = stack
        stack.process = self._part(stack.data_dir, "api", "--port", str(stack.port)).process
        self.leader = self._part(directory / "first", "controller")
        until(self._is_ready, what="readiness")
        self.standby = self._part(directory / "second", "controller")

    def _part(self, data_dir: Path, *command: str) -> Part:
        part = Part(self.stack, data_dir, *command)
        self._parts.callback(part.close)
        return part

    def _is_ready(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.stack.url}/readyz", timeout=5).status_code == 200
        return False

    def swap(self, end: Callable[[Part], None]) -> None:
        """End the leader; when the other one leads, it is started again."""
        before, gone = self.leader.workers(), self.leader
        assert before
        assert not self.standby.workers()
        end(gone)
        until(lambda: bool(self.standby.workers()), what="takeover")
        self.leader, self.standby = self.standby, gone
        if end is hang:
            os.kill(gone.process.pid, signal.SIGCONT)
        gone.process.wait(STOP_WITHIN_S)
        until(lambda: all_gone(before), what="the end of the old workers")
        gone.start()


def kill(leader: Part) -> None:
    leader.process.kill()


def hang(leader: Part) -> None:
    """Its workers run on until those of the other controller take their places."""
    os.kill(leader.process.pid, signal.SIGSTOP)


def stop(leader: Part) -> None:
    leader.process.terminate()


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    with external_parts(True, tmp_path) as outside, contextlib.ExitStack() as parts:
        assert outside is not None
        outside.settings["HEADWATER_SECRET_KEY"] = base64.b64encode(os.urandom(32)).decode()
        yield Installation(Stack(tmp_path / "api", external=outside), tmp_path, parts)


def counted(client: httpx.Client, made: Deployed, count: int) -> bool:
    found = sums(client, made)
    return found["messages_received"] == found["messages_sent"] == count


@pytest.mark.long
def test_the_other_controller_takes_over(installation: Installation) -> None:
    stack = installation.stack
    key = stack.run("keys", "create", "--owner", "ann").stdout.strip()
    body = pipeline(transforms=[{"type": "v8", "script": SCRIPT}])
    with stack.client(key) as client, deployed(client, body) as made, reading(made.sink) as reader:
        feed = Feed(stack)
        with beside(feed):
            for end in (kill, hang, stop):
                reader.read(feed.count + 10 * PER_FEED)
                installation.swap(end)
                until(lambda: healthy(client, made.id), what="health")
            reader.read(feed.count + 10 * PER_FEED)
        assert_lossless(reader.read(feed.count), range(feed.count))
        until(lambda: counted(client, made, feed.count), what="exact counts")
