"""The small requests, in versions that Kafka 2.1 and all since take, and no flexible ones: these are harder to read."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from headwater.brokers.wire.batch import Producer
from headwater.brokers.wire.protocol import Parts, Reader, array, data, header, text

Address = tuple[str, int]

_VERSIONS: Final = struct.Struct(">hhh")
_PRODUCER: Final = struct.Struct(">ihqh")
"""How long the broker throttles in ms, error code, the producer's id and epoch."""


@dataclass(frozen=True, slots=True)
class ApiVersions:
    """Which requests a broker takes. Answer: the first and the last version of each, by its key."""

    key: ClassVar[int] = 18
    version: ClassVar[int] = 0

    def parts(self, number: int) -> Parts:
        return [header(self, number)]

    def answer(self, payload: memoryview) -> dict[int, tuple[int, int]]:
        reader = Reader(payload)
        reader.int16()  # the error would be that the version is not known, which every broker knows
        return {key: (first, last) for key, first, last in reader.array(lambda: reader.numbers(_VERSIONS))}


@dataclass(frozen=True, slots=True)
class SaslHandshake:
    """Choose how to log in. Answer: an error code."""

    key: ClassVar[int] = 17
    version: ClassVar[int] = 1
    mechanism: str

    def parts(self, number: int) -> Parts:
        return [header(self, number), text(self.mechanism)]

    def answer(self, payload: memoryview) -> int:
        return Reader(payload).int16()


class Token(NamedTuple):
    """A step of logging in: an error code and its sentence, or the broker's token."""

    fault: int
    reason: str
    token: bytes


@dataclass(frozen=True, slots=True)
class SaslAuthenticate:
    """A step of logging in."""

    key: ClassVar[int] = 36
    version: ClassVar[int] = 0
    token: bytes

    def parts(self, number: int) -> Parts:
        return [header(self, number), data(self.token)]

    def answer(self, payload: memoryview) -> Token:
        reader = Reader(payload)
        return Token(reader.int16(), reader.text(), reader.data())


class Topic(NamedTuple):
    """fault: an error code. leaders: by partition, number (-1: none) and epoch (-1: not known)."""

    fault: int
    name: str
    leaders: dict[int, tuple[int, int]]


class Found(NamedTuple):
    """Of a cluster. brokers: by their numbers."""

    brokers: dict[int, Address]
    topics: list[Topic]


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where the partitions of topics are. A topic that is not there is not made."""

    key: ClassVar[int] = 3
    version: ClassVar[int] = 7
    topics: Sequence[str]

    def parts(self, number: int) -> Parts:
        make_topics = b"\0"
        return [header(self, number), array([*map(text, self.topics)]), make_topics]

    def answer(self, payload: memoryview) -> Found:
        reader = Reader(payload)
        reader.int32()  # how long the broker throttles
        brokers = dict(reader.array(lambda: _broker(reader)))
        reader.text()  # the cluster's id
        reader.int32()  # its controller
        return Found(brokers, reader.array(lambda: _topic(reader)))


def _broker(reader: Reader) -> tuple[int, Address]:
    number, host, port, _rack = reader.int32(), reader.text(), reader.int32(), reader.text()
    return number, (host, port)


def _topic(reader: Reader) -> Topic:
    fault, name, _internal = reader.int16(), reader.text(), reader.boolean()
    return Topic(fault, name, dict(reader.array(lambda: _leader(reader))))


def _leader(reader: Reader) -> tuple[int, tuple[int, int]]:
    _fault, partition, leader, epoch = reader.int16(), reader.int32(), reader.int32(), reader.int32()
    _replicas, _in_sync, _offline = (reader.array(reader.int32) for _ in range(3))
    return partition, (leader, epoch)


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """A new idempotent producer, without transactions. Answer: an error code, and who it is if that says none."""

    key: ClassVar[int] = 22
    version: ClassVar[int] = 0
    timeout_ms: int = 60_000
    """Of transactions, which there are none of; the broker wants one all the same."""

    def parts(self, number: int) -> Parts:
        return [header(self, number), text(None), struct.pack(">i", self.timeout_ms)]

    def answer(self, payload: memoryview) -> tuple[int, Producer]:
        _throttled, fault, *producer = Reader(payload).numbers(_PRODUCER)
        return fault, Producer(*producer)
