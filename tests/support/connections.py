"""This process's own TCP connections, to break them."""

import contextlib
import os
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path


def connections_to(port: int) -> Iterator[socket.socket]:
    """This process's connections to a port, by descriptors of their own."""
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if entry.readlink().name.startswith("socket:"):
                with socket.socket(fileno=os.dup(int(entry.name))) as connection:
                    if connection.family == socket.AF_INET and connection.getpeername()[1] == port:
                        yield connection


@contextlib.contextmanager
def breaking(port: int, every_s: float, draw: random.Random) -> Iterator[None]:
    """Shut all connections to a port again and again, whatever is on its way. every_s: at most so long apart."""
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
