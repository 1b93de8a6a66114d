"""The Pub/Sub source, whose queue has neither partitions nor offsets, on fake servers."""

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from headwater.brokers.base import ACK_DEADLINE_S
from headwater.errors import BrokerUnavailable, NoValidOffset, WorkerError
from headwater.model.natural_key import natural_key
from headwater.model.record import RecordBatch
from headwater.model.worker_spec import PubSubPull
from tests.support.ports import free_port
from tests.support.proxy import Proxy
from tests.support.sources import POLL_S, POLLS, Listener, joined
from tests.support.waiting import until

if TYPE_CHECKING:
    from headwater.sources.pubsub import PubSubSource
    from tests.support.pubsub_server import PubSubServer


class QueueBench:
    """A topic, and a subscription to it."""

    def __init__(self, server: "PubSubServer") -> None:
        from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions

        self.server = server
        self.topic = server.topic()
        self.name = self.topic.rpartition("/")[2]
        self.subscriptions = PubSubSubscriptions(server.access)
        self.subscriptions.ensure(self.name, self.topic, "latest")
        self._cleanup = contextlib.ExitStack()

    def source(self, endpoint: str = "", *, deduplicate: bool = False) -> "PubSubSource":
        from headwater.sources.pubsub import PubSubSource

        path = self.subscriptions.path(self.name)
        pull = PubSubPull(project="project-1", endpoint=endpoint or self.server.address, subscription=path)
        source = PubSubSource(pull, self.topic, deduplicate=deduplicate)
        self._cleanup.callback(source.close)
        return source

    def close(self) -> None:
        self._cleanup.close()


@pytest.fixture(params=["pubsub", pytest.param("pubsub_emulator", marks=pytest.mark.slow)])
def queue(request: pytest.FixtureRequest) -> Iterator[QueueBench]:
    with contextlib.closing(QueueBench(request.getfixturevalue(request.param))) as bench:
        yield bench


@pytest.fixture
def fake_queue(pubsub: "PubSubServer") -> Iterator[QueueBench]:
    with contextlib.closing(QueueBench(pubsub)) as bench:
        yield bench


def ends(batch: RecordBatch) -> dict[int, int]:
    return {p: offset + 1 for p, offset in zip(batch.partitions, batch.offsets, strict=True)}


def read(source: "PubSubSource", count: int, *, commit: bool = True) -> list[RecordBatch]:
    """Read batches until there were `count` records. No more records may come."""
    found: list[RecordBatch] = []
    for _ in range(POLLS):
        if sum(map(len, found)) >= count:
            break
        if batch := source.poll(100, POLL_S):
            found.append(batch)
            if commit:
                source.commit(ends(batch), wait=True)
    assert sum(map(len, found)) == count
    assert not source.poll(100, 0.05)
    return found


def values(batches: list[RecordBatch]) -> list[bytes | None]:
    return [value for batch in batches for value in batch.values]


