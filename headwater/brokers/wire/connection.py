"""One connection to a Kafka broker: requests and their answers, which come in the same order. Blocks."""

import contextlib
import socket
import ssl
from collections import deque
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any, Final, Protocol

from aiokafka.conn import ScramAuthenticator
from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.admin import ApiVersionRequest, SaslAuthenticateRequest, SaslHandShakeRequest
from aiokafka.protocol.api import Request, RequestStruct, Response, ResponseHeader_v0

from headwater.model.worker import KafkaAccess

CLIENT_ID: Final = "headwater"
MAX_ANSWER_BYTES: Final = 64 << 20
_SIZE_BYTES: Final = 4
_MOST_PARTS: Final = 512
"""Of one call to the system, which takes 1,024."""


class ConnectionLost(Exception):
    """The broker is not there, does not answer in time, or closed the connection. What it did is not known."""


class LoginRefused(Exception):
    """The broker does not know the user, or not with this password."""


class TlsRefused(ConnectionLost):
    """One of both sides does not trust the other, or speaks no TLS."""


Parts = list[bytes | memoryview]
"""Of one message, to be sent one after the other."""


class Message(Protocol):
    """A request that is made without a library. answer: how its answer is read; its header has a number alone."""

    @property
    def answer(self) -> type[Response]: ...

    def parts(self, number: int) -> Parts:
        """It as it is sent, header included. number: comes back with the answer."""


class Connection:
    """Used by one thread, but for `close`."""

    def __init__(self, access: KafkaAccess, host: str, port: int, timeout_s: float) -> None:
        """Connect and log in. timeout_s: for each wait. Raises ConnectionLost, LoginRefused."""
        self._awaited: deque[tuple[int, Callable[[BytesIO], Any]]] = deque()
        self._number = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._socket = _connect(access, host, port, timeout_s)
        try:
            told = self.ask(ApiVersionRequest())
            self._versions = {key: (first, last) for key, first, last in told.api_versions}
            if access.security_protocol.startswith("SASL_"):
                self._log_in(access)
        except BaseException:
            self.close()
            raise

    def wait_for(self, timeout_s: float) -> None:
        """How long each wait may last from now on."""
        self._socket.settimeout(timeout_s)

    def close(self) -> None:
        """Wake up whoever waits for an answer: nothing more comes. From any thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def ask(self, request: Request[Any]) -> Any:
        """Send a request and wait for its answer, when no other is awaited. Raises ConnectionLost."""
        self.send(request)
        return self.receive()

    def send(self, request: Request[Any]) -> None:
        """Send a request in the newest version that both sides know. Raises ConnectionLost."""
        try:
            built = request.prepare(self._versions)
        except (IncompatibleBrokerVersion, NotImplementedError) as error:
            raise ConnectionLost(f"the broker speaks another version of Kafka's protocol: {error}") from error
        self._number += 1
        self._awaited.append((self._number, partial(_read, built)))
        self._send([built.build_request_header(self._number, CLIENT_ID).encode(), built.encode()])

    def send_message(self, message: Message) -> None:
        """Send a request without joining its parts. Raises ConnectionLost."""
        self._number += 1
        self._awaited.append((self._number, partial(_read_plain, message.answer)))
        self._send(message.parts(self._number))

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
        number, read = self._awaited.popleft()
        size = int.from_bytes(self._read(_SIZE_BYTES), "big")
        if size > MAX_ANSWER_BYTES:
            raise ConnectionLost(f"an answer of {size} bytes: this is no Kafka broker")
        try:
            answered, answer = read(BytesIO(self._read(size)))
        except (ValueError, UnicodeDecodeError) as error:
            raise ConnectionLost(f"an answer that can't be read: {error}") from error
        if answered != number:
            raise ConnectionLost("an answer to another request")
        return answer

    def _read(self, count: int) -> bytes:
        data = bytearray(count)
        view, filled = memoryview(data), 0
        while filled < count:
            try:
                got = self._socket.recv_into(view[filled:])
            except OSError as error:
                raise ConnectionLost(str(error)) from error
            if not got:
                raise ConnectionLost("the broker closed the connection")
            filled += got
        return bytes(data)

    def _log_in(self, access: KafkaAccess) -> None:
        """SASL, RFC 4616 (PLAIN) or RFC 5802 (SCRAM)."""
        if self.ask(SaslHandShakeRequest(access.sasl_mechanism)).error_code:
            raise LoginRefused(f"the broker has no {access.sasl_mechanism}")
        if access.sasl_mechanism == "PLAIN":
            self._token(f"\0{access.username}\0{access.password}".encode())
            return
        scram = ScramAuthenticator(
            loop=None,
            sasl_plain_username=access.username,
            sasl_plain_password=access.password,
            sasl_mechanism=access.sasl_mechanism,
        )
        try:
            scram.process_server_first_message(self._token(scram.first_message().encode()).decode())
            scram.process_server_final_message(self._token(scram.final_message().encode()).decode())
        except (ValueError, KeyError) as error:
            raise LoginRefused(f"the broker's answer is wrong: {error}") from error

    def _token(self, token: bytes) -> bytes:
        answer = self.ask(SaslAuthenticateRequest(token))
        if answer.error_code:
            raise LoginRefused(answer.error_message or "the broker refuses the user")
        data: bytes = answer.sasl_auth_bytes
        return data


def _read(request: RequestStruct, answer: BytesIO) -> tuple[int, Any]:
    """The number of an answer, and what it says."""
    return request.parse_response_header(answer).correlation_id, request.RESPONSE_TYPE.decode(answer)


def _read_plain(kind: type[Response], answer: BytesIO) -> tuple[int, Any]:
    return ResponseHeader_v0.decode(answer).correlation_id, kind.decode(answer)


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
