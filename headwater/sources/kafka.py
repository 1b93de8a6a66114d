"""Kafka as a source: one member of a consumer group on one topic."""

import contextlib
import time
from collections.abc import Callable, Collection, Iterable
from itertools import repeat
from operator import itemgetter
from typing import Final, cast

import confluent_kafka
import structlog
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition

from headwater.brokers.client import ClientErrors, Member, consumer_settings, unavailable
from headwater.brokers.topic_id import TopicWatch, label, labelled
from headwater.errors import BrokerUnavailable, Fenced, HeadwaterError, Unavailable, WorkerError
from headwater.model.record import RecordBatch, position_names
from headwater.model.worker import KafkaAccess, WorkerSpec
from headwater.sources.base import Gap, Positions, RebalanceListener, no_position, recreated, truncated
from headwater.sources.stalls import Stalls

log = structlog.get_logger(__name__)

MAX_BATCH_BYTES: Final = 8 << 20
CHUNK_RECORDS: Final = 250
REQUEST_S: Final = 10.0
STARTS_S: Final = 30.0
"""How long to wait for the start positions: the open transaction of a worker that was killed lasts up to 25 s."""
LEAVE_S: Final = 1.0
LEAVE_POLL_S: Final = 0.1
_MS: Final = itemgetter(1)

_WAITED_OUT = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._MAX_POLL_EXCEEDED,  # the loss of the partitions follows, and a new join
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)
_FENCED = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL, KafkaError._FENCED})