class TestPoll:
    def test_all_partitions_are_assigned(self, queue: QueueBench) -> None:
        assert joined(queue.source()).calls == [("assigned", [0, 1, 2, 3])]

    def test_columns(self, queue: QueueBench) -> None:
        source = queue.source()
        joined(source)
        before_ms = time.time() * 1000
        attributes = [{"key": "natural"}, {}]
        ids = queue.server.publish(queue.topic, [b"a", b"b"], "ordering", attributes)
        batches = read(source, 2, commit=queue.server.kind == "fake")
        assert values(batches) == [b"a", b"b"]
        assert [key for batch in batches for key in batch.keys] == [b"natural", b"ordering"]
        assert {batch.topic for batch in batches} == {queue.topic}
        assert len({partition for batch in batches for partition in batch.partitions}) == 1
        stamps = [stamp for batch in batches for stamp in batch.timestamps]
        assert all(abs(stamp - before_ms) < 60_000 for stamp in stamps)
        if queue.server.kind != "fake":  # committed messages have no name any more
            assert [name for batch in batches for name in source.source_ids(batch)] == [i.encode() for i in ids]

    def test_order_of_each_ordering_key(self, queue: QueueBench) -> None:
        source = queue.source()
        joined(source)
        for key in range(20):
            queue.server.publish(queue.topic, [b"%d %d" % (key, n) for n in range(4)], f"key-{key}")
        batches = read(source, 80)
        for key in range(20):
            of_key = [value for value in values(batches) if value and value.startswith(b"%d " % key)]
            assert of_key == [b"%d %d" % (key, n) for n in range(4)]
        offsets: dict[int, list[int]] = {}
        for batch in batches:
            for partition, offset in zip(batch.partitions, batch.offsets, strict=True):
                offsets.setdefault(partition, []).append(offset)
        assert all(found == list(range(found[0], found[0] + len(found))) for found in offsets.values())
        assert len(offsets) > 1

    def test_without_ordering_keys(self, queue: QueueBench) -> None:
        source = queue.source()
        joined(source)
        queue.server.publish(queue.topic, [b"%d" % n for n in range(50)])
        assert sorted(map(int, filter(None, values(read(source, 50))))) == list(range(50))


class TestPositions:
    def test_committed_messages_are_not_redelivered(self, queue: QueueBench) -> None:
        source = queue.source()
        joined(source)
        queue.server.publish(queue.topic, [b"a", b"b"])
        read(source, 2)
        source.close()
        successor = queue.source()
        joined(successor)
        queue.server.publish(queue.topic, [b"c"])
        assert values(read(successor, 1)) == [b"c"]

    def test_a_closed_source_releases_its_leases(self, queue: QueueBench) -> None:
        source = queue.source()
        joined(source)
        queue.server.publish(queue.topic, [b"a", b"b", b"c"], "key")
        while not source.poll(100, POLL_S):
            pass
        source.close()
        since = time.monotonic()
        successor = queue.source()
        joined(successor)
        assert values(read(successor, 3)) == [b"a", b"b", b"c"]
        assert time.monotonic() - since < ACK_DEADLINE_S / 2  # without waiting until a lease expires

    def test_seek(self, queue: QueueBench) -> None:
        source = queue.source()
        joined(source)
        queue.server.publish(queue.topic, [b"%d" % n for n in range(10)])
        batches = read(source, 10, commit=False)
        offsets = [position for batch in batches for position in zip(batch.partitions, batch.offsets, strict=True)]
        first = dict(sorted(offsets, reverse=True))
        source.seek(first)
        assert sorted(filter(None, values(read(source, 10)))) == [b"%d" % n for n in range(10)]
        with pytest.raises(WorkerError):
            source.seek(first)

    def test_a_pause(self, queue: QueueBench) -> None:
        source = queue.source()
        joined(source)
        source.pause()
        queue.server.publish(queue.topic, [b"a"])
        assert [len(source.poll(10, POLL_S)) for _ in range(5)] == [0] * 5
        source.resume()
        assert values(read(source, 1)) == [b"a"]


