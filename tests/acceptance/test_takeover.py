"""When the leader of two controllers ends, the other one takes over, and no record is lost.

Both controllers use one PostgreSQL.

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

import httpx2
import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from tests.acceptance.conftest import external_servers
from tests.acceptance.installation import (
    HEADWATER,
    ROOT,
    STOP_WITHIN_S,
    Deployed,
    Installation,
    deployed,
    in_background,
    pipeline,
    reading,
)
from tests.acceptance.test_lossless import SCRIPT, all_gone, assert_lossless, healthy, numbered
from tests.acceptance.test_metrics import sums
from tests.support.processes import descendants
from tests.support.waiting import until

PER_FEED = 20


class Process:
    """A command of Headwater as a process, which can be restarted."""

    def __init__(
        self, installation: Installation, data_dir: Path, *command: str, clock: Mapping[str, str] | None = None
    ) -> None:
        """`clock` has environment variables that shift the wall clock; see `clock_off`."""
        data_dir.mkdir(exist_ok=True)
        self._log = data_dir / "log"
        self._command = [*HEADWATER, *command, "--data-dir", str(data_dir)]
        self._environment = {**installation.environment, **(clock or {})}
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)

    def workers(self) -> list[int]:
        return [one.pid for one in descendants(self.process.pid) if "worker_main --spec " in one.command]

    def close(self) -> None:
        self.process.terminate()
        self.process.send_signal(signal.SIGCONT)
        self.process.wait(STOP_WITHIN_S)


class Feed:
    """Feeds numbered records until it is stopped."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.count = 0

    def __call__(self, stop: threading.Event) -> None:
        while not stop.wait(0.05):
            self._installation.feed("base", "erc20_token_transfer", numbered(PER_FEED, self.count))
            self.count += PER_FEED


class TwoControllers:
    """An API and two controllers."""

    def __init__(
        self,
        installation: Installation,
        directory: Path,
        parts: contextlib.ExitStack,
        clocks: Sequence[Mapping[str, str]] = ({}, {}),
        *,
        copied: bool = False,
    ) -> None:
        """`clocks` shift the controllers' wall clocks.

        If `copied`, the second one starts on a copy of the data.
        """
        self._parts = parts
        self.installation = installation
        installation.process = self._part(installation.data_dir, "api", "--port", str(installation.port)).process
        self.leader = self._part(directory / "first", "controller", clock=clocks[0])
        until(self._is_ready, what="readiness")
        if copied:
            shutil.copytree(directory / "first", directory / "second")
        self.standby = self._part(directory / "second", "controller", clock=clocks[1])

    def _part(self, data_dir: Path, *command: str, clock: Mapping[str, str] | None = None) -> Process:
        part = Process(self.installation, data_dir, *command, clock=clock)
        self._parts.callback(part.close)
        return part

    def _is_ready(self) -> bool:
        with contextlib.suppress(httpx2.TransportError):
            return httpx2.get(f"{self.installation.url}/readyz", timeout=5).status_code == 200
        return False

    def swap(self, end: Callable[[Process], None]) -> None:
        """End the leader. Restart it when the other controller leads."""
        workers, ended = self.leader.workers(), self.leader
        assert workers
        assert not self.standby.workers()
        end(ended)
        until(lambda: bool(self.standby.workers()), what="takeover")
        self.leader, self.standby = self.standby, ended
        if end is hang:
            os.kill(ended.process.pid, signal.SIGCONT)
        ended.process.wait(STOP_WITHIN_S)
        until(lambda: all_gone(workers), what="the end of the old workers")
        ended.start()


def kill(leader: Process) -> None:
    leader.process.kill()


def hang(leader: Process) -> None:
    """Pause the leader by SIGSTOP.

    Its workers run until the workers of the other controller replace them.
    """
    os.kill(leader.process.pid, signal.SIGSTOP)


def stop(leader: Process) -> None:
    leader.process.terminate()