class KafkaSource:
    """Implements sources.base.Source. instance_id: the static member whose place this one takes.

    starts: of partitions and the topic's id, where to begin in place of the group's positions. One that is missing, or
    beyond the end of the topic, begins at its first record. May raise Unavailable, which ends the worker.
    """

    def __init__(
        self,
        access: KafkaAccess,
        topic: str,
        group: str,
        instance_id: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        starts: Callable[[list[int], str], Positions] | None = None,
    ) -> None:
        self._own_starts = starts
        self._access = access
        self._topic = topic
        self._errors = ClientErrors(access)
        settings = consumer_settings(access, self._errors, group, instance_id) | {"on_commit": self._on_commit}
        self._consumer = confluent_kafka.Consumer(settings)
        self._watch = TopicWatch(access, topic)
        self._stalls = Stalls(self._consumer, topic, clock)
        self._topic_id = ""
        self._listener: RebalanceListener | None = None
        self._assigned: set[int] = set()
        self._gone: set[int] = set()
        self._paused = False
        self._held = RecordBatch.empty(topic)
        self._unpassed: Positions = {}
        self._passed: list[Gap] = []
        self._trouble: HeadwaterError | None = None
        self._sent: Positions = {}
        self._unstored: Positions = {}

    def join(self, listener: RebalanceListener) -> None:
        self._listener = listener
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    # Rebalances: called by librdkafka from within poll and consume.

    # An error raised here costs the records that the call had gathered: it must end the worker.

    def _on_assign(self, _consumer: object, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._consumer.incremental_assign(self._starts([p.partition for p in partitions]))
            self._keep_pause(partitions)
        self._assigned.update(p.partition for p in partitions)
        if self._listener is not None:
            self._listener.assigned([p.partition for p in partitions])

    def _on_revoke(self, _consumer: object, partitions: list[TopicPartition]) -> None:
        if self._listener is not None:
            self._listener.revoked([p.partition for p in partitions])
        self._give_up(partitions)

    def _on_lost(self, _consumer: object, partitions: list[TopicPartition]) -> None:
        if self._listener is not None:
            self._listener.lost([p.partition for p in partitions])
        self._give_up(partitions)

    def _give_up(self, partitions: list[TopicPartition]) -> None:
        gone = {p.partition for p in partitions}
        self._gone |= gone
        self._assigned -= gone
        self._held = self._held.without(gone)
        self._passed = [gap for gap in self._passed if gap.partition not in gone]  # the next owner finds them too
        for partition in gone:
            for known in (self._sent, self._unstored, self._unpassed):
                known.pop(partition, None)
        self._consumer.incremental_unassign(partitions)

    def _starts(self, partitions: list[int]) -> list[TopicPartition]:
        """Where to go on. A partition without a position is new, and starts at its first record."""
        starts = self._committed_starts(partitions) if self._own_starts is None else self._kept_starts(partitions)
        return [TopicPartition(self._topic, p, starts.get(p, OFFSET_BEGINNING)) for p in partitions]

    def _committed_starts(self, partitions: list[int]) -> Positions:
        """The group's positions. Raises WorkerError where it has none at all."""
        try:
            found = self._commits(partitions, STARTS_S)
            pinned = found or self._commits(self._all_partitions())
            topic_id = self._watch.read()
        except BrokerUnavailable as error:
            raise WorkerError(f"The group's positions can't be read. {error.detail}") from error
        if not pinned:
            raise no_position(self._topic)
        self._require(topic_id, {labelled(p.metadata) for p in pinned})
        return {p.partition: p.offset for p in found}

    def _kept_starts(self, partitions: list[int]) -> Positions:
        """Positions that are kept elsewhere. Beyond the end: the topic lost records, and what comes now is new."""
        assert self._own_starts is not None
        try:
            self._require(self._watch.read())
            starts = self._own_starts(partitions, self._topic_id)
            return {p: offset for p, offset in starts.items() if offset <= self._bounds(p)[1]}
        except Unavailable as error:
            raise WorkerError(f"The positions can't be read. {error.detail}") from error

    def _require(self, topic_id: str, expected: Collection[str] = ()) -> None:
        """Raise SourceGap when this is another topic than the one that positions count. Empty: not known."""
        if topic_id and {self._topic_id, *expected} - {topic_id, ""}:
            raise recreated(self._topic)
        self._topic_id = topic_id or self._topic_id

    def _all_partitions(self) -> list[int]:
        return list(self._consumer.list_topics(self._topic, timeout=REQUEST_S).topics[self._topic].partitions)

    def _commits(self, partitions: Iterable[int], timeout_s: float = REQUEST_S) -> list[TopicPartition]:
        asked = [TopicPartition(self._topic, p) for p in partitions]
        try:
            found = self._consumer.committed(asked, timeout=timeout_s) if asked else []
        except KafkaException as error:
            raise unavailable(error, self._access) from error
        return [p for p in found if p.offset >= 0]

    # Reading.

    def poll(self, max_records: int, timeout_s: float) -> RecordBatch:
        self._check()
        self._pass_gaps()
        self._gather(max_records, timeout_s)
        if self._paused:
            self._stalls.forget()
            return RecordBatch.empty(self._topic)
        self._restart_stalled()
        batch, self._held = self._held, RecordBatch.empty(self._topic)
        if len(batch) > max_records:
            batch, self._held = batch.split(max_records)
        return batch

    def _check(self) -> None:
        """Raise what an earlier call heard: what that call had gathered is still held."""
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble
        self._errors.check()
        self._require(self._watch.look())

    def _gather(self, max_records: int, timeout_s: float) -> None:
        """Hold the first record as soon as it is there, and what else is there already, up to MAX_BATCH_BYTES."""
        first = self._consumer.poll(timeout_s if self._paused or not self._held else 0)
        self._hold(self._good([first] if first is not None else []))
        size = sum(map(len, filter(None, self._held.values)))
        while self._held and not self._paused and size < MAX_BATCH_BYTES and len(self._held) < max_records:
            room = 1 + (MAX_BATCH_BYTES - size) * len(self._held) // (size + 1)
            chunk = self._take(min(CHUNK_RECORDS, max_records - len(self._held), room))
            if not chunk:
                break
            self._hold(chunk)
            size += sum(map(len, chunk))

    def _hold(self, messages: list[Message]) -> None:
        """Take the columns of a few records while they are in the processor's cache."""
        held = self._held
        held.values += map(Message.value, messages)
        held.keys += map(Message.key, messages)
        held.timestamps += _milliseconds(messages)
        held.partitions += cast("Iterable[int]", map(Message.partition, messages))
        held.offsets += cast("Iterable[int]", map(Message.offset, messages))
        held.indexes += repeat(0, len(messages))

    def _take(self, count: int) -> list[Message]:
        """Up to `count` records that are there already, without those of partitions that go during the call."""
        self._gone.clear()
        chunk = self._good(self._consumer.consume(count, 0))
        return [m for m in chunk if m.partition() not in self._gone] if self._gone else chunk

    def _good(self, messages: list[Message]) -> list[Message]:
        """The records among these; an error among them that does not mend itself is kept for `_check`."""
        if not any(map(Message.error, messages)):
            return messages
        for message in messages:
            error = message.error()
            if error is None or error.code() in _WAITED_OUT:
                continue
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                self._unpassed[cast("int", message.partition())] = cast("int", message.offset())
            else:
                self._trouble = self._describe(error)
        return [m for m in messages if m.error() is None]

    def _describe(self, error: KafkaError) -> HeadwaterError:
        if error.fatal() or error.code() in _FENCED:
            return Fenced(f"Another worker took this one's place in the group: {error.str()}.")
        return unavailable(error, self._access)

    # Gaps: librdkafka has stopped to read a partition at a position that is not on the topic.

    def _pass_gaps(self) -> None:
        """Read on behind the gaps. Those behind records that are still held come later."""
        for partition in self._unpassed.keys() - set(self._held.partitions):
            self._require(self._watch.read())
            position, (first, end) = self._unpassed[partition], self._bounds(partition)
            if position > end:
                raise truncated(self._topic, partition, position, end)
            if position < first:
                self._passed.append(Gap(self._topic, partition, position, first))
            self._start_at(partition, max(position, first))

    def _bounds(self, partition: int) -> tuple[int, int]:
        """The first offset of a partition, and the next one."""
        try:
            return self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=REQUEST_S)
        except KafkaException as error:
            raise unavailable(error, self._access) from error

    def _restart_stalled(self) -> None:
        for partition, offset in self._stalls.look(self._assigned - self._unpassed.keys()).items():
            log.warning("a partition gives no records; it is read anew", partition=partition, offset=offset)
            self._start_at(partition, offset)

    def _start_at(self, partition: int, offset: int) -> None:
        """What `seek` is for a partition that is read."""
        start = [TopicPartition(self._topic, partition, offset)]
        self._consumer.incremental_unassign(start)
        self._consumer.incremental_assign(start)
        self._keep_pause(start)
        self._unpassed.pop(partition, None)

    def _keep_pause(self, partitions: list[TopicPartition]) -> None:
        """For partitions that come: librdkafka remembers a pause of those that went away before it ended."""
        (self._consumer.pause if self._paused else self._consumer.resume)(partitions)

    def gaps(self) -> list[Gap]:
        passed, self._passed = self._passed, []
        return passed

    def seek(self, positions: Positions) -> None:
        self._held = self._held.without(positions)
        try:
            for partition, offset in positions.items():
                if partition in self._unpassed:
                    self._start_at(partition, offset)
                else:
                    self._consumer.seek(TopicPartition(self._topic, partition, offset))
        except KafkaException as error:
            # Reading on from anywhere else would skip records: the worker that starts next asks the group.
            raise Fenced(
                f"Another worker has this one's partitions, so it can't read them again: {error.args[0].str()}."
            ) from error

    def pause(self) -> None:
        self._paused = True
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        self._paused = False
        self._consumer.resume(self._consumer.assignment())

    # Positions.

    def commit(self, positions: Positions, *, wait: bool) -> None:
        self._unstored.update(positions)
        wanted, self._unstored = self._unstored, {}
        mine = {p: offset for p, offset in wanted.items() if p in self._assigned}
        offsets = [TopicPartition(self._topic, p, offset, label(self._topic_id)) for p, offset in mine.items()]
        if not offsets:
            return
        self._sent.update(wanted)
        try:
            if not wait:
                self._consumer.commit(offsets=offsets, asynchronous=True)
                return
            stored = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self._unstored.update(wanted)
            raise unavailable(error, self._access) from error
        refused = [p.error for p in stored if p.error is not None]
        if refused:
            raise unavailable(refused[0], self._access)

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """The outcome of a commit that nobody waited for."""
        failed = [p for p in partitions if error is not None or p.error is not None]
        if failed:
            log.info("commit refused; it is sent again", topic=self._topic, error=str(error or failed[0].error))
        for partition in failed:
            if partition.partition in self._sent:
                self._unstored[partition.partition] = self._sent[partition.partition]

    def committed(self) -> Positions:
        return {p.partition: p.offset for p in self._commits(self._assigned)}

    names = staticmethod(position_names)

    def membership(self) -> Member:
        return Member(self._consumer.consumer_group_metadata(), label(self._topic_id))

    def close(self, *, leave: bool = False) -> None:
        self._listener = None
        if leave:
            with contextlib.suppress(KafkaException):
                self._leave()
        self._consumer.close()

    def _leave(self) -> None:
        """A static member that only closes keeps its partitions until its session is over: for its successor."""
        self._consumer.unsubscribe()
        deadline = time.monotonic() + LEAVE_S
        self._consumer.poll(LEAVE_POLL_S)
        while self._assigned and time.monotonic() < deadline:
            self._consumer.poll(LEAVE_POLL_S)


def _milliseconds(messages: list[Message]) -> list[int]:
    """The broker's times; 0 where there is none."""
    times: list[int] = [*map(_MS, map(Message.timestamp, messages))]
    return times if min(times, default=0) >= 0 else [max(0, ms) for ms in times]


def build(spec: WorkerSpec, slot: int) -> KafkaSource:
    """The source of one worker: a static member, so that a restarted worker takes its place without a rebalance."""
    access = spec.source if isinstance(spec.source, KafkaAccess) else spec.kafka
    return KafkaSource(access, spec.source_topic, spec.source_group, f"{spec.config_id}-{slot}")
