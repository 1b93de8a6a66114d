"""Opens the socket of a connection by the settings of redis-py.

redis-py gives no public access to its own sockets. Its connection object has the settings as attributes, so these
functions take a connection of redis-py that is not connected.
"""

import socket
import ssl
from contextlib import ExitStack
from typing import Any

import redis


def open_socket(unconnected: Any) -> socket.socket:
    """Connect to a server. unconnected: A connection of redis-py that is not connected.

    Raises OSError.
    """
    with ExitStack() as on_error:
        opened = on_error.enter_context(_connect(unconnected))
        opened.settimeout(unconnected.socket_timeout)
        if isinstance(unconnected, redis.SSLConnection):
            opened = _tls_context(unconnected).wrap_socket(opened, server_hostname=unconnected.host)
        on_error.pop_all()
        return opened


def _connect(unconnected: Any) -> socket.socket:
    if isinstance(unconnected, redis.UnixDomainSocketConnection):
        return _connect_unix(unconnected)
    opened = socket.create_connection((unconnected.host, unconnected.port), unconnected.socket_connect_timeout)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, bool(unconnected.socket_keepalive))
    for option, value in unconnected.socket_keepalive_options.items():
        opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened


def _connect_unix(unconnected: Any) -> socket.socket:
    with ExitStack() as on_error:
        opened = on_error.enter_context(socket.socket(socket.AF_UNIX))
        opened.settimeout(unconnected.socket_connect_timeout)
        opened.connect(unconnected.path)
        on_error.pop_all()
        return opened


def _tls_context(unconnected: redis.SSLConnection) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = unconnected.check_hostname
    context.verify_mode = unconnected.cert_reqs
    for flag in unconnected.ssl_include_verify_flags or ():
        context.verify_flags |= flag
    for flag in unconnected.ssl_exclude_verify_flags or ():
        context.verify_flags &= ~flag
    if unconnected.certfile or unconnected.keyfile:
        context.load_cert_chain(unconnected.certfile, unconnected.keyfile, unconnected.certificate_password)
    if unconnected.ca_certs or unconnected.ca_path or unconnected.ca_data:
        context.load_verify_locations(unconnected.ca_certs, unconnected.ca_path, unconnected.ca_data)
    if unconnected.ssl_ciphers:
        context.set_ciphers(unconnected.ssl_ciphers)
    return context
