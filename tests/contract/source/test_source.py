"""The contract of sources.base.Source."""

import pytest

from headwater.errors import BrokerUnavailable, Fenced, NoValidOffset
from headwater.sources.base import Source
from headwater.sources.kafka import MAX_BATCH_BYTES, KafkaSource
from tests.support.columns import Record, plain
from tests.support.kafka import KafkaServer
from tests.support.sources import POLL_S, POLLS, Bench, KafkaBench, Listener, joined, read, rows, start


def until_owned(one: Source, other: Source, listener: Listener, count: int) -> None:
    """Poll both sources until the listener of the first one owns `count` partitions."""
    for _ in range(POLLS):
        if len(listener.owned) == count:
            break
        for source in (one, other):
            source.poll(1, POLL_S / 2)
    assert len(listener.owned) == count


class TestPoll:
    def test_columns(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"a", None], [b"k", None])
        found: list[Record] = []
        while len(found) < 2:
            batch = source.poll(10, POLL_S)
            assert batch.topic == bench.topic
            found += plain(batch)
        stamps = [stamp for _, _, stamp, *_ in found]
        assert found == [(b"a", b"k", stamps[0], 0, 0, 0), (None, None, stamps[1], 0, 1, 0)]
        assert min(stamps) > 0

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
        with pytest.raises(NoValidOffset, match=bench.topic):
            read(source, 1)

    def test_a_new_partition_starts_at_its_first_record(self, bench: Bench) -> None:
        bench.pin({0: 0, 1: 0})
        bench.grow(3)
        bench.append(2, [b"a", b"b"])
        bench.delete_records(2, 1)
        source = bench.source()
        source.join(Listener())
        assert read(source, 1) == [(2, 1, b"b")]


class TestReadOnly:
    def test_only_records_of_these_partitions_are_read_until_the_next_call(self, bench: Bench) -> None:
        bench.pin({0: 0, 1: 0})
        for partition in (0, 1):
            bench.append(partition, [b"a", b"b"])
        source = bench.source()
        source.restrict_to(())
        joined(source)
        assert [len(source.poll(10, POLL_S)) for _ in range(5)] == [0] * 5
        source.restrict_to({1})
        assert read(source, 2) == [(1, 0, b"a"), (1, 1, b"b")]
        source.restrict_to({0})
        bench.append(1, [b"c"])
        assert read(source, 2) == [(0, 0, b"a"), (0, 1, b"b")]
        source.restrict_to(None)
        assert read(source, 1) == [(1, 2, b"c")]

    def test_a_partition_that_was_excluded_at_first_starts_at_its_offset(self, bench: Bench) -> None:
        bench.pin({0: 1, 1: 0})
        bench.append(0, [b"a", b"b"])
        source = bench.source()
        source.restrict_to(())
        joined(source)
        bench.append(0, [b"c"])
        assert [len(source.poll(10, POLL_S)) for _ in range(5)] == [0] * 5
        assert source.committed() == {0: 1, 1: 0}
        source.restrict_to({0})
        assert read(source, 2) == [(0, 1, b"b"), (0, 2, b"c")]

    def test_records_that_were_fetched_before_come_later(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"%d" % n for n in range(10)])
        assert read(source, 1, max_records=1) == [(0, 0, b"0")]
        source.restrict_to({1})
        assert [len(source.poll(10, POLL_S)) for _ in range(5)] == [0] * 5
        source.restrict_to({0, 1})
        assert read(source, 9) == [(0, n, b"%d" % n) for n in range(1, 10)]

    def test_the_restriction_stays_after_a_seek_and_a_pause(self, bench: Bench) -> None:
        source, _ = start(bench)
        bench.append(0, [b"a"])
        read(source, 1)
        source.restrict_to({1})
        source.pause()
        source.seek({0: 0})
        source.resume()
        assert [len(source.poll(10, POLL_S)) for _ in range(5)] == [0] * 5
        source.restrict_to(None)
        assert read(source, 1) == [(0, 0, b"a")]


class TestPause:
    def test_a_pause_returns_no_records_and_loses_none(self, bench: Bench) -> None:
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
        """Two members join a member that owns both partitions.

        One gets a partition, the other gets an empty assignment.
        """
        first, owner = start(bench)
        bench.append(0, [b"a0", b"a1"])
        bench.append(1, [b"b0", b"b1"])
        read(first, 4)
        owner.before_release = lambda: first.commit({0: 1, 1: 1}, wait=True)
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
    def test_a_pause_also_ends_for_partitions_that_were_revoked(self, bench: Bench) -> None:
        """A partition moves to another member during a pause, and returns after the pause."""
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
            with pytest.raises(BrokerUnavailable, match="rejects the user"):
                read(source, 1)
        finally:
            source.close()

    def test_a_missing_topic(self, kafka: KafkaServer) -> None:
        source = KafkaSource(kafka.access, "no-such-topic", kafka.unique("group"))
        source.join(Listener())
        try:
            with pytest.raises(BrokerUnavailable):
                read(source, 1)
        finally:
            source.close()

    @pytest.mark.slow
    def test_a_leaving_member_releases_its_partitions_immediately(self, kafka_bench: KafkaBench) -> None:
        kafka_bench.pin({0: 0, 1: 0})
        first, second = kafka_bench.member("slot-0"), kafka_bench.member("slot-1")
        stays, leaves = joined(first), joined(second)
        until_owned(first, second, stays, 1)
        until_owned(second, first, leaves, 1)
        second.close(leave_group=True)
        assert kafka_bench.members() == {"slot-0"}
        until_owned(first, first, stays, 2)

    def test_a_restarted_static_member_stays_in_the_group(self, kafka_bench: KafkaBench) -> None:
        kafka_bench.pin({0: 0, 1: 0})
        only = kafka_bench.member("slot-0")
        joined(only)
        only.close()
        assert kafka_bench.members() == {"slot-0"}

    def test_a_second_worker_in_the_same_slot_fences_the_first(self, kafka_bench: KafkaBench) -> None:
        kafka_bench.pin({0: 0, 1: 0})
        first = kafka_bench.member("slot-0")
        joined(first)
        second = kafka_bench.member("slot-0")
        assert joined(second).owned == {0, 1}
        with pytest.raises(Fenced, match="place"):
            read(first, 1)
