"""The data directory: what `up` keeps between starts."""

import contextlib
import fcntl
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from headwater.errors import SetupError

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def require_platform() -> None:
    """Raise SetupError where Headwater can't run: the sandbox's lock is made of Linux x86-64 system calls."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise SetupError(
            f"Headwater runs on Linux x86-64; this is {platform.system()} {platform.machine()}. "
            "Use a Linux machine, a virtual machine or a container of that kind."
        )


class Home:
    """A data directory. Every file with a secret in it has mode 0600, the directory 0700."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self.api_key = self.path / "api-key"
        self.secret_key = self.path / "secret-key"
        self.database = self.path / "headwater.db"
        self.tokens = self.path / "tokens.json"
        self.abis = self.path / "abis.json"
        self.workers = self.path / "workers"
        self.metrics = self.path / "run" / "metrics"
        self.logs = self.path / "logs"
        self._restoring = self.path / "restore-unfinished"

    def create(self) -> None:
        """Make the directory. Raises SetupError when that can't be done."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.logs.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise SetupError(
                f"The data directory {self.path} can't be made ({error.strerror}). Choose another with --data-dir."
            ) from error

    @contextlib.contextmanager
    def locked(self, by: str) -> Iterator[str]:
        """Hold the directory for one process of the kind `by`; the kernel frees it when the process dies.

        Yields a name of the lock that no other live process can give: the machine's start and the file, as the kernel
        knows it. A copy of the directory is another file. Raises SetupError when another process holds the directory.
        """
        path = self.path / f"{by}.lock"
        with path.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise SetupError(
                    f"The data directory {self.path} is in use by another `headwater {by}` (process "
                    f"{file.read().strip() or 'unknown'}). Stop that one, or choose another with --data-dir."
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield _lock_name(file.fileno())

    @contextlib.contextmanager
    def using_database(self, *, alone: bool = False) -> Iterator[None]:
        """Use the database of the directory beside other processes, or alone. Raises SetupError when that is refused.

        A process that goes on with a database file that a restore has replaced would write into the replaced one.
        """
        with (self.path / "database.lock").open("a") as file:
            try:
                fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SetupError(
                    f"Processes of Headwater use the database in {self.path}. Stop all of them, `headwater api` too, "
                    "and let a `headwater backup` end."
                    if alone
                    else f"A restore into {self.path} is under way. Start this again when it has ended."
                ) from None
            yield

    def is_locked(self, by: str) -> bool:
        """Whether a process of the kind `by` holds the directory now."""
        try:
            with self.locked(by):
                return False
        except SetupError:
            return True

    @contextlib.contextmanager
    def restoring(self) -> Iterator[None]:
        """Mark the directory as half restored until the block has ended without an error."""
        self._restoring.touch()
        yield
        self._restoring.unlink()

    def require_restored(self) -> None:
        """Raise SetupError when a restore was cut off in this directory."""
        if self._restoring.exists():
            raise SetupError(
                f"A restore into {self.path} was cut off, so it holds a part of the backup. Run `headwater restore "
                "--replace` again."
            )

    def fresh_metrics_dir(self) -> Path:
        """An empty directory in which the processes of one `up` share their metrics."""
        shutil.rmtree(self.metrics, ignore_errors=True)
        self.metrics.mkdir(parents=True)
        return self.metrics


def _lock_name(descriptor: int) -> str:
    """Two processes of one machine that hold a lock of one name at different times have locked the same file."""
    file = os.fstat(descriptor)
    return f"{_BOOT_ID.read_text('ascii').strip()}:{file.st_dev}:{file.st_ino}"