def clock_off(directory: Path, seconds: int) -> dict[str, str]:
    """Return environment variables that shift a process's wall clock.

    The monotonic clock stays.
    """
    library, source = directory / "wall_clock.so", ROOT / "tests" / "support" / "wall_clock.c"
    compiler = [sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", "-O1"]
    subprocess.run([*compiler, "-o", str(library), str(source)], check=True)
    return {"LD_PRELOAD": str(library), "HEADWATER_CLOCK_OFF_S": str(seconds)}


@contextlib.contextmanager
def two_controllers(tmp_path: Path, clocks: Sequence[Mapping[str, str]], *, copied: bool) -> Iterator[TwoControllers]:
    with external_servers(True, tmp_path) as servers, contextlib.ExitStack() as parts:
        assert servers is not None
        servers.settings["HEADWATER_SECRET_KEY"] = base64.b64encode(os.urandom(32)).decode()
        yield TwoControllers(Installation(tmp_path / "api", external=servers), tmp_path, parts, clocks, copied=copied)


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[TwoControllers]:
    with two_controllers(tmp_path, ({}, {}), copied=False) as running_controllers:
        yield running_controllers


def counted(client: httpx2.Client, deployment: Deployed, count: int) -> bool:
    found = sums(client, deployment)
    return found["messages_received"] == found["messages_sent"] == count


@pytest.mark.long
def test_the_other_controller_takes_over(controllers: TwoControllers) -> None:
    installation = controllers.installation
    key = installation.run("keys", "create", "--owner", "ann").stdout.strip()
    body = pipeline(transforms=[{"type": "v8", "script": SCRIPT}])
    with installation.client(key) as client, deployed(client, body) as deployment, reading(deployment.sink) as reader:
        feed = Feed(installation)
        with in_background(feed):
            for end in (kill, hang, stop):
                reader.read(feed.count + 10 * PER_FEED)
                controllers.swap(end)
                until(lambda: healthy(client, deployment.id), what="health")
            reader.read(feed.count + 10 * PER_FEED)
        assert_lossless(reader.read(feed.count), range(feed.count))
        until(lambda: counted(client, deployment, feed.count), what="exact counts")


def topics(installation: Installation) -> set[str]:
    return {
        name for name in AdminClient(installation.admin_config()).list_topics(timeout=20).topics if name[:5] == "flow."
    }


class Leaders:
    """Watches the lease.

    Each holder must have a higher fencing number than the previous holder.
    """

    def __init__(self, controllers: TwoControllers) -> None:
        self._controllers = controllers
        self.leaders = 0

    def __call__(self, stop: threading.Event) -> None:
        with psycopg.connect(
            self._controllers.installation.environment["HEADWATER_DATABASE_URL"], autocommit=True
        ) as database:
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
    """The leader is killed, hangs, is stopped, and is killed and restarted at once.

    The restart uses its own directory.
    """
    clocks = [clock_off(tmp_path, each) for each in off_s]
    with two_controllers(tmp_path, clocks, copied=True) as controllers:
        installation = controllers.installation
        key = installation.run("keys", "create", "--owner", "ann").stdout.strip()
        body = pipeline(transforms=[{"type": "v8", "script": SCRIPT}])
        with (
            installation.client(key) as client,
            deployed(client, body) as deployment,
            reading(deployment.sink) as reader,
        ):
            before, feed, watch = topics(installation), Feed(installation), Leaders(controllers)
            with in_background(feed), in_background(watch):
                until(lambda: not controllers.standby.workers(), what="a standby that waits")
                for end in (kill, hang, stop):
                    reader.read(feed.count + 10 * PER_FEED)
                    controllers.swap(end)
                    until(lambda: healthy(client, deployment.id), what="health")
                reader.read(feed.count + 10 * PER_FEED)
                restart(controllers)
                until(lambda: healthy(client, deployment.id), what="health")
                reader.read(feed.count + 10 * PER_FEED)
            assert topics(installation) == before
            assert watch.leaders >= 5
            assert_lossless(reader.read(feed.count), range(feed.count))
            until(lambda: counted(client, deployment, feed.count), what="exact counts")


def restart(controllers: TwoControllers) -> None:
    """Kill the leader and restart it immediately.

    On a slow machine the other controller may take over first.
    """
    old_workers = controllers.leader.workers()
    kill(controllers.leader)
    controllers.leader.process.wait(STOP_WITHIN_S)
    controllers.leader.start()
    until(lambda: bool(controllers.leader.workers() or controllers.standby.workers()), what="a leader")
    until(lambda: all_gone(old_workers), what="the end of the old workers")
