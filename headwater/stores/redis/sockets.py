"""Opens the socket of a connection by the settings of redis-py, which gives no public access to its own sockets."""

import socket
import ssl
from contextlib import ExitStack
from typing import Any

import redis


def open_socket(settings: Any) -> socket.socket:
    """Connect to a server. settings: A connection of redis-py that is not connected. Raises OSError."""
    with ExitStack() as on_error:
        opened = on_error.enter_context(_connect(settings))
        opened.settimeout(settings.socket_timeout)
        if isinstance(settings, redis.SSLConnection):
            opened = _tls_context(settings).wrap_socket(opened, server_hostname=settings.host)
        on_error.pop_all()
        return opened


def _connect(settings: Any) -> socket.socket:
    if isinstance(settings, redis.UnixDomainSocketConnection):
        return _connect_unix(settings)
    opened = socket.create_connection((settings.host, settings.port), settings.socket_connect_timeout)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, bool(settings.socket_keepalive))
    for option, value in settings.socket_keepalive_options.items():
        opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened


def _connect_unix(settings: Any) -> socket.socket:
    with ExitStack() as on_error:
        opened = on_error.enter_context(socket.socket(socket.AF_UNIX))
        opened.settimeout(settings.socket_connect_timeout)
        opened.connect(settings.path)
        on_error.pop_all()
        return opened


def _tls_context(settings: redis.SSLConnection) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = settings.check_hostname
    context.verify_mode = settings.cert_reqs
    for flag in settings.ssl_include_verify_flags or ():
        context.verify_flags |= flag
    for flag in settings.ssl_exclude_verify_flags or ():
        context.verify_flags &= ~flag
    if settings.certfile or settings.keyfile:
        context.load_cert_chain(settings.certfile, settings.keyfile, settings.certificate_password)
    if settings.ca_certs or settings.ca_path or settings.ca_data:
        context.load_verify_locations(settings.ca_certs, settings.ca_path, settings.ca_data)
    if settings.ssl_ciphers:
        context.set_ciphers(settings.ssl_ciphers)
    return context
