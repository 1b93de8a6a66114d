"""The queue of a partition: what makes a batch, when it is due, and what is sent again."""

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.brokers.wire.batch import Producer, seal
from headwater.sinks.base import Outputs
from headwater.sinks.producer.queue import (
    FULL_BYTES,
    LINGER_S,
    MAX_BATCH_BYTES,
    MAX_ON_THEIR_WAY,
    TRICKLE_BYTES,
    TRICKLE_LINGER_S,
    Queue,
    Waiting,
)
from tests.support.columns import numbered, numbers
from tests.support.kafka_batches import Read, read

SENDER = Producer(1, 0)
NOW = 100.0


def outputs(sizes: Sequence[int | None], first: int = 0, kind: str = "") -> Outputs:
    """Values of these sizes, with numbers as keys, None for every fifth. kind: whether they tell their "sources", or
    their "origin".
    """
    rows = range(first, first + len(sizes))
    values = [None if size is None else b"x" * size for size in sizes]
    keys = [b"%d" % row if row % 5 else None for row in rows]
    names = [b"source %d" % row for row in rows] if kind == "sources" else []
    made = Outputs.of("t", values, keys, [3] * len(sizes), [row + 1 for row in rows], names, [("h", b"1")])
    if kind != "origin":
        return made
    return replace(made, origin="s", offsets=numbers(row << 40 for row in rows), indexes=numbers(rows))


def add(queue: Queue, records: Outputs, now: float = NOW, rows: Sequence[int] | None = None) -> None:
    queue.add(Waiting.of(records, numbered(range(len(records)) if rows is None else rows), now))


def send(queue: Queue) -> None:
    queue.seal(queue.take().pack(), SENDER)


def packed(queue: Queue) -> list[Read]:
    return read(seal(queue.take().pack().packed, SENDER, 0))


SIZES = st.none() | st.sampled_from([0, 10, 5_000, 300_000, 999_000, 1_000_000])


class TestBatches:
    @given(
        st.lists(st.lists(st.tuples(SIZES, st.booleans()), max_size=9), max_size=9),
        st.sampled_from(["", "sources", "origin"]),
    )
    def test_all_records_in_order_and_none_too_large(
        self, calls: list[list[tuple[int | None, bool]]], kind: str
    ) -> None:
        queue, expected = Queue("t", 3), []
        for number, call in enumerate(calls):
            rows = [row for row, (_, goes) in enumerate(call) if goes]
            if rows:
                add(queue, outputs([size for size, _ in call], first=number * 100, kind=kind), rows=rows)
            expected += [number * 100 + row + 1 for row in rows]
        drafts = []
        waiting = [each for each in queue.waiting if isinstance(each, Waiting)]
        assert queue.waiting_bytes == sum(each.row_sizes().sum() for each in waiting)
        while queue.waiting:
            drafts.append(queue.take())
        portions = [portion for draft in drafts for portion in draft.portions]
        assert [portion.outputs.timestamps[row] for portion in portions for row in portion.rows] == expected
        assert queue.waiting_bytes == 0
        for draft in drafts:
            assert draft.size == sum(portion.row_sizes().sum() for portion in draft.portions)
            assert draft.size <= MAX_BATCH_BYTES or sum(len(portion.rows) for portion in draft.portions) == 1

    @pytest.mark.parametrize("kind", ["", "sources", "origin"])
    def test_what_is_packed(self, kind: str) -> None:
        queue, expected = Queue("t", 3), []
        for call, rows in [(outputs([7, None, 0, 5000], 0, kind), [1, 3]), (outputs([1, None, 9], 9, kind), [0, 1, 2])]:
            add(queue, call, rows=rows)
            expected += [(call.values[row], call.keys[row], call.timestamps[row], call.headers_of(row)) for row in rows]
        assert packed(queue) == expected

    def test_one_call_in_parts_is_packed_once(self) -> None:
        queue, records = Queue("t", 3), outputs([400_000] * 5, kind="origin")
        add(queue, records, rows=[4, 0, 1, 3])
        assert [[*portion.rows] for _ in range(2) for portion in queue.take().portions] == [[4, 0], [1, 3]]
        assert not queue.waiting

    def test_a_record_without_a_time_is_of_the_present(self) -> None:
        queue, before = Queue("t", 3), time.time_ns() // 1_000_000
        add(queue, replace(outputs([1, 1]), timestamps=numbers([0, 7])))
        stamps = [stamp for _, _, stamp, _ in packed(queue)]
        assert before <= stamps[0] <= time.time_ns() // 1_000_000
        assert stamps[1] == 7

    def test_records_with_other_headers_are_a_batch_of_their_own(self) -> None:
        queue = Queue("t", 3)
        for kind in ("", "sources", "sources", "origin", "origin"):
            add(queue, outputs([1], kind=kind))
        add(queue, replace(outputs([1], kind="origin"), headers=[("h", b"2")]))
        assert [len(queue.take().portions) for _ in range(4)] == [1, 2, 2, 1]

    def test_numbers_follow_each_other_and_begin_anew(self) -> None:
        queue = Queue("t", 3, sequence=(1 << 31) - 3)
        add(queue, outputs([1, 1, 1, 1, 1]), rows=[0, 2, 3, 4])
        send(queue)
        assert queue.sequence == 1


class TestDue:
    def test_records_wait_for_company(self) -> None:
        queue = Queue("t", 3)
        assert queue.due_at() == float("inf")
        add(queue, outputs([1]))
        assert queue.due_at() == NOW + TRICKLE_LINGER_S
        add(queue, outputs([TRICKLE_BYTES]))
        assert queue.due_at() == NOW + LINGER_S
        queue.urgent = True
        assert queue.due_at() == 0

    def test_enough_is_full(self) -> None:
        queue = Queue("t", 3)
        add(queue, outputs([FULL_BYTES]))
        assert queue.full

    def test_one_alone_until_the_broker_knows_the_producer(self) -> None:
        queue = Queue("t", 3)
        for _ in range(2):
            add(queue, outputs([1]))
            send(queue)
        assert queue.due_at() == 0
        queue.sent = 1
        assert queue.due_at() == float("inf")
        queue.known = True
        assert queue.due_at() == 0

    def test_no_more_than_a_broker_remembers(self) -> None:
        queue = Queue("t", 3, known=True)
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
