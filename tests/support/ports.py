"""Free ports for servers that tests start."""

import socket


def free_port() -> int:
    """A TCP port on loopback that nobody listens on now."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port
