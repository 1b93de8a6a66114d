"""Finds free ports for servers that tests start."""

import socket


def free_port() -> int:
    """Return a TCP port on loopback on which no process listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port
