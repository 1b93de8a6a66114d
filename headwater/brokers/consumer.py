"""The consumer of workers: a group member that reads one topic as columns."""

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.client_settings import ClientSettings
from headwater.brokers.librdkafka_client import CONSUMER, LibrdkafkaClient
from headwater.native.ffi import FFI, NULL, native_library
from headwater.native.librdkafka import (
    ClientEvent,
    EventKind,
    EventQueue,
    FetchedColumns,
    Fetcher,
    PartitionList,
    PartitionOffset,
    to_milliseconds,
)

NO_OFFSET: Final = -1001
SEEK_TIMEOUT_S: Final = 5.0
CLOSE_TIMEOUT_S: Final = 3.0
"""How long to wait until librdkafka has closed the consumer.

Without this limit, librdkafka would wait for `max.poll.interval.ms`, or forever.
"""
CLOSE_POLL_S: Final = 0.02
# While the client closes, fetched records are discarded in steps of at most this size.
CLOSE_MAX_RECORDS: Final = 1_000
CLOSE_MAX_BYTES: Final = 1 << 20


class Rebalance(NamedTuple):
    """A change of the member's partitions.

    `incremental_assign` or `incremental_unassign` must answer it.

    Attributes:
        is_assignment: True when the partitions are assigned, False when they are revoked.
        lost: Whether another member may already own the revoked partitions.
        partitions: The partitions that are assigned or revoked.
    """

    is_assignment: bool
    lost: bool
    partitions: list[int]


