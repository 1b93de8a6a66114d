"""What every implementation of sources.base.Source does. Names are unique: the real broker is shared by all tests."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from headwater.brokers.kafka import KafkaBroker
from headwater.brokers.topic_id import TopicWatch, labelled
from headwater.errors import BrokerUnavailable, SourceGap, WorkerError
from headwater.model.record import RecordBatch
from headwater.sources.base import Gap, Positions, Source
from headwater.sources.kafka import MAX_BATCH_BYTES, KafkaSource
from headwater.sources.memory import MemoryGroup, MemorySource, MemoryTopic
from headwater.sources.stalls import LOOK_EVERY_S
from tests.support.kafka import KafkaServer

POLLS = 400
POLL_S = 0.1


class Bench(Protocol):
    """A topic, a group on it, and what others do to them."""

    topic: str

    def append(
        self, partition: int, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
    ) -> None:
        """Put records on the topic."""

    def pin(self, positions: Positions) -> None:
        """Commit for the group, which is empty."""

    def positions(self) -> Positions:
        """What the group has committed."""

    def truncate(self, partition: int, before: int) -> None:
        """Delete the records below an offset."""

    def recreate(self) -> None:
        """Delete the topic, and make it again under the same name."""

    def grow(self, partitions: int) -> None:
        """Add partitions."""

    def source(self) -> Source:
        """A new member, not joined yet. Closed at the end of the test."""


class MemoryBench:
    topic = "stream"

    def __init__(self) -> None:
        self._topic = MemoryTopic(self.topic, [[], []])
        self._group = MemoryGroup(self._topic)

    def append(
        self, partition: int, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
    ) -> None:
        for value, key in zip(values, keys or [None] * len(values), strict=True):
            self._topic.append(partition, value, key, 1)

    def pin(self, positions: Positions) -> None:
        self._group.committed.update(positions)

    def positions(self) -> Positions:
        return dict(self._group.committed)

    def truncate(self, partition: int, before: int) -> None:
        self._topic.truncate(partition, before)

    def recreate(self) -> None:
        self._group.recreate_topic()

    def grow(self, partitions: int) -> None:
        while len(self._topic.partitions) < partitions:
            self._topic.partitions.append([])
            self._topic.ends.append(0)

    def source(self) -> MemorySource:
        return MemorySource(self._group, lambda seconds: None)


class KafkaBench:
    def __init__(self, kafka: KafkaServer) -> None:
        self._kafka = kafka
        self._cleanup = contextlib.ExitStack()
        self.topic = kafka.create_topic(kafka.unique("stream"), 2)
        self.group = kafka.unique("group")

    def append(
        self, partition: int, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
    ) -> None:
        self._kafka.produce(self.topic, values, partition=partition, keys=keys)

    def pin(self, positions: Positions) -> None:
        with self._kafka.consumer(group=self.group) as consumer:
            consumer.commit(
                offsets=[TopicPartition(self.topic, p, offset) for p, offset in positions.items()], asynchronous=False
            )

    def positions(self) -> Positions:
        with self._kafka.consumer(group=self.group) as consumer:
            found = consumer.committed([TopicPartition(self.topic, p) for p in range(3)], 30)
        return {p.partition: p.offset for p in found if p.offset >= 0}

    def truncate(self, partition: int, before: int) -> None:
        admin: AdminClient = self._kafka.admin
        for future in admin.delete_records([TopicPartition(self.topic, partition, before)]).values():
            future.result(30)

    def recreate(self) -> None:
        self._kafka.recreate_topic(self.topic, 2)

    def grow(self, partitions: int) -> None:
        self._kafka.grow(self.topic, partitions)

    def source(self) -> KafkaSource:
        return self.member(None)

    def member(self, instance_id: str | None) -> KafkaSource:
        source = KafkaSource(self._kafka.access, self.topic, self.group, instance_id)
        self._cleanup.callback(source.close)
        return source

    def close(self) -> None:
        self._cleanup.close()


@pytest.fixture(params=["memory", "kafka"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "memory":
        yield MemoryBench()
    else:
        with contextlib.closing(KafkaBench(request.getfixturevalue("kafka"))) as kafka_bench:
            yield kafka_bench


@pytest.fixture
def kafka_bench(kafka: KafkaServer) -> Iterator[KafkaBench]:
    with contextlib.closing(KafkaBench(kafka)) as kafka_bench:
        yield kafka_bench


class Listener:
    """Notes what a rebalance says, and commits what it was told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.owned: set[int] = set()
        self.on_revoke: Callable[[], None] = lambda: None

    def assigned(self, partitions: list[int]) -> None:
        self.calls.append(("assigned", partitions))
        self.owned.update(partitions)

    def revoked(self, partitions: list[int]) -> None:
        self.calls.append(("revoked", partitions))
        self.on_revoke()
        self.owned.difference_update(partitions)

    def lost(self, partitions: list[int]) -> None:
        self.calls.append(("lost", partitions))
        self.owned.difference_update(partitions)


