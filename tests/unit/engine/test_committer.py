"""Who commits the positions, and what becomes of those that can't be committed."""

from typing import cast

import pytest

from headwater.engine.committer import Committer
from headwater.engine.delivery import UNLIMITED, Backpressure, Delivery, PendingCommit
from headwater.engine.metrics.metrics_writer import MetricsWriter
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics
from headwater.engine.offset_tracker import OffsetTracker
from headwater.errors import BrokerUnavailable, RedisUnavailable
from headwater.sources.base import Positions
from tests.support.memory.metrics import MemoryMetrics
from tests.support.memory.source import MemoryGroup, MemorySource, MemoryTopic
from tests.unit.engine.faults import Clock


class Running:
    """A PendingCommit that has this outcome when it is done."""

    def __init__(self, *, succeeds: bool) -> None:
        self.is_done = False
        self._succeeds = succeeds

    def done(self) -> bool:
        return self.is_done

    def result(self) -> bool:
        return self._succeeds


class StubDelivery:
    """The part of a delivery that a committer uses.

    Its `commit` returns `pending` or raises `error`.
    """

    commit_interval_s = 1.0

    def __init__(self, pending: PendingCommit | None = None) -> None:
        self.pending = pending
        self.error: Exception | None = None
        self.capacity = UNLIMITED

    def backpressure(self) -> Backpressure:
        return Backpressure(self.capacity)

    def outstanding(self) -> int:
        return 0

    def commit(self, positions: Positions) -> PendingCommit | None:
        if self.error is not None:
            raise self.error
        return self.pending


class StubSource(MemorySource):
    """A source that notes the positions that are committed to it, or raises `error`."""

    def __init__(self) -> None:
        super().__init__(MemoryGroup(MemoryTopic("stream", [[]])))
        self.committed_to_it: list[Positions] = []
        self.error: Exception | None = None

    def commit(self, positions: Positions, *, wait: bool) -> None:
        if self.error is not None:
            raise self.error
        self.committed_to_it.append(positions)


class Scene:
    """A committer, after records of partition 0 were delivered up to offset 5."""

    def __init__(self, pending: PendingCommit | None = None) -> None:
        self.clock = Clock()
        self.source, self.delivery, self.offsets = StubSource(), StubDelivery(pending), OffsetTracker()
        self.committed: list[Positions] = []
        metrics_writer = MetricsWriter(MemoryMetrics(), deployment_id="d1", group="group", writer_id="a")
        self.committer = Committer(
            source=self.source,
            delivery=cast("Delivery", self.delivery),
            offsets=self.offsets,
            metrics=PipelineMetrics(metrics_writer),
            on_committed=self.committed.append,
            clock=self.clock,
        )
        self.offsets.set_starts({0: 0})
        self.offsets.on_produced({0: 5})


def test_the_source_commits_the_positions_that_the_delivery_leaves_to_it() -> None:
    scene = Scene()
    assert scene.committer.start(wait=False)
    assert not scene.committer.is_running
    assert scene.source.committed_to_it == scene.committed == [{0: 5}]
    assert scene.offsets.pending == {}


def test_a_transaction_that_contains_the_positions_is_waited_for() -> None:
    running = Running(succeeds=True)
    scene = Scene(running)
    assert not scene.committer.start(wait=False)
    assert (scene.committer.try_finish(wait=False), scene.committer.is_running) == (False, True)
    scene.offsets.on_produced({0: 7})
    running.is_done = True
    assert (scene.committer.try_finish(wait=False), scene.committer.is_running) == (True, False)
    assert (scene.source.committed_to_it, scene.committed) == ([], [{0: 5}])
    assert scene.offsets.pending == {0: 7}


def test_a_rejected_transaction_commits_nothing() -> None:
    scene = Scene(Running(succeeds=False))
    assert not scene.committer.start(wait=True)
    assert not scene.committer.is_running
    assert scene.committed == []
    assert scene.offsets.reread({}) == {0: 0}


def test_a_retry_that_fails_is_repeated_after_the_interval() -> None:
    scene = Scene()
    scene.delivery.error = RedisUnavailable("Valkey or Redis does not answer.")
    assert scene.committer.is_due()
    scene.committer.retry()
    assert not scene.committer.is_due()
    scene.clock.sleep(scene.delivery.commit_interval_s)
    assert scene.committer.is_due()


@pytest.mark.parametrize("at_source", [True, False])
def test_positions_that_are_not_stored_are_stored_later(at_source: bool) -> None:
    scene = Scene()
    if at_source:
        scene.source.error = BrokerUnavailable("The coordinator is away.")
    else:
        scene.delivery.error = RedisUnavailable("Valkey or Redis does not answer.")
    assert not scene.committer.start(wait=False)
    assert (scene.offsets.pending, scene.committed) == ({}, [])
    scene.source.error = scene.delivery.error = None
    scene.committer.retry()
    assert scene.source.committed_to_it == [{}]


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_retry_waits_for_its_transaction(succeeds: bool) -> None:
    scene = Scene()
    scene.delivery.error = RedisUnavailable("Valkey or Redis does not answer.")
    assert not scene.committer.start(wait=True)
    scene.delivery.error, scene.delivery.pending = None, Running(succeeds=succeeds)
    assert scene.committer.retry(wait=True) is succeeds
    assert not scene.committer.is_running


def test_a_retry_without_waiting_leaves_its_transaction_running() -> None:
    running = Running(succeeds=True)
    scene = Scene(running)
    assert not scene.committer.retry()
    assert scene.committer.is_running
    scene.offsets.on_produced({0: 7})
    running.is_done = True
    assert scene.committer.try_finish(wait=False)
    assert scene.offsets.pending == {0: 7}


def test_a_commit_is_due_by_time_or_when_nothing_more_may_be_read() -> None:
    scene = Scene()
    assert scene.committer.is_due()
    scene.committer.schedule()
    assert not scene.committer.is_due()
    scene.delivery.capacity = 0
    assert scene.committer.is_due()
    scene.delivery.capacity = UNLIMITED
    scene.clock.sleep(StubDelivery.commit_interval_s)
    assert scene.committer.is_due()