class LibrdkafkaConsumer(LibrdkafkaClient):
    """A librdkafka consumer of one topic.

    Not thread-safe, except for `group_metadata`. All methods may raise KafkaException.

    Attributes:
        is_committing: Whether a commit has no known outcome yet.
    """

    def __init__(self, settings: ClientSettings, topic: str) -> None:
        super().__init__(CONSUMER, settings, EventQueue())
        self._topic = topic
        self._rebalances: list[Rebalance] = []
        self._pending_rebalance: Rebalance | None = None
        self._assigned: set[int] = set()
        self._commit_events = EventQueue()
        self.is_committing = False
        self._check(self._librdkafka.rd_kafka_poll_set_consumer(self._client))
        self._queue = self._librdkafka.rd_kafka_queue_get_consumer(self._client)
        self._events.struct.queue = self._queue
        self._fetcher = Fetcher(self._queue)
        self._commit_queue = self._librdkafka.rd_kafka_queue_new(self._client)

    def subscribe(self) -> None:
        """Join the group for the topic."""
        with self._offset_list([PartitionOffset(-1, NO_OFFSET)]) as topics:
            self._check(self._librdkafka.rd_kafka_subscribe(self._client, topics.struct))

    def unsubscribe(self) -> None:
        """Leave the group. The revocation of all partitions follows."""
        self._check(self._librdkafka.rd_kafka_unsubscribe(self._client))

    # Reading.

    def fetch(
        self, max_records: int, max_bytes: int, timeout_s: float, *, with_headers: bool = False
    ) -> FetchedColumns:
        """Return the next records, and the partitions that reported an error or their end.

        The call also handles group events, so make it at least every `max.poll.interval.ms`. It waits at most
        `timeout_s` for the first record; a rebalance or an error ends the wait. If a rebalance happens during the call,
        the returned records were fetched before the rebalance.
        """
        fetched = self._fetcher.fetch(max_records, max_bytes, timeout_s, with_headers=with_headers)
        self._handle_events()
        return fetched

    def take_rebalances(self) -> list[Rebalance]:
        """Return the rebalances since the last call, in order."""
        rebalances, self._rebalances = self._rebalances, []
        return rebalances

    def _handle_event(self, event: ClientEvent) -> None:
        if event.kind is EventKind.REBALANCE:
            is_assignment = event.code == KafkaError._ASSIGN_PARTITIONS
            partitions = [each.partition for each in event.partitions]
            self._pending_rebalance = Rebalance(is_assignment, event.lost, partitions)
            self._rebalances.append(self._pending_rebalance)

    # The assignment.

    def incremental_assign(self, offsets: Collection[PartitionOffset]) -> None:
        """Add partitions to the assignment, each starting at its offset.

        If an entry has the leader epoch of the record before its offset, librdkafka compares that epoch with the
        leader's log (KIP-320). librdkafka does this on a seek but not on an assignment, so this method also calls seek
        for such partitions.
        """
        self._pending_rebalance = None
        with self._offset_list(offsets) as partitions:
            self._check_error(self._librdkafka.rd_kafka_incremental_assign(self._client, partitions.struct))
        self._assigned.update(each.partition for each in offsets)
        self._seek([each for each in offsets if each.leader_epoch >= 0])

    def incremental_unassign(self, partitions: Iterable[int]) -> None:
        """Remove partitions from the assignment."""
        self._pending_rebalance, removed = None, set(partitions)
        with self._partition_list(removed) as revoked:
            self._check_error(self._librdkafka.rd_kafka_incremental_unassign(self._client, revoked.struct))
        self._assigned -= removed

    def seek(self, offsets: Collection[PartitionOffset]) -> None:
        """Continue at other offsets, and discard the fetched records of these partitions."""
        failed = self._seek(offsets)
        self.reassign([each for each in offsets if each.partition in failed])

    def reassign(self, offsets: Collection[PartitionOffset]) -> None:
        """Do the same as `seek` for partitions that librdkafka may have stopped fetching.

        Removes the partitions from the assignment and assigns them again.
        """
        if offsets:
            self.incremental_unassign([each.partition for each in offsets])
            self.incremental_assign(offsets)

    def _seek(self, offsets: Collection[PartitionOffset]) -> set[int]:
        """Seek. Return the partitions whose seek failed, because librdkafka is not fetching them."""
        if not offsets:
            return set()
        with self._offset_list(offsets) as partitions:
            timeout_ms = to_milliseconds(SEEK_TIMEOUT_S)
            self._check_error(self._librdkafka.rd_kafka_seek_partitions(self._client, partitions.struct, timeout_ms))
            return {each.partition for each in partitions.entries() if each.error}

    def pause(self, partitions: Iterable[int]) -> None:
        """Pause partitions, and discard their records that were already fetched."""
        with self._partition_list(partitions) as paused:
            self._check(self._librdkafka.rd_kafka_pause_partitions(self._client, paused.struct))

    def resume(self, offsets: Collection[PartitionOffset]) -> None:
        """Resume partitions at these offsets.

        After a resume alone, librdkafka sends the next fetch request up to a second later; after a seek, at once.
        """
        self.clear_pause([each.partition for each in offsets])
        with self._offset_list(offsets) as partitions:
            self._check_error(self._librdkafka.rd_kafka_seek_partitions(self._client, partitions.struct, 0))

    def clear_pause(self, partitions: Iterable[int]) -> None:
        """Clear the pause of partitions before they are unassigned.

        Otherwise they would be paused in the next assignment.
        """
        with self._partition_list(partitions) as resumed:
            self._check(self._librdkafka.rd_kafka_resume_partitions(self._client, resumed.struct))

    # Offsets.

    def start_commit(self, offsets: Iterable[PartitionOffset]) -> None:
        """Start to commit offsets; `finish_commit` returns the outcome.

        Only one commit may be outstanding. librdkafka repeats a failed request by itself, and an earlier commit would
        then overwrite the offsets of a later one.
        """
        assert not self.is_committing, "the commit before has no known outcome yet"
        commit, callback = self._librdkafka.rd_kafka_commit_queue, FFI.addressof(native_library(), "kafka_on_commit")
        with self._offset_list(offsets) as partitions:
            self._check(
                commit(self._client, partitions.struct, self._commit_queue, callback, self._commit_events.struct)
            )
        self.is_committing = True

    def finish_commit(self, timeout_s: float) -> bool:
        """Wait for the outcome of the outstanding commit.

        Returns whether no commit is outstanding any more. Raises KafkaException when the offsets are not stored.
        """
        deadline = time.monotonic() + timeout_s
        while self.is_committing:
            left_s = deadline - time.monotonic()
            self._librdkafka.rd_kafka_queue_poll_callback(self._commit_queue, to_milliseconds(left_s))
            for event in self._commit_events.take_events():
                self.is_committing = False
                for code in (event.code, *(each.error for each in event.partitions)):
                    self._check(code)
            if left_s <= 0:
                break
        return not self.is_committing

    @contextmanager
    def _new_queue(self) -> Iterator[Any]:
        queue = self._librdkafka.rd_kafka_queue_new(self._client)
        try:
            yield queue
        finally:
            self._librdkafka.rd_kafka_queue_destroy(queue)

    def committed(self, partitions: Iterable[int], timeout_s: float) -> list[PartitionOffset]:
        """Return the committed offsets of these partitions.

        Partitions without a committed offset are left out.
        """
        with self._partition_list(partitions) as requested:
            timeout_ms = to_milliseconds(timeout_s)
            self._check(self._librdkafka.rd_kafka_committed(self._client, requested.struct, timeout_ms))
            offsets = requested.entries()
        for each in offsets:
            self._check(each.error)
        return [each for each in offsets if each.offset >= 0]

    def watermarks(self, partition: int, timeout_s: float) -> tuple[int, int]:
        """Return the first offset and the end offset of a partition, read from its leader."""
        watermarks = FFI.new("int64_t[2]")
        self._check(
            self._librdkafka.rd_kafka_query_watermark_offsets(
                self._client, self._topic.encode(), partition, watermarks, watermarks + 1, to_milliseconds(timeout_s)
            )
        )
        return watermarks[0], watermarks[1]

    def group_metadata(self) -> Any:
        """Return the consumer group metadata for `LibrdkafkaProducer.send_offsets`.

        It changes with each rebalance. Thread-safe.
        """
        functions = self._librdkafka
        metadata = functions.rd_kafka_consumer_group_metadata(self._client)
        return FFI.gc(metadata, functions.rd_kafka_consumer_group_metadata_destroy)

    def close(self) -> bool:
        """Close the consumer, and return whether the client was freed in time.

        A client that was not freed in time is freed later, see LibrdkafkaClient. A dynamic member leaves the group; a
        static member keeps its assignment for its successor until its session times out.
        """
        if self.closed:
            return True
        self._events.struct.closing = 1
        self._handle_events()
        if self._pending_rebalance is not None:  # librdkafka would wait for the answer
            self._decline(self._pending_rebalance)
        self._close_consumer(time.monotonic() + CLOSE_TIMEOUT_S)
        self._events.struct.queue = NULL
        for queue in (self._queue, self._commit_queue):
            self._librdkafka.rd_kafka_queue_destroy(queue)
        return self._destroy()

    def _close_consumer(self, deadline: float) -> None:
        """Close the consumer in librdkafka, and wait for that until a deadline.

        A dynamic member leaves its group; a static member does not. If this fails, the member's session times out after
        the destruction of the client.
        """
        functions = self._librdkafka
        with self._new_queue() as queue:
            error = functions.rd_kafka_consumer_close_queue(self._client, queue)
            if error != NULL:
                functions.rd_kafka_error_destroy(error)
                return
            fetcher = Fetcher(queue)
            while not functions.rd_kafka_consumer_closed(self._client) and time.monotonic() < deadline:
                fetcher.fetch(CLOSE_MAX_RECORDS, CLOSE_MAX_BYTES, CLOSE_POLL_S)

    def _decline(self, rebalance: Rebalance) -> None:
        """Answer a rebalance so that nothing is assigned.

        If this fails, `_close_consumer` ends at its deadline. A revocation may contain partitions that were never
        passed to `incremental_assign`; they are left out.
        """
        with suppress(KafkaException):
            if rebalance.is_assignment:
                self.incremental_assign([])
            else:
                self.incremental_unassign(self._assigned & set(rebalance.partitions))

    def _partition_list(self, partitions: Iterable[int]) -> PartitionList:
        return self._offset_list(PartitionOffset(partition, NO_OFFSET) for partition in partitions)

    def _offset_list(self, offsets: Iterable[PartitionOffset]) -> PartitionList:
        return PartitionList(self._topic, offsets)