def joined(source: Source) -> Listener:
    """Join, and poll until the first assignment; no records may be there yet."""
    listener = Listener()
    source.join(listener)
    for _ in range(POLLS):
        if listener.calls:
            break
        assert not source.poll(1, POLL_S)
    assert listener.calls[0][0] == "assigned"
    return listener


def rows(batch: RecordBatch) -> list[tuple[int, int, bytes | None]]:
    return list(zip(batch.partitions, batch.offsets, batch.values, strict=True))


def read(source: Source, count: int, max_records: int = 100) -> list[tuple[int, int, bytes | None]]:
    """The next `count` records; then no more come."""
    found: list[tuple[int, int, bytes | None]] = []
    for _ in range(POLLS):
        if len(found) >= count:
            break
        batch = source.poll(max_records, POLL_S)
        assert len(batch) <= max_records
        found += rows(batch)
    assert len(found) == count
    return found


def found_gaps(source: Source, count: int) -> list[Gap]:
    """The next gaps; no record comes before they are found."""
    gaps: list[Gap] = []
    for _ in range(POLLS):
        if len(gaps) >= count:
            break
        assert not source.poll(10, POLL_S)
        gaps += source.gaps()
    return gaps


def start(bench: Bench, positions: Positions | None = None) -> tuple[Source, Listener]:
    bench.pin(positions or {0: 0, 1: 0})
    source = bench.source()
    return source, joined(source)


class TestPoll:
    def test_columns(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"a", None], [b"k", None])
        batch = source.poll(10, POLL_S)
        while len(batch) < 2:
            more = source.poll(10, POLL_S)
            batch = RecordBatch(
                batch.topic,
                batch.values + more.values,
                batch.keys + more.keys,
                batch.timestamps + more.timestamps,
                batch.partitions + more.partitions,
                batch.offsets + more.offsets,
                batch.indexes + more.indexes,
            )
        assert (batch.topic, batch.values, batch.keys) == (bench.topic, [b"a", None], [b"k", None])
        assert (batch.partitions, batch.offsets, batch.indexes) == ([0, 0], [0, 1], [0, 0])
        assert all(stamp > 0 for stamp in batch.timestamps)

    def test_order_per_partition_and_the_bound(self, bench: Bench) -> None:
        source, _ = start(bench)
        for partition in (0, 1):
            bench.append(partition, [b"%d" % n for n in range(700)])
        found = read(source, 1400, max_records=300)
        for partition in (0, 1):
            assert [row for row in found if row[0] == partition] == [(partition, n, b"%d" % n) for n in range(700)]

    def test_empty(self, bench: Bench) -> None:
        source, _ = start(bench)
        assert len(source.poll(10, 0)) == 0

    def test_starts_at_the_committed_positions(self, bench: Bench) -> None:
        bench.append(0, [b"a", b"b", b"c"])
        source, _ = start(bench, {0: 3, 1: 0})
        bench.append(0, [b"d"])
        assert read(source, 1) == [(0, 3, b"d")]

    def test_a_batch_has_a_bound_in_bytes(self, kafka_bench: KafkaBench) -> None:
        source, _ = start(kafka_bench)
        kafka_bench.append(0, [b"x" * 900_000] * 20)
        sizes: list[int] = []
        while sum(sizes) < 20:
            sizes.append(len(source.poll(2000, POLL_S)))
        assert max(sizes) <= MAX_BATCH_BYTES // 900_000 + 1


class TestPositions:
    def test_commit_is_where_the_next_member_starts(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"a", b"b", b"c"])
        read(source, 3)
        source.commit({0: 2}, wait=True)
        assert source.committed() == {0: 2, 1: 0}
        source.close()
        assert bench.positions() == {0: 2, 1: 0}
        successor = bench.source()
        listener = Listener()
        successor.join(listener)
        assert read(successor, 1) == [(0, 2, b"c")]

    def test_commit_without_waiting(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(1, [b"a"])
        read(source, 1)
        source.commit({1: 1}, wait=False)
        for _ in range(POLLS):
            if source.committed() == {0: 0, 1: 1}:
                break
            source.poll(1, POLL_S)
        assert source.committed() == {0: 0, 1: 1}

    def test_closing_commits_nothing(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"a"])
        read(source, 1)
        source.close()
        assert bench.positions() == {0: 0, 1: 0}

    def test_seek(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"%d" % n for n in range(10)])
        read(source, 10)
        source.seek({0: 4})
        assert read(source, 6) == [(0, n, b"%d" % n) for n in range(4, 10)]

    def test_seek_survives_a_pause(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"%d" % n for n in range(10)])
        read(source, 10)
        source.pause()
        source.seek({0: 7})
        source.pause()
        assert len(source.poll(10, POLL_S)) == 0
        source.resume()
        assert read(source, 3) == [(0, n, b"%d" % n) for n in (7, 8, 9)]

    def test_a_group_without_positions_never_chooses(self, bench: Bench) -> None:
        bench.append(0, [b"a"])
        source = bench.source()
        source.join(Listener())
        with pytest.raises(SourceGap, match=bench.topic):
            read(source, 1)

    def test_a_new_partition_starts_at_its_first_record(self, bench: Bench) -> None:
        bench.pin({0: 0, 1: 0})
        bench.grow(3)
        bench.append(2, [b"a", b"b"])
        bench.truncate(2, 1)
        source = bench.source()
        source.join(Listener())
        assert read(source, 1) == [(2, 1, b"b")]


