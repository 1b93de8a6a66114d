"""Columns of records in and out of librdkafka, by the functions of the library that confluent-kafka has loaded.

confluent-kafka's wheel ships librdkafka without its header, under a file name with a hash. `kafka.h` declares what is
used of it; `library` finds the loaded file, and refuses versions that the declarations were not checked with.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import confluent_kafka

from headwater.errors import SetupError
from headwater.native.library import (
    FFI,
    NULL,
    Column,
    blank_bytes,
    blank_column,
    kernel,
    pointer,
    pointer_to_bytes,
)
from headwater.native.texts import Texts

CHECKED_VERSION: Final = (2, 16)
"""Major and minor version of the librdkafka whose header `kafka.h` was checked with."""
MAX_HEADERS: Final = 16
"""Headers that one record can be written with."""
_MAPS: Final = Path("/proc/self/maps")
_ROOM: Final = 4096
"""Records that one call reads at most."""


@cache
def library() -> Any:
    """librdkafka's functions, which the bridge is linked to from then on. Raises SetupError."""
    path = library_path()
    found = FFI.dlopen(path)
    version = _version_of(found, path)
    if version[:2] != CHECKED_VERSION:
        raise SetupError(
            f"confluent-kafka {confluent_kafka.__version__} brings librdkafka {'.'.join(map(str, version))}, and this "
            f"Headwater works with {'.'.join(map(str, CHECKED_VERSION))}: install the confluent-kafka that its "
            "requirements name."
        )
    kernel().kafka_link(_functions(found, path))
    return found


def library_path(maps: Path = _MAPS) -> str:
    """The file of the librdkafka that confluent-kafka has loaded. Raises SetupError."""
    for line in maps.read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if Path(path).name.startswith("librdkafka") and ".so" in path:
            return path
    raise SetupError(
        "confluent-kafka is installed without a librdkafka of its own, which workers need: install its wheel "
        "(`pip install --only-binary confluent-kafka confluent-kafka`)."
    )


def _version_of(found: Any, path: str) -> tuple[int, int, int]:
    try:
        number: int = found.rd_kafka_version()
    except AttributeError as error:
        raise _not_librdkafka(path, error) from error
    return number >> 24, number >> 16 & 0xFF, number >> 8 & 0xFF


def _functions(found: Any, path: str) -> Any:
    functions = FFI.new("KafkaFunctions *")
    for name, _ in FFI.typeof("KafkaFunctions").fields:
        try:
            setattr(functions, name, FFI.addressof(found, f"rd_kafka_{name}"))
        except AttributeError as error:
            raise _not_librdkafka(path, error) from error
    return functions


def _not_librdkafka(path: str, error: AttributeError) -> SetupError:
    return SetupError(
        f"The librdkafka in {path} lacks a function that workers need ({error}): install the confluent-kafka that "
        "Headwater's requirements name."
    )


class Place(NamedTuple):
    """A partition and an offset in it, and what else librdkafka says of it (epoch: -1 when it is not known)."""

    partition: int
    offset: int
    epoch: int = -1
    metadata: str = ""
    error: int = 0


class EventKind(IntEnum):
    """The kinds of notes, as `kafka.h` numbers them."""

    REBALANCE = 1
    COMMIT = 2
    ERROR = 3
    LOG = 4
    TOKEN = 5
    DELIVERY = 6


class Event(NamedTuple):
    """What a callback noted: see KafkaEvent in `kafka.h`."""

    kind: EventKind
    code: int
    text: str
    places: list[Place]
    lost: bool
    row: int


class Events:
    """The notes of one client's callbacks, between two calls of `take`. `struct` is the callbacks' opaque."""

    def __init__(self) -> None:
        self.struct = FFI.new("KafkaEvents *")

    def take(self) -> list[Event]:
        """The notes since the last call, in order."""
        struct = self.struct
        if not struct.count:
            return []
        events = [_event(struct.events[i]) for i in range(struct.count)]
        struct.count = 0
        return events

    def dropped(self) -> int:
        """How many notes found no room since the last call."""
        count, self.struct.dropped = self.struct.dropped, 0
        return int(count)

    @property
    def acknowledged(self) -> int:
        """How many records of a producer brokers have acknowledged so far, as far as the producer was polled."""
        return int(self.struct.acknowledged)


def _event(noted: Any) -> Event:
    places = list[Place]()
    if noted.partitions != NULL:
        places = places_of(noted.partitions)
        library().rd_kafka_topic_partition_list_destroy(noted.partitions)
        noted.partitions = NULL
    return Event(EventKind(noted.kind), noted.code, text_of(noted.text), places, bool(noted.lost), noted.row)


