"""One connection to a Kafka broker: requests and their answers, which come in the same order. Blocks."""

import contextlib
import socket
import ssl
import struct
from collections import deque
from typing import Any, Final

from headwater.brokers.wire.codes import NO_ERROR
from headwater.brokers.wire.protocol import OLDEST_BROKER, Answer, Message, Parts
from headwater.brokers.wire.requests import ApiVersions, SaslAuthenticate, SaslHandshake
from headwater.brokers.wire.scram import Scram
from headwater.model.worker import KafkaAccess

MAX_ANSWER_BYTES: Final = 64 << 20
_SIZE_BYTES: Final = 4
_NUMBER_BYTES: Final = 4
_HIGHEST_NUMBER: Final = (1 << 31) - 1
_MOST_PARTS: Final = 512
"""Of one call to the system, which takes 1,024."""


class ConnectionLost(Exception):
    """The broker is not there, does not answer in time, or closed the connection. What it did is not known."""


class LoginRefused(Exception):
    """The broker does not know the user, or not with this password."""


class TlsRefused(ConnectionLost):
    """One of both sides does not trust the other, or speaks no TLS."""


class Connection:
    """Used by one thread, but for `close`."""

    def __init__(self, access: KafkaAccess, host: str, port: int, timeout_s: float) -> None:
        """Connect and log in. timeout_s: for each wait. Raises ConnectionLost, LoginRefused."""
        self._awaited: deque[tuple[int, Message[Any]]] = deque()
        self._number = 0
        self._versions = {ApiVersions.key: (ApiVersions.version, ApiVersions.version)}
        self._socket = _connect(access, host, port, timeout_s)
        try:
            self._versions = self.ask(ApiVersions())
            if access.security_protocol.startswith("SASL_"):
                self._log_in(access)
        except BaseException:
            self.close()
            raise

    def wait_for(self, timeout_s: float) -> None:
        """How long each wait may last from now on."""
        self._socket.settimeout(timeout_s)

    def close(self) -> None:
        """HeadNotifier up whoever waits for an answer: nothing more comes. From any thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def ask(self, message: Message[Answer]) -> Answer:
        """Send a request and wait for its answer, when no other is awaited. Raises ConnectionLost."""
        self.send(message)
        answer: Answer = self.receive()
        return answer

    def send(self, message: Message[Any]) -> None:
        """Send a request without joining its parts. Raises ConnectionLost, also when the broker does not know it."""
        self._check_version(message)
        self._number = (self._number + 1) & _HIGHEST_NUMBER
        self._awaited.append((self._number, message))
        self._send(message.parts(self._number))

    def _check_version(self, message: Message[Any]) -> None:
        first, last = self._versions.get(message.key, (0, -1))
        if first <= message.version <= last:
            return
        name = type(message).__name__
        if message.version > last:
            raise ConnectionLost(f"the broker is too old for {name}: Headwater needs Kafka {OLDEST_BROKER} or newer")
        raise ConnectionLost(f"the broker takes {name} from version {first} on: Headwater is too old for it")

    def _send(self, parts: Parts) -> None:
        size = sum(map(len, parts)).to_bytes(_SIZE_BYTES, "big")
        try:
            if isinstance(self._socket, ssl.SSLSocket):  # it takes no parts
                self._socket.sendall(b"".join([size, *parts]))
            else:
                _send_all(self._socket, [size, *parts])
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def receive(self) -> Any:
        """The answer to the oldest request that has none. Raises ConnectionLost."""
        number, message = self._awaited.popleft()
        size = int.from_bytes(self._read(_SIZE_BYTES), "big")
        if not _NUMBER_BYTES <= size <= MAX_ANSWER_BYTES:
            raise ConnectionLost(f"an answer of {size} bytes: this is no Kafka broker")
        told = self._read(size)
        if int.from_bytes(told[:_NUMBER_BYTES], "big") != number:
            raise ConnectionLost("an answer to another request")
        try:
            return message.answer(told[_NUMBER_BYTES:])
        except (ValueError, IndexError, struct.error) as error:
            raise ConnectionLost(f"an answer that can't be read: {error}") from error

    def _read(self, count: int) -> memoryview:
        view, filled = memoryview(bytearray(count)), 0
        while filled < count:
            try:
                got = self._socket.recv_into(view[filled:])
            except OSError as error:
                raise ConnectionLost(str(error)) from error
            if not got:
                raise ConnectionLost("the broker closed the connection")
            filled += got
        return view

    def _log_in(self, access: KafkaAccess) -> None:
        """SASL, RFC 4616 (PLAIN) or RFC 5802 (SCRAM)."""
        if self.ask(SaslHandshake(access.sasl_mechanism)) != NO_ERROR:
            raise LoginRefused(f"the broker has no {access.sasl_mechanism}")
        if access.sasl_mechanism == "PLAIN":
            self._token(f"\0{access.username}\0{access.password}".encode())
            return
        scram = Scram(access.sasl_mechanism, access.username, access.password)
        try:
            scram.verify(self._token(scram.final(self._token(scram.first()))))
        except ValueError as error:
            raise LoginRefused(f"the broker's answer is wrong: {error}") from error

    def _token(self, token: bytes) -> bytes:
        told = self.ask(SaslAuthenticate(token))
        if told.fault != NO_ERROR:
            raise LoginRefused(told.reason or "the broker refuses the user")
        return told.token


def _send_all(to: socket.socket, parts: Parts) -> None:
    left = [memoryview(part) for part in parts if len(part)]
    while left:
        sent = to.sendmsg(left[:_MOST_PARTS])
        while left and sent >= len(left[0]):
            sent -= len(left.pop(0))
        if sent:
            left[0] = left[0][sent:]


def _connect(access: KafkaAccess, host: str, port: int, timeout_s: float) -> socket.socket:
    """Raises ConnectionLost."""
    try:
        plain = socket.create_connection((host, port), timeout_s)
    except OSError as error:
        raise ConnectionLost(str(error)) from error
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if not access.security_protocol.endswith("SSL"):
        return plain
    try:
        return ssl.create_default_context(cafile=access.ca_file or None).wrap_socket(plain, server_hostname=host)
    except OSError as error:
        plain.close()
        raise TlsRefused(str(error)) from error
