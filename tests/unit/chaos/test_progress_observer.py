"""The progress monitor, given offsets and timeouts of Kafka."""

import pytest

from tests.chaos.progress_observer import ProgressMonitor


class World:
    """A topic of two partitions with 100 records each, and a clock that the test advances."""

    def __init__(self) -> None:
        self.now = 0.0
        self.monitor = ProgressMonitor(2, lambda: self.now)
        self.committed = {0: 0, 1: 0}

    def poll(self, seconds: int, moving: tuple[int, ...] = ()) -> None:
        for _ in range(seconds):
            self.now += 1
            for partition in moving:
                self.committed[partition] += 1
            self.monitor.record_offsets({0: 100, 1: 100}, self.committed)

    def time_out(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.monitor.record_timeout()


@pytest.fixture
def world() -> World:
    world = World()
    world.poll(1, moving=(0, 1))
    return world


def test_a_stalled_partition_is_detected_beside_one_that_progresses(world: World) -> None:
    world.poll(20, moving=(0,))
    assert world.monitor.longest_s == {0: 1.0, 1: 20.0}
    assert not world.monitor.all_progressed_since(1.0)
    assert world.monitor.stalled_s() == {0: 0.0, 1: 20.0}


def test_time_without_responses_does_not_count_as_stall(world: World) -> None:
    world.poll(3)
    world.time_out(50)
    world.poll(4)
    assert world.monitor.longest_s == {0: 4.0, 1: 4.0}


def test_a_partition_without_unread_records_is_not_stalled(world: World) -> None:
    world.committed = {0: 100, 1: 99}
    world.poll(1)
    world.poll(30)
    assert world.monitor.longest_s == {0: 1.0, 1: 30.0}
    assert world.monitor.stalled_s() == {0: 0.0, 1: 30.0}
