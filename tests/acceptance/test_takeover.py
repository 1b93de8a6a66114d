"""Two controllers on one PostgreSQL: when the leader ends, the other one takes over, and no record is lost.

Each controller has its own data directory, as if it ran on another machine.
"""

import base64
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import httpx
import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from tests.acceptance.conftest import external_parts
from tests.acceptance.stack import (
    HEADWATER,
    ROOT,
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


class Process:
    """A command of Headwater as a process, which can be restarted."""

    def __init__(self, stack: Stack, data_dir: Path, *command: str, clock: Mapping[str, str] | None = None) -> None:
        """`clock` has environment variables that shift the wall clock; see `clock_off`."""
        data_dir.mkdir(exist_ok=True)
        self._log = data_dir / "log"
        self._command = [*HEADWATER, *command, "--data-dir", str(data_dir)]
        self._environment = {**stack.environment, **(clock or {})}
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
    """Feeds numbered records until it is stopped."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.count = 0

    def __call__(self, stop: threading.Event) -> None:
        while not stop.wait(0.05):
            self._stack.feed("base", "erc20_token_transfer", numbered(PER_FEED, self.count))
            self.count += PER_FEED


class TwoControllers:
    """An API and two controllers."""

    def __init__(
        self,
        stack: Stack,
        directory: Path,
        parts: contextlib.ExitStack,
        clocks: Sequence[Mapping[str, str]] = ({}, {}),
        *,
        copied: bool = False,
    ) -> None:
        """`clocks` shift the controllers' wall clocks. If `copied`, the second one starts from a copy of the first one's data."""
        self._parts = parts
        self.stack = stack
        stack.process = self._part(stack.data_dir, "api", "--port", str(stack.port)).process
        self.leader = self._part(directory / "first", "controller", clock=clocks[0])
        until(self._is_ready, what="readiness")
        if copied:
            shutil.copytree(directory / "first", directory / "second")
        self.standby = self._part(directory / "second", "controller", clock=clocks[1])

    def _part(self, data_dir: Path, *command: str, clock: Mapping[str, str] | None = None) -> Process:
        part = Process(self.stack, data_dir, *command, clock=clock)
        self._parts.callback(part.close)
        return part

    def _is_ready(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.stack.url}/readyz", timeout=5).status_code == 200
        return False

    def swap(self, end: Callable[[Process], None]) -> None:
        """End the leader. Restart it when the other controller leads."""
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


def kill(leader: Process) -> None:
    leader.process.kill()


def hang(leader: Process) -> None:
    """Pause the leader by SIGSTOP. Its workers run until those of the other controller replace them."""
    os.kill(leader.process.pid, signal.SIGSTOP)


def stop(leader: Process) -> None:
    leader.process.terminate()


def clock_off(directory: Path, seconds: int) -> dict[str, str]:
    """Return environment variables that shift a process's wall clock, but not its monotonic clock."""
    library, source = directory / "wall_clock.so", ROOT / "tests" / "support" / "wall_clock.c"
    compiler = [sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", "-O1"]
    subprocess.run([*compiler, "-o", str(library), str(source)], check=True)
    return {"LD_PRELOAD": str(library), "HEADWATER_CLOCK_OFF_S": str(seconds)}


@contextlib.contextmanager
def installed(tmp_path: Path, clocks: Sequence[Mapping[str, str]], *, copied: bool) -> Iterator[TwoControllers]:
    with external_parts(True, tmp_path) as outside, contextlib.ExitStack() as parts:
        assert outside is not None
        outside.settings["HEADWATER_SECRET_KEY"] = base64.b64encode(os.urandom(32)).decode()
        yield TwoControllers(Stack(tmp_path / "api", external=outside), tmp_path, parts, clocks, copied=copied)


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[TwoControllers]:
    with installed(tmp_path, ({}, {}), copied=False) as made:
        yield made


def counted(client: httpx.Client, made: Deployed, count: int) -> bool:
    found = sums(client, made)
    return found["messages_received"] == found["messages_sent"] == count


@pytest.mark.long
def test_the_other_controller_takes_over(installation: TwoControllers) -> None:
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


def topics(stack: Stack) -> set[str]:
    return {name for name in AdminClient(stack.admin_config()).list_topics(timeout=20).topics if name[:5] == "flow."}


class Leaders:
    """Watches the lease. Each holder must have a higher fencing number than the previous holder."""

    def __init__(self, made: TwoControllers) -> None:
        self._made = made
        self.leaders = 0

    def __call__(self, stop: threading.Event) -> None:
        with psycopg.connect(self._made.stack.environment["HEADWATER_DATABASE_URL"], autocommit=True) as database:
            last: tuple[object, ...] | None = None
            while not stop.wait(0.2):
                row = database.execute("SELECT holder, fencing FROM leases WHERE name = 'controller'").fetchone()
                if row is not None and row[0] is not None and row != last:
                    assert last is None or row[1] > last[1], "a fencing number went back"
                    last, self.leaders = row, self.leaders + 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("off_s", [(-60, 0), (0, -60)])
def test_takeovers_with_clocks_a_minute_apart_and_a_copied_directory(tmp_path: Path, off_s: tuple[int, int]) -> None:
    """The leader is killed, hangs, is stopped, and is killed and immediately restarted on its own directory."""
    clocks = [clock_off(tmp_path, each) for each in off_s]
    with installed(tmp_path, clocks, copied=True) as made:
        stack = made.stack
        key = stack.run("keys", "create", "--owner", "ann").stdout.strip()
        body = pipeline(transforms=[{"type": "v8", "script": SCRIPT}])
        with stack.client(key) as client, deployed(client, body) as one, reading(one.sink) as reader:
            before, feed, watch = topics(stack), Feed(stack), Leaders(made)
            with beside(feed), beside(watch):
                until(lambda: not made.standby.workers(), what="a standby that waits")
                for end in (kill, hang, stop):
                    reader.read(feed.count + 10 * PER_FEED)
                    made.swap(end)
                    until(lambda: healthy(client, one.id), what="health")
                reader.read(feed.count + 10 * PER_FEED)
                restart(made)
                until(lambda: healthy(client, one.id), what="health")
                reader.read(feed.count + 10 * PER_FEED)
            assert topics(stack) == before
            assert watch.leaders >= 5
            assert_lossless(reader.read(feed.count), range(feed.count))
            until(lambda: counted(client, one, feed.count), what="exact counts")


def restart(made: TwoControllers) -> None:
    """Kill the leader and restart it immediately. On a slow machine the other controller may take over first."""
    gone = made.leader.workers()
    kill(made.leader)
    made.leader.process.wait(STOP_WITHIN_S)
    made.leader.start()
    until(lambda: bool(made.leader.workers() or made.standby.workers()), what="one of them again")
    until(lambda: all_gone(gone), what="the end of the old workers")