def text_of(text: Any) -> str:
    """The text of a C string."""
    return bytes(FFI.string(text)).decode(errors="replace")


class PartitionList:
    """A list of partitions of one topic for a call of librdkafka, freed at the end of a `with` block.

    It is not left to the garbage collector: calls put references to the client into it, so that a list which an
    exception still holds would keep `rd_kafka_destroy` waiting.
    """

    def __init__(self, topic: str, places: Iterable[Place]) -> None:
        functions, name = library(), topic.encode()
        self.struct = functions.rd_kafka_topic_partition_list_new(8)
        for place in places:
            entry = functions.rd_kafka_topic_partition_list_add(self.struct, name, place.partition)
            entry.offset = place.offset
            if place.epoch >= 0:
                functions.rd_kafka_topic_partition_set_leader_epoch(entry, place.epoch)
            if place.metadata:
                metadata = place.metadata.encode()
                entry.metadata, entry.metadata_size = _libc().strdup(metadata), len(metadata)  # freed with the list

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        struct, self.struct = self.struct, NULL
        library().rd_kafka_topic_partition_list_destroy(struct)

    def places(self) -> list[Place]:
        """The entries, as the call has left them."""
        return places_of(self.struct)


@cache
def _libc() -> Any:
    return FFI.dlopen(None)


def places_of(partitions: Any) -> list[Place]:
    """The entries of a list of partitions."""
    epoch_of = library().rd_kafka_topic_partition_get_leader_epoch
    found = (partitions.elems + i for i in range(partitions.cnt))
    return [Place(each.partition, each.offset, epoch_of(each), _metadata(each), each.err) for each in found]


def _metadata(entry: Any) -> str:
    if entry.metadata == NULL:
        return ""
    data = bytes(FFI.buffer(entry.metadata, entry.metadata_size))
    return data.rstrip(b"\0").decode(errors="replace")  # confluent-kafka stores the end of its C string too


class Failed(NamedTuple):
    """A partition that librdkafka could not read, at an offset (-1001: none), with its error code and text."""

    code: int
    partition: int
    offset: int
    text: str


class RecordHeaders(NamedTuple):
    """Headers of records. counts: column "i", of each record; names and values: of all, one record after the other."""

    counts: Column
    names: Texts
    values: Texts


class Received(NamedTuple):
    """Columns of records in the order in which they came, and partitions that could not be read.

    timestamps: in ms since the epoch, 0 where a record has none. leader_epochs: column "i", -1 where not known. ends:
    by partition, the offset at its end to which reading has come, control records included; of a client with the
    setting `enable.partition.eof`.
    """

    values: Texts
    keys: Texts
    timestamps: Column
    partitions: Column
    offsets: Column
    leader_epochs: Column
    failed: list[Failed]
    ends: dict[int, int]
    headers: RecordHeaders | None = None


class Receiver:
    """Reads a queue of messages into columns. queue: of librdkafka."""

    def __init__(self, queue: Any) -> None:
        self._messages = FFI.new("rd_kafka_message_t *[]", _ROOM)
        self._struct = FFI.new("KafkaReceived *", {"queue": queue, "messages": self._messages, "room": _ROOM})

    def receive(self, max_records: int, max_bytes: int, timeout_s: float, *, with_headers: bool = False) -> Received:
        """Wait at most `timeout_s` for a first message, and take what is there, of about `max_bytes`."""
        struct, functions = self._struct, kernel()
        count: int = functions.kafka_receive(struct, max_records, max_bytes, int(timeout_s * 1000))
        failed = [_failed(struct.failed[i]) for i in range(struct.failed_count)]
        ends = {struct.ends[i].partition: struct.ends[i].offset for i in range(struct.ends_count)}
        if not count:
            return _empty(failed, ends)
        try:
            values, keys = blank_bytes(struct.values_size), blank_bytes(struct.keys_size)
            value_sizes, key_sizes, epochs = (blank_column("i", count) for _ in range(3))
            timestamps, partitions, offsets = (blank_column("q", count) for _ in range(3))
            headers = self._headers(count) if with_headers else None
            functions.kafka_move(
                struct,
                pointer_to_bytes(values),
                pointer(value_sizes),
                pointer_to_bytes(keys),
                pointer(key_sizes),
                pointer(timestamps),
                pointer(partitions),
                pointer(offsets),
                pointer(epochs),
            )
        finally:
            functions.kafka_release(struct)
        texts = Texts(values, value_sizes), Texts(keys, key_sizes)
        return Received(*texts, timestamps, partitions, offsets, epochs, failed, ends, headers)

    def _headers(self, count: int) -> RecordHeaders:
        struct, functions = self._struct, kernel()
        counts, sums = blank_column("i", count), FFI.new("int64_t[3]")
        functions.kafka_measure_headers(struct, pointer(counts), sums, sums + 1, sums + 2)
        names, values = blank_bytes(sums[1]), blank_bytes(sums[2])
        name_sizes, value_sizes = blank_column("i", sums[0]), blank_column("i", sums[0])
        columns = pointer_to_bytes(names), pointer(name_sizes), pointer_to_bytes(values), pointer(value_sizes)
        functions.kafka_copy_headers(struct, *columns)
        return RecordHeaders(counts, Texts(names, name_sizes), Texts(values, value_sizes))


