"""Limits of the HTTP server."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits that hold for each API process."""

    header_bytes: int = 16_384
    """Bytes of a request line with all header fields."""
    header_fields: int = 100
    """Number of header fields of a request."""
    header_timeout_s: float = 10.0
    """Time for a whole request head, from the connection or from the head's first byte."""
    stall_timeout_s: float = 30.0
    """Time without progress after which the transfer of a body is aborted; a response gets twice this time."""
    min_bytes_per_s: float = 500.0
    """Rate below which a transfer uses up `stall_timeout_s`; a faster transfer refills it."""
    keep_alive_s: float = 15.0
    """Time that a connection stays open between two requests."""
    connections: int = 1_000
    """Number of connections at the same time."""
    connections_per_address: int = 100
    """Number of connections of one client at the same time; for a client behind a trusted proxy, of requests."""
