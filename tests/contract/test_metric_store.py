"""The contract of MetricStore."""

import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from headwater.errors import RedisUnavailable
from headwater.model.metric import MAX_LETTER_TOTALS, TIME_RANGES, CountType, Histogram, MetricsDelta, PartitionCounts
from headwater.stores.protocols.metrics import MetricStore
from headwater.stores.redis.client import connect
from headwater.stores.redis.metrics import RedisMetrics
from tests.support.memory.metrics import MemoryMetrics

HOUR, DAY, WEEK = TIME_RANGES
NOW = int(time.time())
MINUTE = NOW // 60 * 60
ID, GROUP = "d1", "wrk-d1.1"


@pytest.fixture(params=["memory", "valkey_url", "cluster_url"])
def store(request: pytest.FixtureRequest) -> Iterator[MetricStore]:
    if request.param == "memory":
        yield MemoryMetrics()
        return
    with closing(connect(request.getfixturevalue(request.param))) as client:
        yield RedisMetrics(client)


def span(end: int, **counts: int) -> PartitionCounts:
    typed: Any = counts
    return PartitionCounts(end, typed)


def received(end: int, count: int) -> PartitionCounts:
    return span(end, messages_received=count)


def measured(spans: dict[int, PartitionCounts], minute: int = MINUTE, **times: list[float]) -> MetricsDelta:
    histograms: dict[Any, Histogram] = {}
    for name, values in times.items():
        for value in values:
            histograms.setdefault(name, Histogram()).add(value)
    return MetricsDelta(minute, spans, histograms)


def total(store: MetricStore, what: CountType = "messages_received", deployment_id: str = ID) -> int:
    return sum(one.counts[what] for one in store.read(deployment_id, HOUR, NOW).values())


def test_nothing(store: MetricStore) -> None:
    assert store.read(ID, HOUR, NOW) == {}
    assert store.last_progress(ID) is None
    store.drop(ID)


def test_counts_and_times_add_up_at_each_resolution(store: MetricStore) -> None:
    earlier = MINUTE - 60
    store.write(ID, GROUP, "a", measured({0: span(7, messages_received=5, messages_sent=2)}, earlier, data_age=[1.0]))
    store.write(ID, GROUP, "a", measured({0: received(9, 2), 1: received(3, 3)}, total_latency=[5.0, 500.0, 5.0]))
    store.write(ID, GROUP, "a", measured({0: received(10, 1)}, total_latency=[5.0]))
    found = store.read(ID, HOUR, NOW)
    assert list(found) == [earlier, MINUTE]
    assert dict(found[earlier].counts) == {"messages_received": 5, "messages_sent": 2}
    assert dict(found[MINUTE].counts) == {"messages_received": 6}
    assert found[earlier].times.keys() == {"data_age"}
    assert sorted(found[MINUTE].times["total_latency"].values()) == [1, 3]
    assert found[MINUTE].times["total_latency"].percentile(50) == pytest.approx(5, rel=0.02)
    for time_range in (DAY, WEEK):
        intervals = store.read(ID, time_range, NOW)
        assert all(start % time_range.resolution_s == 0 for start in intervals)
        assert sum(one.counts["messages_received"] for one in intervals.values()) == 11
        assert (
            sum(one.times["total_latency"].total() for one in intervals.values() if "total_latency" in one.times) == 4
        )


def test_transform_metrics_add_up_at_each_resolution(store: MetricStore) -> None:
    counts = {"a/b": 2, "a/none": 0}
    for end in (5, 9):
        delta = MetricsDelta(MINUTE, {0: PartitionCounts(end, {}, counts)}, {}, {"a/time": Histogram({3: 1, 8: 2})})
        assert store.write(ID, GROUP, "a", delta) == frozenset()
    for time_range in TIME_RANGES:
        (interval,) = store.read(ID, time_range, NOW).values()
        assert {name: count for name, count in interval.transform_counts.items() if count} == {"a/b": 4}
        assert interval.transform_times == {"a/time": {3: 2, 8: 4}}
        assert not interval.counts.total()
        assert not interval.times


