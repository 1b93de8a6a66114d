"""Moves columns of records in and out of the librdkafka that confluent-kafka has loaded.

confluent-kafka's wheel contains librdkafka without its header file, under a file name with a hash. `librdkafka.h`
declares the functions that Headwater uses. The function `librdkafka` finds the loaded file, and rejects versions for
which the declarations were not checked.
"""

import math
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import confluent_kafka

from headwater.errors import SetupError
from headwater.native.bytes_column import BytesColumn
from headwater.native.ffi import (
    FFI,
    NULL,
    Column,
    native_library,
    pointer,
    pointer_to_bytes,
    uninitialized_bytes,
    zeroed_column,
)

CHECKED_VERSION: Final = (2, 16)
"""Major and minor version of the librdkafka for which `librdkafka.h` was checked."""
MAX_HEADERS: Final = 16
"""How many headers a record can be written with."""
_MAPS: Final = Path("/proc/self/maps")
_MAX_MESSAGES_PER_CALL: Final = 4096
"""How many messages one call of `Fetcher.fetch` reads at most."""


@cache
def librdkafka() -> Any:
    """Return librdkafka's functions.

    The C bridge gets pointers to the functions that it calls. Raises SetupError.
    """
    path = librdkafka_path()
    library = FFI.dlopen(path)
    version = _version_of(library, path)
    if version[:2] != CHECKED_VERSION:
        raise SetupError(
            f"confluent-kafka {confluent_kafka.__version__} contains librdkafka {'.'.join(map(str, version))}, and "
            f"this Headwater works with {'.'.join(map(str, CHECKED_VERSION))}: install the confluent-kafka that its "
            "requirements name."
        )
    native_library().kafka_set_functions(_functions(library, path))
    return library


def librdkafka_path(maps: Path = _MAPS) -> str:
    """Return the path of the librdkafka that confluent-kafka has loaded. Raises SetupError."""
    for line in maps.read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if Path(path).name.startswith("librdkafka") and ".so" in path:
            return path
    raise SetupError(
        "confluent-kafka is installed without a librdkafka of its own, which workers need: install its wheel "
        "(`pip install --only-binary confluent-kafka confluent-kafka`)."
    )


def _version_of(library: Any, path: str) -> tuple[int, int, int]:
    try:
        number: int = library.rd_kafka_version()
    except FFI.error as error:
        raise _missing_function(path, error) from error
    return number >> 24, number >> 16 & 0xFF, number >> 8 & 0xFF


def _functions(library: Any, path: str) -> Any:
    functions = FFI.new("KafkaFunctions *")
    for name, _ in FFI.typeof("KafkaFunctions").fields:
        try:
            setattr(functions, name, FFI.addressof(library, f"rd_kafka_{name}"))
        except FFI.error as error:
            raise _missing_function(path, error) from error
    return functions


def _missing_function(path: str, error: Exception) -> SetupError:
    return SetupError(
        f"The librdkafka in {path} lacks a function that workers need ({error}): install the confluent-kafka that "
        "Headwater's requirements name."
    )


class PartitionOffset(NamedTuple):
    """An entry of a partition list of librdkafka.

    Attributes:
        partition: The number of the partition.
        offset: An offset in the partition; negative values have a special meaning for librdkafka.
        leader_epoch: The leader epoch of the record before the offset; -1 when it is not known.
        metadata: The metadata of a commit.
        error: librdkafka's error code for this partition; 0 for none.
    """

    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    error: int = 0


class EventKind(IntEnum):
    """The kinds of events, with the values of the constants KAFKA_… in `librdkafka.h`."""

    REBALANCE = 1
    COMMIT = 2
    ERROR = 3
    LOG = 4
    TOKEN = 5


class ClientEvent(NamedTuple):
    """An event that a callback of librdkafka queued.

    The attributes are the fields of KafkaEvent in `librdkafka.h`.
    """

    kind: EventKind
    code: int
    text: str
    partitions: list[PartitionOffset]
    lost: bool


class DeliveryFailure(NamedTuple):
    """A record that could not be delivered.

    Attributes:
        record_id: The id of the record, see OutgoingBatch.
        code: librdkafka's error code.
    """

    record_id: int
    code: int


