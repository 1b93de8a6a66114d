"""Captures the output of child processes in log files of bounded size.

A child writes into a pipe. One thread of this process copies from all pipes into the files, and checks the size of a
file with each chunk, so the child needs no log rotation.

The handlers of `logging` can't do this: they rotate the files of a program that logs by calling them, but a child
writes its output to a file descriptor.
"""

import os
import queue
import selectors
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)

MAX_BYTES: Final = 8 << 20
"""A log file that reaches this size is renamed to `<name>.1`, and a new file is created. The two files together take at
most twice this size.
"""
_CHUNK_BYTES: Final = 64 << 10
_TAIL_BYTES: Final = 64 << 10
_RETRY_DELAY_S: Final = 0.2


@dataclass(slots=True)
class _LogFile:
    """A log file that is open for appending."""

    path: Path
    max_bytes: int
    fd: int

    def append(self, chunk: bytes) -> None:
        """Write a chunk. Raises OSError.

        When the chunk does not fit, the full file is renamed and the chunk is written into a new file. A file that is
        no longer at its path is left as it is.
        """
        if os.fstat(self.fd).st_size + len(chunk) > self.max_bytes:
            if self._is_at_its_path():
                self.path.replace(self.path.with_name(self.path.name + ".1"))
            new_fd = _open(self.path)
            os.close(self.fd)
            self.fd = new_fd
        os.write(self.fd, chunk)

    def _is_at_its_path(self) -> bool:
        """Return whether the open file is still the file at its path.

        It is not when another writer has begun a new file there, or the file was removed.
        """
        try:
            return os.path.samestat(os.fstat(self.fd), self.path.stat())
        except FileNotFoundError:
            return False


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


class _Copier(threading.Thread):
    """Copies from all pipes of this process into their log files."""

    def __init__(self) -> None:
        super().__init__(name="child logs", daemon=True)
        self._added: queue.SimpleQueue[tuple[int, _LogFile]] = queue.SimpleQueue()
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = os.pipe()
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self.start()

    def add(self, reader: int, log_file: _LogFile) -> None:
        """Start to copy from a pipe into a log file.

        The copying ends when all writers have closed the pipe.
        """
        self._added.put((reader, log_file))
        os.write(self._wake_writer, b"!")

    def run(self) -> None:
        while True:
            try:
                self._copy_available()
            except Exception:  # the thread must go on after any error: a child whose pipe is full blocks
                log.exception("copying the output of child processes failed; it is retried")
                threading.Event().wait(_RETRY_DELAY_S)

    def _copy_available(self) -> None:
        for key, _ in self._selector.select():
            if key.data is None:
                self._register_added()
            elif chunk := os.read(key.fd, _CHUNK_BYTES):
                with suppress(OSError):  # the disk is full: drop the chunk, so that the child does not block on its log
                    key.data.append(chunk)
            else:
                self._selector.unregister(key.fd)
                os.close(key.fd)
                os.close(key.data.fd)

    def _register_added(self) -> None:
        for _ in os.read(self._wake_reader, _CHUNK_BYTES):
            reader, log_file = self._added.get()
            self._selector.register(reader, selectors.EVENT_READ, log_file)


_copier: _Copier | None = None
_copier_lock = threading.Lock()


def _get_copier() -> _Copier:
    global _copier
    with _copier_lock:
        if _copier is None:
            _copier = _Copier()
        return _copier


@contextmanager
def captured_output(path: Path, max_bytes: int = MAX_BYTES) -> Iterator[int]:
    """Yield a file descriptor. What is written to it is appended to the log file at `path`.

    Start the child with this descriptor as its output, inside the `with` block. The log file stays open until the child
    and all other writers have closed the descriptor. Raises OSError when the file can't be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    log_file = _LogFile(path, max_bytes, _open(path))
    try:
        reader, writer = os.pipe()
    except OSError:
        os.close(log_file.fd)
        raise
    try:
        _get_copier().add(reader, log_file)
        yield writer
    finally:
        os.close(writer)


def last_error(path: Path) -> str:
    """Return the newest line of a log that looks like an error; the newest line when none does.

    Returns an empty string when the log has no lines.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except FileNotFoundError:
        return ""
    errors = [line for line in lines if "ERROR" in line or "Exception" in line]
    return next(iter(errors[-1:] or lines[-1:]), "")