def test_letter_totals_add_up_once_and_are_dropped(store: MetricStore) -> None:
    store.acquire_partitions(ID, GROUP, "a", [0, 1])
    first = MetricsDelta(MINUTE - 86_400, {0: PartitionCounts(5, {}, {}, {"x": 1}), 1: PartitionCounts(2, {})}, {})
    second = MetricsDelta(MINUTE, {1: PartitionCounts(9, {"messages_received": 2}, {"a/b": 1}, {"x": 2, "y": 7})}, {})
    for write in (first, first, second, second):
        assert store.write(ID, GROUP, "a", write) == frozenset()
    store.acquire_partitions(ID, GROUP, "b", [0])
    assert store.write(ID, GROUP, "a", MetricsDelta(MINUTE, {0: PartitionCounts(6, {}, {}, {"x": 1})}, {})) == {0}
    assert counted(store) == {"x": 3, "y": 7}
    assert store.letter_totals("another") == {}
    assert (total(store), store.read(ID, HOUR, NOW)[MINUTE].transform_counts["a/b"]) == (2, 1)
    store.drop(ID)
    assert store.letter_totals(ID) == {}


def test_more_names_than_one_command_may_have(store: MetricStore) -> None:
    names = {f"transform/{number}/received": number + 1 for number in range(900)}
    store.write(ID, GROUP, "a", MetricsDelta(MINUTE, {0: PartitionCounts(1, {}, names, names)}, {}))
    assert store.read(ID, HOUR, NOW)[MINUTE].transform_counts == names
    assert counted(store) == names


def test_the_times_of_letter_totals(store: MetricStore) -> None:
    for end in (1, 2):
        store.write(ID, GROUP, "a", MetricsDelta(MINUTE, {0: PartitionCounts(end, {}, {}, {"x": 1})}, {}))
        total_of_x = store.letter_totals(ID)["x"]
        assert total_of_x.first <= total_of_x.last
        assert total_of_x.last > MINUTE - 86_400


def test_too_many_letter_totals(store: MetricStore) -> None:
    names = {f"letters/{number}": 1 for number in range(MAX_LETTER_TOTALS)}
    store.write(ID, GROUP, "a", MetricsDelta(MINUTE, {0: PartitionCounts(1, {}, {}, names)}, {}))
    more = {"letters/0": 1, "letters/x": 2, "letters/y": 3}
    store.write(ID, GROUP, "a", MetricsDelta(MINUTE, {0: PartitionCounts(2, {}, {}, more)}, {}))
    assert counted(store) == names | {"letters/0": 2, "letters/other": 5}


def counted(store: MetricStore) -> dict[str, int]:
    return {name: total_of_name.count for name, total_of_name in store.letter_totals(ID).items()}


def test_only_the_range_is_read(store: MetricStore) -> None:
    for age in (8 * 24 * 3600, 25 * 3600, 60 * 60, 59 * 60, 0):
        store.write(ID, GROUP, "a", measured({0: received(10**9 - age, 1)}, MINUTE - age))
    counted = [store.read(ID, time_range, NOW).values() for time_range in TIME_RANGES]
    assert [sum(one.counts["messages_received"] for one in intervals) for intervals in counted] == [2, 3, 4]


def test_a_new_owner_gets_the_marks_and_the_old_owner_is_rejected(store: MetricStore) -> None:
    assert store.acquire_partitions(ID, GROUP, "a", [0, 1]) == {}
    assert store.write(ID, GROUP, "a", measured({0: received(5, 5), 1: received(8, 8)})) == frozenset()
    assert store.acquire_partitions(ID, GROUP, "b", [0, 2]) == {0: 5}
    refused = store.write(ID, GROUP, "a", measured({0: received(7, 2), 1: received(9, 1)}, total_latency=[1.0]))
    assert refused == {0}
    assert total(store) == 14
    assert store.write(ID, GROUP, "b", measured({0: received(6, 1)})) == frozenset()
    assert total(store) == 15


def test_a_rejected_write_adds_no_times(store: MetricStore) -> None:
    store.acquire_partitions(ID, GROUP, "b", [0])
    store.write(ID, GROUP, "a", measured({0: received(7, 2)}, total_latency=[1.0]))
    assert store.read(ID, HOUR, NOW) == {}


