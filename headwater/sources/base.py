"""Protocol of a source: where a worker reads its records."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from headwater.errors import SourceGap
from headwater.model.record import RecordBatch

Positions = dict[int, int]
"""Next offset to read, by partition."""


class Gap(NamedTuple):
    """Records of a partition that were deleted before they were read: the offsets [start, end)."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return (
            f"Records of {self.topic}, partition {self.partition}, were deleted before they were read: "
            f"offsets [{self.start}, {self.end}). The pipeline goes on behind them."
        )


def no_position(topic: str) -> SourceGap:
    """The group has no position: Kafka removes them with the topic, and after some time without a member."""
    return SourceGap(
        f"The pipeline has no position on {topic}: the topic was deleted and made again, or the pipeline stood still "
        "for longer than Kafka keeps positions. Tear it down and deploy it again to start on the topic as it is."
    )


def recreated(topic: str) -> SourceGap:
    """The positions count records of a topic that is not there any more."""
    return SourceGap(
        f"The topic {topic} was deleted and made again, so positions on it mean other records now. "
        "Tear the pipeline down and deploy it again to start on the new topic."
    )


def truncated(topic: str, partition: int, position: int, end: int) -> SourceGap:
    """The position is behind the end."""
    return SourceGap(
        f"{topic}, partition {partition}, ends at offset {end}, and the pipeline has read up to {position}: Kafka has "
        "lost records. Tear the pipeline down and deploy it again to start on the topic as it is."
    )


def cut_off(topic: str, partition: int, position: int) -> SourceGap:
    """The leader's log has other records before the position than those that were read."""
    return SourceGap(
        f"{topic}, partition {partition}, was cut off before offset {position}, up to which the pipeline has read, and "
        "has other records there now: Kafka has lost records. Tear the pipeline down and deploy it again to start on "
        "the topic as it is."
    )


class RebalanceListener(Protocol):
    """The engine's side of a rebalance. Called from within `Source.poll`, on the same thread."""

    def assigned(self, partitions: list[int]) -> None:
        """These partitions are ours from now on."""

    def revoked(self, partitions: list[int]) -> None:
        """These partitions go after this call returns: finish or abandon their records, then commit."""

    def lost(self, partitions: list[int]) -> None:
        """These partitions are someone else's already: abandon their records, do not commit."""


class Source(Protocol):
    """Where a worker reads. Used by one thread, the engine's.

    Implementations: sources/kafka.py, sources/pubsub.py, and some in memory for tests.

    A queue (Pub/Sub) differs in this: partitions and offsets are the worker's own numbers, good for as long as it
    lives. All partitions are assigned when it joins and stay with it, beside other workers that have them too. There
    are no gaps. `seek` goes back no further than the last commit, and gives the records from memory. `commit`
    acknowledges all messages before the positions; what was not committed comes to any worker. No transaction holds
    its positions.
    """

    def join(self, listener: RebalanceListener) -> None:
        """Join the group. `listener.assigned` follows from within a later `poll`, even when no partition is left."""

    def poll(self, max_records: int, timeout_s: float) -> RecordBatch:
        """The next records (possibly none) in order per partition. Also serves group membership: call it often.

        Waits for the first record at most `timeout_s`, and for no further one. Raises BrokerUnavailable (credentials
        refused; an outage is waited out inside), SourceGap, Fenced.
        """

    def gaps(self) -> list[Gap]:
        """The gaps that were passed since the last call. The last poll gave no record from before one of these."""

    def not_read(self) -> Mapping[int, str]:
        """The partitions that are not read at the moment, while others may be, each with the reason: a sentence."""

    def seek(self, positions: Positions) -> None:
        """Read on from these offsets. Only for partitions that records were read from.

        Raises Fenced when they are not this member's any more.
        """

    def commit(self, positions: Positions, *, wait: bool) -> None:
        """Store positions for the group. With wait: returns when stored, raises BrokerUnavailable.

        Without wait: what could not be stored is stored with the next call; positions may be empty.
        """

    def committed(self) -> Positions:
        """The group's stored positions of the assigned partitions; waits for those that a transaction is storing.

        Raises BrokerUnavailable.
        """

    def names(self, batch: RecordBatch) -> list[bytes]:
        """See model.record.SourceNames. For records that are not committed."""

    def membership(self) -> object:
        """What a transaction must name to store positions as this member; read it right before, it changes."""

    def read_only(self, partitions: Collection[int] | None) -> None:
        """Fetch and hand out records of these partitions only, until the next call; None lifts the restriction.

        Records that were fetched from other partitions are thrown away, and fetched again later from behind the last
        record that was handed out. No record batch of another partition is unpacked after the call, apart from
        one that is being unpacked: its size may be why the partition is left out.

        The restriction is independent of `pause`, and stays for partitions that are assigned or sought later. It may be
        set before `join`, so that nothing is fetched at first. A queue has no partitions: it ignores the call.
        """

    def pause(self) -> None:
        """Hand out no records until `resume`; `poll` goes on serving group membership."""

    def resume(self) -> None:
        """Hand out records again."""

    def close(self, *, leave: bool = False) -> None:
        """End. Positions that were not committed are read again by the next member.

        leave: nobody takes this member's place, so others get its partitions at once.
        """
