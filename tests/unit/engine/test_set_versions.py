"""The versions of sets that a worker reports."""

import time
from collections.abc import Sequence

import pytest

from headwater.engine import set_versions as module
from headwater.engine.heartbeat import HeartbeatReporter
from headwater.engine.set_versions import DatasetTracker, SetVersionReader
from headwater.errors import RedisUnavailable
from headwater.model.value_sets import SetId, SetVersion, dataset_set_id, filter_set_id
from tests.support.memory.sets import MemorySetStore
from tests.support.waiting import until

FILTER, DATASET = filter_set_id("c", "t"), dataset_set_id("d")


class Store(MemorySetStore):
    """A set store that can be unavailable, or fail unexpectedly."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None

    def versions(self, set_ids: Sequence[SetId]) -> Sequence[SetVersion]:
        if self.error is not None:
            raise self.error
        return super().versions(set_ids)


class Scene:
    """The set store of a worker, and the reader of its versions."""

    def __init__(self, filters: Sequence[SetId] = (FILTER,)) -> None:
        self.store = Store()
        self.datasets = DatasetTracker(self.store)
        self.reader = SetVersionReader(self.store, filters, self.datasets)

    def numbers(self) -> dict[str, int]:
        self.reader.read()
        return {name: version.number for name, version in (self.reader.latest() or {}).items()}


def test_filters_are_reported_from_the_start_and_datasets_after_a_lookup() -> None:
    scene = Scene()
    assert scene.reader.latest() is None
    assert scene.numbers() == {"fs:c.t": 0}
    scene.store.add(FILTER, ["a"])
    scene.store.add(DATASET, ["a"])
    assert scene.numbers() == {"fs:c.t": 1}
    assert scene.datasets.contains_many(DATASET, ["a", "b"]) == [True, False]
    assert scene.numbers() == {"fs:c.t": 1, "ds:d": 1}


def test_a_worker_without_sets_reports_that_it_has_none() -> None:
    assert Scene(filters=()).numbers() == {}


def test_the_same_object_is_returned_until_a_version_changes() -> None:
    scene = Scene()
    scene.reader.read()
    before = scene.reader.latest()
    scene.reader.read()
    assert scene.reader.latest() is before
    scene.store.add(FILTER, ["a"])
    scene.reader.read()
    assert scene.reader.latest() is not before


def test_the_versions_stay_while_the_store_is_unavailable() -> None:
    scene = Scene()
    scene.store.add(FILTER, ["a"])
    assert scene.numbers() == {"fs:c.t": 1}
    scene.store.error = RedisUnavailable("Valkey or Redis does not answer.")
    scene.store.add(FILTER, ["b"])
    assert scene.numbers() == {"fs:c.t": 1}
    scene.store.error = None
    assert scene.numbers() == {"fs:c.t": 2}


def test_only_the_datasets_that_were_used_last_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REPORTED_DATASETS", 2)
    scene = Scene(filters=())
    for name in ("a", "b", "a", "c"):
        scene.datasets.contains_many(dataset_set_id(name), ["x"])
    assert scene.numbers().keys() == {"ds:a", "ds:c"}


def test_the_thread_reads_on_after_an_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_EVERY_S", 0.001)
    scene = Scene()
    scene.store.error = ZeroDivisionError()
    scene.reader.start()
    time.sleep(0.01)
    scene.store.error = None
    until(lambda: scene.reader.latest() is not None, what="a read")
    scene.reader.close()
    last = scene.reader.latest()
    scene.store.add(FILTER, ["a"])
    assert scene.reader.latest() is last


def test_a_heartbeat_is_due_when_a_version_has_changed() -> None:
    scene, reporter = Scene(), HeartbeatReporter()
    reporter.read_set_versions = scene.reader.latest
    reporter.report("ready")
    assert not reporter.is_due("ready", "")
    scene.reader.read()
    assert reporter.is_due("ready", "")
    reporter.report("ready")
    assert not reporter.is_due("ready", "")
