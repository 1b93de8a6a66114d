"""Kafka as a source: one member of a consumer group on one topic."""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

import confluent_kafka
import structlog
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from headwater.brokers.client import ClientErrors, Member, consumer_settings, unavailable
from headwater.brokers.topic_id import TopicWatch, label, labelled
from headwater.brokers.wire.cluster import Cluster
from headwater.brokers.wire.connection import ConnectionLost, LoginRefused
from headwater.errors import BrokerUnavailable, Fenced, HeadwaterError, Unavailable, WorkerError
from headwater.model.record import RecordBatch, position_names
from headwater.model.worker import KafkaAccess, WorkerSpec
from headwater.sources.base import Gap, Positions, RebalanceListener, no_position, recreated, truncated
from headwater.sources.fetcher import Fetcher

log = structlog.get_logger(__name__)

MAX_BATCH_BYTES: Final = 8 << 20
SERVE_EVERY_S: Final = 0.4
"""How long the group's member may wait for its turn while no record comes: an idle worker spends its CPU on these."""
ASSIGNED_WITHIN_S: Final = 0.05
"""The same while nothing is assigned: librdkafka waits on behind an assignment."""
REQUEST_S: Final = 10.0
STARTS_S: Final = 30.0
"""How long to wait for the start positions: the open transaction of a worker that was killed lasts up to 25 s."""
REJOIN_S: Final = 15.0
"""How often a member without partitions is looked after: when Kafka answers others at two looks in a row, it is made
anew. Longer than a session: one that lost its partitions may have to wait for the end of the one it had.
"""
ANSWER_S: Final = 2.0
LEAVE_S: Final = 1.0
LEAVE_POLL_S: Final = 0.1

_Rebalance = Callable[[list[TopicPartition]], None]

