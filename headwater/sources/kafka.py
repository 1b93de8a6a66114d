"""The source that reads a Kafka topic, as one member of a consumer group."""

import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.client_errors import ClientErrors, broker_unavailable_error, unreadable_partition_message
from headwater.brokers.client_settings import consumer_settings
from headwater.brokers.consumer import LibrdkafkaConsumer, Rebalance
from headwater.brokers.producer import TxnOffsetCommitData
from headwater.brokers.topic_id import commit_metadata, committed_topic_id
from headwater.brokers.topic_monitor import TopicMonitor
from headwater.errors import BrokerUnavailable, Fenced, HeadwaterError, Unavailable, WorkerError
from headwater.model.access import KafkaAccess
from headwater.model.record import Int64Column, RecordBatch, position_ids
from headwater.model.worker_spec import WorkerSpec
from headwater.native.librdkafka import FetchedColumns, PartitionError, PartitionOffset
from headwater.sources.base import (
    Gap,
    Positions,
    RebalanceListener,
    log_truncated_error,
    no_committed_offset_error,
    offset_beyond_end_error,
    topic_recreated_error,
)
from headwater.sources.leader_epochs import LeaderEpochs
from headwater.sources.out_of_range import OutOfRangePartitions
from headwater.sources.stalled_consumer import StalledConsumerDetector, StalledPartitions

log = structlog.get_logger(__name__)

MAX_BATCH_BYTES: Final = 8 << 20
HOUSEKEEPING_INTERVAL_S: Final = 0.5
"""The longest wait for records between two rounds of housekeeping. Each round costs an idle worker CPU time."""
REQUEST_TIMEOUT_S: Final = 10.0
COMMIT_TIMEOUT_S: Final = 4.0
"""How long `commit` with `wait` waits for the outcome.

A worker that stops, or whose partitions are revoked, checks its time budget (STOP_BUDGET_S and REVOKE_BUDGET_S in
engine/worker.py) only before it waits for another attempt. So it can exceed the budget by that wait and this timeout.
"""
COMMIT_STUCK_AFTER_S: Final = 60.0
"""How long a commit may get no response while Kafka is reachable, before the consumer is replaced.

librdkafka itself repeats a request after `socket.timeout.ms`, which is 60 s.
"""
START_OFFSETS_TIMEOUT_S: Final = 30.0
"""How long to wait for committed positions: the open transaction of a worker that was killed blocks them for 25 s."""
REJOIN_AFTER_S: Final = 8.0
"""How long a member may wait for an assignment while Kafka is reachable, before its client is replaced.

Longer than a session, because a member that has lost its partitions may have to wait until its old session ends.
"""
OUTAGE_REPORTED_AFTER_S: Final = 2.0
"""How long an outage lasts before it is reported. `GET …/deploy/stats` promises to report it within 5 s."""
RETRY_INTERVAL_S: Final = 5.0
"""The interval of attempts to read a partition for which Kafka has reported an error."""
LEAVE_TIMEOUT_S: Final = 1.0
LEAVE_POLL_S: Final = 0.1

_RETRIABLE: Final = frozenset(
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
"""Errors after which librdkafka retries by itself."""
_FENCED: Final = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED})
_DAMAGED: Final = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._UNSUPPORTED_FEATURE})
_LOG_TRUNCATION: Final = KafkaError(KafkaError._LOG_TRUNCATION).str()
"""Part of librdkafka's error text for an offset reset because of log truncation (KIP-320)."""
_NO_EPOCH: Final = "No epoch found"
"""The start of this error text when the leader does not know the epoch, so that the truncation is not proven."""


