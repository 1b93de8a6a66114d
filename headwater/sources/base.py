"""The protocol of sources, from which workers read records."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from headwater.errors import NoValidOffset
from headwater.model.record import RecordBatch

Positions = dict[int, int]
"""The position of each partition: the offset of the next record to read."""


class Gap(NamedTuple):
    """Records of a partition that were deleted before they were read: the offsets [start, end)."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return (
            f"Records of {self.topic}, partition {self.partition}, were deleted before they were read: "
            f"offsets [{self.start}, {self.end}). The pipeline continues after them."
        )


def no_committed_offset_error(topic: str) -> NoValidOffset:
    """Return the error for a consumer group without committed positions.

    Kafka deletes the positions of a group with the topic, and some time after the group's last member has left.
    """
    return NoValidOffset(
        f"The pipeline has no position on {topic}: the topic was deleted and created again, or the pipeline was "
        "stopped for longer than Kafka keeps positions. Tear it down and deploy it again to start with the records "
        "that the topic has now."
    )


def topic_recreated_error(topic: str) -> NoValidOffset:
    """Return the error for positions of a topic that was deleted and created again."""
    return NoValidOffset(
        f"The topic {topic} was deleted and created again, so positions on it mean other records now. "
        "Tear the pipeline down and deploy it again to start on the new topic."
    )


def offset_beyond_end_error(topic: str, partition: int, position: int, end: int) -> NoValidOffset:
    """Return the error for a position that is greater than the end offset of its partition."""
    return NoValidOffset(
        f"{topic}, partition {partition}, ends at offset {end}, and the pipeline has read up to {position}: Kafka has "
        "lost records. Tear the pipeline down and deploy it again to start with the records that the topic has now."
    )


def log_truncated_error(topic: str, partition: int, position: int) -> NoValidOffset:
    """Return the error for a log whose records before the position have changed (KIP-320)."""
    return NoValidOffset(
        f"{topic}, partition {partition}, was truncated before offset {position}, up to which the pipeline has read, "
        "and has other records there now: Kafka has lost records. Tear the pipeline down and deploy it again to start "
        "with the records that the topic has now."
    )


class RebalanceListener(Protocol):
    """Handles rebalances of the consumer group.

    `Source.poll` calls its methods, on the same thread.
    """

    def on_assigned(self, partitions: list[int]) -> None:
        """Take over partitions, which this worker owns from now on."""

    def on_revoked(self, partitions: list[int]) -> None:
        """Finish or drop the records of these partitions, then commit.

        This worker owns the partitions until the call returns.
        """

    def on_lost(self, partitions: list[int]) -> None:
        """Drop the records of these partitions, and do not commit.

        Another member may already own them.
        """


class Source(Protocol):
    """Provides the records that a worker reads.

    Only the engine's thread uses it, except for `group_metadata`, which the commit thread calls.

    Implementations: sources/kafka.py, sources/dead_letter_source.py, which derives from it, sources/pubsub.py, and some
    in memory for tests.

    A Pub/Sub subscription has neither partitions nor offsets, so its source behaves differently. Each worker numbers
    partitions and offsets by itself; the numbers are valid in this worker only. The source assigns all partitions when
    it joins, and keeps them. There are no gaps. `seek` reaches back to the last commit at most; the next `poll` then
    returns records from memory. `commit` acknowledges all messages before the positions; uncommitted messages are
    redelivered to any worker. Transactions can't contain positions in a subscription.
    """

    def join(self, listener: RebalanceListener) -> None:
        """Join the group.

        A later `poll` calls `listener.on_assigned`, even when no partition is left for this member.
        """

    def poll(self, max_records: int, timeout_s: float) -> RecordBatch:
        """Return the next records, possibly none, in order per partition.

        The call waits for the first record for at most `timeout_s`, and for no further record. It also handles group
        events, so it must be made often, at least every `max.poll.interval.ms`.

        Raises BrokerUnavailable when the credentials are rejected, or no assigned partition can be read. A source of
        Kafka retries an outage internally; a source of Pub/Sub raises BrokerUnavailable in an outage, too. Raises
        NoValidOffset, Fenced and other WorkerErrors.
        """

    def take_gaps(self) -> list[Gap]:
        """Return the gaps that were skipped since the last call.

        All records that the last poll returned come after these gaps.
        """

    def unreadable(self) -> Mapping[int, str]:
        """Return the partitions that can't be read at the moment.

        The value of each partition is the reason, as a sentence.
        """

    def seek(self, positions: Positions) -> None:
        """Continue at these positions.

        In each of these partitions, `poll` must have returned records or skipped a gap before. Raises Fenced when this
        member does not own the partitions any more.
        """

    def commit(self, positions: Positions, *, wait: bool) -> None:
        """Commit positions for the group.

        With `wait`, returns when the positions of this call and of all earlier calls are stored, or raises
        BrokerUnavailable. Without `wait`, returns at once; positions that could not be stored are committed by the next
        call, which may have empty `positions`.
        """

    def committed(self) -> Positions:
        """Return the committed positions of the assigned partitions.

        If an open transaction contains positions of the group, waits until it ends. Raises BrokerUnavailable.
        """

    def source_ids(self, batch: RecordBatch) -> list[bytes]:
        """Return the ids of the source records of a batch, see model.record.SourceIds.

        The records must not be committed yet.
        """

    def group_metadata(self) -> object:
        """Return the metadata with which a transaction commits positions for this member.

        Call this just before the commit, because the metadata changes with each rebalance. Thread-safe: the commit
        thread calls it while the engine's thread polls.
        """

    def restrict_to(self, partitions: Collection[int] | None) -> None:
        """Fetch and return records of these partitions only, until the next call.

        None lifts the restriction. Records that were fetched from other partitions are discarded, and fetched again
        after the restriction. After the call, no record batch of another partition is decompressed, because the size
        of a batch may be the reason for the restriction. A batch that is being decompressed already is completed.

        The restriction is independent of `pause`, and applies to partitions that are assigned later, too. It may be set
        before `join`, so that nothing is fetched at first. A source of Pub/Sub ignores the call.
        """

    def pause(self) -> None:
        """Return no records until `resume` is called. `poll` still handles group events."""

    def resume(self) -> None:
        """Return records again."""

    def close(self, *, leave_group: bool = False) -> None:
        """Close the source. The next member reads uncommitted records again.

        With `leave_group`, the member leaves the group, so that its partitions are reassigned immediately. Set it when
        this member has no successor.
        """