class TestGaps:
    def test_deleted_records_are_told_and_passed(self, bench: Bench) -> None:
        bench.append(1, [b"%d" % n for n in range(5)])
        bench.pin({0: 0, 1: 1})
        bench.truncate(1, 3)
        source = bench.source()
        source.join(Listener())
        assert read(source, 2) == [(1, 3, b"3"), (1, 4, b"4")]
        assert source.gaps() == [Gap(bench.topic, 1, 1, 3)]
        assert source.gaps() == []

    def test_several_partitions_of_which_nothing_is_left(self, bench: Bench) -> None:
        for partition in (0, 1):
            bench.append(partition, [b"a", b"b"])
            bench.truncate(partition, 2)
        source, _ = start(bench, {0: 0, 1: 1})
        assert sorted(found_gaps(source, 2)) == [Gap(bench.topic, 0, 0, 2), Gap(bench.topic, 1, 1, 2)]
        bench.append(0, [b"c"])
        bench.append(1, [b"d"])
        assert sorted(read(source, 2)) == [(0, 2, b"c"), (1, 2, b"d")]

    def test_a_seek_into_a_gap(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"%d" % n for n in range(6)])
        read(source, 6)
        bench.truncate(0, 4)
        source.seek({0: 1})
        assert read(source, 2) == [(0, 4, b"4"), (0, 5, b"5")]
        assert source.gaps() == [Gap(bench.topic, 0, 1, 4)]

    def test_in_a_pause(self, bench: Bench) -> None:
        bench.append(0, [b"a", b"b"])
        bench.truncate(0, 1)
        bench.pin({0: 0, 1: 0})
        source = bench.source()
        source.join(Listener())
        source.pause()
        assert [len(source.poll(10, POLL_S)) for _ in range(20)] == [0] * 20
        source.resume()
        assert read(source, 1) == [(0, 1, b"b")]
        assert source.gaps() == [Gap(bench.topic, 0, 0, 1)]

    def test_a_position_behind_the_end_is_no_gap(self, bench: Bench) -> None:
        bench.append(0, [b"a"])
        bench.pin({0: 5, 1: 0})
        source = bench.source()
        source.join(Listener())
        with pytest.raises(SourceGap, match=r"partition 0, ends at offset 1, .* up to 5"):
            read(source, 1)


class TestTopicMadeAgain:
    def test_while_it_is_read(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"a", b"b"])
        read(source, 2)
        bench.recreate()
        with pytest.raises(SourceGap, match=f"{bench.topic} was deleted and made again"):
            found_gaps(source, 1)

    def test_its_position_seems_to_be_a_gap(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"a", b"b"])
        read(source, 2)
        bench.recreate()
        bench.append(0, [b"other"])
        with pytest.raises(SourceGap, match="made again"):
            found_gaps(source, 1)

    def test_positions_that_were_stored_too_late(self, bench: Bench) -> None:
        """They count the old topic, whoever reads them."""
        source, _ = start(bench)
        bench.append(0, [b"a", b"b"])
        read(source, 2)
        bench.recreate()
        bench.append(0, [b"other"] * 3)
        source.commit({0: 2}, wait=True)
        source.close()
        successor = bench.source()
        successor.join(Listener())
        with pytest.raises(SourceGap, match="made again"):
            read(successor, 1)

    def test_while_nobody_reads_it(self, bench: Bench) -> None:
        """Kafka removes the positions with the topic."""
        bench.pin({0: 0, 1: 0})
        bench.recreate()
        bench.append(0, [b"other"])
        source = bench.source()
        source.join(Listener())
        with pytest.raises(SourceGap, match=f"no position on {bench.topic}: the topic was deleted"):
            read(source, 1)

    def test_start_positions_know_their_topic(self, kafka: KafkaServer, kafka_bench: KafkaBench) -> None:
        KafkaBroker(kafka.access, 1).pin(kafka_bench.group, kafka_bench.topic, "latest")
        with kafka.consumer(group=kafka_bench.group) as consumer:
            pinned = consumer.committed([TopicPartition(kafka_bench.topic, p) for p in range(2)], 30)
        assert {labelled(p.metadata) for p in pinned} == {TopicWatch(kafka.access, kafka_bench.topic).read()}


