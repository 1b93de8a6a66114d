"""Runs the commands of the demo in a shell, as a user does, and shows them."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from headwater.app.environments import PROXIES
from headwater.children import inherited_environment

TERMINAL = ("TERM", "COLORTERM", "NO_COLOR", "COLUMNS")
"""Variables that say how the output of a command looks."""
STOP_WITHIN_S = 10.0


class Shell:
    """A shell in the demo's folder, in which `headwater` is the command of this Python."""

    def __init__(self, folder: Path, port: int, console: Console) -> None:
        """Create the shell.

        Args:
            folder: The working directory. Its `.headwater` is the data directory of the installation.
            port: The port of the installation.
            console: Where the commands are shown.
        """
        self._folder = folder
        self._console = console
        self._environment = inherited_environment(*PROXIES, *TERMINAL) | {
            "HEADWATER_URL": f"http://127.0.0.1:{port}",
            "HEADWATER_PORT": str(port),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PATH": f"{_folder_with_command(folder)}:{os.environ.get('PATH', os.defpath)}",
        }

    @contextlib.contextmanager
    def started(self, command: str) -> Iterator[subprocess.Popen[bytes]]:
        """Show a command and start it.

        Its output goes where the output of this process goes. It is stopped at the end of the block.
        """
        self._console.print(f"   $ {command}", style="bold", markup=False, highlight=False, soft_wrap=True)
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(STOP_WITHIN_S)
        self._console.print()


def _folder_with_command(folder: Path) -> Path:
    """Return a folder with the command `headwater`."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    command = bin_folder / "headwater"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m headwater_client.cli "$@"\n')
    command.chmod(0o755)
    return bin_folder