def test_times_alone(store: MetricStore) -> None:
    store.write(ID, GROUP, "a", measured({}, total_latency=[1.0, 2.0]))
    assert store.read(ID, HOUR, NOW)[MINUTE].times["total_latency"].total() == 2


def test_a_write_sent_twice_counts_once(store: MetricStore) -> None:
    store.acquire_partitions(ID, GROUP, "a", [0])
    once = measured({0: received(7, 2)}, total_latency=[1.0])
    assert [store.write(ID, GROUP, "a", once) for _ in range(2)] == [frozenset(), frozenset()]
    found = store.read(ID, HOUR, NOW)[MINUTE]
    assert (found.counts["messages_received"], found.times["total_latency"].total()) == (2, 1)


def test_a_partition_without_owner_can_be_counted(store: MetricStore) -> None:
    assert store.write(ID, GROUP, "a", measured({0: received(7, 2)})) == frozenset()
    assert store.write(ID, GROUP, "b", measured({0: received(8, 1)})) == {0}


def test_marks_are_of_one_group(store: MetricStore) -> None:
    store.write(ID, GROUP, "a", measured({0: received(7, 2)}))
    assert store.acquire_partitions(ID, "wrk-d1.2", "b", [0]) == {}
    assert store.write(ID, "wrk-d1.2", "b", measured({0: received(3, 3)})) == frozenset()
    assert total(store) == 5


def test_progress(store: MetricStore) -> None:
    store.acquire_partitions(ID, GROUP, "a", [0])
    store.write(ID, GROUP, "a", measured({}, total_latency=[1.0]))
    assert store.last_progress(ID) is None
    store.write(ID, GROUP, "a", measured({0: received(7, 2)}))
    at = store.last_progress(ID)
    assert at is not None
    assert MINUTE <= at <= time.time()


def test_deployments_are_independent_and_dropped_completely(store: MetricStore) -> None:
    for deployment_id in ("d1", "d2"):
        store.write(deployment_id, GROUP, "a", measured({0: received(7, 2)}, data_age=[1.0]))
    store.drop("d1")
    assert (total(store, deployment_id="d1"), total(store, deployment_id="d2")) == (0, 2)
    assert store.last_progress("d1") is None
    assert store.acquire_partitions("d1", GROUP, "b", [0]) == {}


def test_any_order_of_owners_counts_each_position_once(store: MetricStore) -> None:
    """Each record is counted once, whatever the owners of the partition do.

    Owners acquire the partition, write late, repeat writes and lose the partition.
    """
    draw = random.Random(3)
    counted = 0
    for owner in "abcdefgh":
        at = store.acquire_partitions(ID, GROUP, owner, [0]).get(0, 0)
        assert at == counted
        for end in range(at + 1, at + draw.randint(2, 5)):
            write = measured({0: received(end, 1)})
            for _ in range(draw.randint(1, 3)):
                assert store.write(ID, GROUP, owner, write) == frozenset()
            counted = end
        for late in "abcdefgh".partition(owner)[0]:
            assert store.write(ID, GROUP, late, measured({0: received(counted + 9, 9)})) == {0}
    assert total(store) == counted


def test_all_keys_expire_share_a_slot_and_are_dropped(valkey_url: str) -> None:
    with closing(connect(valkey_url)) as client, redis.Redis.from_url(valkey_url) as server:
        store = RedisMetrics(client)
        store.acquire_partitions(ID, GROUP, "a", [0])
        store.write(ID, GROUP, "a", measured({0: received(7, 2)}, data_age=[1.0]))
        keys = list(server.keys("*"))
        assert len(keys) == 4
        assert all(key.startswith(b"{dm:d1}:") for key in keys)
        ages = [server.ttl(key) for key in sorted(keys)]
        assert all(0 < age < 9 * 24 * 3600 for age in ages)
        store.drop(ID)
        assert server.dbsize() == 0