class KafkaSource:
    """Implements sources.base.Source.

    Args:
        access: The Kafka cluster.
        topic: The topic to read.
        group: The consumer group.
        instance_id: The `group.instance.id` of a static member; None for a dynamic member.
        read_starts: Takes the partitions and the topic's id, and returns start positions that replace the committed
            positions of the group. A partition without a start position, or with one beyond its end, starts at its
            first record. May raise Unavailable, which ends the worker.
    """

    needs_headers = False
    """Whether a subclass needs the headers of the records."""

    def __init__(
        self,
        access: KafkaAccess,
        topic: str,
        group: str,
        *,
        instance_id: str | None = None,
        read_starts: Callable[[list[int], str], Positions] | None = None,
    ) -> None:
        self._read_starts = read_starts
        self._access = access
        self._topic = topic
        self._errors = ClientErrors(access)
        self._settings = consumer_settings(access, self._errors, group, instance_id) | {"enable.partition.eof": True}
        self._consumer = LibrdkafkaConsumer(self._settings, topic)
        self._closer: threading.Thread | None = None
        """The thread that closes an abandoned consumer."""
        self._has_hanging_client = False
        """Whether an abandoned consumer could not be closed in time."""
        self._monitor = TopicMonitor(access, topic)
        self._stalls = StalledConsumerDetector(self._monitor)
        self._epochs = LeaderEpochs()
        self._topic_id = ""
        """The id of the topic that is being read; empty while it is unknown."""
        self._listener: RebalanceListener | None = None
        self._unassigned_since: float | None = None
        """Since when the member waits for an assignment; None when it has one."""
        self._assigned: set[int] = set()
        self._is_paused = False
        self._paused_partitions: set[int] = set()
        """The assigned partitions that librdkafka has paused."""
        self._not_in_client: set[int] = set()
        """The assigned partitions that librdkafka does not have yet, because `restrict_to` excluded them until now."""
        self._restricted_to: Collection[int] | None = None
        self._positions: Positions = {}
        """The next offset to read of each partition."""
        self._rebalances: list[Rebalance] = []
        self._partition_errors: list[PartitionError] = []
        self._unreadable: dict[int, str] = {}
        """Partitions for which Kafka has reported an error, each with the reason."""
        self._retrying: set[int] = set()
        """The unreadable partitions that are being read again."""
        self._retry_at = 0.0
        self._out_of_range = OutOfRangePartitions()
        self._skipped_gaps: list[Gap] = []
        self._uncommitted: Positions = {}
        """The positions of the next commit: new ones, and positions whose commit has failed."""
        self._committing: Positions = {}
        """The positions of the outstanding commit."""
        self._commit_started_at = 0.0

    # Joining and reading

    def join(self, listener: RebalanceListener) -> None:
        self._listener = listener
        self._subscribe()

    def _subscribe(self) -> None:
        self._unassigned_since = time.monotonic()
        self._consumer.subscribe()

    def poll(self, max_records: int, timeout_s: float) -> RecordBatch:
        deadline = time.monotonic() + timeout_s
        while True:
            self._handle_rebalances()
            self._do_housekeeping()
            left_s = max(0.0, min(HOUSEKEEPING_INTERVAL_S, deadline - time.monotonic()))
            fetched = self._consumer.fetch(max_records, MAX_BATCH_BYTES, left_s, with_headers=self.needs_headers)
            self._rebalances += self._consumer.take_rebalances()
            self._partition_errors += fetched.errors
            batch = self._to_batch(fetched)
            if batch or batch.end_positions or time.monotonic() >= deadline:
                return batch

    def _to_batch(self, fetched: FetchedColumns) -> RecordBatch:
        """Return the fetched records, and move the positions past them."""
        batch = RecordBatch(
            self._topic,
            fetched.values,
            fetched.keys,
            fetched.timestamps,
            fetched.partitions,
            fetched.offsets,
            Int64Column("q", bytes(8 * len(fetched.offsets))),
        )
        if batch:
            self._epochs.add(fetched)
        batch, end_offsets = self._before_damage(batch, fetched)
        last_offsets = batch.last_offsets()
        self._positions.update({partition: offset + 1 for partition, offset in last_offsets.items()})
        self._mark_readable(last_offsets.keys() | end_offsets.keys())
        self._stalls.on_polled(has_records=bool(last_offsets))
        # Control records have offsets, too: after the end of a transaction, the end offset of the partition is greater
        # than the position after its last record.
        batch.end_positions = {p: end for p, end in end_offsets.items() if end > self._positions.get(p, end)}
        self._positions.update(batch.end_positions)
        return batch

    @staticmethod
    def _before_damage(batch: RecordBatch, fetched: FetchedColumns) -> tuple[RecordBatch, Positions]:
        """Return the records before damaged batches, and the ends of undamaged partitions.

        librdkafka reports a record batch that it can't read, and continues with the records after the batch.
        """
        damage = {each.partition: each.offset for each in reversed(fetched.errors) if each.code in _DAMAGED}
        if not damage:
            return batch, fetched.end_offsets
        positions = zip(batch.partitions, batch.offsets, strict=True)
        undamaged = batch.select(
            partition not in damage or offset < damage[partition] for partition, offset in positions
        )
        return undamaged, {partition: end for partition, end in fetched.end_offsets.items() if partition not in damage}

    # The consumer group

    def _handle_rebalances(self) -> None:
        """Handle the rebalances that happened during the last fetch.

        Raises WorkerError when the client fails. An error must end the worker, because librdkafka then still waits for
        the `assign` or `unassign` that answers the rebalance.
        """
        rebalances, self._rebalances = self._rebalances, []
        try:
            for rebalance in rebalances:
                if rebalance.is_assignment:
                    self._handle_assignment(rebalance.partitions)
                else:
                    self._handle_revocation(rebalance.partitions, lost=rebalance.lost)
        except KafkaException as error:
            raise WorkerError(
                f"The Kafka client can't apply a new assignment: {error.args[0].str()}. This worker ends. The "
                "orchestrator starts a new worker, which creates a new client."
            ) from error

    def _handle_assignment(self, partitions: list[int]) -> None:
        self._unassigned_since = None
        starts = self._start_positions(partitions) if partitions else []
        self._not_in_client |= {partition for partition in partitions if self._is_excluded(partition)}
        self._consumer.incremental_assign([start for start in starts if start.partition not in self._not_in_client])
        self._assigned.update(partitions)
        for start in starts:
            self._positions[start.partition] = start.offset
            self._epochs.set_start(start)
        if partitions:
            self._update_client(partitions)
        if self._listener is not None:
            self._listener.on_assigned(partitions)

    def _handle_revocation(self, partitions: list[int], *, lost: bool) -> None:
        if lost:
            self._unassigned_since = time.monotonic()
        if self._listener is not None:
            (self._listener.on_lost if lost else self._listener.on_revoked)(partitions)
        revoked_in_client = set(partitions) - self._not_in_client
        if paused := self._paused_partitions.intersection(partitions):
            self._consumer.clear_pause(paused)
        self._remove(partitions)
        self._consumer.incremental_unassign(revoked_in_client)

    def _remove(self, partitions: Iterable[int]) -> None:
        """Forget partitions that this member does not own any more."""
        removed = set(partitions)
        self._assigned -= removed
        self._paused_partitions -= removed
        self._not_in_client -= removed
        self._stalls.remove(removed)
        self._epochs.remove(removed)
        self._out_of_range.remove(removed)
        # The next owner of a partition finds the same gaps and reports them.
        self._skipped_gaps = [gap for gap in self._skipped_gaps if gap.partition not in removed]
        self._partition_errors = [error for error in self._partition_errors if error.partition not in removed]
        for partition in removed:
            self._unreadable.pop(partition, None)
            self._retrying.discard(partition)
            for positions in (self._positions, self._uncommitted, self._committing):
                positions.pop(partition, None)

    def _replace_consumer(self, reason: str) -> None:
        """Abandon the consumer and join with a new one.

        Raises WorkerError when a consumer that was abandoned before is still closing, or could not be closed.
        """
        if self._has_hanging_client or (self._closer is not None and self._closer.is_alive()):
            raise WorkerError(
                "Kafka is reachable, but its client hangs and can't be closed. This worker ends. The orchestrator "
                "starts a new worker, which creates a new client."
            )
        log.warning("the Kafka consumer is replaced", topic=self._topic, reason=reason)
        if self._assigned:
            self._handle_revocation(sorted(self._assigned), lost=True)
        self._closer = threading.Thread(
            target=self._close_abandoned, args=[self._consumer], name="abandoned-consumer", daemon=True
        )
        self._closer.start()
        self._rebalances.clear()
        self._partition_errors.clear()
        self._consumer = LibrdkafkaConsumer(self._settings, self._topic)
        self._subscribe()

    def _close_abandoned(self, consumer: LibrdkafkaConsumer) -> None:
        if not consumer.close():
            self._has_hanging_client = True

    # Start positions

    def _start_positions(self, partitions: list[int]) -> list[PartitionOffset]:
        """Return where to start reading these partitions.

        A partition without a position is new, and starts at its first record.
        """
        if self._read_starts is None:
            starts = self._committed_starts(partitions)
        else:
            starts = self._given_starts(partitions, self._read_starts)
        return [starts[p] if p in starts else PartitionOffset(p, self._first_offset(p)) for p in partitions]

    def _first_offset(self, partition: int) -> int:
        """Return the first offset of a partition. Raises WorkerError when it can't be read."""
        try:
            return self._watermarks(partition)[0]
        except BrokerUnavailable as error:
            raise WorkerError(
                f"The first offset of {self._topic}, partition {partition}, can't be read. {error.detail}"
            ) from error

    def _committed_starts(self, partitions: list[int]) -> dict[int, PartitionOffset]:
        """Return the committed positions of the group.

        Raises NoValidOffset when the group has no position for any partition, and WorkerError when the positions can't
        be read.
        """
        try:
            committed = self._read_committed(partitions, START_OFFSETS_TIMEOUT_S)
            topic = self._monitor.describe()
            any_committed = committed or self._read_committed(topic.partitions)
        except BrokerUnavailable as error:
            raise WorkerError(f"The committed positions of the group can't be read. {error.detail}") from error
        if not any_committed:
            raise no_committed_offset_error(self._topic)
        self._check_topic_id(topic.topic_id, {committed_topic_id(each.metadata) for each in any_committed})
        return {each.partition: PartitionOffset(each.partition, each.offset, each.leader_epoch) for each in committed}

    def _given_starts(
        self, partitions: list[int], read_starts: Callable[[list[int], str], Positions]
    ) -> dict[int, PartitionOffset]:
        """Return the positions that the argument `read_starts` returns.

        A position beyond the end is left out: the topic has lost records, and the records that it has now are new.
        """
        try:
            self._check_topic_id(self._monitor.describe().topic_id)
            starts = read_starts(partitions, self._topic_id)
            return {p: PartitionOffset(p, offset) for p, offset in starts.items() if offset <= self._watermarks(p)[1]}
        except Unavailable as error:
            raise WorkerError(f"The start positions can't be read. {error.detail}") from error

    def _check_topic_id(self, topic_id: str, expected: Collection[str] = ()) -> None:
        """Check the id of the topic, and remember it.

        An empty id means that the id is unknown. Raises NoValidOffset when the positions belong to a topic with another
        id.
        """
        if topic_id and {self._topic_id, *expected} - {topic_id, ""}:
            raise topic_recreated_error(self._topic)
        self._topic_id = topic_id or self._topic_id

    def _read_committed(
        self, partitions: Collection[int], timeout_s: float = REQUEST_TIMEOUT_S
    ) -> list[PartitionOffset]:
        try:
            return self._consumer.committed(partitions, timeout_s) if partitions else []
        except KafkaException as error:
            raise broker_unavailable_error(error, self._access) from error

    def _watermarks(self, partition: int) -> tuple[int, int]:
        """Return the first offset of a partition, and its end offset."""
        try:
            return self._consumer.watermarks(partition, REQUEST_TIMEOUT_S)
        except KafkaException as error:
            raise broker_unavailable_error(error, self._access) from error

    # Housekeeping

    def _do_housekeeping(self) -> None:
        """Raise errors of the client, and restart a stalled consumer or partition."""
        self._errors.check()
        if self._consumer.fatal is not None:
            raise self._to_headwater_error(self._consumer.fatal)
        new_state = self._monitor.poll()
        if new_state is not None:
            self._check_topic_id(new_state.topic_id)
        self._handle_partition_errors()
        self._skip_gaps()
        self._retry_unreadable()
        self._replace_stuck_consumer()
        self._check_stalls()

    def _handle_partition_errors(self) -> None:
        while self._partition_errors:
            self._handle_partition_error(self._partition_errors.pop(0))

    def _handle_partition_error(self, error: PartitionError) -> None:
        if error.code == KafkaError._AUTO_OFFSET_RESET:
            if error.partition in self._assigned:
                self._out_of_range.add(error)
            return
        if error.code == KafkaError._FATAL:
            raise self._to_headwater_error(self._consumer.read_fatal_error())
        if error.code in _FENCED or (error.partition not in self._assigned and error.code not in _RETRIABLE):
            raise self._to_headwater_error(KafkaError(error.code, error.text))
        if error.code not in _RETRIABLE:
            self._mark_unreadable(error)

    def _mark_unreadable(self, error: PartitionError) -> None:
        """Pause a partition until the next retry, so that nothing after the failure is read."""
        text = error.text or KafkaError(error.code).str()
        reason = unreadable_partition_message(text, self._topic, error.partition, self._access)
        if error.code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            reason = broker_unavailable_error(KafkaError(error.code), self._access).detail
        self._unreadable[error.partition] = reason
        self._retrying.discard(error.partition)
        self._update_client([error.partition])
        if self._unreadable.keys() >= self._assigned:
            raise BrokerUnavailable(reason)

    def _mark_readable(self, partitions: Collection[int]) -> None:
        for partition in self._unreadable.keys() & partitions:
            del self._unreadable[partition]
            self._retrying.discard(partition)

    def _to_headwater_error(self, error: KafkaError) -> HeadwaterError:
        if error.code() in _FENCED:
            return Fenced(f"Another worker has replaced this one in the consumer group: {error.str()}.")
        if error.fatal():
            return WorkerError(
                f"The Kafka client has failed: {error.str()}. This worker ends. The orchestrator starts a new worker, "
                "which creates a new client."
            )
        return broker_unavailable_error(error, self._access)

    def _retry_unreadable(self) -> None:
        """Read unreadable partitions again.

        librdkafka stops fetching a partition after an authorization error.
        """
        now = time.monotonic()
        if self._unreadable and now >= self._retry_at:
            self._retry_at = now + RETRY_INTERVAL_S
            self._retrying = {*self._unreadable}
            self._refetch(self._unreadable)

    def _replace_stuck_consumer(self) -> None:
        """Replace a consumer that hangs although Kafka is reachable.

        It gets no assignment, or no response to a commit. librdkafka can hang forever: when it waits for a response on
        a connection that it has closed, or when a restarted broker has returned metadata without brokers (librdkafka
        issue 5301).
        """
        state = self._monitor.state
        has_leaders = state is not None and not state.leaderless
        if has_leaders and self._waits_too_long(self._unassigned_since, REJOIN_AFTER_S):
            self._replace_consumer("Kafka is reachable, but the consumer gets no assignment")
        elif self._consumer.is_committing and self._waits_too_long(self._commit_started_at, COMMIT_STUCK_AFTER_S):
            self._replace_consumer("Kafka is reachable, but a commit gets no response")

    def _waits_too_long(self, since: float | None, limit_s: float) -> bool:
        """Return whether the wait, and Kafka's reachability, have lasted for the limit."""
        return since is not None and time.monotonic() - since >= limit_s and self._monitor.reachable_for_s() >= limit_s

    def _check_stalls(self) -> None:
        not_read = (
            self._paused_partitions | self._not_in_client | self._unreadable.keys() | self._out_of_range.partitions
        )
        stalled = self._stalls.check({partition: self._positions[partition] for partition in self._assigned - not_read})
        if stalled is not None:
            self._restart_stalled(stalled)

    def _restart_stalled(self, stalled: StalledPartitions) -> None:
        if stalled.consecutive_reports > 1:
            self._replace_consumer(f"partitions {stalled.partitions} have records, but the consumer returns none")
            return
        log.warning("stalled partitions are fetched again", topic=self._topic, partitions=stalled.partitions)
        self._refetch(stalled.partitions)

    def _refetch(self, partitions: Iterable[int]) -> None:
        """Fetch partitions again from their positions."""
        self._consumer.reassign(self._positions_with_epochs(partitions))
        self._update_client(partitions)

    # Gaps. librdkafka stops reading a partition whose position is out of range.

    def _skip_gaps(self) -> None:
        """Continue partitions that librdkafka has reported as out of range.

        They continue at their position if it exists, else at their first offset. A partition whose leader does not
        answer stays out of range, and `unreadable` returns it, until a later attempt succeeds. The remaining partitions
        are continued in the next round, because a request without an answer has already taken seconds.
        """
        leaderless = self._monitor.state.leaderless if self._monitor.state is not None else frozenset()
        for error in self._out_of_range.due(leaderless):
            try:
                self._skip_gap(error)
            except BrokerUnavailable:
                self._out_of_range.retry_later(error.partition)
                return
            self._out_of_range.remove([error.partition])

    def _skip_gap(self, error: PartitionError) -> None:
        """Continue a partition at its position, or at its first offset if that is later.

        Raises NoValidOffset when the log was truncated, or the topic was recreated.
        """
        partition, position = error.partition, self._positions[error.partition]
        self._check_topic_id(self._monitor.describe().topic_id)
        first, end = self._watermarks(partition)
        if _LOG_TRUNCATION in error.text and not error.text.startswith(_NO_EPOCH):
            raise log_truncated_error(self._topic, partition, position)
        if position > end:
            raise offset_beyond_end_error(self._topic, partition, position, end)
        if position < first:
            self._skipped_gaps.append(Gap(self._topic, partition, position, first))
        self._seek([PartitionOffset(partition, max(position, first))])

    def take_gaps(self) -> list[Gap]:
        gaps, self._skipped_gaps = self._skipped_gaps, []
        return gaps

    def unreadable(self) -> dict[int, str]:
        if self._monitor.unreachable_for_s() >= OUTAGE_REPORTED_AFTER_S:
            outage = broker_unavailable_error(KafkaError(KafkaError._TRANSPORT), self._access)
            return dict.fromkeys(self._assigned, outage.detail)
        state = self._monitor.state
        leaderless = self._assigned & state.leaderless if state is not None else set()
        blocked = {
            partition: _blocked_message(self._topic, partition, last_stable)
            for partition, last_stable in self._stalls.blocked_by_transaction().items()
        }
        reasons = dict.fromkeys(
            self._out_of_range.partitions, "its first and its last offset can't be read at the moment"
        )
        reasons |= dict.fromkeys(leaderless, "it has no leader at the moment")
        messages = {
            partition: unreadable_partition_message(reason, self._topic, partition, self._access)
            for partition, reason in reasons.items()
        }
        return dict(sorted((blocked | self._unreadable | messages).items()))

    # What the engine controls

    def seek(self, positions: Positions) -> None:
        if positions.keys() - self._assigned:
            # The caller does not know yet that it has lost partitions.
            raise Fenced(
                "Another worker owns these partitions now, so this worker can't read their records again. It ends; the "
                "owner reads them."
            )
        self._partition_errors = [error for error in self._partition_errors if error.partition not in positions]
        self._out_of_range.remove(positions)
        self._seek([self._with_epoch(partition, position) for partition, position in positions.items()])

    def restrict_to(self, partitions: Collection[int] | None) -> None:
        self._restricted_to = partitions
        self._update_client(self._assigned)

    def pause(self) -> None:
        self._set_paused(True)

    def resume(self) -> None:
        self._set_paused(False)

    def _set_paused(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        self._update_client(self._assigned)

    # The partitions of the client

    def _update_client(self, partitions: Iterable[int]) -> None:
        """Let librdkafka read the readable partitions, and pause the others.

        A readable partition that librdkafka does not have yet is assigned, and a paused one is resumed.
        """
        readable = {partition for partition in partitions if self._may_read(partition)}
        to_assign = readable & self._not_in_client
        to_resume = readable & self._paused_partitions
        to_pause = {*partitions} - readable - self._paused_partitions - self._not_in_client
        self._not_in_client -= to_assign
        self._paused_partitions = (self._paused_partitions - to_resume) | to_pause
        if to_assign:
            self._consumer.incremental_assign(self._positions_with_epochs(to_assign))
        if to_pause:
            self._consumer.pause(to_pause)
        if to_resume:
            self._consumer.resume(self._positions_with_epochs(to_resume))

    def _may_read(self, partition: int) -> bool:
        is_unreadable = partition in self._unreadable and partition not in self._retrying
        return not (self._is_paused or is_unreadable or self._is_excluded(partition))

    def _is_excluded(self, partition: int) -> bool:
        return self._restricted_to is not None and partition not in self._restricted_to

    def _positions_with_epochs(self, partitions: Iterable[int]) -> list[PartitionOffset]:
        return [self._with_epoch(partition, self._positions[partition]) for partition in partitions]

    def _with_epoch(self, partition: int, position: int) -> PartitionOffset:
        return PartitionOffset(partition, position, self._epochs.epoch_before(partition, position))

    def _seek(self, offsets: Collection[PartitionOffset]) -> None:
        self._consumer.seek([offset for offset in offsets if offset.partition not in self._not_in_client])
        for offset in offsets:
            self._positions[offset.partition] = offset.offset
            self._epochs.set_start(offset)
        self._update_client([offset.partition for offset in offsets])

    # Committed positions

    def commit(self, positions: Positions, *, wait: bool) -> None:
        self._uncommitted.update({p: position for p, position in positions.items() if p in self._assigned})
        deadline = time.monotonic() + (COMMIT_TIMEOUT_S if wait else 0)
        error = self._finish_commit(deadline)
        if self._uncommitted and not self._consumer.is_committing:
            error = self._start_commit()
            if error is None and wait:
                error = self._finish_commit(deadline)
        if wait and error is not None and self._committing | self._uncommitted:
            raise broker_unavailable_error(error, self._access)

    def _start_commit(self) -> KafkaError | None:
        """Send a commit, and return the error of the client, if any."""
        self._committing, self._uncommitted = self._uncommitted, {}
        self._commit_started_at = time.monotonic()
        try:
            self._consumer.start_commit(self._with_metadata(self._committing))
        except KafkaException as error:
            return self._on_commit_failed(error)
        return None

    def _finish_commit(self, deadline: float) -> KafkaError | None:
        """Wait until a deadline for the outcome of the outstanding commit.

        Returns the error, if any.
        """
        try:
            if not self._consumer.finish_commit(max(0.0, deadline - time.monotonic())):
                return KafkaError(KafkaError._TIMED_OUT)
        except KafkaException as error:
            return self._on_commit_failed(error)
        self._committing = {}
        return None

    def _on_commit_failed(self, error: KafkaException) -> KafkaError:
        reason: KafkaError = error.args[0]
        log.info("a commit has failed; it is repeated", topic=self._topic, error=reason.str())
        self._committing, self._uncommitted = {}, self._committing | self._uncommitted
        return reason

    def _with_metadata(self, positions: Positions) -> list[PartitionOffset]:
        metadata = commit_metadata(self._topic_id)
        return [
            PartitionOffset(partition, position, self._epochs.epoch_before(partition, position), metadata)
            for partition, position in positions.items()
        ]

    def committed(self) -> Positions:
        return {each.partition: each.offset for each in self._read_committed(self._assigned)}

    source_ids = staticmethod(position_ids)

    def group_metadata(self) -> TxnOffsetCommitData:
        metadata = commit_metadata(self._topic_id)
        return TxnOffsetCommitData(self._consumer.group_metadata(), metadata, self._epochs.epoch_before)

    def close(self, *, leave_group: bool = False) -> None:
        self._listener = None
        try:
            if leave_group:
                self._leave_group()
        finally:
            self._consumer.close()
            self._monitor.close()

    def _leave_group(self) -> None:
        """Unsubscribe, so that the partitions are reassigned immediately.

        A static member that only closes keeps its partitions for its successor until its session times out.
        """
        try:
            self._consumer.unsubscribe()
            deadline = time.monotonic() + LEAVE_TIMEOUT_S
            while self._assigned and time.monotonic() < deadline:
                self._consumer.fetch(0, 0, LEAVE_POLL_S)
                self._rebalances += self._consumer.take_rebalances()
                self._handle_rebalances()
        except (KafkaException, WorkerError) as error:
            log.info("the member could not leave its group", topic=self._topic, error=str(error))


def _blocked_message(topic: str, partition: int, last_stable: int) -> str:
    return (
        f"Records of {topic}, partition {partition}, from offset {last_stable} on can't be read, because a producer "
        "left a transaction open. They become readable when the transaction ends: `kafka-transactions.sh find-hanging` "
        "finds it, and `kafka-transactions.sh abort` ends it."
    )


def build(spec: WorkerSpec, slot: int) -> KafkaSource:
    """Return the source of one worker.

    `slot` is the number of the worker among the workers of the deployment, from 0.
    The source is a static member of the group, so that a restarted worker in the same slot gets its partitions back.
    """
    access = spec.source if isinstance(spec.source, KafkaAccess) else spec.kafka
    return KafkaSource(access, spec.source_topic, spec.source_group, instance_id=f"{spec.config_id}-{slot}")
