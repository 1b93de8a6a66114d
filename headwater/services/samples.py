"""Reads the records of trials from streams."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice

from headwater.brokers.topic_history import OffsetRange, TopicHistory
from headwater.errors import Fault, InvalidInput
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings, KafkaTopic
from headwater.model.flow import Source
from headwater.model.stream import stream_name
from headwater.model.topic_record import RecordPosition, TopicRecord
from headwater.model.trial import MAX_STREAM_SAMPLE_BYTES, Sample, StreamSample, parse_position
from headwater.model.value_sets import MAX_REPORTED_FAULTS
from headwater.services.newest_first import NewestFirst, first_chunk_size, max_chunk_bytes
from headwater.services.oldest_first import MAX_SCANNED, records_since
from headwater.services.records import to_topic_record
from headwater.services.topic_history_with_deadline import TopicHistoryWithDeadline

TIMEOUT_S = 10.0
"""After this time, a read that needs a further chunk of records fails with BrokerUnavailable.

A read of named positions returns the records that it has found.
"""
MAX_GAP = 1_000
"""Two positions of a partition are read as one range when they are no further apart."""
MAX_RANGE = 20_000
"""The maximum number of offsets of a range that is read for some positions."""
_NAMED_POSITIONS = 10
"""The maximum number of missing positions that a reason names."""
_MAX_MB = MAX_STREAM_SAMPLE_BYTES // 1_000_000


class Samples:
    """Reads samples of streams. Thread-safe.

    Args:
        bindings: Where this installation reads each stream.
        histories: The history of the topics of each Kafka cluster; None is the installation's own cluster.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        bindings: Bindings,
        histories: Mapping[KafkaAccess | None, TopicHistory],
        clock: Callable[[], float],
    ) -> None:
        self._bindings = bindings
        self._histories = histories
        self._clock = clock

    def read(self, source: Source, wanted: StreamSample) -> Sample:
        """Read a sample of a stream, of MAX_STREAM_SAMPLE_BYTES at most.

        Blocks for some seconds. Raises InvalidInput when the stream is read from Google Pub/Sub, and BrokerUnavailable.
        """
        binding = self._bindings.find(source.chain, source.entity, zerolag=source.is_zerolag)
        if not isinstance(binding, KafkaTopic):
            name = stream_name(source.chain, source.entity, zerolag=source.is_zerolag)
            detail = (
                f"can't be read: {name} is bound to Google Pub/Sub, which shows a message only to the subscriber that "
                "takes it; send records in `records`"
            )
            raise InvalidInput("The configuration was not validated.", [Fault("/sample", detail)])
        topic = binding.topic
        history = TopicHistoryWithDeadline(self._histories[binding.access], self._clock, TIMEOUT_S)
        ranges = history.ranges(topic)
        if not ranges:
            reason = "the stream has no topic yet; it gets one with its first records, or with a deploy"
            return Sample(topic, [], wanted.requested, reason)
        if wanted.positions is not None:
            positions = list(dict.fromkeys(map(parse_position, wanted.positions)))
            _require_partitions(wanted.positions, ranges)
            records = _read_positions(history, topic, positions, ranges)
            return Sample(topic, records, len(positions), _missing_reason(positions, records))
        records, is_cut = _read_range(history, topic, wanted, ranges)
        return Sample(topic, records, wanted.requested, _shortage_reason(wanted, records, is_cut=is_cut))


def _require_partitions(positions: Sequence[str], ranges: Mapping[int, OffsetRange]) -> None:
    """Raise InvalidInput for positions in partitions that the topic does not have."""
    detail = f"is in no partition of the stream, which has the partitions 0 to {max(ranges)}"
    faults = [
        Fault(f"/sample/positions/{index}", detail)
        for index, position in enumerate(positions)
        if parse_position(position)[0] not in ranges
    ]
    if faults:
        raise InvalidInput("The configuration was not validated.", faults[:MAX_REPORTED_FAULTS])