class TestRepeats:
    def test_equal_messages_are_two_records(self, queue: QueueBench) -> None:
        source = queue.source()
        joined(source)
        queue.server.publish(queue.topic, [b"a", b"a"], "ordering", [{"key": "natural"}] * 2)
        assert values(read(source, 2)) == [b"a", b"a"]

    def test_repeats_by_natural_key_can_be_dropped(self, queue: QueueBench) -> None:
        from headwater.sources.pubsub import PubSubSource

        path = queue.subscriptions.path(queue.name)
        pull = PubSubPull(project="project-1", endpoint=queue.server.address, subscription=path)
        key_of = natural_key("base", "log")
        with contextlib.closing(PubSubSource(pull, queue.topic, key_of, deduplicate=True)) as source:
            joined(source)
            record = b'{"block_hash":"0x2","transaction_hash":"0x1","log_index":%d}'
            for number in (1, 1, 2):
                queue.server.publish(queue.topic, [record % number], "ordering")
            batches = read(source, 2)
            keys = [key for batch in batches for key in batch.keys]
            assert len(set(keys)) == 2
            assert all(key and key.startswith(b"base:") for key in keys)

    def test_an_unexpected_error_of_a_thread_is_logged_and_ends_the_worker(self, fake_queue: QueueBench) -> None:
        from headwater.sources.pubsub import PubSubSource

        def fails(_: bytes) -> bytes:
            raise ZeroDivisionError

        path = fake_queue.subscriptions.path(fake_queue.name)
        pull = PubSubPull(project="project-1", endpoint=fake_queue.server.address, subscription=path)
        with contextlib.closing(PubSubSource(pull, fake_queue.topic, fails)) as source:
            joined(source)
            with capture_logs() as lines:
                fake_queue.server.publish(fake_queue.topic, [b"a"], "ordering")
                with pytest.raises(WorkerError, match="its error is in the worker's log"):
                    read(source, 1)
        (line,) = [line for line in lines if line["log_level"] == "error"]
        assert (line["work"], line["exc_info"]) == ("_run_stream", True)

    def test_equal_consecutive_messages_can_be_dropped(self, queue: QueueBench) -> None:
        source = queue.source(deduplicate=True)
        joined(source)
        key = [{"key": "natural"}]
        for value in (b"a", b"a", b"b", b"a"):
            queue.server.publish(queue.topic, [value], "ordering", key)
        assert values(read(source, 3)) == [b"a", b"b", b"a"]

    @pytest.mark.slow
    def test_leases_are_renewed_while_nothing_is_read(self, fake_queue: QueueBench) -> None:
        source, other = fake_queue.source(), fake_queue.source()
        joined(source)
        fake_queue.server.publish(fake_queue.topic, [b"a"])
        read(source, 1, commit=False)
        joined(other)
        end = time.monotonic() + ACK_DEADLINE_S + 5
        while time.monotonic() < end:
            assert not other.poll(10, POLL_S)

    @pytest.mark.slow
    def test_messages_of_a_dead_member_are_redelivered_to_another(self, fake_queue: QueueBench) -> None:
        source = fake_queue.source()
        joined(source)
        fake_queue.server.publish(fake_queue.topic, [b"a", b"b"], "key")
        read(source, 1, commit=False)
        source._pull._modify_ack_deadlines = lambda *_: True  # type: ignore[method-assign]  # a dead member
        source.close()
        successor = fake_queue.source()
        joined(successor)
        assert values(read(successor, 2)) == [b"a", b"b"]


class TestTrouble:
    def test_a_deleted_subscription(self, queue: QueueBench) -> None:
        queue.subscriptions.delete([queue.name])
        source = queue.source()
        source.join(Listener())
        with pytest.raises(NoValidOffset, match="was deleted"):
            source.poll(1, POLL_S)

    def test_the_source_waits_during_an_outage(self, fake_queue: QueueBench) -> None:
        host, port = fake_queue.server.address.split(":")
        link = ("127.0.0.1", free_port()), (host, int(port)), 1
        proxy = Proxy(*link)
        proxy.start()
        source = fake_queue.source("{}:{}".format(*link[0]))
        joined(source)
        fake_queue.server.publish(fake_queue.topic, [b"a"])
        read(source, 1)
        proxy.stop()
        until(lambda: fails(source), what="an error")
        fake_queue.server.publish(fake_queue.topic, [b"b"])
        proxy = Proxy(*link)
        proxy.start()
        try:
            until(lambda: not fails(source), what="the end of the outage")
            assert values(read(source, 1)) == [b"b"]
        finally:
            source.close()
            proxy.stop()


def fails(source: "PubSubSource") -> bool:
    source.pause()
    try:
        source.poll(1, POLL_S)
    except BrokerUnavailable:
        return True
    finally:
        source.resume()
    return False
