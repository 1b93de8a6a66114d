"""A member of a consumer group on one topic, which reads columns of records."""

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError

from headwater.brokers.client import ClientSettings
from headwater.brokers.handle import CONSUMER, Handle, milliseconds, refused
from headwater.native.kafka import Event, EventKind, Events, PartitionList, Place, Received, Receiver
from headwater.native.library import FFI, NULL, kernel

NO_OFFSET: Final = -1001
SEEK_S: Final = 5.0
CLOSE_S: Final = 3.0
"""How long a client may take to leave its group: librdkafka's own limit is `max.poll.interval.ms`, or none."""
CLOSE_POLL_S: Final = 0.02
CLOSE_RECORDS: Final = 1_000
MAX_CLOSE_BYTES: Final = 1 << 20
"""What was fetched is thrown away in portions of so many records and bytes."""
_NOTHING: Final = frozenset({0, KafkaError._NO_OFFSET})


class Rebalance(NamedTuple):
    """A change of the member's partitions, which takes effect when it is answered by `assign` or `unassign`.

    lost: another member may have the partitions already.
    """

    is_assignment: bool
    lost: bool
    partitions: list[int]


class CommitFailure(NamedTuple):
    """Partitions whose positions were not stored, and why."""

    code: int
    partitions: list[int]