class EventQueue:
    """The events and failed deliveries of one client that Python has not taken yet.

    Take them after each call of librdkafka that runs callbacks.

    Args:
        max_queued_records: How many records the client's queue can hold; 0 for a consumer.

    Attributes:
        struct: The events in C. librdkafka passes this pointer to the callbacks as their `opaque`.
    """

    def __init__(self, max_queued_records: int = 0) -> None:
        self._failures = FFI.new("KafkaDeliveryFailure[]", 2 * max_queued_records)
        fields = {"failures": self._failures, "failure_capacity": len(self._failures)}
        self.struct = FFI.new("KafkaEvents *", fields)

    def take_events(self) -> list[ClientEvent]:
        """Return the events since the last call, in order."""
        struct = self.struct
        if not struct.count:
            return []
        events = [_event(struct.events[i]) for i in range(struct.count)]
        struct.count = 0
        return events

    def take_failures(self) -> list[DeliveryFailure]:
        """Return the failed deliveries since the last call, in order."""
        count, self.struct.failure_count = self.struct.failure_count, 0
        return [DeliveryFailure(each.record_id, each.code) for each in self._failures[0:count]]

    def take_dropped_count(self) -> int:
        """Return how many events were dropped since the last call because the queue was full."""
        dropped, self.struct.dropped = self.struct.dropped, 0
        return int(dropped)

    @property
    def acknowledged(self) -> int:
        """How many records the brokers have acknowledged.

        The number grows only while the producer is polled.
        """
        return int(self.struct.acknowledged)


def _event(struct: Any) -> ClientEvent:
    partitions = list[PartitionOffset]()
    if struct.partitions != NULL:
        partitions = _entries(struct.partitions)
        librdkafka().rd_kafka_topic_partition_list_destroy(struct.partitions)
        struct.partitions = NULL
    kind, text = EventKind(struct.kind), decode_c_string(struct.text)
    return ClientEvent(kind, struct.code, text, partitions, bool(struct.lost))


def decode_c_string(string: Any) -> str:
    """Return the text of a C string. Invalid UTF-8 is replaced."""
    return bytes(FFI.string(string)).decode(errors="replace")


class PartitionList:
    """A list of partitions of one topic for librdkafka, freed at the end of a `with` block.

    The list is freed explicitly, because librdkafka stores references to the client in it: a list that a traceback
    keeps alive would block `rd_kafka_destroy`.
    """

    def __init__(self, topic: str, offsets: Iterable[PartitionOffset]) -> None:
        functions, name = librdkafka(), topic.encode()
        self.struct = functions.rd_kafka_topic_partition_list_new(8)
        for each in offsets:
            entry = functions.rd_kafka_topic_partition_list_add(self.struct, name, each.partition)
            entry.offset = each.offset
            if each.leader_epoch >= 0:
                functions.rd_kafka_topic_partition_set_leader_epoch(entry, each.leader_epoch)
            if each.metadata:
                metadata = each.metadata.encode()
                # The memory is allocated with malloc, because librdkafka frees it together with the list.
                entry.metadata, entry.metadata_size = _libc().strdup(metadata), len(metadata)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        struct, self.struct = self.struct, NULL
        librdkafka().rd_kafka_topic_partition_list_destroy(struct)

    def entries(self) -> list[PartitionOffset]:
        """Return the entries with the offsets and errors that librdkafka wrote into them."""
        return _entries(self.struct)


@cache
def _libc() -> Any:
    return FFI.dlopen(None)


def _entries(partitions: Any) -> list[PartitionOffset]:
    leader_epoch = librdkafka().rd_kafka_topic_partition_get_leader_epoch
    entries = (partitions.elems + i for i in range(partitions.cnt))
    return [PartitionOffset(e.partition, e.offset, leader_epoch(e), _metadata(e), e.err) for e in entries]


def _metadata(entry: Any) -> str:
    if entry.metadata == NULL:
        return ""
    data = bytes(FFI.buffer(entry.metadata, entry.metadata_size))
    return data.rstrip(b"\0").decode(errors="replace")  # confluent-kafka includes the terminating zero byte


class PartitionError(NamedTuple):
    """An error of librdkafka for one partition. The offset is -1001 when the error has none."""

    code: int
    partition: int
    offset: int
    text: str


class RecordHeaders(NamedTuple):
    """The headers of a batch of records.

    Attributes:
        counts: The number of headers of each record, as an int32 column.
        names: The names of the headers of all records, in the order of the records.
        values: The values of these headers.
    """

    counts: Column
    names: BytesColumn
    values: BytesColumn


