"""Finds and breaks TCP connections of the test process."""

import contextlib
import os
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path


def connections_to(port: int) -> Iterator[socket.socket]:
    """Yield this process's connections to a port. The sockets have duplicated file descriptors."""
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if entry.readlink().name.startswith("socket:"):
                with socket.socket(fileno=os.dup(int(entry.name))) as connection:
                    if connection.family == socket.AF_INET and connection.getpeername()[1] == port:
                        yield connection


@contextlib.contextmanager
def breaking(port: int, every_s: float, draw: random.Random) -> Iterator[None]:
    """Shut down all connections to a port repeatedly during the block.

    The random times are at most `every_s` apart.
    """
    stop = threading.Event()

    def cut() -> None:
        while not stop.wait(draw.random() * every_s):
            for connection in connections_to(port):
                connection.shutdown(socket.SHUT_RDWR)

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        yield
    finally:
        stop.set()
        cutter.join()
