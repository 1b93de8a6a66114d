"""The controller with dependencies in memory and a test clock.

It is tested with deploys, teardowns, outages, and kills between steps.
"""

import contextlib
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from headwater.brokers.base import DeploymentResources
from headwater.controller.controller import RENEW_EVERY_S, SWEEP_EVERY_S
from headwater.controller.leadership import CONTROLLER_LEASE, LEASE_TTL_S
from headwater.controller.plan import READY_WITHIN_S
from headwater.errors import DatabaseUnavailable, DeployFailed, LeaseLost, RedisUnavailable
from headwater.model.deployment import Condition, LogLine, Phase
from headwater.model.lease import Candidate
from headwater.model.metric import MetricsDelta, PartitionCounts
from headwater.model.value_sets import Dataset, SetId, dataset_set_id, filter_set_id
from tests.unit.controller.world import DEPLOYMENT, FLOW, LOCK, NOW, TOPIC, World, flow


class TestUp:
    def test_a_deploy_ends_running(self, world: World) -> None:
        world.deploy()
        world.run()
        assert world.active is not None
        assert world.active.is_reconciled
        assert (world.active.phase, world.active.observed_revision) == (Phase.RUNNING, 1)
        assert (world.active.condition, world.active.rollback_revision) == (Condition.ROLLING_OUT, None)
        assert "30 s" in world.active.reason
        world.run(ticks=70)
        assert (world.active.condition, world.active.rollback_revision) == (Condition.STABLE, 1)
        assert world.active.reason == ""
        assert [w.is_ready for w in world.active.workers] == [True]

    def test_a_deploy_creates_resources_on_the_broker(self, world: World) -> None:
        world.deploy()
        world.run()
        assert set(world.broker.topics) == {TOPIC, f"flow.{FLOW}.out", f"flow.{FLOW}.dlq"}
        assert {topic.partitions for topic in world.broker.topics.values()} == {4}
        assert world.broker.users == {f"dep-{DEPLOYMENT}": "reads", f"wrk-{DEPLOYMENT}": "works"}
        allowed = {(r.user[:3], r.resource, r.name, r.operations, r.prefixed) for r in world.broker.acls}
        assert allowed == {
            ("dep", "topic", f"flow.{FLOW}.out", ("READ",), False),
            ("dep", "topic", f"flow.{FLOW}.dlq", ("READ",), False),
            ("dep", "group", f"dep-{DEPLOYMENT}.", ("READ",), True),
            ("wrk", "topic", TOPIC, ("READ",), False),
            ("wrk", "topic", f"flow.{FLOW}.dlq", ("READ",), False),
            ("wrk", "group", f"wrk-{DEPLOYMENT}.", ("READ",), True),
            ("wrk", "topic", f"flow.{FLOW}.out", ("WRITE",), False),
            ("wrk", "topic", f"flow.{FLOW}.dlq", ("WRITE",), False),
        }

    def test_outputs_get_new_partitions_with_a_running_source(self, world: World) -> None:
        world.deploy()
        world.pass_time(50)
        world.broker.logs[TOPIC] += [[], []]
        world.run(ticks=130)
        assert {len(log) for log in world.broker.logs.values()} == {6}

    def test_start_offsets_are_pinned_before_a_worker_runs(self, world: World) -> None:
        for _ in range(3):
            world.broker.append(TOPIC, 2, 0)
        world.deploy()
        world.run()
        assert world.broker.commits[f"wrk-{DEPLOYMENT}.1"] == {
            (TOPIC, 0): 0,
            (TOPIC, 1): 0,
            (TOPIC, 2): 3,
            (TOPIC, 3): 0,
        }

    def test_a_deployment_is_not_running_before_its_workers_are_ready(self) -> None:
        world = World(auto=False)
        world.deploy()
        world.run(ticks=5)
        assert world.active is not None
        assert not world.active.is_reconciled
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run()
        assert world.active.phase is Phase.RUNNING

    def test_a_deployment_fails_with_a_reason_if_workers_never_become_ready(self) -> None:
        world = World(auto=False)
        world.deploy()
        world.run(ticks=10, step_s=READY_WITHIN_S / 5)
        assert world.active is not None
        assert (world.active.phase, world.active.condition) == (Phase.FAILED, Condition.FAILED)
        assert "not ready within" in world.active.reason
        assert world.orchestrator.worker_set_ids() == frozenset()

    def test_a_missing_source_topic(self, world: World) -> None:
        del world.broker.topics[TOPIC], world.broker.logs[TOPIC]
        world.deploy()
        world.run()
        assert world.active is not None
        assert world.active.phase is Phase.FAILED
        assert TOPIC in world.active.reason

    def test_the_controller_waits_for_an_unavailable_broker(self, world: World) -> None:
        world.broker.away = True
        world.deploy()
        world.run()
        assert world.active is not None
        assert not world.active.is_reconciled
        world.broker.away = False
        world.pass_time(50)
        assert world.active.phase is Phase.RUNNING

    def test_the_next_controller_resumes_what_ran(self, world: World) -> None:
        world.deploy()
        world.run()
        world.start_controller()
        assert world.orchestrator.worker_set_ids() == frozenset()
        world.run()
        assert world.orchestrator.worker_set_ids() == {DEPLOYMENT}
        assert world.active is not None
        assert world.active.phase is Phase.RUNNING


