"""Kafka as a source: one member of a consumer group on one topic."""

import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.client import ClientErrors, Member, consumer_settings, unavailable, unread
from headwater.brokers.consumer import Consumer, Rebalance
from headwater.brokers.topic_id import label, labelled
from headwater.brokers.topic_watch import TopicWatch
from headwater.errors import BrokerUnavailable, Fenced, HeadwaterError, Unavailable, WorkerError
from headwater.model.record import Numbers, RecordBatch, position_names
from headwater.model.worker import KafkaAccess, WorkerSpec
from headwater.native.kafka import Failed, Place, Received
from headwater.sources.base import Gap, Positions, RebalanceListener, cut_off, no_position, recreated, truncated
from headwater.sources.leader_epochs import LeaderEpochs
from headwater.sources.stalls import Stalled, StallGuard

log = structlog.get_logger(__name__)

MAX_BATCH_BYTES: Final = 8 << 20
SERVE_EVERY_S: Final = 0.4
"""How long a wait for records may last before all else is looked after: an idle worker spends its CPU on that."""
REQUEST_S: Final = 10.0
COMMIT_S: Final = 4.0
"""Less than a revocation of partitions may last."""
STARTS_S: Final = 30.0
"""How long to wait for the start positions: the open transaction of a worker that was killed lasts up to 25 s."""
REJOIN_S: Final = 8.0
"""How long a member may wait for partitions while Kafka answers others, before it is made anew. Longer than a session:
one that lost its partitions may have to wait for the end of the session that it had.
"""
SILENCE_TOLD_S: Final = 2.0
"""How long an outage may last before it is told: `deploy/stats` is true within 5 s."""
RETRY_S: Final = 5.0
"""How often a partition that Kafka refuses to give is asked for again."""
LEAVE_S: Final = 1.0
LEAVE_POLL_S: Final = 0.1

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
_FENCED = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED})
_DAMAGED: Final = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._UNSUPPORTED_FEATURE})
_CUT_OFF: Final = KafkaError(KafkaError._LOG_TRUNCATION).str()
"""In the text of an offset reset when the leader's log has another epoch at the position."""
_UNKNOWN_EPOCH: Final = "No epoch found"
"""Begins that text when the leader does not know the epoch, and so can't tell."""


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
        self._settings = consumer_settings(access, self._errors, group, instance_id) | {"enable.partition.eof": True}
        self._consumer = Consumer(self._settings, topic)
        self._closing: threading.Thread | None = None
        self._hangs = False
        self._watch = TopicWatch(access, topic)
        self._stalls = StallGuard(self._watch)
        self._epochs = LeaderEpochs()
        self._topic_id = ""
        self._listener: RebalanceListener | None = None
        self._awaits_since: float | None = None
        self._assigned: set[int] = set()
        self._paused = False
        self._held: set[int] = set()
        self._unread: set[int] = set()  # left out when the group assigned them, so not assigned to the client yet
        self._only: Collection[int] | None = None
        self._next: Positions = {}
        self._rebalances: list[Rebalance] = []
        self._failed: list[Failed] = []
        self._refused: dict[int, str] = {}
        self._retried: set[int] = set()
        self._retry_at = 0.0
        self._gaps_ahead: dict[int, Failed] = {}
        self._pass_at = 0.0
        self._passed: list[Gap] = []
        self._sent: Positions = {}
        self._unstored: Positions = {}

    # The group.

    def join(self, listener: RebalanceListener) -> None:
        self._listener = listener
        self._subscribe()

    def _subscribe(self) -> None:
        self._awaits_since = time.monotonic()
        self._consumer.subscribe()

    def _answer_rebalances(self) -> None:
        """Tell the engine of what came with the last records, and do it. An error must end the worker."""
        changes, self._rebalances = self._rebalances, []
        for change in changes:
            if change.is_assignment:
                self._begin(change.partitions)
            else:
                self._end(change.partitions, lost=change.lost)

    def _begin(self, partitions: list[int]) -> None:
        self._awaits_since = None
        starts = self._starts(partitions) if partitions else []
        self._unread |= {partition for partition in partitions if self._is_left_out(partition)}
        self._consumer.assign([place for place in starts if place.partition not in self._unread])
        self._assigned.update(partitions)
        for place in starts:
            self._next[place.partition] = place.offset
            self._epochs.begin(place)
        if partitions:
            self._hold(partitions)
        if self._listener is not None:
            self._listener.assigned(partitions)

    def _hold(self, partitions: Iterable[int]) -> None:
        """Let partitions be paused that must not be read now, and the others go on."""
        asked = set(partitions)
        wanted = {partition for partition in asked if self._is_held(partition)}
        if beginning := self._unread & asked - wanted:
            self._unread -= beginning
            self._held -= beginning
            self._consumer.assign([self._place_of(partition, self._next[partition]) for partition in beginning])
        if pausing := wanted - self._held - self._unread:
            self._consumer.pause(pausing)
        if resuming := (asked & self._held) - wanted:
            self._consumer.resume([self._place_of(partition, self._next[partition]) for partition in resuming])
        self._held = (self._held - asked) | wanted

    def _is_held(self, partition: int) -> bool:
        left_out = self._is_left_out(partition)
        return self._paused or left_out or (partition in self._refused and partition not in self._retried)

    def _is_left_out(self, partition: int) -> bool:
        return self._only is not None and partition not in self._only

    def _end(self, partitions: list[int], *, lost: bool) -> None:
        if lost:
            self._awaits_since = time.monotonic()
        if self._listener is not None:
            (self._listener.lost if lost else self._listener.revoked)(partitions)
        ended = set(partitions) - self._unread
        if paused := self._held & ended:
            self._consumer.unpause(paused)
        self._forget(partitions)
        self._consumer.unassign(ended)

    def _forget(self, partitions: Iterable[int]) -> None:
        gone = set(partitions)
        self._assigned -= gone
        self._held -= gone
        self._unread -= gone
        self._stalls.end(gone)
        self._epochs.end(gone)
        self._passed = [gap for gap in self._passed if gap.partition not in gone]  # the next owner finds them too
        self._failed = [failed for failed in self._failed if failed.partition not in gone]
        for partition in gone:
            self._refused.pop(partition, None)
            self._gaps_ahead.pop(partition, None)
            self._retried.discard(partition)
            for known in (self._next, self._sent, self._unstored):
                known.pop(partition, None)

    def _join_anew(self, why: str) -> None:
        """Go on with a new client. Raises WorkerError when an earlier client of this source could not be closed."""
        if self._hangs or (self._closing is not None and self._closing.is_alive()):
            raise WorkerError(
                "Kafka answers, but its client does not, and can't be closed. The next worker has a new one."
            )
        log.warning("the group's member is made anew", topic=self._topic, reason=why)
        if self._assigned:
            self._end(sorted(self._assigned), lost=True)
        self._closing = threading.Thread(
            target=self._close, args=[self._consumer], name="abandoned-member", daemon=True
        )
        self._closing.start()
        self._rebalances.clear()
        self._failed.clear()
        self._consumer = Consumer(self._settings, self._topic)
        self._subscribe()

    def _close(self, consumer: Consumer) -> None:
        if not consumer.close():
            self._hangs = True

    # Where to begin.

    def _starts(self, partitions: list[int]) -> list[Place]:
        """Where to go on. A partition without a position is new, and starts at its first record."""
        starts = self._committed_starts(partitions) if self._own_starts is None else self._kept_starts(partitions)
        return [starts[p] if p in starts else Place(p, self._first(p)) for p in partitions]

    def _first(self, partition: int) -> int:
        """Raises WorkerError."""
        try:
            return self._bounds(partition)[0]
        except BrokerUnavailable as error:
            raise WorkerError(f"The start of a partition can't be read. {error.detail}") from error

    def _committed_starts(self, partitions: list[int]) -> dict[int, Place]:
        """The group's positions. Raises WorkerError where it has none at all."""
        try:
            found = self._commits(partitions, STARTS_S)
            topic = self._watch.read()
            pinned = found or self._commits(topic.partitions)
        except BrokerUnavailable as error:
            raise WorkerError(f"The group's positions can't be read. {error.detail}") from error
        if not pinned:
            raise no_position(self._topic)
        self._require(topic.topic_id, {labelled(place.metadata) for place in pinned})
        return {place.partition: Place(place.partition, place.offset, place.epoch) for place in found}

    def _kept_starts(self, partitions: list[int]) -> dict[int, Place]:
        """Positions that are kept elsewhere. Beyond the end: the topic lost records, and what comes now is new."""
        assert self._own_starts is not None
        try:
            self._require(self._watch.read().topic_id)
            starts = self._own_starts(partitions, self._topic_id)
            return {p: Place(p, offset) for p, offset in starts.items() if offset <= self._bounds(p)[1]}
        except Unavailable as error:
            raise WorkerError(f"The positions can't be read. {error.detail}") from error

    def _require(self, topic_id: str, expected: Collection[str] = ()) -> None:
        """Raise SourceGap when this is another topic than the one that positions count. Empty: not known."""
        if topic_id and {self._topic_id, *expected} - {topic_id, ""}:
            raise recreated(self._topic)
        self._topic_id = topic_id or self._topic_id

    def _commits(self, partitions: Collection[int], timeout_s: float = REQUEST_S) -> list[Place]:
        try:
            return self._consumer.committed(partitions, timeout_s) if partitions else []
        except KafkaException as error:
            raise unavailable(error, self._access) from error

    def _bounds(self, partition: int) -> tuple[int, int]:
        """The first offset of a partition, and the next one."""
        try:
            return self._consumer.bounds(partition, REQUEST_S)
        except KafkaException as error:
            raise unavailable(error, self._access) from error

    # Reading.

    def poll(self, max_records: int, timeout_s: float) -> RecordBatch:
        deadline = time.monotonic() + timeout_s
        while True:
            self._answer_rebalances()
            self._look_after()
            left_s = max(0.0, min(SERVE_EVERY_S, deadline - time.monotonic()))
            received = self._consumer.receive(max_records, MAX_BATCH_BYTES, left_s)
            self._rebalances += self._consumer.rebalances()
            self._failed += received.failed
            batch = self._batch(received)
            if batch or batch.ends or time.monotonic() >= deadline:
                return batch

    def _batch(self, received: Received) -> RecordBatch:
        batch = RecordBatch(self._topic, *received[:5], Numbers("q", bytes(8 * len(received.offsets))))
        if batch:
            self._epochs.read(received)
        batch, ends = self._before_damage(batch, received)
        last = batch.last_offsets()
        self._next.update({partition: offset + 1 for partition, offset in last.items()})
        self._recovered(last.keys() | ends.keys())
        (self._stalls.moved if last else self._stalls.drained)()
        # Control records take offsets too: the end of a transaction leaves the last record behind.
        batch.ends = {p: end for p, end in ends.items() if end > self._next.get(p, end)}
        self._next.update(batch.ends)
        return batch

    @staticmethod
    def _before_damage(batch: RecordBatch, received: Received) -> tuple[RecordBatch, Positions]:
        """Without what follows a damaged record batch, and the ends of other partitions.

        librdkafka reports a batch that it can't read, and continues with the records after it.
        """
        damage = {each.partition: each.offset for each in reversed(received.failed) if each.code in _DAMAGED}
        if not damage:
            return batch, received.ends
        places = zip(batch.partitions, batch.offsets, strict=True)
        kept = batch.select(partition not in damage or offset < damage[partition] for partition, offset in places)
        return kept, {partition: end for partition, end in received.ends.items() if partition not in damage}

    # What goes on beside the records.

    def _look_after(self) -> None:
        """Raise what the client has heard, and mend what stands still."""
        self._errors.check()
        if self._consumer.fatal is not None:
            raise self._describe(self._consumer.fatal)
        self._note_commits()
        state = self._watch.look()
        if state is not None:
            self._require(state.topic_id)
        self._hear_failed()
        self._pass_gaps()
        self._retry_refused()
        self._mend_member()
        self._mend_stalls()

    def _hear_failed(self) -> None:
        while self._failed:
            self._hear(self._failed.pop(0))

    def _hear(self, failed: Failed) -> None:
        if failed.code == KafkaError._AUTO_OFFSET_RESET:
            if failed.partition in self._assigned:
                self._gaps_ahead[failed.partition] = failed
            return
        if failed.code == KafkaError._FATAL:
            raise self._describe(self._consumer.fatal_error())
        if failed.code in _FENCED or (failed.partition not in self._assigned and failed.code not in _WAITED_OUT):
            raise self._describe(KafkaError(failed.code, failed.text))
        if failed.code not in _WAITED_OUT:
            self._refuse(failed)

    def _refuse(self, failed: Failed) -> None:
        """Read nothing more of a partition until it is tried again, and nothing behind the place that failed."""
        why = unread(failed.text or KafkaError(failed.code).str(), self._topic, failed.partition, self._access)
        if failed.code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            why = unavailable(KafkaError(failed.code), self._access).detail
        self._refused[failed.partition] = why
        self._retried.discard(failed.partition)
        self._hold([failed.partition])
        if self._refused.keys() >= self._assigned:
            raise BrokerUnavailable(why)

    def _recovered(self, partitions: Collection[int]) -> None:
        for partition in self._refused.keys() & partitions:
            del self._refused[partition]
            self._retried.discard(partition)

    def _describe(self, error: KafkaError) -> HeadwaterError:
        if error.code() in _FENCED:
            return Fenced(f"Another worker took this one's place in the group: {error.str()}.")
        if error.fatal():
            return WorkerError(f"Kafka's client cannot go on: {error.str()}. The next worker has a new one.")
        return unavailable(error, self._access)

    def _retry_refused(self) -> None:
        """Try partitions again; librdkafka asks no more for one that it may not read."""
        now = time.monotonic()
        if self._refused and now >= self._retry_at:
            self._retry_at = now + RETRY_S
            self._retried = {*self._refused}
            self._restart(self._refused)

    def _mend_member(self) -> None:
        """librdkafka can wait for good though Kafka is there: for the answer to what it asked over a connection that it
        gave up meanwhile, or because a broker that had just come back named no brokers (librdkafka issue 5301).
        """
        if self._awaits_since is None or time.monotonic() - self._awaits_since < REJOIN_S:
            return
        state = self._watch.state
        if self._watch.answers_s() >= REJOIN_S and state is not None and not state.leaderless:
            self._join_anew("Kafka answers, but the member gets no partitions")

    def _mend_stalls(self) -> None:
        reading = self._assigned - self._held - self._refused.keys() - self._gaps_ahead.keys()
        found = self._stalls.look({p: at for p, at in self._next.items() if p in reading})
        if found is not None:
            self._revive(found)

    def _revive(self, stalled: Stalled) -> None:
        if stalled.times > 1:
            self._join_anew(f"partitions {stalled.partitions} have records, and give none")
            return
        log.warning("partitions stand still; they are fetched anew", topic=self._topic, partitions=stalled.partitions)
        self._restart(stalled.partitions)

    def _restart(self, partitions: Iterable[int]) -> None:
        """Fetch partitions anew from where reading has come to."""
        self._consumer.restart([self._place_of(partition, self._next[partition]) for partition in partitions])
        self._hold(partitions)

    def _place_of(self, partition: int, position: int) -> Place:
        return Place(partition, position, self._epochs.before(partition, position))

    def _move(self, places: Collection[Place]) -> None:
        self._consumer.move([place for place in places if place.partition not in self._unread])
        for place in places:
            self._next[place.partition] = place.offset
            self._epochs.begin(place)
        self._hold([place.partition for place in places])

    # Gaps: librdkafka has stopped to read a partition at a position that is not on the topic.

    def _pass_gaps(self) -> None:
        """Pass what lies ahead. A partition whose broker does not answer is tried again, and holds up no other."""
        if not self._gaps_ahead or time.monotonic() < self._pass_at:
            return
        leaderless = self._watch.state.leaderless if self._watch.state is not None else frozenset()
        for failed in [each for each in self._gaps_ahead.values() if each.partition not in leaderless]:
            try:
                self._pass_gap(failed)
            except BrokerUnavailable:
                self._pass_at = time.monotonic() + RETRY_S  # `not_read` names the partition meanwhile
            else:
                del self._gaps_ahead[failed.partition]

    def _pass_gap(self, failed: Failed) -> None:
        """Read on where the gap ends. Raises SourceGap when the log was cut off or is another topic's."""
        partition, position = failed.partition, self._next[failed.partition]
        self._require(self._watch.read().topic_id)
        first, end = self._bounds(partition)
        if _CUT_OFF in failed.text and not failed.text.startswith(_UNKNOWN_EPOCH):
            raise cut_off(self._topic, partition, position)
        if position > end:
            raise truncated(self._topic, partition, position, end)
        if position < first:
            self._passed.append(Gap(self._topic, partition, position, first))
        self._move([Place(partition, max(position, first))])

    def gaps(self) -> list[Gap]:
        passed, self._passed = self._passed, []
        return passed

    def not_read(self) -> dict[int, str]:
        if self._watch.silent_s() >= SILENCE_TOLD_S:
            return dict.fromkeys(self._assigned, unavailable(KafkaError(KafkaError._TRANSPORT), self._access).detail)
        state = self._watch.state
        leaderless = self._assigned & state.leaderless if state is not None else set()
        held_up = {partition: _held_up(self._topic, partition, at) for partition, at in self._stalls.held().items()}
        no_bounds = dict.fromkeys(self._gaps_ahead, "its first and its last offset can't be read at the moment")
        no_leader = dict.fromkeys(leaderless, "it has no leader at the moment")
        others = {p: unread(why, self._topic, p, self._access) for p, why in (no_bounds | no_leader).items()}
        return dict(sorted((held_up | self._refused | others).items()))

    def seek(self, positions: Positions) -> None:
        if positions.keys() - self._assigned:
            # Reading on from anywhere else would skip records: the worker that starts next asks the group.
            raise Fenced("Another worker has this one's partitions, so it can't read them again.")
        self._failed = [failed for failed in self._failed if failed.partition not in positions]
        self._gaps_ahead = {p: failed for p, failed in self._gaps_ahead.items() if p not in positions}
        self._move([self._place_of(partition, at) for partition, at in positions.items()])

    def read_only(self, partitions: Collection[int] | None) -> None:
        self._only = partitions
        self._hold(self._assigned)

    def pause(self) -> None:
        self._set_paused(True)

    def resume(self) -> None:
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        self._paused = paused
        self._hold(self._assigned)

    # Positions.

    def commit(self, positions: Positions, *, wait: bool) -> None:
        self._note_commits()
        self._unstored.update(positions)
        wanted, self._unstored = self._unstored, {}
        mine = {p: offset for p, offset in wanted.items() if p in self._assigned}
        if not mine:
            return
        self._sent.update(wanted)
        try:
            self._consumer.commit(self._labelled(mine), COMMIT_S if wait else 0)
        except KafkaException as error:
            self._unstored.update(wanted)
            raise unavailable(error, self._access) from error

    def _labelled(self, positions: Positions) -> list[Place]:
        metadata = label(self._topic_id)
        return [Place(p, at, self._epochs.before(p, at), metadata) for p, at in positions.items()]

    def _note_commits(self) -> None:
        """Take the outcomes of commits that nobody waited for."""
        for failure in self._consumer.commit_failures():
            log.info("commit refused; it is sent again", topic=self._topic, error=KafkaError(failure.code).str())
            for partition in failure.partitions:
                if partition in self._sent:
                    self._unstored.setdefault(partition, self._sent[partition])

    def committed(self) -> Positions:
        return {place.partition: place.offset for place in self._commits(self._assigned)}

    names = staticmethod(position_names)

    def membership(self) -> Member:
        return Member(self._consumer.group_metadata(), label(self._topic_id), self._epochs.before)

    def close(self, *, leave: bool = False) -> None:
        self._listener = None
        if leave:
            self._leave()
        self._consumer.close()
        self._watch.close()

    def _leave(self) -> None:
        """A static member that only closes keeps its partitions until its session is over: for its successor."""
        try:
            self._consumer.unsubscribe()
            deadline = time.monotonic() + LEAVE_S
            while self._assigned and time.monotonic() < deadline:
                self._consumer.receive(0, 0, LEAVE_POLL_S)
                self._rebalances += self._consumer.rebalances()
                self._answer_rebalances()
        except KafkaException as error:
            log.info("the member could not leave its group", topic=self._topic, error=str(error))


def _held_up(topic: str, partition: int, stable: int) -> str:
    return (
        f"Records of {topic}, partition {partition}, from offset {stable} on are not readable: a producer has left a "
        "transaction open there. They come when it ends: `kafka-transactions.sh find-hanging` finds the transaction, "
        "and `kafka-transactions.sh abort` ends it."
    )


def build(spec: WorkerSpec, slot: int) -> KafkaSource:
    """The source of one worker: a static member, so that a restarted worker takes its place without a rebalance."""
    access = spec.source if isinstance(spec.source, KafkaAccess) else spec.kafka
    return KafkaSource(access, spec.source_topic, spec.source_group, f"{spec.config_id}-{slot}")