class Consumer(Handle):
    """One thread uses it. Calls raise KafkaException."""

    def __init__(self, settings: ClientSettings, topic: str) -> None:
        super().__init__(CONSUMER, settings)
        self._topic = topic
        self._rebalances: list[Rebalance] = []
        self._unanswered: Rebalance | None = None
        self._assigned: set[int] = set()
        self._failures: list[CommitFailure] = []
        self._check(self._library.rd_kafka_poll_set_consumer(self._client))
        self._queue = self._library.rd_kafka_queue_get_consumer(self._client)
        self._events.struct.queue = self._queue
        self._receiver = Receiver(self._queue)

    def subscribe(self) -> None:
        """Join the group for the topic."""
        with self._list([Place(-1, NO_OFFSET)]) as asked:
            self._check(self._library.rd_kafka_subscribe(self._client, asked.struct))

    def unsubscribe(self) -> None:
        """Leave the group. The revocation of all partitions follows."""
        self._check(self._library.rd_kafka_unsubscribe(self._client))

    # Reading.

    def receive(self, max_records: int, max_bytes: int, timeout_s: float, *, with_headers: bool = False) -> Received:
        """The next records, and partitions that could not be read. Also serves the group: call it often.

        Waits for the first record at most `timeout_s`; a rebalance or an error ends the wait. Records that come with
        a rebalance were read before it.
        """
        received = self._receiver.receive(max_records, max_bytes, timeout_s, with_headers=with_headers)
        self._take_events()
        return received

    def rebalances(self) -> list[Rebalance]:
        """The changes since the last call, in order."""
        changes, self._rebalances = self._rebalances, []
        return changes

    def commit_failures(self) -> list[CommitFailure]:
        """What of commits without wait was not stored, since the last call."""
        failures, self._failures = self._failures, []
        return failures

    def _take(self, event: Event) -> None:
        partitions = [place.partition for place in event.places]
        if event.kind is EventKind.REBALANCE:
            is_assignment = event.code == KafkaError._ASSIGN_PARTITIONS
            self._unanswered = Rebalance(is_assignment, event.lost, partitions)
            self._rebalances.append(self._unanswered)
        elif event.kind is EventKind.COMMIT:
            failed = [place for place in event.places if event.code or place.error]
            if event.code not in _NOTHING or failed:
                codes = [event.code, *(place.error for place in failed)]
                self._failures.append(CommitFailure(next(filter(None, codes)), [p.partition for p in failed]))

    # The assignment.

    def assign(self, places: Collection[Place]) -> None:
        """Read these partitions too, from these offsets on.

        Where a place has the epoch of the record before it, the leader's log is compared with it (KIP-320): librdkafka
        does so when it seeks, not when it is assigned.
        """
        self._unanswered = None
        with self._list(places) as asked:
            self._check_error(self._library.rd_kafka_incremental_assign(self._client, asked.struct))
        self._assigned.update(place.partition for place in places)
        self._seek([place for place in places if place.epoch >= 0])

    def unassign(self, partitions: Iterable[int]) -> None:
        """Read these partitions no more."""
        self._unanswered, gone = None, set(partitions)
        with self._named(gone) as asked:
            self._check_error(self._library.rd_kafka_incremental_unassign(self._client, asked.struct))
        self._assigned -= gone

    def move(self, places: Collection[Place]) -> None:
        """Read on from other offsets. What was fetched of the partitions is dropped."""
        stopped = self._seek(places)
        self.restart([place for place in places if place.partition in stopped])

    def restart(self, places: Collection[Place]) -> None:
        """The same for partitions that librdkafka may not read at the moment."""
        if places:
            self.unassign([place.partition for place in places])
            self.assign(places)

    def _seek(self, places: Collection[Place]) -> set[int]:
        """The partitions that can't be moved so: librdkafka does not read them."""
        if not places:
            return set()
        with self._list(places) as asked:
            error = self._library.rd_kafka_seek_partitions(self._client, asked.struct, milliseconds(SEEK_S))
            self._check_error(error)
            return {place.partition for place in asked.places() if place.error}

    def pause(self, partitions: Iterable[int]) -> None:
        """Hand out and fetch nothing more of these partitions. What was fetched is dropped."""
        with self._named(partitions) as asked:
            self._check(self._library.rd_kafka_pause_partitions(self._client, asked.struct))

    def resume(self, places: Collection[Place]) -> None:
        """Go on with these partitions from these offsets on.

        librdkafka asks for their records within a second of its resume, and at once when it also seeks.
        """
        with self._list(places) as asked:
            self._check(self._library.rd_kafka_resume_partitions(self._client, asked.struct))
        with self._list(places) as asked:
            self._check_error(self._library.rd_kafka_seek_partitions(self._client, asked.struct, 0))

    def unpause(self, partitions: Iterable[int]) -> None:
        """Let these partitions, which end, not be paused when they come back."""
        with self._named(partitions) as asked:
            self._check(self._library.rd_kafka_resume_partitions(self._client, asked.struct))

    # Positions.

    def commit(self, places: Iterable[Place], timeout_s: float = 0) -> None:
        """Store positions: by `timeout_s`; with 0 without a wait, and `commit_failures` says what was not stored."""
        with self._list(places) as asked:
            if timeout_s:
                self._commit_by(asked, time.monotonic() + timeout_s)
            else:
                self._check(self._library.rd_kafka_commit(self._client, asked.struct, True))

    def _commit_by(self, asked: PartitionList, deadline: float) -> None:
        """The call of librdkafka that waits has no time limit: it hangs while the group has no coordinator."""
        functions, self._commit_outcome = self._library, Events()
        callback = FFI.addressof(kernel(), "kafka_note_commit")
        with self._new_queue() as queue:
            opaque = self._commit_outcome.struct
            self._check(functions.rd_kafka_commit_queue(self._client, asked.struct, queue, callback, opaque))
            while not (outcome := self._commit_outcome.take()):
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise refused(KafkaError._TIMED_OUT)
                functions.rd_kafka_queue_poll_callback(queue, milliseconds(left_s) + 1)
        for code in (outcome[0].code, *(place.error for place in outcome[0].places)):
            self._check(code)

    @contextmanager
    def _new_queue(self) -> Iterator[Any]:
        queue = self._library.rd_kafka_queue_new(self._client)
        try:
            yield queue
        finally:
            self._library.rd_kafka_queue_destroy(queue)

    def committed(self, partitions: Iterable[int], timeout_s: float) -> list[Place]:
        """The group's positions of these partitions; those without one are left out."""
        with self._named(partitions) as asked:
            self._check(self._library.rd_kafka_committed(self._client, asked.struct, milliseconds(timeout_s)))
            found = asked.places()
        for place in found:
            self._check(place.error)
        return [place for place in found if place.offset >= 0]

    def bounds(self, partition: int, timeout_s: float) -> tuple[int, int]:
        """The first offset of a partition and the next one, as its leader has them."""
        bounds = FFI.new("int64_t[2]")
        self._check(
            self._library.rd_kafka_query_watermark_offsets(
                self._client, self._topic.encode(), partition, bounds, bounds + 1, milliseconds(timeout_s)
            )
        )
        return bounds[0], bounds[1]

    def group_metadata(self) -> Any:
        """The member as a transaction names it. It changes with each rebalance."""
        functions = self._library
        made = functions.rd_kafka_consumer_group_metadata(self._client)
        return FFI.gc(made, functions.rd_kafka_consumer_group_metadata_destroy)

    def close(self) -> bool:
        """Leave the group, but for a static member, whose place stays for its successor until its session ends.

        Returns whether the client is freed; see `Handle`.
        """
        if self.closed:
            return True
        self._events.struct.closing = 1
        self._take_events()
        if self._unanswered is not None:  # librdkafka would wait for the answer
            self._decline(self._unanswered)
        self._end_membership(time.monotonic() + CLOSE_S)
        self._library.rd_kafka_queue_destroy(self._queue)
        return self._destroy()

    def _end_membership(self, deadline: float) -> None:
        """A client that has not ended by then, or has a fatal error, is ended by its destruction."""
        functions = self._library
        with self._new_queue() as queue:
            error = functions.rd_kafka_consumer_close_queue(self._client, queue)
            if error != NULL:
                functions.rd_kafka_error_destroy(error)
                return
            receiver = Receiver(queue)
            while not functions.rd_kafka_consumer_closed(self._client) and time.monotonic() < deadline:
                receiver.receive(CLOSE_RECORDS, MAX_CLOSE_BYTES, CLOSE_POLL_S)

    def _decline(self, change: Rebalance) -> None:
        """Answer a rebalance so that nothing is assigned. Of a revocation, the client may have some partitions only."""
        if change.is_assignment:
            self.assign([])
        else:
            self.unassign(self._assigned & set(change.partitions))

    def _named(self, partitions: Iterable[int]) -> PartitionList:
        return self._list(Place(partition, NO_OFFSET) for partition in partitions)

    def _list(self, places: Iterable[Place]) -> PartitionList:
        return PartitionList(self._topic, places)