def _empty(failed: list[Failed], ends: dict[int, int]) -> Received:
    nothing = Texts.of(())
    return Received(nothing, nothing, Column("q"), Column("q"), Column("q"), Column("i"), failed, ends)


def _failed(noted: Any) -> Failed:
    return Failed(noted.code, noted.partition, noted.offset, text_of(noted.text))


class SourcePositions(NamedTuple):
    """Header values "<topic>/<partition>/<offset>/<index>", one per record, that are built when records are written.

    Columns "q".
    """

    topic: str
    partitions: Column
    offsets: Column
    indexes: Column

    def value(self, row: int) -> bytes:
        """The value of one record."""
        return f"{self.topic}/{self.partitions[row]}/{self.offsets[row]}/{self.indexes[row]}".encode()


class Header(NamedTuple):
    """A header of records, as a column. A record whose value is None does not have the header."""

    name: str
    values: Texts | SourcePositions


class Sending:
    """Columns of records on their way into a client's queue. partitions, timestamps: columns "q".

    Timestamps are in ms since the epoch; 0 is the present. first_row: the number that the first record's delivery
    report repeats; the records behind it have the numbers that follow.
    """

    def __init__(
        self,
        events: Events,
        client: Any,
        topic: Any,
        first_row: int,
        values: Texts,
        keys: Texts,
        partitions: Column,
        timestamps: Column,
        headers: Sequence[Header] = (),
    ) -> None:
        if len(headers) > MAX_HEADERS:
            raise ValueError(f"a record has at most {MAX_HEADERS} headers, not {len(headers)}")
        self._events = events
        self._count = len(values)
        self._kept: list[object] = []
        self._struct = FFI.new("KafkaRecords *")
        struct = self._struct
        struct.client, struct.topic, struct.first_row, struct.count = client, topic, first_row, self._count
        self._point_texts(struct.values, values)
        self._point_texts(struct.keys, keys)
        struct.partitions, struct.timestamps = self._pointer(partitions), self._pointer(timestamps)
        struct.headers, struct.headers_count = self._headers(headers), len(headers)
        self._sent = 0

    def _keep(self, pointed: Any) -> Any:
        self._kept.append(pointed)
        return pointed

    def _pointer(self, column: Column) -> Any:
        if len(column) != self._count:
            raise ValueError(f"a column of {len(column)} for {self._count} records")
        return self._keep(pointer(column))

    def _point_texts(self, struct: Any, texts: Texts) -> None:
        struct.text = self._keep(pointer_to_bytes(texts.text))
        struct.starts, struct.sizes = self._pointer(texts.starts), self._pointer(texts.sizes)

    def _headers(self, headers: Sequence[Header]) -> Any:
        made = self._keep(FFI.new("KafkaHeader[]", len(headers)))
        for struct, header in zip(made, headers, strict=True):
            struct.name = self._keep(FFI.new("char[]", header.name.encode()))
            if isinstance(header.values, Texts):
                self._point_texts(struct.values, header.values)
                continue
            topic, partitions, offsets, indexes = header.values
            prefix = f"{topic}/".encode()
            struct.prefix, struct.prefix_size = self._keep(pointer_to_bytes(prefix)), len(prefix)
            columns = partitions, offsets, indexes
            struct.partitions, struct.offsets, struct.indexes = map(self._pointer, columns)
        return made

    def advance(self) -> bool:
        """Queue records until the client's queue is full. True when all of them are queued.

        A record that librdkafka refuses at once is queued too: its delivery fails.
        """
        if self._count:
            self._sent = kernel().kafka_send(self._events.struct, self._struct, self._sent)
        assert self._sent >= 0, "headers are too long"
        return bool(self._sent == self._count)
