"""The detection of a stalled consumer, with a monitor in memory."""

from dataclasses import dataclass, field
from typing import cast

import pytest

from headwater.brokers.topic_monitor import EndOffsets, TopicMonitor
from headwater.sources.stalled_consumer import BLOCKED_AFTER_S, CHECK_INTERVAL_S, MIN_CHECKS, StalledConsumerDetector


@dataclass
class Monitor:
    """Plays the monitor and its requests, which are answered at once."""

    ends: dict[int, EndOffsets] = field(default_factory=dict)

    def request_end_offsets(self, _partitions: object) -> "Monitor":
        return self

    def done(self) -> bool:
        return True

    def result(self) -> dict[int, EndOffsets]:
        return self.ends


class World:
    def __init__(self) -> None:
        self.monitor, self.now = Monitor(), 0.0
        self.detector = StalledConsumerDetector(cast("TopicMonitor", self.monitor), lambda: self.now)

    def check(self, positions: dict[int, int], moved: dict[int, int] | None = None) -> tuple[list[int], int] | None:
        """Send a request and evaluate its response.

        `moved` are the positions at the time of the response.
        """
        assert self.detector.check(positions) is None
        self.detector.on_polled(has_records=False)
        self.now += CHECK_INTERVAL_S
        return self.detector.check(positions if moved is None else moved)


@pytest.fixture
def world() -> World:
    return World()


def test_a_partition_is_stalled_after_enough_checks(world: World) -> None:
    world.monitor.ends = {0: EndOffsets(10, 10), 1: EndOffsets(5, 5)}
    for _ in range(MIN_CHECKS - 1):
        assert world.check({0: 5, 1: 5}) is None
    assert world.check({0: 5, 1: 5}) == ([0], 1)


def test_each_report_requires_twice_as_many_checks_until_a_record_arrives(world: World) -> None:
    world.monitor.ends = {0: EndOffsets(10, 10)}
    reports = [world.check({0: 5}) for _ in range(MIN_CHECKS + 2 * MIN_CHECKS)]
    assert [report for report in reports if report] == [([0], 1), ([0], 2)]
    world.detector.on_polled(has_records=True)
    assert [world.check({0: 6}) for _ in range(MIN_CHECKS)][-1] == ([0], 1)


def test_a_partition_that_moves_is_not_stalled(world: World) -> None:
    world.monitor.ends = {0: EndOffsets(10, 10)}
    assert not any(world.check({0: position}, {0: position + 1}) for position in range(8))


def test_a_full_queue_of_the_consumer_is_no_stall(world: World) -> None:
    world.monitor.ends = {0: EndOffsets(10, 10)}
    for _ in range(2 * MIN_CHECKS):
        world.detector.check({0: 5})
        world.detector.on_polled(has_records=True)
        world.now += CHECK_INTERVAL_S
        assert world.detector.check({0: 5}) is None


def test_an_open_transaction_is_reported_after_a_while(world: World) -> None:
    world.monitor.ends = {0: EndOffsets(5, 9), 1: EndOffsets(5, 5)}
    world.check({0: 5, 1: 5})
    assert world.detector.blocked_by_transaction() == {}
    world.now += BLOCKED_AFTER_S
    world.check({0: 5, 1: 5})
    assert world.detector.blocked_by_transaction() == {0: 5}
    world.monitor.ends = {0: EndOffsets(9, 9)}
    world.check({0: 5})
    assert world.detector.blocked_by_transaction() == {}


def test_removed_partitions_are_forgotten(world: World) -> None:
    world.monitor.ends = {0: EndOffsets(5, 9)}
    world.check({0: 5})
    world.now += BLOCKED_AFTER_S
    world.detector.remove([0])
    assert world.detector.blocked_by_transaction() == {}
