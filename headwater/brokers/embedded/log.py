"""Kafka's log: what the child writes, in a file of bounded size."""

import os
import threading
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 8 << 20
"""Size at which the log becomes `<name>.1` and a new one begins: at most twice this much is kept."""
_CHUNK_BYTES: Final = 64 << 10
_TAIL_BYTES: Final = 64 << 10


def capture(path: Path) -> int:
    """A file descriptor for a child's output; what arrives there is appended to `path` until all writers are gone.

    The caller closes it as soon as the child has it. Raises OSError when the file can't be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    reader, writer = os.pipe()
    threading.Thread(target=_copy, args=(reader, file, path), name=f"log {path.name}", daemon=True).start()
    return writer


def _copy(reader: int, file: int, path: Path) -> None:
    while chunk := os.read(reader, _CHUNK_BYTES):
        try:
            file = _append(file, path, chunk)
        except OSError:
            continue  # the disk is full: Kafka must not stall on its log as well
    os.close(reader)
    os.close(file)


def _append(file: int, path: Path, chunk: bytes) -> int:
    if os.fstat(file).st_size + len(chunk) > MAX_BYTES:
        path.replace(path.with_name(path.name + ".1"))
        fresh = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.close(file)
        file = fresh
    os.write(file, chunk)
    return file


def last_error(path: Path) -> str:
    """The newest line that looks like an error, else the newest line; empty when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except FileNotFoundError:
        return ""
    errors = [line for line in lines if "ERROR" in line or "Exception" in line]
    return next(iter(errors[-1:] or lines[-1:]), "")