class FetchedColumns(NamedTuple):
    """The records of one fetch as columns, and the partitions with an error or at their end.

    Attributes:
        values: The values of the records; None is a tombstone.
        keys: The keys of the records.
        timestamps: Milliseconds since the epoch, 0 for a record without a timestamp. An int64 column.
        partitions: An int64 column.
        offsets: An int64 column.
        leader_epochs: The leader epoch of each record, -1 when it is not known. An int32 column.
        errors: The partitions that could not be read.
        end_offsets: For each partition that was read to its end, the offset after the last record, control records
            included. Only clients with the setting `enable.partition.eof` report it.
        headers: The headers of the records; None unless the fetch was `with_headers`.
    """

    values: BytesColumn
    keys: BytesColumn
    timestamps: Column
    partitions: Column
    offsets: Column
    leader_epochs: Column
    errors: list[PartitionError]
    end_offsets: dict[int, int]
    headers: RecordHeaders | None = None


class Fetcher:
    """Fetches messages from a librdkafka queue into columns."""

    def __init__(self, queue: Any) -> None:
        capacity = _MAX_MESSAGES_PER_CALL
        self._messages = FFI.new("rd_kafka_message_t *[]", capacity)
        self._struct = FFI.new(
            "KafkaFetchedMessages *", {"queue": queue, "messages": self._messages, "capacity": capacity}
        )

    def fetch(
        self, max_records: int, max_bytes: int, timeout_s: float, *, with_headers: bool = False
    ) -> FetchedColumns:
        """Wait at most `timeout_s` for a message, and return the queued messages.

        Returns at most `max_records` messages (one, if there is one, even with 0), with about `max_bytes` in total.
        """
        struct, functions = self._struct, native_library()
        count: int = functions.kafka_fetch_messages(struct, max_records, max_bytes, to_milliseconds(timeout_s))
        errors = [_error(struct.errors[i]) for i in range(struct.errors_count)]
        end_offsets = {struct.ends[i].partition: struct.ends[i].offset for i in range(struct.ends_count)}
        if not count:
            return _without_records(errors, end_offsets)
        try:
            values, keys = uninitialized_bytes(struct.values_size), uninitialized_bytes(struct.keys_size)
            value_sizes, key_sizes, epochs = (zeroed_column("i", count) for _ in range(3))
            timestamps, partitions, offsets = (zeroed_column("q", count) for _ in range(3))
            headers = self._headers(count) if with_headers else None
            functions.kafka_copy_and_free_messages(
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
            functions.kafka_free_messages(struct)
        columns = BytesColumn(values, value_sizes), BytesColumn(keys, key_sizes)
        return FetchedColumns(*columns, timestamps, partitions, offsets, epochs, errors, end_offsets, headers)

    def _headers(self, count: int) -> RecordHeaders:
        struct, functions = self._struct, native_library()
        counts, totals = zeroed_column("i", count), FFI.new("int64_t[3]")
        functions.kafka_measure_headers(struct, pointer(counts), totals, totals + 1, totals + 2)
        names, values = uninitialized_bytes(totals[1]), uninitialized_bytes(totals[2])
        name_sizes, value_sizes = zeroed_column("i", totals[0]), zeroed_column("i", totals[0])
        columns = pointer_to_bytes(names), pointer(name_sizes), pointer_to_bytes(values), pointer(value_sizes)
        functions.kafka_copy_headers(struct, *columns)
        return RecordHeaders(counts, BytesColumn(names, name_sizes), BytesColumn(values, value_sizes))


_EMPTY_BYTES_COLUMN: Final = BytesColumn.of(())
_EMPTY_INT64_COLUMN: Final = Column("q")
_EMPTY_INT32_COLUMN: Final = Column("i")


def to_milliseconds(timeout_s: float) -> int:
    """Convert a timeout to whole milliseconds for librdkafka.

    The result is rounded up. Otherwise the last fraction of a millisecond before a deadline would become 0 ms, and the
    caller would poll in a busy loop until the deadline. A negative timeout becomes 0, since librdkafka would wait
    forever.
    """
    return max(0, math.ceil(timeout_s * 1000))


def _without_records(errors: list[PartitionError], end_offsets: dict[int, int]) -> FetchedColumns:
    columns = (
        _EMPTY_BYTES_COLUMN,
        _EMPTY_BYTES_COLUMN,
        _EMPTY_INT64_COLUMN,
        _EMPTY_INT64_COLUMN,
        _EMPTY_INT64_COLUMN,
        _EMPTY_INT32_COLUMN,
    )
    return FetchedColumns(*columns, errors, end_offsets)


def _error(struct: Any) -> PartitionError:
    return PartitionError(struct.code, struct.partition, struct.offset, decode_c_string(struct.text))


class OutputIdColumn(NamedTuple):
    """A column of output ids `<source topic>/<partition>/<offset>/<index>`, one per record.

    The partition and the offset belong to the source record. The C bridge formats the ids when it queues the
    records. The three columns are int64 columns.
    """

    source_topic: str
    partitions: Column
    offsets: Column
    indexes: Column

    def value(self, row: int) -> bytes:
        """Return the output id of one record."""
        return f"{self.source_topic}/{self.partitions[row]}/{self.offsets[row]}/{self.indexes[row]}".encode()


class HeaderColumn(NamedTuple):
    """One header of a batch of records. A record whose value is None does not get the header."""

    name: str
    values: BytesColumn | OutputIdColumn


class OutgoingBatch:
    """A batch of records that is being moved into a client's queue.

    Args:
        events: Gets the records that librdkafka rejects at once, as failed deliveries.
        client: A pointer to the librdkafka client.
        topic: A pointer to the librdkafka topic.
        first_record_id: The id of the first record; the others are numbered consecutively. A delivery report carries
            the id of its record.
        values: The values of the records.
        keys: The keys of the records.
        partitions: An int64 column.
        timestamps: Milliseconds since the epoch; 0 means the current time. An int64 column.
        headers: The headers of the records, at most MAX_HEADERS.
    """

    def __init__(
        self,
        events: EventQueue,
        client: Any,
        topic: Any,
        first_record_id: int,
        values: BytesColumn,
        keys: BytesColumn,
        partitions: Column,
        timestamps: Column,
        headers: Sequence[HeaderColumn] = (),
    ) -> None:
        if len(headers) > MAX_HEADERS:
            raise ValueError(f"a record has at most {MAX_HEADERS} headers, not {len(headers)}")
        self._events = events
        self._count = len(values)
        self._keepalive: list[object] = []
        self._struct = FFI.new("KafkaRecords *")
        struct = self._struct
        struct.client, struct.topic = client, topic
        struct.first_record_id, struct.count = first_record_id, self._count
        self._set_column(struct.values, values)
        self._set_column(struct.keys, keys)
        struct.partitions, struct.timestamps = self._pointer(partitions), self._pointer(timestamps)
        struct.headers, struct.headers_count = self._headers(headers), len(headers)
        self._enqueued = 0

    def _keep_alive(self, data: Any) -> Any:
        """Keep C data alive as long as this object.

        A C struct does not hold a reference to the data.
        """
        self._keepalive.append(data)
        return data

    def _pointer(self, column: Column) -> Any:
        if len(column) != self._count:
            raise ValueError(f"a column has {len(column)} entries for {self._count} records")
        return self._keep_alive(pointer(column))

    def _set_column(self, struct: Any, column: BytesColumn) -> None:
        struct.buffer = self._keep_alive(pointer_to_bytes(column.buffer))
        struct.starts, struct.sizes = self._pointer(column.starts), self._pointer(column.sizes)

    def _headers(self, headers: Sequence[HeaderColumn]) -> Any:
        structs = self._keep_alive(FFI.new("KafkaHeaderColumn[]", len(headers)))
        for struct, header in zip(structs, headers, strict=True):
            struct.name = self._keep_alive(FFI.new("char[]", header.name.encode()))
            if isinstance(header.values, BytesColumn):
                self._set_column(struct.values, header.values)
                continue
            source_topic, partitions, offsets, indexes = header.values
            prefix = f"{source_topic}/".encode()
            struct.prefix, struct.prefix_size = self._keep_alive(pointer_to_bytes(prefix)), len(prefix)
            columns = partitions, offsets, indexes
            struct.partitions, struct.offsets, struct.indexes = map(self._pointer, columns)
        return structs

    def enqueue(self) -> bool:
        """Queue records until the client's queue is full. Return True when all records are queued.

        A record that librdkafka rejects at once counts as queued; its delivery is reported as failed. After many such
        records the queue counts as full until the failures are taken.
        """
        if self._count:
            self._enqueued = native_library().kafka_enqueue(self._events.struct, self._struct, self._enqueued)
        assert self._enqueued >= 0, "the name of the source topic is too long for an output id"
        return bool(self._enqueued == self._count)
