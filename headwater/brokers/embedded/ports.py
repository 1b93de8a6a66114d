"""Ports of the data directory: chosen once, kept in ports.json, checked at each start."""

import contextlib
import errno
import json
import secrets
import socket
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from headwater.brokers.embedded.files import write_private
from headwater.errors import SetupError

# Below the kernel's range for outgoing connections (32768 and up), any of which could sit on a chosen port later.
FIRST_PORT: Final = 20_000
PORT_COUNT: Final = 10_000
# A broker that was killed a moment ago holds its ports until the kernel has freed its memory.
RELEASE_S = 5.0
_PAUSE_S: Final = 0.05


class Ports(NamedTuple):
    """kafka: for clients. kafka_internal: for Headwater itself, on loopback. kafka_controller: KRaft's, on loopback.

    The names are the keys in ports.json.
    """

    kafka: int
    kafka_internal: int
    kafka_controller: int


def keep_ports(path: Path, host: str) -> Ports:
    """The ports in the file; on the first start, free ones, written there beside what others keep in it.

    Raises SetupError when the file is damaged, or a port is taken by somebody else.
    """
    kept = _read(path)
    if not all(name in kept for name in Ports._fields):
        kept |= _choose(host)._asdict()
        write_private(path, json.dumps(kept, indent=2) + "\n")
    ports = read_ports(path)
    _check(ports, host, path)
    return ports


def read_ports(path: Path) -> Ports:
    """The ports in the file. Raises SetupError when there are none."""
    kept = _read(path)
    if not all(name in kept for name in Ports._fields):
        raise SetupError(f"{path} names no ports of Kafka: start `headwater up` there first.")
    return Ports(*(kept[name] for name in Ports._fields))


def _read(path: Path) -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads(path.read_text())
        usable = isinstance(kept, dict) and all(type(kept[name]) is int for name in Ports._fields if name in kept)
    except FileNotFoundError:
        return {}
    except ValueError:
        usable = False
    if not usable:
        raise SetupError(f"{path} is damaged: correct it, or remove it to have new ports chosen.")
    return kept


def _choose(host: str) -> Ports:
    chosen: set[int] = set()
    while len(chosen) < len(Ports._fields):
        port = FIRST_PORT + secrets.randbelow(PORT_COUNT)
        if _is_free(host, port):
            chosen.add(port)
    return Ports(*chosen)


def _check(ports: Ports, host: str, path: Path) -> None:
    deadline = time.monotonic() + RELEASE_S
    for name, port in ports._asdict().items():
        while not _is_free(host if name == "kafka" else "127.0.0.1", port):
            if time.monotonic() > deadline:
                raise SetupError(
                    f"Port {port} ({name}) is taken by another program: stop that program, "
                    f"or change the number of {name} in {path}."
                )
            time.sleep(_PAUSE_S)


def _is_free(host: str, port: int) -> bool:
    """True when a server can listen there. Raises SetupError when the host is no address of this machine."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.closing(socket.socket(family, kind)) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Kafka does: old connections don't count
            server.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise SetupError(f"{host} is no address to listen on ({error.strerror}): correct --host.") from error
    return True
