"""A connection to what is not the broker that it should be."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from aiokafka.protocol.admin import ApiVersionResponse_v0

from headwater.brokers.wire.connection import Connection, ConnectionLost, LoginRefused
from headwater.brokers.wire.requests import ApiVersions, InitProducerId, Metadata, SaslAuthenticate, SaslHandshake
from headwater.model.worker import KafkaAccess

PLAIN = KafkaAccess(bootstrap_servers="", security_protocol="PLAINTEXT")
SCRAM = KafkaAccess(bootstrap_servers="", username="user", password="pencil")
VERSIONS = {18: (0, 4), 3: (0, 13), 22: (0, 0), 17: (0, 1), 36: (0, 2)}
Reply = Callable[[int, int], bytes | None]
"""The whole answer to a request with this key and number; None: the broker closes the connection."""


def answer(number: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), number) + body


def versions(number: int, known: dict[int, tuple[int, int]] = VERSIONS) -> bytes:
    rows = [(key, *both) for key, both in known.items()]
    return answer(number, ApiVersionResponse_v0(error_code=0, api_versions=rows).encode())


@contextmanager
def connected(reply: Reply, access: KafkaAccess = PLAIN) -> Iterator[Connection]:
    """To a broker that answers as told."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, reply))
        thread.start()
        try:
            with closing(Connection(access, "127.0.0.1", server.getsockname()[1], 5.0)) as connection:
                yield connection
        finally:
            thread.join(5.0)


def _serve(server: socket.socket, reply: Reply) -> None:
    client, _ = server.accept()
    with client, client.makefile("rb") as requests:
        while head := requests.read(4):
            request = requests.read(int.from_bytes(head, "big"))
            key, _version, number = struct.unpack_from(">hhi", request)
            told = reply(key, number)
            if told is None:
                return
            client.sendall(told)


class TestVersions:
    def test_a_broker_is_too_old(self) -> None:
        known = VERSIONS | {Metadata.key: (0, 3)}
        with (
            connected(lambda _, number: versions(number, known)) as connection,
            pytest.raises(ConnectionLost, match=r"too old for Metadata: Headwater needs Kafka 2\.7"),
        ):
            connection.ask(Metadata([]))

    def test_a_broker_does_not_know_a_request_at_all(self) -> None:
        with (
            connected(lambda _, number: versions(number, {})) as connection,
            pytest.raises(ConnectionLost, match="too old for InitProducerId"),
        ):
            connection.ask(InitProducerId())

    def test_a_broker_is_too_new(self) -> None:
        known = VERSIONS | {Metadata.key: (9, 20)}
        with (
            connected(lambda _, number: versions(number, known)) as connection,
            pytest.raises(ConnectionLost, match="Metadata from version 9 on"),
        ):
            connection.ask(Metadata([]))


class TestAnswers:
    @pytest.mark.parametrize(
        ("told", "reason"),
        [
            (lambda number: answer(number + 1, b""), "another request"),
            (lambda number: answer(number, b"\0"), "can't be read"),
            (lambda number: b"HTTP/1.1", "no Kafka broker"),
            (lambda number: struct.pack(">i", 3), "no Kafka broker"),
            (lambda number: None, "closed the connection"),
        ],
    )
    def test_that_are_none(self, told: Callable[[int], bytes | None], reason: str) -> None:
        with pytest.raises(ConnectionLost, match=reason), connected(lambda _, number: told(number)):
            pass

    def test_come_in_the_order_of_their_requests(self) -> None:
        with connected(lambda _, number: versions(number)) as connection:
            for _ in range(3):
                connection.send(ApiVersions())
            assert [connection.receive() for _ in range(3)] == [VERSIONS] * 3

    def test_their_numbers_begin_again(self) -> None:
        with connected(lambda _, number: versions(number)) as connection:
            connection._number = (1 << 31) - 1
            assert connection.ask(ApiVersions()) == VERSIONS


class TestLogin:
    @staticmethod
    def broker(handshake: int, token: bytes) -> Reply:
        told = {SaslHandshake.key: struct.pack(">hi", handshake, 0), SaslAuthenticate.key: token}
        return lambda key, number: versions(number) if key == ApiVersions.key else answer(number, told[key])

    def test_the_broker_has_another_mechanism(self) -> None:
        with pytest.raises(LoginRefused, match="no SCRAM-SHA-512"), connected(self.broker(33, b""), SCRAM):
            pass

    def test_the_broker_refuses_the_user(self) -> None:
        token = struct.pack(">hh4si", 58, 4, b"away", 0)
        with pytest.raises(LoginRefused, match="away"), connected(self.broker(0, token), SCRAM):
            pass

    def test_the_broker_is_an_impostor(self) -> None:
        challenge = b"r=ours,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        token = struct.pack(f">hhi{len(challenge)}s", 0, -1, len(challenge), challenge)
        with pytest.raises(LoginRefused, match="nonce"), connected(self.broker(0, token), SCRAM):
            pass
