"""The fetcher while its connections are cut, whatever is on its way: each record once, in order."""

import contextlib
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator

import pytest

from headwater.errors import BrokerUnavailable
from headwater.sources.fetcher import Fetcher, Stop
from tests.support.kafka import KafkaServer

RECORDS, PARTITIONS = 30_000, 3


def values_of(partition: int) -> list[bytes]:
    return [b"%d/%d " % (partition, number) + b"x" * (number % 400) for number in range(RECORDS // PARTITIONS)]


def filled(kafka: KafkaServer) -> str:
    topic = kafka.create_topic(kafka.unique("cut"), PARTITIONS)
    for partition in range(PARTITIONS):
        kafka.produce(topic, values_of(partition), partition=partition)
    return topic


def cut(fetcher: Fetcher, stop: threading.Event, draw: random.Random) -> None:
    while not stop.wait(draw.random() / 50):
        for lane in [*fetcher._scout.lanes.values()]:
            lane.disconnect()


def take(fetcher: Fetcher, count: int, draw: random.Random) -> dict[int, list[tuple[int, bytes | None]]]:
    """So many records, in portions of any size."""
    found: defaultdict[int, list[tuple[int, bytes | None]]] = defaultdict(list)
    deadline = time.monotonic() + 120
    while sum(map(len, found.values())) < count and time.monotonic() < deadline:
        batch = fetcher.take(draw.choice([1, 7, 2000]), draw.choice([100, 1 << 20]), 0.1)
        for partition, offset, value in zip(batch.partitions, batch.offsets, batch.values, strict=True):
            found[partition].append((offset, value))
    return found


def test_connections_that_break_all_the_time(kafka: KafkaServer) -> None:
    topic, stop, draw = filled(kafka), threading.Event(), random.Random(5)
    with contextlib.closing(Fetcher(kafka.access, topic)) as fetcher:
        cutter = threading.Thread(target=cut, args=(fetcher, stop, draw))
        cutter.start()
        try:
            fetcher.begin(dict.fromkeys(range(PARTITIONS), 0))
            found = take(fetcher, RECORDS, draw)
        finally:
            stop.set()
            cutter.join()
    for partition in range(PARTITIONS):
        assert found[partition] == [*enumerate(values_of(partition))]


def test_what_was_fetched_before_a_seek_is_forgotten(kafka: KafkaServer) -> None:
    topic, draw = filled(kafka), random.Random(6)
    expected = [*enumerate(values_of(0))]
    with contextlib.closing(Fetcher(kafka.access, topic)) as fetcher:
        fetcher.begin({0: 0, 1: 0})
        for start in (9_000, 17, 5_000):
            take(fetcher, draw.randrange(200), draw)
            fetcher.end([1])
            fetcher.begin({0: start})
            assert take(fetcher, 1_000, draw)[0][:1_000] == expected[start : start + 1_000]
            fetcher.begin({1: start})


def test_an_offset_that_is_not_there(kafka: KafkaServer) -> None:
    topic = filled(kafka)
    with contextlib.closing(Fetcher(kafka.access, topic)) as fetcher:
        fetcher.begin({0: 9_990, 1: 20_000})
        assert [offset for offset, _ in take(fetcher, 10, random.Random(1))[0]] == [*range(9_990, 10_000)]
        deadline = time.monotonic() + 10
        while not fetcher.stops() and time.monotonic() < deadline:
            fetcher.take(1, 1, 0.1)
        assert fetcher.stops() == {1: Stop(20_000)}


@contextlib.contextmanager
def damaged(kafka: KafkaServer, topic: str, partition: int) -> Iterator[None]:
    """The partition's last record has a wrong byte on the broker's disk."""
    (segment,) = kafka.data_dir.rglob(f"{topic}-{partition}/*.log")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:])
    yield
    segment.write_bytes(whole)


def test_a_partition_that_can_not_be_read_holds_up_no_other(kafka: KafkaServer) -> None:
    topic, draw = filled(kafka), random.Random(7)
    each = RECORDS // PARTITIONS
    with contextlib.closing(Fetcher(kafka.access, topic)) as fetcher:
        with damaged(kafka, topic, 1):
            fetcher.begin({0: 0, 1: each - 1})
            assert len(take(fetcher, each, draw)[0]) == each
            deadline = time.monotonic() + 30
            while not fetcher.troubles() and time.monotonic() < deadline:
                assert not fetcher.take(10, 1000, 0.1)
            (why,) = fetcher.troubles()
            assert f"records of {topic}, partition 1, that can't be read" in why
            kafka.produce(topic, [b"more"], partition=0)
            assert [*take(fetcher, 1, draw)] == [0]
            fetcher.end([0])
            with pytest.raises(BrokerUnavailable, match="partition 1, that can't be read"):
                fetcher.take(10, 1000, 30)
        while fetcher.troubles() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert take(fetcher, 1, draw)[1][0][0] == each - 1


def test_it_ends_while_the_broker_waits_for_records(kafka: KafkaServer) -> None:
    topic = kafka.create_topic(kafka.unique("quiet"), 1)
    fetcher = Fetcher(kafka.access, topic)
    fetcher.begin({0: 0})
    assert not fetcher.take(10, 1000, 0.3)
    fetcher.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fetcher")]
