"""The data directory, which holds all files that `headwater up` keeps between starts."""

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
    """Raise SetupError where Headwater can't run.

    The sandbox needs system calls of Linux on x86-64.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise SetupError(
            f"Headwater runs on Linux x86-64; this is {platform.system()} {platform.machine()}. "
            "Use a Linux machine, a virtual machine or a container of that kind."
        )


class DataDirectory:
    """A data directory with mode 0700. Every file that contains a secret has mode 0600."""

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

    def require_exists(self, setting: str) -> None:
        """Raise SetupError when the directory does not exist.

        Commands that need an existing installation call this, because a mistyped path must not create a new one.

        Args:
            setting: The setting that makes the data directory unnecessary, for the message.
        """
        if not self.path.exists():
            raise SetupError(
                f"There is no installation in {self.path}. Start one with `headwater up`, point --data-dir at the "
                f"existing one, or set {setting}."
            )

    def create(self) -> None:
        """Create the directory. Raises SetupError when that fails."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.logs.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise SetupError(
                f"The data directory {self.path} can't be created ({error.strerror}). Choose another with --data-dir."
            ) from error

    @contextlib.contextmanager
    def locked(self, command: str) -> Iterator[str]:
        """Lock the directory, so that only one process of a command such as `up` uses it.

        The kernel releases the lock when the process dies. Yields the id of the lock. Raises SetupError when another
        process holds the lock.
        """
        path = self.path / f"{command}.lock"
        with path.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise SetupError(
                    f"The data directory {self.path} is in use by another `headwater {command}`, or by a backup or "
                    f"restore (process {file.read().strip() or 'unknown'}). Stop that process or wait for its end, or "
                    "choose another directory with --data-dir."
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield _lock_id(file.fileno())

    @contextlib.contextmanager
    def database_lock(self, *, exclusive: bool = False) -> Iterator[None]:
        """Hold a shared lock on the database, or an exclusive one.

        Raises SetupError when another process's lock prevents it. A restore needs the exclusive lock: a process that
        keeps a replaced database file open would write into the old file.
        """
        with (self.path / "database.lock").open("a") as file:
            try:
                fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SetupError(
                    f"Processes of Headwater use the database in {self.path}. Stop all of them, also `headwater api`, "
                    "and wait until a running `headwater backup` has ended."
                    if exclusive
                    else f"A restore into {self.path} is in progress. Start this command again when it has ended."
                ) from None
            yield

    @contextlib.contextmanager
    def restoring(self) -> Iterator[None]:
        """Mark the directory as being restored.

        The mark is removed when the block ends without an error. See `require_no_unfinished_restore`.
        """
        self._restoring.touch()
        yield
        self._restoring.unlink()

    def require_no_unfinished_restore(self) -> None:
        """Raise SetupError when a restore into this directory was interrupted."""
        if self._restoring.exists():
            raise SetupError(
                f"A restore into {self.path} was interrupted, so the directory holds only part of the backup. Run "
                "`headwater restore --replace` again."
            )

    def create_metrics_dir(self) -> Path:
        """Create an empty directory in which the API processes of one `up` share their metrics."""
        shutil.rmtree(self.metrics, ignore_errors=True)
        self.metrics.mkdir(parents=True)
        return self.metrics


def _lock_id(descriptor: int) -> str:
    """Return the id of a locked file: the boot id of the machine, the device and the inode.

    Two live processes never hold locks with the same id. The lock file of a copied directory has another inode.
    """
    file = os.fstat(descriptor)
    return f"{_BOOT_ID.read_text('ascii').strip()}:{file.st_dev}:{file.st_ino}"
