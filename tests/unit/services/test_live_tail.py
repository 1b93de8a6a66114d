"""The records of one topic on their way to a client."""

from headwater.model.topic_record import TopicRecord
from headwater.services.live_tail import MAX_PENDING_BYTES, MAX_RECORDS_PER_S, Tail
from headwater.services.viewable_topics import ViewableTopic


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def records(first: int, count: int, size: int = 10) -> list[TopicRecord]:
    return [TopicRecord(0, offset, 0, None, b"1" * size) for offset in range(first, first + count)]


def new_tail(clock: Clock) -> Tail:
    return Tail(ViewableTopic("base/log", None, "stream.base.log"), clock)


def test_records_are_taken_once_and_in_order() -> None:
    tail = new_tail(Clock())
    tail.deliver(records(0, 3), 0)
    tail.deliver(records(3, 1), 0)
    assert [record.offset for record in tail.take().records] == [0, 1, 2, 3]
    assert tail.take() == ([], 0, None)


def test_further_records_of_a_second_are_counted() -> None:
    clock = Clock()
    tail = new_tail(clock)
    tail.deliver(records(0, 150), 0)
    tail.deliver(records(150, 100), 7)
    update = tail.take()
    assert (len(update.records), update.skipped) == (200, 57)
    assert [record.offset for record in update.records] == list(range(200))


def test_no_second_has_more_records_than_allowed_whatever_arrives() -> None:
    clock, shown, skipped = Clock(), [], 0
    tail = new_tail(clock)
    for step in range(400):
        clock.now += 0.013
        tail.deliver(records(step * 20, 20), 1)
        update = tail.take()
        shown += [clock.now] * len(update.records)
        skipped += update.skipped
    assert len(shown) + skipped == 400 * 21
    for start in shown:
        assert sum(start <= time < start + 1 for time in shown) <= MAX_RECORDS_PER_S
    assert len(shown) >= 4 * MAX_RECORDS_PER_S


def test_a_client_that_does_not_read_is_no_reason_to_keep_more() -> None:
    clock = Clock()
    tail = new_tail(clock)
    for _ in range(10):
        tail.deliver(records(0, 200), 0)
        clock.now += 2
    update = tail.take()
    assert (len(update.records), update.skipped) == (200, 1800)


def test_the_bytes_that_wait_are_limited_but_a_large_record_fits() -> None:
    tail = new_tail(Clock())
    tail.deliver(records(0, 3, MAX_PENDING_BYTES + 1), 0)
    update = tail.take()
    assert (len(update.records), update.skipped) == (1, 2)
    tail.deliver(records(0, 5, MAX_PENDING_BYTES // 2), 0)
    assert len(tail.take().records) == 2


def test_the_first_end_counts_and_records_before_it_are_kept() -> None:
    tail = new_tail(Clock())
    tail.deliver(records(0, 1), 0)
    tail.end("topic_removed")
    tail.end("broker_unavailable")
    update = tail.take()
    assert (len(update.records), update.end) == (1, "topic_removed")


def test_the_time_of_the_last_record() -> None:
    clock = Clock()
    tail = new_tail(clock)
    clock.now += 5
    assert tail.last_record_at == 1000
    tail.deliver(records(0, 1), 0)
    assert tail.last_record_at == 1005
