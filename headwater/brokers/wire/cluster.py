"""Who leads which partition, and what else any broker of a cluster can be asked."""

import threading
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headwater.brokers.wire.batch import Producer
from headwater.brokers.wire.codes import NO_ERROR
from headwater.brokers.wire.connection import Connection, ConnectionLost
from headwater.brokers.wire.protocol import Answer, Message
from headwater.brokers.wire.requests import Address, InitProducerId, Metadata
from headwater.children import Backoff
from headwater.model.worker import KafkaAccess

DEFAULT_PORT: Final = 9092
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


def pauses() -> Backoff:
    """Between two looks for the broker that leads a partition."""
    return Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)


class Leader(NamedTuple):
    """The broker that a partition is written to and read from, and the epoch of its lead (-1: not known)."""

    address: Address
    epoch: int


class Layout(NamedTuple):
    """leaders: by topic and partition. faults: error codes of Kafka, by topic."""

    leaders: dict[tuple[str, int], Leader]
    faults: dict[str, int]


class Cluster:
    """Asks one broker after the other until one can be reached. Thread-safe. timeout_s: for each wait."""

    def __init__(self, access: KafkaAccess, timeout_s: float) -> None:
        self._access = access
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def layout(self, topics: Sequence[str]) -> Layout:
        """Raises ConnectionLost, LoginRefused."""
        brokers, found = self._ask(Metadata(topics))
        leaders = {
            (topic.name, partition): Leader(brokers[leader], epoch)
            for topic in found
            for partition, (leader, epoch) in topic.leaders.items()
            if topic.fault == NO_ERROR and leader in brokers
        }
        return Layout(leaders, {topic.name: topic.fault for topic in found if topic.fault != NO_ERROR})

    def new_producer(self) -> Producer:
        """Raises ConnectionLost, LoginRefused, and ProducerRefused when the user may not write anything."""
        fault, producer = self._ask(InitProducerId())
        if fault != NO_ERROR:
            raise ProducerRefused(fault)
        return producer

    def close(self) -> None:
        """Let go of the connection. Who waits for an answer loses it; who asks next gets a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _ask(self, message: Message[Answer]) -> Answer:
        with self._lock:
            connection = self._connection = self._connection or self._connect()
            try:
                return connection.ask(message)
            except ConnectionLost:
                self.close()
                raise

    def _connect(self) -> Connection:
        lost = ConnectionLost("no address of a broker")
        for host, port in _addresses(self._access.bootstrap_servers):
            try:
                return Connection(self._access, host, port, self._timeout_s)
            except ConnectionLost as error:
                lost = error
        raise lost


class ProducerRefused(Exception):
    """An error code of Kafka."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def _addresses(servers: str) -> Iterator[Address]:
    """From `host:port,…`; an IPv6 address stands in brackets."""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not port.isdigit():
            host, port = server.strip(), str(DEFAULT_PORT)
        yield host.removeprefix("[").removesuffix("]"), int(port)