class TestPause:
    def test_nothing_comes_and_nothing_is_lost(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"%d" % n for n in range(50)])
        first = read(source, 5, max_records=1)
        source.pause()
        bench.append(0, [b"50"])
        assert [len(source.poll(10, POLL_S)) for _ in range(5)] == [0] * 5
        source.resume()
        assert first + read(source, 46) == [(0, n, b"%d" % n) for n in range(51)]


class TestRebalance:
    def test_partitions_move_within_a_poll_of_their_owner(self, bench: Bench) -> None:
        """Two members join one that has both partitions: one gets a partition, the other is told that it has none."""
        first, owner = start(bench)
        bench.append(0, [b"a0", b"a1"])
        bench.append(1, [b"b0", b"b1"])
        read(first, 4)
        owner.on_revoke = lambda: first.commit({0: 1, 1: 1}, wait=True)
        newcomers = [(bench.source(), Listener()) for _ in range(2)]
        for source, listener in newcomers:
            source.join(listener)
        found: list[tuple[int, int, bytes | None]] = []
        for _ in range(POLLS):
            assert not first.poll(10, POLL_S)
            for source, _listener in newcomers:
                found += rows(source.poll(10, POLL_S))
            shares = sorted(len(listener.owned) for _, listener in newcomers)
            if shares == [0, 1] and len(found) == 1 and all(listener.calls for _, listener in newcomers):
                break
        (moved,) = {0, 1} - owner.owned
        assert found == [(moved, 1, [b"a1", b"b1"][moved])]
        assert ("revoked", [moved]) in owner.calls
        assert sorted(listener.owned for _, listener in newcomers) == [set(), {moved}]

    @pytest.mark.long
    def test_a_pause_ends_for_partitions_that_are_away_too(self, bench: Bench) -> None:
        """One goes to another member during a pause, and comes back when the pause is over."""
        first, owner = start(bench)
        first.pause()
        second, other = bench.source(), Listener()
        second.join(other)
        for _ in range(POLLS):
            if other.owned:
                break
            assert not first.poll(10, POLL_S)
            assert not second.poll(10, POLL_S)
        assert len(owner.owned) == 1
        first.resume()
        second.close()
        bench.append(0, [b"a"])
        bench.append(1, [b"b"])
        assert sorted(read(first, 2)) == [(0, 0, b"a"), (1, 0, b"b")]


class TestKafkaAlone:
    def test_a_wrong_password(self, kafka: KafkaServer, kafka_bench: KafkaBench) -> None:
        access = kafka.access.model_copy(update={"password": "wrong"})
        source = KafkaSource(access, kafka_bench.topic, kafka_bench.group)
        source.join(Listener())
        try:
            with pytest.raises(BrokerUnavailable, match="refuses the user"):
                read(source, 1)
        finally:
            source.close()

    def test_a_partition_that_librdkafka_has_lost_track_of_is_read_anew(
        self, kafka: KafkaServer, kafka_bench: KafkaBench
    ) -> None:
        now = [0.0]
        kafka_bench.pin({0: 0, 1: 0})
        with contextlib.closing(
            KafkaSource(kafka.access, kafka_bench.topic, kafka_bench.group, clock=lambda: now[0])
        ) as source:
            joined(source)
            kafka_bench.append(0, [b"a"])
            read(source, 1)
            source._consumer.pause([TopicPartition(kafka_bench.topic, 0)])  # as mute as one that is lost
            kafka_bench.append(0, [b"b"])
            assert not source.poll(10, 10 * POLL_S)
            for _ in range(2):
                now[0] += LOOK_EVERY_S
                assert not source.poll(10, POLL_S)
            assert read(source, 1) == [(0, 1, b"b")]

    def test_a_topic_that_is_not_there(self, kafka: KafkaServer) -> None:
        source = KafkaSource(kafka.access, "no-such-topic", kafka.unique("group"))
        source.join(Listener())
        try:
            with pytest.raises(BrokerUnavailable):
                read(source, 1)
        finally:
            source.close()

    def test_a_second_worker_in_the_same_slot_fences_the_first(self, kafka_bench: KafkaBench) -> None:
        kafka_bench.pin({0: 0, 1: 0})
        first = kafka_bench.member("slot-0")
        joined(first)
        second = kafka_bench.member("slot-0")
        assert joined(second).owned == {0, 1}
        with pytest.raises(WorkerError, match="place"):
            read(first, 1)