_WAITED_OUT = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._AUTO_OFFSET_RESET,  # what it fetched before it was paused; the fetcher tells it too
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
        starts: Callable[[list[int], str], Positions] | None = None,
    ) -> None:
        self._own_starts = starts
        self._access = access
        self._topic = topic
        self._errors = ClientErrors(access)
        self._settings = consumer_settings(access, self._errors, group, instance_id) | {"on_commit": self._on_commit}
        self._consumer = confluent_kafka.Consumer(self._settings)
        self._awaits_since: float | None = None
        self._others_get_answers = False
        self._closing: threading.Thread | None = None
        self._watch = TopicWatch(access, topic)
        self._fetcher = Fetcher(access, topic)
        self._topic_id = ""
        self._epochs: dict[int, int] = {}
        self._listener: RebalanceListener | None = None
        self._assigned: set[int] = set()
        self._paused = False
        self._passed: list[Gap] = []
        self._sent: Positions = {}
        self._unstored: Positions = {}

    def join(self, listener: RebalanceListener) -> None:
        self._listener = listener
        self._subscribe()

    def _subscribe(self) -> None:
        """One that was given up may be told something late, by the thread that closes it."""

        def current(call: _Rebalance) -> Callable[[object, list[TopicPartition]], None]:
            return lambda consumer, partitions: call(partitions) if consumer is self._consumer else None

        self._awaits_since = time.monotonic()
        self._consumer.subscribe(
            [self._topic],
            on_assign=current(self._on_assign),
            on_revoke=current(self._on_revoke),
            on_lost=current(self._on_lost),
        )

    def _look_after_member(self) -> None:
        """librdkafka can wait for good though Kafka is there: for the answer to what it asked over a connection that it
        gave up meanwhile, or because a broker that had just come back named no brokers (librdkafka issue 5301).
        """
        now = time.monotonic()
        if self._awaits_since is None or self._assigned or now - self._awaits_since < REJOIN_S:
            return
        self._awaits_since = now
        before, self._others_get_answers = self._others_get_answers, self._is_led()
        if before and self._others_get_answers:
            self._others_get_answers = False
            self._join_anew()

    def _is_led(self) -> bool:
        """True when a broker answers, and knows who leads the topic's partitions."""
        with contextlib.closing(Cluster(self._access, ANSWER_S)) as cluster:
            try:
                return bool(cluster.layout([self._topic]).leaders)
            except (ConnectionLost, LoginRefused):
                return False

    def _join_anew(self) -> None:
        """Raises WorkerError when the last client that was given up has not ended yet: a new process has none."""
        if self._closing is not None and self._closing.is_alive():
            raise WorkerError(
                "Kafka answers, but its client does not, and can't be closed. The next worker has a new one."
            )
        log.warning("Kafka answers, but the group's member hears nothing; it is made anew", topic=self._topic)
        self._closing = threading.Thread(target=self._consumer.close, name="forgotten-member", daemon=True)
        self._closing.start()
        self._watch.close()
        self._watch = TopicWatch(self._access, self._topic)
        self._consumer = confluent_kafka.Consumer(self._settings)
        self._subscribe()

    # Rebalances: called by librdkafka from within poll. An error raised here must end the worker.

    def _on_assign(self, partitions: list[TopicPartition]) -> None:
        self._awaits_since, self._others_get_answers = None, False
        if partitions:
            starts = self._starts([p.partition for p in partitions])
            self._consumer.incremental_assign([TopicPartition(self._topic, p, offset) for p, offset in starts.items()])
            self._consumer.pause(partitions)  # it is a member of the group alone
            self._fetcher.begin(starts, self._epochs)
        self._assigned.update(p.partition for p in partitions)
        if self._listener is not None:
            self._listener.assigned([p.partition for p in partitions])

    def _on_revoke(self, partitions: list[TopicPartition]) -> None:
        if self._listener is not None:
            self._listener.revoked([p.partition for p in partitions])
        self._give_up(partitions)

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        self._awaits_since = time.monotonic()
        if self._listener is not None:
            self._listener.lost([p.partition for p in partitions])
        self._give_up(partitions)

    def _give_up(self, partitions: list[TopicPartition]) -> None:
        gone = {p.partition for p in partitions}
        self._assigned -= gone
        self._fetcher.end(gone)
        self._passed = [gap for gap in self._passed if gap.partition not in gone]  # the next owner finds them too
        for partition in gone:
            self._sent.pop(partition, None)
            self._unstored.pop(partition, None)
        self._consumer.incremental_unassign(partitions)

    def _starts(self, partitions: list[int]) -> Positions:
        """Where to go on. A partition without a position is new, and starts at its first record."""
        starts = self._committed_starts(partitions) if self._own_starts is None else self._kept_starts(partitions)
        return {p: starts[p] if p in starts else self._first(p) for p in partitions}

    def _first(self, partition: int) -> int:
        """Raises WorkerError."""
        try:
            return self._bounds(partition)[0]
        except BrokerUnavailable as error:
            raise WorkerError(f"The start of a partition can't be read. {error.detail}") from error

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
        self._epochs = {p.partition: p.leader_epoch for p in found if p.leader_epoch is not None}
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
        deadline = time.monotonic() + timeout_s
        while True:
            turn_s = SERVE_EVERY_S if self._assigned else ASSIGNED_WITHIN_S
            left_s = max(0.0, min(turn_s, deadline - time.monotonic()))
            no_records = self._paused or not self._assigned
            self._serve(left_s if no_records else 0.0)
            batch = RecordBatch.empty(self._topic) if no_records else self._take(max_records, left_s)
            if batch or time.monotonic() >= deadline:
                return batch

    def _serve(self, timeout_s: float) -> None:
        """Let the group's member work, and raise what it heard."""
        self._hear(self._consumer.poll(timeout_s))
        self._errors.check()
        self._require(self._watch.look())
        self._look_after_member()
        self._pass_gaps()

    def _take(self, max_records: int, timeout_s: float) -> RecordBatch:
        return self._fetcher.take(max_records, MAX_BATCH_BYTES, timeout_s)

    def _hear(self, message: Message | None) -> None:
        """Records that come this way were fetched before the pause; the fetcher gives them."""
        error = None if message is None else message.error()
        if error is not None and error.code() not in _WAITED_OUT:
            raise self._describe(error)

    def _describe(self, error: KafkaError) -> HeadwaterError:
        if error.fatal() or error.code() in _FENCED:
            return Fenced(f"Another worker took this one's place in the group: {error.str()}.")
        return unavailable(error, self._access)

    # Gaps: the fetcher has stopped to read a partition at a position that is not on the topic.

    def _pass_gaps(self) -> None:
        """Read on behind the gaps."""
        for partition, (position, end) in self._fetcher.stops().items():
            self._require(self._watch.read())
            if end is not None:
                raise truncated(self._topic, partition, position, end)
            first, end = self._bounds(partition)
            if position > end:
                raise truncated(self._topic, partition, position, end)
            if position < first:
                self._passed.append(Gap(self._topic, partition, position, first))
            self._fetcher.begin({partition: max(position, first)})

    def _bounds(self, partition: int) -> tuple[int, int]:
        """The first offset of a partition, and the next one."""
        try:
            return self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=REQUEST_S)
        except KafkaException as error:
            raise unavailable(error, self._access) from error

    def gaps(self) -> list[Gap]:
        passed, self._passed = self._passed, []
        return passed

    def troubles(self) -> list[str]:
        return self._fetcher.troubles()

    def seek(self, positions: Positions) -> None:
        if positions.keys() - self._assigned:
            # Reading on from anywhere else would skip records: the worker that starts next asks the group.
            raise Fenced("Another worker has this one's partitions, so it can't read them again.")
        self._fetcher.begin(positions, {p: self._fetcher.epoch_before(p, at) for p, at in positions.items()})

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    # Positions.

    def commit(self, positions: Positions, *, wait: bool) -> None:
        self._unstored.update(positions)
        wanted, self._unstored = self._unstored, {}
        mine = {p: offset for p, offset in wanted.items() if p in self._assigned}
        member_label, epoch = label(self._topic_id), self._fetcher.epoch_before
        offsets = [TopicPartition(self._topic, p, at, member_label, epoch(p, at)) for p, at in mine.items()]
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
            self._unstored.update({p.partition: mine[p.partition] for p in stored if p.error is not None})
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
        return Member(self._consumer.consumer_group_metadata(), label(self._topic_id), self._fetcher.epoch_before)

    def close(self, *, leave: bool = False) -> None:
        self._listener = None
        self._fetcher.close()
        if leave:
            with contextlib.suppress(KafkaException):
                self._leave()
        self._consumer.close()
        self._watch.close()

    def _leave(self) -> None:
        """A static member that only closes keeps its partitions until its session is over: for its successor."""
        self._consumer.unsubscribe()
        deadline = time.monotonic() + LEAVE_S
        self._consumer.poll(LEAVE_POLL_S)
        while self._assigned and time.monotonic() < deadline:
            self._consumer.poll(LEAVE_POLL_S)


def build(spec: WorkerSpec, slot: int) -> KafkaSource:
    """The source of one worker: a static member, so that a restarted worker takes its place without a rebalance."""
    access = spec.source if isinstance(spec.source, KafkaAccess) else spec.kafka
    return KafkaSource(access, spec.source_topic, spec.source_group, f"{spec.config_id}-{slot}")
