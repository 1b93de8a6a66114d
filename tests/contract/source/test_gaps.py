"""Every source reports records that were deleted before it read them, and recreated topics."""

import pytest
from confluent_kafka import TopicPartition

from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.brokers.topic_id import committed_topic_id
from headwater.brokers.topic_monitor import TopicMonitor
from headwater.errors import NoValidOffset
from headwater.sources.base import Gap, Source
from tests.support.kafka import KafkaServer
from tests.support.sources import POLL_S, POLLS, Bench, KafkaBench, Listener, read, start


def found_gaps(source: Source, count: int) -> list[Gap]:
    """Return the next gaps. No record may come before them."""
    gaps: list[Gap] = []
    for _ in range(POLLS):
        if len(gaps) >= count:
            break
        assert not source.poll(10, POLL_S)
        gaps += source.take_gaps()
    return gaps


class TestGaps:
    def test_deleted_records_are_reported_and_skipped(self, bench: Bench) -> None:
        bench.append(1, [b"%d" % n for n in range(5)])
        bench.pin({0: 0, 1: 1})
        bench.delete_records(1, 3)
        source = bench.source()
        source.join(Listener())
        assert read(source, 2) == [(1, 3, b"3"), (1, 4, b"4")]
        assert source.take_gaps() == [Gap(bench.topic, 1, 1, 3)]
        assert source.take_gaps() == []

    def test_several_partitions_without_remaining_records(self, bench: Bench) -> None:
        for partition in (0, 1):
            bench.append(partition, [b"a", b"b"])
            bench.delete_records(partition, 2)
        source, _ = start(bench, {0: 0, 1: 1})
        assert sorted(found_gaps(source, 2)) == [Gap(bench.topic, 0, 0, 2), Gap(bench.topic, 1, 1, 2)]
        bench.append(0, [b"c"])
        bench.append(1, [b"d"])
        assert sorted(read(source, 2)) == [(0, 2, b"c"), (1, 2, b"d")]

    def test_a_seek_into_a_gap(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"%d" % n for n in range(6)])
        read(source, 6)
        bench.delete_records(0, 4)
        source.seek({0: 1})
        assert read(source, 2) == [(0, 4, b"4"), (0, 5, b"5")]
        assert source.take_gaps() == [Gap(bench.topic, 0, 1, 4)]

    def test_in_a_pause(self, bench: Bench) -> None:
        bench.append(0, [b"a", b"b"])
        bench.delete_records(0, 1)
        bench.pin({0: 0, 1: 0})
        source = bench.source()
        source.join(Listener())
        source.pause()
        assert [len(source.poll(10, POLL_S)) for _ in range(20)] == [0] * 20
        source.resume()
        assert read(source, 1) == [(0, 1, b"b")]
        assert source.take_gaps() == [Gap(bench.topic, 0, 0, 1)]

    def test_an_offset_beyond_the_end_is_an_error_and_no_gap(self, bench: Bench) -> None:
        bench.append(0, [b"a"])
        bench.pin({0: 5, 1: 0})
        source = bench.source()
        source.join(Listener())
        with pytest.raises(NoValidOffset, match=r"partition 0, ends at offset 1, .* up to 5"):
            read(source, 1)


class TestEpochs:
    """With Kafka, committed offsets have the leader epoch of the record before them."""

    def epochs(self, kafka: KafkaServer, bench: KafkaBench) -> dict[int, int | None]:
        with kafka.consumer(group=bench.group) as consumer:
            found = consumer.committed([TopicPartition(bench.topic, p) for p in range(2)], 30)
        return {p.partition: p.leader_epoch for p in found}

    def test_epochs_are_committed_with_the_offsets(self, kafka: KafkaServer, kafka_bench: KafkaBench) -> None:
        source, _ = start(kafka_bench)
        kafka_bench.append(0, [b"a", b"b"])
        read(source, 2)
        source.commit({0: 2}, wait=True)
        assert self.epochs(kafka, kafka_bench) == {0: 0, 1: None}
        source.seek({0: 1})
        source.commit({0: 1}, wait=True)
        assert self.epochs(kafka, kafka_bench) == {0: 0, 1: None}
        assert read(source, 1) == [(0, 1, b"b")]

    def test_a_successor_continues_with_the_committed_epochs(self, kafka_bench: KafkaBench) -> None:
        source, _ = start(kafka_bench)
        kafka_bench.append(0, [b"a", b"b"])
        read(source, 2)
        source.commit({0: 2}, wait=True)
        source.close()
        kafka_bench.append(0, [b"c"])
        successor = kafka_bench.source()
        successor.join(Listener())
        assert read(successor, 1) == [(0, 2, b"c")]
        assert successor.take_gaps() == []

    def test_an_epoch_that_the_broker_does_not_know(self, kafka_bench: KafkaBench) -> None:
        """The offset exists, so reading continues there."""
        kafka_bench.append(0, [b"a", b"b"])
        kafka_bench.pin({0: 1, 1: 0}, epoch=7)
        source = kafka_bench.source()
        source.join(Listener())
        assert read(source, 1) == [(0, 1, b"b")]


class TestTopicMadeAgain:
    def test_while_it_is_read(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"a", b"b"])
        read(source, 2)
        bench.recreate()
        with pytest.raises(NoValidOffset, match=f"{bench.topic} was deleted and created again"):
            found_gaps(source, 1)

    def test_its_position_seems_to_be_a_gap(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"a", b"b"])
        read(source, 2)
        bench.recreate()
        bench.append(0, [b"other"])
        with pytest.raises(NoValidOffset, match="created again"):
            found_gaps(source, 1)

    def test_offsets_that_were_committed_after_the_topic_was_recreated(self, bench: Bench) -> None:
        """The offsets belong to the old topic, whichever member reads them."""
        source, _ = start(bench)
        bench.append(0, [b"a", b"b"])
        read(source, 2)
        bench.recreate()
        bench.append(0, [b"other"] * 3)
        source.commit({0: 2}, wait=True)
        source.close()
        successor = bench.source()
        successor.join(Listener())
        with pytest.raises(NoValidOffset, match="created again"):
            read(successor, 1)

    def test_while_the_group_has_no_members(self, bench: Bench) -> None:
        """Kafka deletes the committed offsets with the topic."""
        bench.pin({0: 0, 1: 0})
        bench.recreate()
        bench.append(0, [b"other"])
        source = bench.source()
        source.join(Listener())
        with pytest.raises(NoValidOffset, match=f"no position on {bench.topic}: the topic was deleted"):
            read(source, 1)

    def test_start_positions_know_their_topic(self, kafka: KafkaServer, kafka_bench: KafkaBench) -> None:
        KafkaClusterAdmin(kafka.access).commit_start_offsets(kafka_bench.group, kafka_bench.topic, "latest")
        with kafka.consumer(group=kafka_bench.group) as consumer:
            pinned = consumer.committed([TopicPartition(kafka_bench.topic, p) for p in range(2)], 30)
        assert {committed_topic_id(p.metadata) for p in pinned} == {
            TopicMonitor(kafka.access, kafka_bench.topic).describe().topic_id
        }