class TestCredentials:
    def test_rotation(self, world: World) -> None:
        world.deploy()
        world.run()
        world.database.deployments.request_credential_rotation("owner", FLOW, "newer")
        world.run()
        assert world.active is not None
        assert world.active.observed_credentials_version == 2
        assert world.broker.users == {f"dep-{DEPLOYMENT}": "newer", f"wrk-{DEPLOYMENT}": "works"}
        assert world.active.condition is Condition.ROLLING_OUT

    def test_a_rotation_of_a_stable_deployment_begins_at_once(self, world: World) -> None:
        world.deploy()
        world.pass_time(50)
        for version in range(2, 6):
            world.database.deployments.request_credential_rotation("owner", FLOW, "newer")
            world.run(ticks=2, step_s=0.1)
            assert world.active is not None
            assert world.active.observed_credentials_version == version

    def test_a_failed_rotation_is_repeated_and_stops_no_workers(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.deploy()
        world.pass_time(50)

        def fail(_: object) -> None:
            raise DeployFailed("The cluster has no authorizer.")

        with monkeypatch.context() as patched:
            patched.setattr(world.broker, "ensure", fail)
            world.database.deployments.request_credential_rotation("owner", FLOW, "newer")
            world.run()
        assert world.active is not None
        assert (world.active.phase, world.active.condition) == (Phase.RUNNING, Condition.STABLE)
        assert world.orchestrator.worker_set_ids() == {DEPLOYMENT}
        world.run(ticks=60)
        assert world.active.observed_credentials_version == 2


class TestDatabaseOutages:
    def test_an_observation_is_kept(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        passwords = list[str]()
        ensure, observe = world.broker.ensure, world.database.deployments.write_observations

        def record_and_ensure(desired: DeploymentResources) -> None:
            passwords.extend(user.password for user in desired.users)
            ensure(desired)

        def fail_once(_: object) -> None:
            monkeypatch.setattr(world.database.deployments, "write_observations", observe)
            raise DatabaseUnavailable("The database is away.")

        world.deploy()
        world.pass_time(50)
        monkeypatch.setattr(world.broker, "ensure", record_and_ensure)
        monkeypatch.setattr(world.database.deployments, "write_observations", fail_once)
        world.database.deployments.request_credential_rotation("owner", FLOW, "newer")
        for _ in range(4):
            with contextlib.suppress(DatabaseUnavailable):
                world.run(ticks=1)
        assert passwords == ["newer"]
        assert world.active is not None
        assert world.active.observed_credentials_version == 2

    def test_log_lines_are_kept(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        line = LogLine(time=NOW, worker="d-0", source="worker", level="error", message="a line")
        buffers = [{DEPLOYMENT: [line]}]
        write_logs = world.database.deployments.write_logs

        def fail_once(_: object) -> None:
            monkeypatch.setattr(world.database.deployments, "write_logs", write_logs)
            raise DatabaseUnavailable("The database is away.")

        world.deploy()
        world.run()
        monkeypatch.setattr(world.orchestrator, "take_logs", lambda: buffers.pop() if buffers else {})
        monkeypatch.setattr(world.database.deployments, "write_logs", fail_once)
        for _ in range(6):
            with contextlib.suppress(DatabaseUnavailable):
                world.run(ticks=1)
        assert [stored.message for stored in world.database.deployments.read_logs(DEPLOYMENT, 10)] == ["a line"]


class TestDown:
    def test_teardown_leaves_nothing_but_the_configuration(self, world: World) -> None:
        world.deploy()
        world.run()
        world.sets.add(filter_set_id(FLOW, "t1"), ["x"])
        world.database.deployments.request_teardown(FLOW)
        world.pass_time(50)
        assert world.active is None
        assert set(world.broker.topics) == {TOPIC}
        assert (world.broker.users, world.broker.acls, world.orchestrator.worker_set_ids()) == (
            {},
            set(),
            frozenset(),
        )
        assert world.broker.inventory().groups == frozenset()
        assert world.sets.count(filter_set_id(FLOW, "t1"))[0] == 1
        assert world.database.flows.get("owner", FLOW)

    @pytest.mark.parametrize("away", [False, True])
    def test_metrics_are_removed_without_delaying_a_teardown(
        self, world: World, away: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_: str) -> None:
            raise RedisUnavailable("Valkey or Redis does not answer.")

        world.deploy()
        world.run()
        world.metrics.write(
            DEPLOYMENT, "g", "a", MetricsDelta(60, {0: PartitionCounts(1, {"messages_received": 1})}, {})
        )
        if away:
            monkeypatch.setattr(world.metrics, "drop", fail)
        world.database.deployments.request_teardown(FLOW)
        world.run()
        assert world.active is None
        assert (world.metrics.last_progress(DEPLOYMENT) is None) != away

    def test_groups_with_members_are_deleted_later(self, world: World) -> None:
        world.deploy()
        world.run()
        world.broker.members[f"dep-{DEPLOYMENT}.main"] = 1
        world.database.deployments.request_teardown(FLOW)
        world.pass_time(50)
        assert world.active is None
        assert world.broker.inventory().groups == {f"dep-{DEPLOYMENT}.main"}
        world.broker.members[f"dep-{DEPLOYMENT}.main"] = 0
        world.pass_time(50)
        assert world.broker.inventory().groups == frozenset()

    def test_other_installations_groups_are_not_touched(self, world: World) -> None:
        foreign = "wrk-01zz0000000000000000000000.1"
        world.broker.commits[foreign] = {(TOPIC, 0): 5}
        world.pass_time(50)
        assert foreign in world.broker.inventory().groups

    def test_delete_removes_filter_values_and_the_configuration(self, world: World) -> None:
        world.deploy()
        world.run()
        world.sets.add(filter_set_id(FLOW, "t1"), ["x"])
        assert world.database.flows.delete("owner", FLOW)
        world.pass_time(50)
        assert world.sets.count(filter_set_id(FLOW, "t1"))[0] == 0
        assert world.database.flows.deleted() == []
        assert set(world.broker.topics) == {TOPIC}

    def test_deleting_an_undeployed_configuration(self, world: World) -> None:
        world.database.flows.create(flow())
        world.sets.add(filter_set_id(FLOW, "t1"), ["x"])
        assert not world.database.flows.delete("owner", FLOW)
        world.run(ticks=20)
        assert world.sets.count(filter_set_id(FLOW, "t1"))[0] == 0
        assert world.database.flows.deleted() == []

    def test_a_hanging_set_store_does_not_delay_other_configurations(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked, answered = threading.Event(), threading.Event()

        def hang(_: object) -> None:
            asked.set()
            assert answered.wait(30)
            raise RedisUnavailable("It does not answer.")

        with monkeypatch.context() as patched:
            patched.setattr(world.sets, "drop", hang)
            world.database.flows.create(replace(flow(), id="01jz000000000000000000f200"))
            world.database.flows.delete("owner", "01jz000000000000000000f200")
            world.controller.tick()
            assert asked.wait(10)
            world.deploy()
            for _ in range(100):
                world.controller.tick()
                world.now += 0.5
                time.sleep(0.005)
            assert world.active is not None
            assert world.active.is_reconciled
            answered.set()
            world.run(ticks=2)
        world.run(ticks=30)
        assert world.database.flows.deleted() == []

    def test_a_kill_half_way_is_finished_by_the_next_controller(self, world: World) -> None:
        world.deploy()
        world.run(ticks=1)
        world.database.deployments.request_teardown(FLOW)
        world.start_controller()
        world.pass_time(50)
        assert world.active is None
        assert set(world.broker.topics) == {TOPIC}


class TestDatasets:
    def test_an_interrupted_creation_is_removed(self, world: World) -> None:
        created_at = datetime(2025, 12, 31, tzinfo=UTC)
        world.database.datasets.create(Dataset("d1", "owner", "name", "pending", created_at, created_at))
        world.names.put("owner", "name", "d1")
        world.sets.add(dataset_set_id("d1"), ["x"])
        world.run(ticks=5)
        assert world.database.datasets.incomplete() == []
        assert world.names.resolve("owner", ["name"]) == [None]
        assert world.sets.count(dataset_set_id("d1"))[0] == 0


class TestLeadership:
    def test_a_standby_does_nothing_and_a_deposed_leader_ends(self, world: World) -> None:
        another = Candidate("another")
        world.database.leases.acquire(CONTROLLER_LEASE, another, 3600)
        world.deploy()
        world.run()
        assert world.orchestrator.worker_set_ids() == frozenset()
        world.database.leases.release(CONTROLLER_LEASE, another.holder)
        world.run()
        assert world.orchestrator.worker_set_ids() == {DEPLOYMENT}
        world.database.leases.acquire(CONTROLLER_LEASE, replace(another, lock=LOCK), 3600)
        with pytest.raises(LeaseLost):
            world.run()
        world.controller.run(threading.Event())

    def test_a_change_is_read_again_at_once_after_the_database_failed(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object) -> None:
            raise DatabaseUnavailable("The database does not answer.")

        world.run()
        world.deploy()
        with monkeypatch.context() as patch:
            patch.setattr(world.database.deployments, "list_active", away)
            with pytest.raises(DatabaseUnavailable):
                world.controller.tick()
        world.run(ticks=2)
        assert world.orchestrator.worker_set_ids() == {DEPLOYMENT}

    def test_a_controller_without_a_lease_stops_acting_and_leaves_workers_running(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object) -> None:
            raise DatabaseUnavailable("The database does not answer.")

        world.deploy()
        world.run()
        assert set(world.orchestrator.remaining_leases_s) == {LEASE_TTL_S}
        with monkeypatch.context() as patch:
            patch.setattr(world.database.leases, "acquire", away)
            world.now += LEASE_TTL_S
            with pytest.raises(DatabaseUnavailable):
                world.controller.tick()
            times_led = len(world.orchestrator.remaining_leases_s)
            world.database.deployments.request_teardown(FLOW)
            world.run(ticks=4)
            assert world.orchestrator.worker_set_ids() == {DEPLOYMENT}
            assert len(world.orchestrator.remaining_leases_s) == times_led
        world.run()
        assert world.orchestrator.worker_set_ids() == frozenset()


class TestUnexpectedErrors:
    """An error in one part of the controller is logged and reported, and other parts continue."""

    def test_the_loop_continues_and_the_error_is_reported(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        stop, seen = threading.Event(), list[str]()

        def broken(*_: object) -> None:
            leader = world.database.leases.leader(CONTROLLER_LEASE)
            seen.append("" if leader is None else leader.current_failure)
            world.now += RENEW_EVERY_S
            if len(seen) == 3:
                monkeypatch.undo()
                stop.set()
            raise ZeroDivisionError

        monkeypatch.setattr(world.database.deployments, "active_versions", broken)
        world.controller.run(stop)
        assert seen == ["", *["reconciling deployments: ZeroDivisionError"] * 2]

    def test_a_failed_sweep_is_reported_until_one_succeeds(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(world.broker, "inventory", lambda: 1 / 0)
            with contextlib.suppress(ZeroDivisionError):
                world.run(ticks=1)
            world.now += SWEEP_EVERY_S
            with contextlib.suppress(ZeroDivisionError):
                world.run(ticks=1)
            assert world.controller.current_failure() == "sweeping: ZeroDivisionError"
        world.now += SWEEP_EVERY_S
        with contextlib.suppress(ZeroDivisionError):
            world.run(ticks=1)
        world.now += SWEEP_EVERY_S
        world.run(ticks=1)
        assert world.controller.current_failure() == ""

    def test_errors_in_managing_workers_are_reported(self, world: World) -> None:
        world.orchestrator.current_failure = "managing workers: OSError"
        world.run(ticks=1)
        leader = world.database.leases.leader(CONTROLLER_LEASE)
        assert leader is not None
        assert leader.current_failure == "managing workers: OSError"


def test_a_configuration_that_cannot_be_purged_does_not_delay_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = FLOW[:-1] + "9"
    drop, bad = world.sets.drop, filter_set_id(other, "t1")

    def fail_for_one(set_id: SetId) -> None:
        if set_id == bad:
            raise RuntimeError("unexpected")
        drop(set_id)

    monkeypatch.setattr(world.sets, "drop", fail_for_one)
    for config_id in (FLOW, other):
        world.database.flows.create(replace(flow(), id=config_id))
        world.sets.add(filter_set_id(config_id, "t1"), ["value"])
        world.database.flows.delete("owner", config_id)
    world.run()
    assert [left.id for left in world.database.flows.deleted()] == [other]
    assert world.sets.count(filter_set_id(FLOW, "t1"))[0] == 0
    assert "removing deleted configurations" in world.controller.current_failure()
    monkeypatch.undo()
    world.run()
    assert not world.database.flows.deleted()
    assert world.controller.current_failure() == ""
