"""The contract of DeploymentStore and ChangeCounter."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest

from headwater.errors import Conflict, NotFound
from headwater.model.audit import AuditQuery
from headwater.model.deployment import (
    Condition,
    DeploymentVersion,
    DesiredPhase,
    ObservedWorker,
    ObservedWorkerStatus,
    Phase,
    ReportedWorkers,
)
from headwater.model.parallelism import MeasuredCapacity, Scaling
from headwater.model.value_sets import SetVersion
from headwater.stores.protocols.deployments import MAX_LOG_LINES
from tests.support.deployments import SOLANA, deploy, observed, running, save
from tests.support.sql import (
    OWNER,
    T0,
    SqlStores,
    a_config,
    a_deployment,
    a_flow,
    a_line,
    at,
    seen,
)


@pytest.fixture
def stores(stores: SqlStores) -> SqlStores:
    """Return the stores with one configuration."""
    stores.flows.create(a_flow())
    return stores


def worker(name: str, reason: str = "") -> ObservedWorker:
    return ObservedWorker(name=name, status=ObservedWorkerStatus.RUNNING, is_ready=True, start_time=T0, reason=reason)


class TestRequestDeploy:
    def test_first_time_inserts_and_rings(self, stores: SqlStores) -> None:
        assert deploy(stores) == a_deployment()
        assert stores.deployments.active("f1") == a_deployment()
        assert stores.change_counter.value() == 1

    def test_takes_configuration_and_revision_from_the_flow(self, stores: SqlStores) -> None:
        save(stores, SOLANA)
        deployment = stores.deployments.request_deploy(OWNER, "f1", a_deployment(desired_revision=9))
        assert (deployment.config, deployment.desired_revision, deployment.source_epoch) == (SOLANA, 2, 1)
        assert stores.deployments.active("f1") == deployment

    def test_a_configuration_of_another_owner_is_rejected(self, stores: SqlStores) -> None:
        with pytest.raises(NotFound):
            stores.deployments.request_deploy("bob", "f1", a_deployment(owner="bob"))

    def test_a_pending_deployment_is_unchanged(self, stores: SqlStores) -> None:
        assert deploy(stores) == deploy(stores, "d2")
        assert stores.change_counter.value() == 1

    def test_a_running_revision_is_unchanged(self, stores: SqlStores) -> None:
        deploy(stores)
        before = running(stores)
        assert deploy(stores, "d2") == before
        assert stores.change_counter.value() == 1

    def test_new_revision_rolls_out_in_the_same_deployment(self, stores: SqlStores) -> None:
        deploy(stores)
        before = running(stores)
        config = a_config(parallelism=2)
        save(stores, config)
        wanted = replace(
            before,
            config=config,
            desired_revision=2,
            generation=2,
            condition=Condition.ROLLING_OUT,
            reason="",
            previous_revisions=(before.desired_revision_record,),
        )
        assert deploy(stores, "d2") == wanted
        assert stores.deployments.active("f1") == wanted
        assert not wanted.is_reconciled
        assert stores.change_counter.value() == 2

    def test_saved_but_not_deployed_keeps_the_old_configuration(self, stores: SqlStores) -> None:
        before = deploy(stores)
        save(stores, SOLANA)
        assert stores.deployments.active("f1") == before

    def test_a_failed_deployment_is_retried_once(self, stores: SqlStores) -> None:
        deploy(stores)
        observed(stores, Phase.FAILED)
        again = deploy(stores)
        assert (again.generation, again.phase, again.condition) == (2, Phase.FAILED, Condition.ROLLING_OUT)
        assert deploy(stores) == again
        assert running(stores).is_reconciled

    def test_a_rolled_back_revision_is_retried(self, stores: SqlStores) -> None:
        deploy(stores)
        running(stores)
        save(stores, a_config(parallelism=2))
        current = deploy(stores)
        back = seen(current, condition=Condition.ROLLED_BACK, observed_revision=1, reason="it died")
        stores.deployments.write_observations([back])
        again = deploy(stores)
        assert (again.generation, again.desired_revision, again.observed_revision) == (3, 2, 1)
        assert (again.condition, again.reason) == (Condition.ROLLING_OUT, "")

    def test_a_deploy_is_rejected_during_a_teardown(self, stores: SqlStores) -> None:
        deploy(stores)
        stores.deployments.request_teardown("f1")
        with pytest.raises(Conflict, match="Teardown"):
            deploy(stores, "d2")

    def test_after_a_teardown_there_is_a_new_deployment(self, stores: SqlStores) -> None:
        deploy(stores)
        current = stores.deployments.request_teardown("f1")
        assert current is not None
        stores.deployments.write_observations([seen(current, Phase.ABSENT)])
        assert deploy(stores, "d2") == a_deployment("d2")
        assert list(stores.deployments.ended_among(["d2", "d1"])) == ["d1"]

    def test_concurrent_requests_create_one_deployment(self, stores: SqlStores) -> None:
        with ThreadPoolExecutor(32) as pool:
            deployments = list(pool.map(lambda number: deploy(stores, f"d{number}"), range(32)))
        assert len({deployment.id for deployment in deployments}) == 1
        assert [d.id for d in stores.deployments.list_active()] == [deployments[0].id]
        assert stores.change_counter.value() == 1

    def test_concurrent_retries_raise_the_generation_once(self, stores: SqlStores) -> None:
        deploy(stores)
        observed(stores, Phase.FAILED)
        with ThreadPoolExecutor(8) as pool:
            generations = {deployment.generation for deployment in pool.map(lambda _: deploy(stores), range(8))}
        assert generations == {2}


class TestCredentials:
    def test_rotation_waits_for_the_controller(self, stores: SqlStores) -> None:
        deploy(stores)
        before = running(stores)
        asked = stores.deployments.request_credential_rotation(OWNER, "f1", "new")
        assert asked == replace(before, reader_password="new", credentials_version=2)
        assert stores.deployments.active("f1") == asked
        assert stores.change_counter.value() == 2
        stores.deployments.write_observations([seen(asked, observed_credentials_version=2)])
        progress = stores.deployments.progress(["f1", "unknown"])
        assert set(progress) == {"f1"}
        assert (progress["f1"].credentials_version, progress["f1"].observed_credentials_version) == (2, 2)

    def test_not_deployed(self, stores: SqlStores) -> None:
        with pytest.raises(NotFound, match="not deployed"):
            stores.deployments.request_credential_rotation(OWNER, "f1", "new")
        deploy(stores)
        with pytest.raises(NotFound, match="no configuration"):
            stores.deployments.request_credential_rotation("bob", "f1", "new")
        stores.deployments.request_teardown("f1")
        with pytest.raises(NotFound, match="not deployed"):
            stores.deployments.request_credential_rotation(OWNER, "f1", "new")


class TestLogs:
    def test_newest_first_and_bounded(self, stores: SqlStores) -> None:
        deploy(stores)
        stores.deployments.write_logs({"d1": [a_line(number) for number in range(700)], "unknown": [a_line()]})
        stores.deployments.write_logs({"d1": [a_line(number) for number in range(700, 1400)]})
        stores.deployments.write_logs({"d1": []})
        assert list(stores.deployments.read_logs("d1", 3)) == [a_line(1399), a_line(1398), a_line(1397)]
        assert len(stores.deployments.read_logs("d1", 5000)) == MAX_LOG_LINES
        assert list(stores.deployments.read_logs("unknown", 3)) == []

    def test_logs_are_deleted_with_the_deployment(self, stores: SqlStores) -> None:
        first = deploy(stores)
        stores.deployments.write_logs({"d1": [a_line()]})
        stores.deployments.write_observations([seen(first, Phase.ABSENT)])
        stores.deployments.write_logs({"d1": [a_line()]})
        assert list(stores.deployments.read_logs("d1", 3)) == []


class TestRequestRedeploy:
    """A redeploy never inserts a deployment."""

    def test_an_undeployed_configuration_stays_undeployed(self, stores: SqlStores) -> None:
        with pytest.raises(NotFound):
            stores.deployments.request_redeploy(OWNER, "f1")
        assert stores.deployments.active("f1") is None
        assert stores.change_counter.value() == 0

    def test_deployed_runs_the_newest_revision(self, stores: SqlStores) -> None:
        deploy(stores)
        running(stores)
        save(stores, a_config(parallelism=2))
        changed = stores.deployments.request_redeploy(OWNER, "f1")
        assert (changed.desired_revision, changed.config) == (2, a_config(parallelism=2))

    def test_a_teardown_continues(self, stores: SqlStores) -> None:
        deploy(stores)
        stores.deployments.request_teardown("f1")
        with pytest.raises(NotFound):
            stores.deployments.request_redeploy(OWNER, "f1")


class TestRequestTeardown:
    def test_without_a_deployment(self, stores: SqlStores) -> None:
        assert stores.deployments.request_teardown("f1") is None
        assert stores.deployments.request_teardown("unknown") is None

    def test_raises_the_generation_once(self, stores: SqlStores) -> None:
        before = deploy(stores)
        asked = stores.deployments.request_teardown("f1")
        assert asked == replace(before, desired=DesiredPhase.ABSENT, generation=2)
        assert stores.deployments.request_teardown("f1") == asked
        assert stores.deployments.active("f1") == asked
        assert stores.change_counter.value() >= 2


class TestObserve:
    def test_running(self, stores: SqlStores) -> None:
        before = deploy(stores)
        wanted = replace(
            before,
            phase=Phase.RUNNING,
            observed_revision=1,
            observed_generation=1,
            condition=Condition.STABLE,
            rollback_revision=1,
        )
        assert running(stores) == wanted
        assert wanted.is_reconciled

    def test_an_older_observation_is_ignored(self, stores: SqlStores) -> None:
        first = deploy(stores)
        running(stores)
        save(stores, a_config(parallelism=2))
        deploy(stores)
        after = running(stores)
        stores.deployments.write_observations([seen(first, Phase.FAILED)])
        assert stores.deployments.active("f1") == after

    def test_an_observation_of_an_outdated_generation(self, stores: SqlStores) -> None:
        first = deploy(stores)
        save(stores, a_config(parallelism=2))
        deploy(stores)
        stores.deployments.write_observations([seen(first)])
        after = stores.deployments.active("f1")
        assert after is not None
        assert (after.phase, after.observed_revision, after.condition) == (Phase.RUNNING, 1, Condition.ROLLING_OUT)
        assert not after.is_reconciled

    def test_several_at_once_in_order(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow("f2"))
        first = deploy(stores)
        other = stores.deployments.request_deploy(OWNER, "f2", a_deployment("d2"))
        failed = seen(other, Phase.FAILED, reason="no topic")
        unknown = seen(a_deployment("unknown"))
        stores.deployments.write_observations([seen(first, Phase.FAILED), unknown, failed, seen(first)])
        phases = {d.id: (d.phase, d.reason) for d in stores.deployments.list_active()}
        assert phases == {"d1": (Phase.RUNNING, ""), "d2": (Phase.FAILED, "no topic")}

    def test_absent_ends_a_deployment_permanently(self, stores: SqlStores) -> None:
        first = deploy(stores)
        stores.deployments.report_workers({"d1": [worker("d1-0")]})
        stores.deployments.write_observations([seen(first, Phase.ABSENT)])
        stores.deployments.write_observations([seen(first)])
        stores.deployments.report_workers({"d1": [worker("d1-0")]})
        assert stores.deployments.active("f1") is None
        assert list(stores.deployments.list_active()) == []
        assert list(stores.deployments.ended_among(["d1"])) == ["d1"]

    def test_nothing_to_write(self, stores: SqlStores) -> None:
        stores.deployments.write_observations([])
        stores.deployments.report_workers({})
        assert list(stores.deployments.ended_among([])) == []


class TestReportWorkers:
    def test_replaces_the_states_in_order(self, stores: SqlStores) -> None:
        deploy(stores)
        stores.deployments.report_workers({"d1": [worker("d1-2"), worker("d1-10")], "unknown": [worker("x")]})
        states = [worker("d1-10", "waits"), worker("d1-2"), worker("d1-1")]
        stores.deployments.report_workers({"d1": states})
        active = stores.deployments.active("f1")
        assert active is not None
        assert active.workers == tuple(states)

    def test_none_left(self, stores: SqlStores) -> None:
        deploy(stores)
        stores.deployments.report_workers({"d1": [worker("d1-0")]})
        stores.deployments.report_workers({"d1": []})
        assert stores.deployments.active("f1") == a_deployment()


class TestReportedWorkers:
    def test_of_configurations_and_of_owners(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow("f2"))
        deploy(stores)
        stores.deployments.request_deploy(OWNER, "f2", a_deployment("d2"))
        reported = worker("d1-0").model_copy(update={"set_versions": {"fs:f1.t": SetVersion(7, "a1")}})
        stores.deployments.report_workers({"d1": [reported]})
        first = ReportedWorkers("f1", OWNER, Phase.PENDING, is_deployed=True, workers=(reported,))
        second = ReportedWorkers("f2", OWNER, Phase.PENDING, is_deployed=True, workers=())
        assert stores.deployments.reported_workers(["f1", "unknown"], []) == [first]
        assert stores.deployments.reported_workers([], ["bob"]) == []
        assert stores.deployments.reported_workers([], []) == []
        both = stores.deployments.reported_workers(["f1"], [OWNER, "bob"])
        assert sorted(both, key=lambda report: report.config_id) == [first, second]

    def test_a_teardown_in_progress(self, stores: SqlStores) -> None:
        deploy(stores)
        stores.deployments.request_teardown("f1")
        assert stores.deployments.reported_workers(["f1"], []) == [
            ReportedWorkers("f1", OWNER, Phase.PENDING, is_deployed=False, workers=())
        ]

    def test_an_ended_deployment_has_none(self, stores: SqlStores) -> None:
        stores.deployments.write_observations([seen(deploy(stores), Phase.ABSENT)])
        assert stores.deployments.reported_workers(["f1"], [OWNER]) == []


class TestUndeployedAmong:
    def test_flows_that_had_deployments(self, stores: SqlStores) -> None:
        stores.flows.create(a_flow("f2"))
        stores.flows.create(a_flow("f3"))
        stores.deployments.write_observations([seen(deploy(stores), Phase.ABSENT)])
        stores.deployments.request_deploy(OWNER, "f2", a_deployment("d2"))
        assert list(stores.deployments.undeployed_among(["f1", "f2", "f3", "unknown"])) == ["f1"]
        deploy(stores, "d3")
        assert list(stores.deployments.undeployed_among(["f1"])) == []


class TestRecordAsEnded:
    def test_unknown_deployments_are_recorded_as_ended(self, stores: SqlStores) -> None:
        assert list(stores.deployments.ended_among(["d7"])) == []
        stores.deployments.record_as_ended(["d7", "f7"], at(0))
        stores.deployments.record_as_ended(["d7"], at(1))
        assert list(stores.deployments.ended_among(["d7", "d8"])) == ["d7"]
        assert list(stores.deployments.undeployed_among(["f7", "f8"])) == ["f7"]
        [second, first] = stores.audit.read(AuditQuery(limit=2))
        assert {first.change.object, second.change.object} == {"d7", "f7"}

    def test_active_deployments_are_never_ended(self, stores: SqlStores) -> None:
        deploy(stores)
        stores.deployments.record_as_ended(["d1", "f1"], at(0))
        assert list(stores.deployments.ended_among(["d1"])) == []
        assert list(stores.deployments.undeployed_among(["f1"])) == []


class TestObsoleteTopics:
    """These are the topics to which ended deployments wrote."""

    TOPICS: ClassVar = {
        "f1": ["flow.f1.out", "flow.f1.dlq", "flow.f1.old", "flow.f1.foreign"],
        "f7": ["flow.f7.out"],
        "f8": ["flow.f8.any"],
    }

    def test_of_every_revision_that_was_deployed(self, stores: SqlStores) -> None:
        deploy(stores)
        save(stores, a_config(sinks=[{"uid": "s2", "type": "kafka", "name": "old"}]))
        again = deploy(stores)
        assert stores.deployments.obsolete_topics(self.TOPICS) == frozenset()
        stores.deployments.write_observations([seen(again, Phase.ABSENT)])
        save(stores, a_config(sinks=[{"uid": "s3", "type": "kafka", "name": "foreign"}]))
        assert stores.deployments.obsolete_topics(self.TOPICS) == {"flow.f1.out", "flow.f1.dlq", "flow.f1.old"}

    def test_all_topics_of_abandoned_deployments(self, stores: SqlStores) -> None:
        stores.deployments.record_as_ended(["f8"], at(0))
        assert stores.deployments.obsolete_topics(self.TOPICS) == {"flow.f8.any"}

    def test_the_dead_letter_topic_of_a_deleted_configuration(self, stores: SqlStores) -> None:
        stores.deployments.write_observations([seen(deploy(stores), Phase.ABSENT)])
        stores.flows.delete(OWNER, "f1")
        stores.flows.purge("f1")
        assert stores.deployments.obsolete_topics(self.TOPICS) == {"flow.f1.dlq"}
        assert stores.deployments.obsolete_topics({}) == frozenset()


class TestDeleteEnded:
    def test_old_ended_deployments_are_deleted_unless_resources_remain(self, stores: SqlStores) -> None:
        for number in range(1, 5):
            stores.flows.create(a_flow(f"g{number}"))
            new = a_deployment(f"e{number}", config_id=f"g{number}")
            stores.deployments.request_deploy(OWNER, f"g{number}", new)
        for number in range(1, 4):
            ending = stores.deployments.request_teardown(f"g{number}")
            assert ending is not None
            stores.deployments.write_observations([seen(ending, Phase.ABSENT)])
        every = [f"e{number}" for number in range(1, 5)]
        now = datetime.now(UTC)
        assert stores.deployments.delete_ended(now - timedelta(days=1), []) == 0
        assert list(stores.deployments.ended_among(every)) == ["e1", "e2", "e3"]
        assert stores.deployments.delete_ended(now + timedelta(days=1), ["e1", "g2"]) == 1
        assert list(stores.deployments.ended_among(every)) == ["e1", "e2"]
        assert list(stores.deployments.undeployed_among(["g1", "g2", "g3", "g4"])) == ["g1", "g2"]
        assert stores.deployments.active("g4") is not None


class TestScaling:
    SCALING = Scaling(
        workers=3,
        reason="1 worker fell behind.",
        changed_at=T0,
        capacity=MeasuredCapacity(records_per_s=12.5, measured_at=T0, revision=1),
    )

    def test_the_chosen_number_is_stored(self, stores: SqlStores) -> None:
        assert deploy(stores).scaling is None
        counter = stores.change_counter.value()
        stores.deployments.write_scaling({"d1": self.SCALING, "unknown": self.SCALING})
        assert running(stores).scaling == self.SCALING
        assert stores.change_counter.value() == counter

    def test_requests_and_observations_keep_it(self, stores: SqlStores) -> None:
        deployment = deploy(stores)
        stores.deployments.write_scaling({"d1": self.SCALING})
        stores.deployments.write_observations([seen(deployment)])
        save(stores, SOLANA)
        deploy(stores)
        stores.deployments.request_pause(OWNER, "f1")
        stores.deployments.request_resume(OWNER, "f1")
        [active] = stores.deployments.list_active()
        assert active.scaling == self.SCALING

    def test_the_next_deployment_has_none(self, stores: SqlStores) -> None:
        deploy(stores)
        stores.deployments.write_scaling({"d1": self.SCALING})
        stores.deployments.request_teardown("f1")
        [ending] = stores.deployments.list_active()
        stores.deployments.write_observations([seen(ending, Phase.ABSENT)])
        stores.deployments.write_scaling({"d1": self.SCALING})
        assert deploy(stores, "d2").scaling is None


class TestVersions:
    def test_equal_versions_mean_an_equal_deployment(self, stores: SqlStores) -> None:
        created = deploy(stores)
        assert stores.deployments.active_versions() == [DeploymentVersion.of(created)]
        assert stores.deployments.active_versions(["d1", "d2"]) == [DeploymentVersion.of(created)]
        assert stores.deployments.active_versions(["d2"]) == stores.deployments.active_versions([]) == []
        steps: list[Callable[[], object]] = [
            lambda: stores.deployments.write_observations([seen(created)]),
            lambda: stores.deployments.request_credential_rotation(OWNER, "f1", "other"),
            lambda: save(stores, SOLANA),
            lambda: deploy(stores),
            lambda: stores.deployments.request_teardown("f1"),
        ]
        for step in steps:
            before = (stores.deployments.list_active(), stores.deployments.active_versions())
            step()
            after = (stores.deployments.list_active(), stores.deployments.active_versions())
            assert (before[0] == after[0]) == (before[1] == after[1])
            assert [DeploymentVersion.of(deployment) for deployment in after[0]] == after[1]

    def test_an_ended_deployment_has_none(self, stores: SqlStores) -> None:
        stores.deployments.write_observations([seen(deploy(stores), Phase.ABSENT)])
        assert stores.deployments.active_versions() == []


class TestUnfinished:
    def test_of_some_ids(self, stores: SqlStores) -> None:
        deployment = deploy(stores)
        assert stores.deployments.list_active(["d1", "unknown"]) == [deployment]
        assert stores.deployments.list_active([]) == []

    def test_newest_first(self, stores: SqlStores) -> None:
        deploy(stores)
        for number in (2, 3):
            stores.flows.create(a_flow(f"f{number}"))
            stores.deployments.request_deploy(OWNER, f"f{number}", a_deployment(f"d{number}"))
        assert [d.id for d in stores.deployments.list_active()] == ["d3", "d2", "d1"]

    def test_ended_among_many_ids(self, stores: SqlStores) -> None:
        stores.deployments.write_observations([seen(deploy(stores), Phase.ABSENT)])
        ids = [f"unknown-{number}" for number in range(25_000)]
        assert list(stores.deployments.ended_among([*ids, "d1", "d1"])) == ["d1"]