def _read_range(
    history: TopicHistory, topic: str, wanted: StreamSample, ranges: Mapping[int, OffsetRange]
) -> tuple[list[TopicRecord], bool]:
    """Return the newest records, or the first ones from a time on, oldest first.

    Also returns whether there are fewer than wanted because they are too large.
    """
    first_chunk = first_chunk_size(wanted.requested, len(ranges))
    if wanted.since is None:
        ends = {partition: offsets.end for partition, offsets in ranges.items()}
        newest = NewestFirst(history, topic, ends, ranges, first_chunk)
        records, is_cut = _take(map(to_topic_record, islice(newest, wanted.requested)))
        return records[::-1], is_cut
    oldest = records_since(history, topic, ranges, wanted.since, first_chunk)
    return _take(map(to_topic_record, islice(oldest, wanted.requested)))


def _take(records: Iterable[TopicRecord]) -> tuple[list[TopicRecord], bool]:
    """Return as many of the first records as MAX_STREAM_SAMPLE_BYTES allows.

    Also returns whether further records are left out.
    """
    taken: list[TopicRecord] = []
    size = 0
    for record in records:
        size += record.size
        if taken and size > MAX_STREAM_SAMPLE_BYTES:
            return taken, True
        taken.append(record)
    return taken, False


def _read_positions(
    history: TopicHistoryWithDeadline,
    topic: str,
    positions: Sequence[RecordPosition],
    ranges: Mapping[int, OffsetRange],
) -> list[TopicRecord]:
    """Return the records at some positions, in the order of the positions.

    A position without a record is left out, and so are records that are too large together, or too far apart to be
    read in time.
    """
    wanted = {position for position in positions if _is_in_range(position, ranges)}
    unread = _ranges_of(wanted)
    found: dict[RecordPosition, TopicRecord] = {}
    size = 0
    while unread and size <= MAX_STREAM_SAMPLE_BYTES and not history.is_over():
        current = {partition: remaining.popleft() for partition, remaining in unread.items()}
        for partition, chunk in history.read(topic, current, max_chunk_bytes(len(current)), with_headers=False).items():
            if chunk.start > current[partition].start:  # the records of the range are too large for one read
                unread[partition].appendleft(OffsetRange(current[partition].start, chunk.start))
            for record in chunk.records:
                if (record.partition, record.offset) in wanted:
                    found[record.partition, record.offset] = to_topic_record(record)
                    size += found[record.partition, record.offset].size
        unread = {partition: remaining for partition, remaining in unread.items() if remaining}
    return _take(found[position] for position in positions if position in found)[0]


def _is_in_range(position: RecordPosition, ranges: Mapping[int, OffsetRange]) -> bool:
    partition, offset = position
    return partition in ranges and offset in range(*ranges[partition])


def _ranges_of(positions: Collection[RecordPosition]) -> dict[int, deque[OffsetRange]]:
    """Return for each partition the ranges of offsets that contain the positions, in order."""
    ranges: dict[int, deque[OffsetRange]] = {}
    for partition, offset in sorted(positions):
        of_partition = ranges.setdefault(partition, deque())
        last = of_partition[-1] if of_partition else None
        if last is not None and offset - last.end < MAX_GAP and offset - last.start < MAX_RANGE:
            of_partition[-1] = OffsetRange(last.start, offset + 1)
        else:
            of_partition.append(OffsetRange(offset, offset + 1))
    return ranges


def _shortage_reason(wanted: StreamSample, records: Sequence[TopicRecord], *, is_cut: bool) -> str:
    """Return why there are fewer records than requested; empty when there are as many."""
    if len(records) >= wanted.requested:
        return ""
    if is_cut:
        return f"more records would be larger than {_MAX_MB} MB together"
    if wanted.since is None:
        return "the stream has no more records"
    return (
        "the stream has no more records from this time on, or they come after more than "
        f"{MAX_SCANNED:,} records, which is as many as one search reads"
    )


def _missing_reason(positions: Sequence[RecordPosition], records: Sequence[TopicRecord]) -> str:
    """Return which records were not read, and why; empty when all were."""
    found = {record.position for record in records}
    missing = ["{}/{}".format(*position) for position in positions if position not in found]
    if not missing:
        return ""
    names = ", ".join(missing[:_NAMED_POSITIONS]) + (", …" if len(missing) > _NAMED_POSITIONS else "")
    return (
        f"{len(missing)} records were not read ({names}): the stream does not have them (any more), or all records are "
        f"larger than {_MAX_MB} MB together, or too far apart to be read in one request"
    )