def test_an_unavailable_server(tmp_path: Path) -> None:
    with closing(connect(f"unix://{tmp_path}/none.sock")) as client:
        store = RedisMetrics(client)
        with pytest.raises(RedisUnavailable):
            store.acquire_partitions(ID, GROUP, "a", [0])
        with pytest.raises(RedisUnavailable):
            store.read(ID, HOUR, NOW)


class TestRestartCounting:
    def test_records_that_are_read_again_count_again(self, store: MetricStore) -> None:
        store.acquire_partitions(ID, GROUP, "a", [0, 1])
        store.write(ID, GROUP, "a", measured({0: received(10, 10), 1: received(5, 5)}))
        store.restart_counting(ID, GROUP, {0: 4})
        assert store.acquire_partitions(ID, GROUP, "b", [0, 1]) == {0: 4, 1: 5}
        assert store.write(ID, GROUP, "b", measured({0: received(10, 6), 1: received(5, 5)})) == frozenset()
        assert total(store) == 21

    def test_a_late_write_of_an_earlier_writer_is_rejected(self, store: MetricStore) -> None:
        store.acquire_partitions(ID, GROUP, "a", [0])
        store.restart_counting(ID, GROUP, {0: 4})
        assert store.write(ID, GROUP, "a", measured({0: received(10, 6)})) == {0}
        assert total(store) == 0

    def test_a_position_that_moves_forward(self, store: MetricStore) -> None:
        store.write(ID, GROUP, "a", measured({0: received(10, 10)}))
        store.restart_counting(ID, GROUP, {0: 100})
        assert store.acquire_partitions(ID, GROUP, "b", [0]) == {0: 100}
        store.write(ID, GROUP, "b", measured({0: received(101, 1)}))
        assert total(store) == 11


class TestForgetGroup:
    def test_other_groups_stay(self, store: MetricStore) -> None:
        for group in (GROUP, f"{GROUP}0"):
            store.acquire_partitions(ID, group, "a", [0, 1])
            store.write(ID, group, "a", measured({0: received(10, 10), 1: received(5, 5)}))
        store.drop_group(ID, GROUP)
        assert store.acquire_partitions(ID, GROUP, "b", [0, 1]) == {}
        assert store.acquire_partitions(ID, f"{GROUP}0", "b", [0, 1]) == {0: 10, 1: 5}
        assert total(store) == 30

    def test_an_unknown_group(self, store: MetricStore) -> None:
        store.drop_group(ID, GROUP)


class TestRecent:
    def test_nothing(self, store: MetricStore) -> None:
        assert store.recent([], NOW) == []
        (recent,) = store.recent([ID], NOW)
        assert (list(recent.received), list(recent.sent), list(recent.errors)) == ([0] * 60, [0] * 60, [0] * 60)
        assert recent.data_age_ms is None

    def test_the_counts_of_each_minute_and_the_mean_age(self, store: MetricStore) -> None:
        first = MINUTE - 59 * 60
        for minute, end in ((first - 60, 1), (first, 2), (MINUTE, 3)):
            counts = span(end, messages_received=10 * end, messages_sent=end, processor_error=1, output_error=2)
            store.write(ID, GROUP, "a", measured({0: counts}, minute, data_age=[100.0 * end], total_latency=[5.0]))
        store.write("d2", GROUP, "a", measured({0: received(1, 7)}))
        one, other = store.recent([ID, "d2"], NOW)
        assert list(one.received) == [20, *[0] * 58, 30]
        assert list(one.sent) == [2, *[0] * 58, 3]
        assert list(one.errors) == [3, *[0] * 58, 3]
        assert one.data_age_ms == pytest.approx(250, rel=0.03)
        assert (sum(other.received), other.data_age_ms) == (7, None)

    def test_the_mean_age_is_no_transform_metric(self, store: MetricStore) -> None:
        store.write(ID, GROUP, "a", measured({0: received(1, 7)}, data_age=[5.0]))
        assert not store.read(ID, HOUR, NOW)[MINUTE].transform_counts

    def test_a_dropped_deployment(self, store: MetricStore) -> None:
        store.write(ID, GROUP, "a", measured({0: received(1, 7)}))
        store.drop(ID)
        assert not any(store.recent([ID], NOW)[0].received)
