"""The ports of a data directory: chosen once, stored in ports.json, checked at each start."""

import contextlib
import errno
import json
import secrets
import socket
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from headwater.errors import SetupError
from headwater.private_files import write_private

FIRST_PORT: Final = 20_000
PORT_COUNT: Final = 10_000
"""Ports are chosen from this many, below the kernel's range for outgoing connections (32768 and up): a connection could
otherwise take a chosen port later."""
LOOPBACK: Final = "127.0.0.1"
RELEASE_TIMEOUT_S = 5.0
"""How long a used port may take to become free: a killed broker holds its ports until its memory is freed."""
_RETRY_DELAY_S: Final = 0.05


class Ports(NamedTuple):
    """The ports of the embedded Kafka. The names of the attributes are the keys in ports.json.

    Attributes:
        kafka: For clients.
        kafka_internal: For Headwater itself, on loopback.
        kafka_controller: For KRaft, on loopback.
    """

    kafka: int
    kafka_internal: int
    kafka_controller: int


def load_or_choose_ports(path: Path, host: str) -> Ports:
    """Return the ports in the file when they are free.

    On the first start, chooses free ports and adds them to the file. Other parts of Headwater also write to the file.
    Raises SetupError when the file is damaged, or another program uses one of the ports.
    """
    members = _read(path)
    if not all(name in members for name in Ports._fields):
        members |= _choose(host)._asdict()
        write_private(path, json.dumps(members, indent=2) + "\n")
    ports = read_ports(path)
    _wait_until_free(ports, host, path)
    return ports


def read_ports(path: Path) -> Ports:
    """Return the ports in the file. Raises SetupError when it has none."""
    members = _read(path)
    if not all(name in members for name in Ports._fields):
        raise SetupError(f"{path} contains no ports of Kafka. Start `headwater up` with this data directory first.")
    return Ports(*(members[name] for name in Ports._fields))


def _read(path: Path) -> dict[str, Any]:
    try:
        members: dict[str, Any] = json.loads(path.read_text())
        is_valid = isinstance(members, dict) and all(
            type(members[name]) is int for name in Ports._fields if name in members
        )
    except FileNotFoundError:
        return {}
    except ValueError:
        is_valid = False
    if not is_valid:
        raise SetupError(f"{path} is damaged: correct it, or remove it to have new ports chosen.")
    return members


def _choose(host: str) -> Ports:
    chosen: list[int] = []
    while len(chosen) < len(Ports._fields):
        port = FIRST_PORT + secrets.randbelow(PORT_COUNT)
        if port not in chosen and _is_free(_address(Ports._fields[len(chosen)], host), port):
            chosen.append(port)
    return Ports(*chosen)


def _address(name: str, host: str) -> str:
    """Return the address on which Kafka listens at the port with this name."""
    return host if name == "kafka" else LOOPBACK


def _wait_until_free(ports: Ports, host: str, path: Path) -> None:
    """Return when all ports are free. Raises SetupError when another program keeps one of them."""
    deadline = time.monotonic() + RELEASE_TIMEOUT_S
    for name, port in ports._asdict().items():
        while not _is_free(_address(name, host), port):
            if time.monotonic() > deadline:
                raise SetupError(
                    f"Port {port} ({name}) is used by another program: stop that program, "
                    f"or change the number of {name} in {path}."
                )
            time.sleep(_RETRY_DELAY_S)


def _is_free(host: str, port: int) -> bool:
    """Return whether a server can listen on a port.

    Raises SetupError when the host is no address of this machine.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.closing(socket.socket(family, kind)) as server:
            # As Kafka does, so that connections in TIME_WAIT don't block the port.
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise SetupError(f"{host} is no address to listen on ({error.strerror}): correct --host.") from error
    return True
