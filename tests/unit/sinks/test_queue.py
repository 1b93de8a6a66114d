"""The queue of a partition: what makes a batch, when it is due, and what is sent again."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headwater.brokers.wire.batch import Producer
from headwater.native import sizes_of
from headwater.sinks.base import Outputs
from headwater.sinks.producer.queue import FULL_BYTES, LINGER_S, MAX_BATCH_BYTES, MAX_ON_THEIR_WAY, Queue, size_of

SENDER = Producer(1, 0)
NOW = 100.0


def outputs(sizes: list[int], first: int = 0, sources: bool = False) -> Outputs:
    values, rows = [b"x" * size for size in sizes], range(first, first + len(sizes))
    keys = [b"%d" % row for row in rows]
    names = keys if sources else []
    return Outputs("t", values, keys, [3] * len(sizes), [1] * len(sizes), names, sizes=sizes_of(values))


def add(queue: Queue, records: Outputs, now: float = NOW) -> None:
    queue.add(records, size_of(records), now)


def send(queue: Queue) -> None:
    queue.seal(queue.take().pack(), SENDER)


class TestBatches:
    @given(st.lists(st.lists(st.sampled_from([0, 10, 5_000, 300_000, 999_000, 1_000_000]), max_size=9), max_size=9))
    def test_all_records_in_order_and_none_too_large(self, calls: list[list[int]]) -> None:
        queue, numbers = Queue("t", 3), itertools.count()
        for sizes in filter(None, calls):
            add(queue, outputs(sizes, first=next(numbers) * 100))
        drafts = []
        while queue.waiting:
            drafts.append(queue.take())
        keys = [key for draft in drafts for portion in draft.portions for key in portion.outputs.keys]
        expected = [outputs(sizes, first=n * 100).keys for n, sizes in enumerate(filter(None, calls))]
        assert keys == [*itertools.chain.from_iterable(expected)]
        assert queue.waiting_bytes == 0
        for draft in drafts:
            assert draft.size <= MAX_BATCH_BYTES or sum(len(p.outputs) for p in draft.portions) == 1

    def test_records_with_other_headers_are_a_batch_of_their_own(self) -> None:
        queue = Queue("t", 3)
        for sources in (False, True, True):
            add(queue, outputs([1], sources=sources))
        assert [len(queue.take().portions), len(queue.take().portions)] == [1, 2]

    def test_numbers_follow_each_other_and_begin_anew(self) -> None:
        queue = Queue("t", 3, sequence=(1 << 31) - 2)
        add(queue, outputs([1, 1, 1]))
        send(queue)
        assert queue.sequence == 1


class TestDue:
    def test_records_wait_for_company(self) -> None:
        queue = Queue("t", 3)
        assert queue.due_at() == float("inf")
        add(queue, outputs([1]))
        assert queue.due_at() == NOW + LINGER_S
        queue.urgent = True
        assert queue.due_at() == 0

    def test_enough_is_full(self) -> None:
        queue = Queue("t", 3)
        add(queue, outputs([FULL_BYTES]))
        assert queue.full

    def test_no_more_than_a_broker_remembers(self) -> None:
        queue = Queue("t", 3)
        for _ in range(MAX_ON_THEIR_WAY):
            add(queue, outputs([1]))
            send(queue)
            queue.sent += 1
        add(queue, outputs([1]))
        queue.urgent = True
        assert queue.due_at() == float("inf")

    def test_what_was_on_its_way_comes_again_first(self) -> None:
        queue = Queue("t", 3)
        add(queue, outputs([1]), now=NOW - 5)
        send(queue)
        queue.sent = queue.unanswered = 1
        add(queue, outputs([1]))
        queue.held = True
        assert queue.due_at() == float("inf")
        queue.again()
        assert (queue.due_at(), queue.sent, queue.oldest()) == (0, 0, NOW - 5)
