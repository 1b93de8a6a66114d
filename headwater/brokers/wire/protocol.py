"""How Kafka writes requests and answers (https://kafka.apache.org/protocol): what every request has, primitive types.

Nothing is negotiated: each request has one version, which all brokers take that are new enough.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Protocol, TypeVar

CLIENT_ID: Final = "headwater"
OLDEST_BROKER: Final = "2.7"
"""Of Kafka: the first with all versions that are used here."""

Parts = list[bytes | memoryview]
"""Of one message, to be sent one after the other."""

Answer = TypeVar("Answer", covariant=True)
Item = TypeVar("Item")


class Message(Protocol[Answer]):
    """A request, of one version. key: what kind it is, by Kafka's number."""

    key: ClassVar[int]
    version: ClassVar[int]

    def parts(self, number: int) -> Parts:
        """It as it is sent, header included. number: comes back with the answer."""

    def answer(self, payload: memoryview) -> Answer:
        """Read its answer: all behind the number, so the rest of its header too where the version has one.

        Raises ValueError, IndexError, struct.error when it can't be read.
        """


def header(message: Message[Any], number: int) -> bytes:
    """A request's header (version 1). That of flexible versions (2) has tagged fields behind it."""
    return struct.pack(">hhi", message.key, message.version, number) + text(CLIENT_ID)


def text(value: str | None) -> bytes:
    """STRING, or NULLABLE_STRING."""
    if value is None:
        return struct.pack(">h", -1)
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def data(value: bytes) -> bytes:
    """BYTES."""
    return struct.pack(">i", len(value)) + value


def array(items: Sequence[bytes]) -> bytes:
    """ARRAY of items that are encoded already."""
    return struct.pack(">i", len(items)) + b"".join(items)


class Reader:
    """Reads one value after the other. Each read raises ValueError or struct.error behind the payload's end."""

    def __init__(self, payload: memoryview) -> None:
        self._payload = payload
        self._at = 0

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Several numbers in a row."""
        found = layout.unpack_from(self._payload, self._at)
        self._at += layout.size
        return found

    def int16(self) -> int:
        """Also an error code."""
        return int(self.numbers(_INT16)[0])

    def int32(self) -> int:
        """Also a count or a size: -1 for null."""
        return int(self.numbers(_INT32)[0])

    def boolean(self) -> bool:
        return bool(self.numbers(_BOOLEAN)[0])

    def text(self) -> str:
        """STRING or NULLABLE_STRING; empty for null."""
        return str(self._next(self.int16()), "utf-8")

    def data(self) -> bytes:
        """BYTES or NULLABLE_BYTES; empty for null."""
        return bytes(self._next(self.int32()))

    def array(self, item: Callable[[], Item]) -> list[Item]:
        """ARRAY; empty for null. item: reads one."""
        return [item() for _ in range(self.int32())]

    def _next(self, size: int) -> memoryview:
        end = self._at + max(0, size)
        if end > len(self._payload):
            raise ValueError("it ends too early")
        found, self._at = self._payload[self._at : end], end
        return found


class FlexibleReader(Reader):
    """Reads the values of "flexible" versions (KIP-482): sizes are varints, one more than they say, and optional fields
    have numbers ("tags").
    """

    def varint(self) -> int:
        """UNSIGNED_VARINT."""
        number = 0
        for place in range(_VARINT_BYTES):
            byte = self._next(1)[0]
            number |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return number
        raise ValueError("a number does not end")

    def items(self) -> range:
        """COMPACT_ARRAY: one for each item that follows; null has none."""
        return range(self.varint() - 1)

    def view(self) -> memoryview:
        """COMPACT_STRING or COMPACT_BYTES, not copied; empty for null."""
        return self._next(self.varint() - 1)

    def tags(self) -> "dict[int, FlexibleReader]":
        """TAG_BUFFER: the fields by their numbers."""
        return {self.varint(): FlexibleReader(self._next(self.varint())) for _ in range(self.varint())}

    def end(self) -> None:
        """Raise ValueError when something is left."""
        if self._at != len(self._payload):
            raise ValueError(f"{len(self._payload) - self._at} bytes behind it")


def unsigned_varint(number: int) -> bytes:
    """UNSIGNED_VARINT: seven bits a byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_VARINT_BYTES: Final = 5
_BOOLEAN: Final = struct.Struct(">?")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
