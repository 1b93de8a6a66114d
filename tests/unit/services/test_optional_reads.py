"""Optional reads: an unavailable store blocks only their own threads."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest
import structlog

from headwater.errors import BrokerUnavailable
from headwater.services.optional_reads import THREADS, UNAVAILABLE_FOR_S, OptionalReads

WITHIN_S = 10


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def away() -> int:
    raise BrokerUnavailable("Kafka does not answer.")


Make = Callable[..., OptionalReads[int]]


@pytest.fixture
def make() -> Iterator[Make]:
    """Return a function that creates reads, which are closed after the test."""
    with contextlib.ExitStack() as cleanup:

        def made(clock: Clock | None = None) -> OptionalReads[int]:
            return cleanup.enter_context(contextlib.closing(OptionalReads[int]("lag", clock or Clock())))

        yield made


def test_reads_of_one_thing_share_a_thread(make: Make) -> None:
    reads, go, begun = make(), threading.Event(), []

    def read() -> int:
        begun.append(True)
        go.wait(WITHIN_S)
        return 7

    asked = [reads.submit("group", read) for _ in range(100)]
    assert len(set(map(id, asked))) == 1
    go.set()
    assert asked[0].result(WITHIN_S) == 7
    assert len(begun) == 1
    assert reads.submit("group", lambda: 8).result(WITHIN_S) == 8


def test_many_things_wait_in_a_few_threads(make: Make) -> None:
    reads, go = make(), threading.Event()
    before = threading.active_count()
    asked: list[Future[int | None]] = [
        reads.submit(str(number), lambda: int(go.wait(WITHIN_S))) for number in range(10 * THREADS)
    ]
    assert threading.active_count() - before <= THREADS
    go.set()
    assert [each.result(WITHIN_S) for each in asked] == [1] * len(asked)


def test_no_read_starts_while_the_store_is_unavailable(make: Make) -> None:
    clock = Clock()
    reads = make(clock)
    assert reads.submit("a", away).result(WITHIN_S) is None
    assert reads.submit("b", lambda: 7).result(WITHIN_S) is None
    clock.now += UNAVAILABLE_FOR_S
    assert reads.submit("b", lambda: 7).result(WITHIN_S) == 7


def test_an_unexpected_error_is_logged_and_leaves_the_value_out(make: Make) -> None:
    def fail() -> int:
        raise ValueError("a fault")

    with structlog.testing.capture_logs() as logs:
        assert make().submit("a", fail).result(WITHIN_S) is None
    assert [entry["log_level"] for entry in logs] == ["error"]


def test_close_ends_the_threads(make: Make) -> None:
    before = set(threading.enumerate())
    reads = make()
    assert reads.submit("group", lambda: 7).result(WITHIN_S) == 7
    threads = set(threading.enumerate()) - before
    assert threads
    reads.close()
    for thread in threads:
        thread.join(WITHIN_S)
        assert not thread.is_alive()
