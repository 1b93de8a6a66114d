"""Workers report the versions of sets that they have read."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from headwater.model.deployment import ObservedWorker, ObservedWorkerStatus, Phase, ReportedWorkers
from headwater.model.value_sets import SetHistory, SetId, SetVersion, dataset_set_id, filter_set_id
from headwater.services.applied_versions import AppliedState, AppliedVersions, WatchedSet
from tests.support.memory.sets import MemorySetStore

FILTER, DATASET = filter_set_id("c", "t"), dataset_set_id("d")
OF_FILTER, OF_DATASET = WatchedSet("alice", FILTER, "c"), WatchedSet("alice", DATASET)

Versions = dict[str, SetVersion] | None


def worker(
    name: str, versions: Versions, status: ObservedWorkerStatus = ObservedWorkerStatus.RUNNING
) -> ObservedWorker:
    return ObservedWorker(
        name=name,
        status=status,
        is_ready=status is ObservedWorkerStatus.RUNNING,
        start_time=datetime(2026, 1, 2, tzinfo=UTC),
        set_versions=versions,
    )


class Scene:
    """A set store, and deployments with the last reports of their workers."""

    def __init__(self) -> None:
        self.sets = MemorySetStore()
        self.reports: list[ReportedWorkers] = []
        self._numbers = itertools.count()
        unused = cast("Any", None)
        self.applied = AppliedVersions(
            filters=unused, datasets=unused, deployments=cast("Any", self), versions=self.sets
        )

    def reported_workers(self, config_ids: Collection[str], owners: Collection[str]) -> Sequence[ReportedWorkers]:
        return [report for report in self.reports if report.config_id in config_ids or report.owner in owners]

    def write(self, set_id: SetId = FILTER, count: int = 1) -> int:
        for _ in range(count):
            version = self.sets.add(set_id, [str(next(self._numbers))]).version
        return version

    def version(self, set_id: SetId = FILTER) -> dict[str, SetVersion]:
        return {set_id.name: self.sets.versions([set_id])[0]}

    def report(self, *workers: ObservedWorker, phase: Phase = Phase.RUNNING, config_id: str = "c") -> None:
        self.reports = [report for report in self.reports if report.config_id != config_id]
        self.reports.append(ReportedWorkers(config_id, "alice", phase, is_deployed=True, workers=workers))

    def state(self, watched: WatchedSet = OF_FILTER) -> AppliedState:
        return self.applied.read([watched])[watched]


@pytest.fixture
def scene() -> Scene:
    return Scene()


class TestFilters:
    def test_every_worker_must_have_read_the_version(self, scene: Scene) -> None:
        before = scene.version()
        version = scene.write()
        scene.report(worker("w0", scene.version()), worker("w1", before))
        state = scene.state()
        assert not state.has_applied(version)
        assert state.has_applied(version - 1)
        assert [(w.worker, w.number) for w in state.workers] == [("w0", 1), ("w1", 0)]
        scene.report(worker("w0", scene.version()), worker("w1", scene.version()))
        assert scene.state().has_applied(version)

    def test_later_writes_do_not_matter(self, scene: Scene) -> None:
        version = scene.write()
        scene.report(worker("w0", scene.version()))
        scene.write(count=5)
        assert scene.state().has_applied(version)
        assert not scene.state().has_applied(version + 1)

    def test_a_version_that_does_not_exist_is_never_applied(self, scene: Scene) -> None:
        scene.report(worker("w0", scene.version()))
        assert scene.state().has_applied(0)
        assert not scene.state().has_applied(1)

    @pytest.mark.parametrize("versions", [None, {}])
    def test_a_worker_without_a_report_has_applied_nothing(self, scene: Scene, versions: Versions) -> None:
        """Such a worker starts, has died, does not use the filter, or is of an older version."""
        scene.report(worker("w0", scene.version()), worker("w1", versions))
        state = scene.state()
        assert not state.has_applied(0)
        assert [w.number for w in state.workers] == [0, None]

    def test_a_paused_pipeline_has_applied_all_writes(self, scene: Scene) -> None:
        version = scene.write()
        scene.report(phase=Phase.PAUSED)
        assert scene.state().workers == ()
        assert scene.state().has_applied(version)
        assert not scene.state().has_applied(version + 1)

    def test_a_pipeline_that_starts_has_applied_nothing(self, scene: Scene) -> None:
        scene.report(phase=Phase.PENDING)
        assert not scene.state().has_applied(0)

    def test_a_configuration_that_is_not_deployed_has_no_state(self, scene: Scene) -> None:
        assert scene.applied.read([OF_FILTER]) == {}


class TestLostWrites:
    """A server that lost its last writes in a failover assigns the same numbers again."""

    def test_a_lost_write_is_not_applied(self, scene: Scene) -> None:
        version = scene.write(count=3)
        scene.report(worker("w0", scene.version()))
        scene.sets.lose_writes(FILTER, 1)
        state = scene.state()
        assert not state.has_applied(version)
        assert not state.has_applied(version - 1)
        assert [w.number for w in state.workers] == [None]

    def test_a_report_of_a_lost_write_does_not_count_for_a_later_write(self, scene: Scene) -> None:
        version = scene.write(count=3)
        reported = scene.version()
        scene.report(worker("w0", reported))
        scene.sets.lose_writes(FILTER, 1)
        assert scene.write() == version
        assert not scene.state().has_applied(version)
        scene.write()
        assert not scene.state().has_applied(version)
        scene.report(worker("w0", scene.version()))
        assert scene.state().has_applied(version)

    def test_after_a_replacement_only_a_new_report_counts(self, scene: Scene) -> None:
        version = scene.write()
        scene.report(worker("w0", scene.version()))
        scene.sets.replace(FILTER, ["a"])
        assert not scene.state().has_applied(version)
        scene.report(worker("w0", scene.version()))
        assert scene.state().has_applied(version + 1)


class TestDatasets:
    def test_the_workers_of_all_pipelines_that_have_looked_it_up_count(self, scene: Scene) -> None:
        version = scene.write(DATASET)
        scene.report(worker("w0", scene.version(DATASET)), config_id="c1")
        scene.report(worker("w1", {DATASET.name: SetVersion(0, "")}), config_id="c2")
        scene.report(worker("w2", scene.version(FILTER)), worker("w3", {}), config_id="c3")
        state = scene.state(OF_DATASET)
        assert {w.worker for w in state.workers} == {"w0", "w1"}
        assert not state.has_applied(version)
        scene.report(worker("w1", scene.version(DATASET)), config_id="c2")
        assert scene.state(OF_DATASET).has_applied(version)

    def test_without_pipelines_every_write_is_applied(self, scene: Scene) -> None:
        version = scene.write(DATASET)
        assert scene.state(OF_DATASET) == AppliedState(version, ())
        assert scene.state(OF_DATASET).has_applied(version)

    def test_a_worker_that_reports_nothing_at_all_may_use_the_dataset(self, scene: Scene) -> None:
        version = scene.write(DATASET)
        scene.report(worker("w0", None))
        assert not scene.state(OF_DATASET).has_applied(version)
        scene.report(
            worker("w0", None, ObservedWorkerStatus.CRASH_LOOP_BACK_OFF),
            worker("w1", None, ObservedWorkerStatus.PENDING),
        )
        assert scene.state(OF_DATASET).has_applied(version)

    def test_other_owners_do_not_matter(self, scene: Scene) -> None:
        version = scene.write(DATASET)
        scene.reports.append(
            ReportedWorkers("x", "bob", Phase.RUNNING, is_deployed=True, workers=(worker("w9", None),))
        )
        assert scene.state(OF_DATASET).has_applied(version)


def test_the_histories_of_all_sets_are_read_at_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    filters = [WatchedSet("alice", filter_set_id("c", f"t{number}"), "c") for number in range(20)]
    for item in (*filters, OF_DATASET):
        scene.write(item.set_id)
    scene.report(worker("w0", scene.version(filters[7].set_id) | scene.version(DATASET)))
    reads: list[int] = []
    histories = scene.sets.histories

    def counted(numbers: Mapping[SetId, Collection[int]]) -> Mapping[SetId, SetHistory]:
        reads.append(len(numbers))
        return histories(numbers)

    monkeypatch.setattr(scene.sets, "histories", counted)
    states = scene.applied.read([*filters, OF_DATASET, WatchedSet("bob", filter_set_id("x", "t"), "x")])
    assert reads == [21]
    assert {item for item, state in states.items() if state.has_applied(1)} == {filters[7], OF_DATASET}
