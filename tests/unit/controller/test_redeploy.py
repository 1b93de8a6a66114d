"""Redeploys: hand-over, probation, rollback."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from headwater.brokers.base import OUTPUT_TOPIC_CONFIG
from headwater.controller.deployment_resources import WorkerSettings, worker_set
from headwater.controller.plan import MAX_DEATHS_BEFORE_READY, MAX_DEATHS_ON_PROBATION, READY_WITHIN_S
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings, KafkaTopic
from headwater.model.deployment import Condition, Phase
from headwater.model.sink import KafkaSink
from tests.unit.controller.world import DEPLOYMENT, FLOW, TOPIC, World, deployment


@pytest.fixture
def world() -> Iterator[World]:
    """Run a deployment, after which workers become ready only on request of the test."""
    world = World()
    world.deploy()
    world.stabilize()
    world.orchestrator.auto = False
    yield world
    stop = threading.Event()
    stop.set()
    world.controller.run(stop)


class TestTopicMembers:
    """Topic settings of a sink change with a deploy."""

    def save(self, world: World, **members: Any) -> None:
        old = world.database.flows.get("owner", FLOW)
        sink = KafkaSink(uid="s1", type="kafka", name="out", **members)
        changed = old.pipeline_config.model_copy(update={"sinks": [sink]})
        world.database.flows.save(replace(old, revision=old.revision + 1, pipeline_config=changed))
        world.database.deployments.request_deploy("owner", FLOW, deployment())

    def settings(self, world: World) -> tuple[str | None, str | None]:
        config = world.broker.topics[f"flow.{FLOW}.out"].config
        return config.get("retention.ms"), config.get("cleanup.policy")

    def test_compaction_begins_when_the_new_workers_have_taken_over(self, world: World) -> None:
        self.save(world, retention_ms=1000, cleanup_policy="compact")
        world.run(ticks=4)
        assert self.settings(world) == ("1000", None)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=4)
        assert self.settings(world) == ("1000", "compact")
        assert world.active is not None
        assert world.active.observed_revision == 2

    def test_an_omitted_member_gets_its_default(self, world: World) -> None:
        self.save(world, retention_ms=1000, cleanup_policy="compact")
        world.run(ticks=2)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=10)
        self.save(world)
        world.run(ticks=2)
        assert self.settings(world) == (OUTPUT_TOPIC_CONFIG["retention.ms"], "delete")

    def test_a_rolled_back_revision_gets_its_settings_back(self, world: World) -> None:
        self.save(world, retention_ms=1000)
        world.run(ticks=2)
        assert self.settings(world)[0] == "1000"
        world.run(ticks=20, step_s=READY_WITHIN_S / 5)
        assert world.active is not None
        assert world.active.condition is Condition.ROLLED_BACK
        assert self.settings(world)[0] == OUTPUT_TOPIC_CONFIG["retention.ms"]

    def test_manual_changes_of_topic_settings_are_kept(self, world: World) -> None:
        world.broker.configure({f"flow.{FLOW}.out": {"retention.ms": "5"}})
        self.save(world, compression="zstd")
        world.run(ticks=2)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.pass_time(100)
        assert self.settings(world) == ("5", None)

    def test_partitions_grow_and_the_dead_letters_keep_those_of_the_source(self, world: World) -> None:
        self.save(world, partitions=6)
        world.run(ticks=2)
        assert world.broker.partition_count(f"flow.{FLOW}.out") == 6
        assert world.broker.partition_count(f"flow.{FLOW}.dlq") == 4

    def test_fewer_partitions_than_the_topic_has_fail_the_deploy(self, world: World) -> None:
        self.save(world, partitions=3)
        world.run(ticks=4)
        assert world.active is not None
        assert world.active.condition is Condition.ROLLED_BACK
        assert "The topic of the sink out has 4 partitions" in world.active.reason
        assert world.broker.partition_count(f"flow.{FLOW}.out") == 4

    def test_workers_get_the_settings(self, world: World) -> None:
        self.save(world, partitions=6, compression="zstd", cleanup_policy="compact")
        assert world.active is not None
        settings = WorkerSettings(KafkaAccess(bootstrap_servers="b"), "redis", jit=False)
        [sink] = worker_set(world.active, world.active.desired_revision_record, KafkaTopic(TOPIC), settings).spec.sinks
        assert (sink.partitions, sink.compression, sink.is_compacted) == (6, "zstd", True)


class TestRedeploy:
    """Revision 1 writes to the sink `out`; the next revisions change the sinks."""

    def save(self, world: World, sink: str = "other") -> None:
        old = world.database.flows.get("owner", FLOW)
        changed = old.pipeline_config.model_copy(update={"sinks": [KafkaSink(uid="s", type="kafka", name=sink)]})
        world.database.flows.save(replace(old, revision=old.revision + 1, pipeline_config=changed))
        world.database.deployments.request_deploy("owner", FLOW, deployment())

    def seen(self, world: World) -> tuple[int | None, Condition]:
        assert world.active is not None
        return world.active.observed_revision, world.active.condition

    def test_the_old_revision_runs_until_the_new_one_is_ready(self, world: World) -> None:
        self.save(world)
        world.run(ticks=10)
        assert self.seen(world) == (1, Condition.ROLLING_OUT)
        assert [w.is_ready for w in world.orchestrator.status(DEPLOYMENT)] == [True]
        assert {f"flow.{FLOW}.out", f"flow.{FLOW}.other"} <= set(world.broker.topics)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=10)
        assert self.seen(world) == (2, Condition.ROLLING_OUT)
        assert f"flow.{FLOW}.out" in world.broker.topics

    def test_the_old_revision_is_removed_when_the_new_one_is_stable(self, world: World) -> None:
        self.save(world)
        world.run(ticks=2)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.pass_time(50)
        assert self.seen(world) == (2, Condition.STABLE)
        assert set(world.broker.topics) == {TOPIC, f"flow.{FLOW}.other", f"flow.{FLOW}.dlq"}
        assert {acl.name for acl in world.broker.acls if acl.resource == "topic"} == set(world.broker.topics)

    def test_a_deploy_during_a_removal_can_be_rolled_back(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        trim = world.broker.remove_stale

        def deploy_first(*args: Any) -> None:
            self.save(world, "third")
            trim(*args)

        with monkeypatch.context() as patch:
            patch.setattr(world.broker, "remove_stale", deploy_first)
            self.stabilise(world)
            world.run(ticks=1)
        world.run(ticks=10, step_s=READY_WITHIN_S / 5)
        assert self.seen(world) == (2, Condition.ROLLED_BACK)
        assert f"flow.{FLOW}.other" in world.broker.topics

    def test_an_unavailable_broker_delays_the_removal(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(*_: object) -> None:
            raise BrokerUnavailable("away")

        with monkeypatch.context() as patch:
            patch.setattr(world.broker, "remove_stale", away)
            self.stabilise(world)
            world.run(ticks=5)
        assert world.active is not None
        assert (world.active.rollback_revision, [other.number for other in world.active.previous_revisions]) == (2, [1])
        world.auto = True
        world.start_controller()
        world.run(ticks=5)
        assert world.active.previous_revisions == ()
        assert f"flow.{FLOW}.out" not in world.broker.topics

    def test_a_stream_that_disappears_during_the_removal(self, world: World) -> None:
        self.save(world)
        world.run(ticks=2)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=10)
        topic, records = world.broker.topics.pop(TOPIC), world.broker.logs.pop(TOPIC)
        world.pass_time(50)
        assert world.active is not None
        assert (self.seen(world), world.active.phase) == ((2, Condition.STABLE), Phase.RUNNING)
        assert [other.number for other in world.active.previous_revisions] == [1]
        world.broker.topics[TOPIC], world.broker.logs[TOPIC] = topic, records
        world.pass_time(60)
        assert world.active.previous_revisions == ()

    def stabilise(self, world: World) -> None:
        """Run revision 2 until it is stored as stable."""
        self.save(world)
        world.run(ticks=2)
        world.orchestrator.make_ready(DEPLOYMENT)
        for _ in range(100):
            world.run(ticks=1)
            if self.seen(world) == (2, Condition.STABLE):
                return
        raise AssertionError("it did not become stable")

    def test_the_acl_for_transactions_depends_on_the_delivery_mode(self, world: World) -> None:
        def rights() -> list[tuple[str, str]]:
            return [(r.user, r.name) for r in world.broker.acls if r.resource == "transactional_id"]

        def change(mode: str) -> None:
            old = world.database.flows.get("owner", FLOW)
            changed = old.pipeline_config.model_copy(update={"delivery": mode})
            world.database.flows.save(replace(old, revision=old.revision + 1, pipeline_config=changed))
            world.database.deployments.request_deploy("owner", FLOW, deployment())
            world.run(ticks=2)

        assert rights() == []
        change("exactly_once")
        world.orchestrator.make_ready(DEPLOYMENT)
        world.pass_time(50)
        assert rights() == [(f"wrk-{DEPLOYMENT}", f"headwater-{FLOW}-")]
        change("at_least_once")
        assert rights() != [], "the workers that still run need it"
        world.orchestrator.make_ready(DEPLOYMENT)
        world.pass_time(50)
        assert rights() == []

    def test_workers_that_never_get_ready(self, world: World) -> None:
        self.save(world)
        world.run(ticks=10, step_s=READY_WITHIN_S / 5)
        assert self.seen(world) == (1, Condition.ROLLED_BACK)
        assert world.active is not None
        assert "not ready within" in world.active.reason
        assert [w.is_ready for w in world.orchestrator.status(DEPLOYMENT)] == [True]
        assert world.orchestrator.successors(DEPLOYMENT) == []

    def test_workers_that_keep_dying_before_they_are_ready(self, world: World) -> None:
        self.save(world)
        world.run(ticks=2)
        for _ in range(MAX_DEATHS_BEFORE_READY):
            world.orchestrator.die(DEPLOYMENT)
        world.run(ticks=10)
        assert self.seen(world) == (1, Condition.ROLLED_BACK)

    def test_workers_that_die_on_probation(self, world: World) -> None:
        self.save(world)
        world.run(ticks=2)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=10)
        world.orchestrator.die(DEPLOYMENT)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=10)
        assert self.seen(world) == (2, Condition.ROLLING_OUT), "one death can have many causes"
        world.orchestrator.die(DEPLOYMENT)
        world.run(ticks=10)
        assert self.seen(world) == (2, Condition.ROLLED_BACK)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=10)
        assert self.seen(world) == (1, Condition.ROLLED_BACK)
        world.pass_time(50)
        assert self.seen(world) == (1, Condition.ROLLED_BACK)

    def test_deaths_count_however_fast_the_workers_are_back(self, world: World) -> None:
        self.save(world)
        world.run(ticks=2)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=10)
        for _ in range(MAX_DEATHS_ON_PROBATION):
            assert self.seen(world) == (2, Condition.ROLLING_OUT)
            world.orchestrator.die(DEPLOYMENT)
            world.orchestrator.make_ready(DEPLOYMENT)
            world.run(ticks=10)
        assert self.seen(world) == (2, Condition.ROLLED_BACK)

    def test_a_death_begins_the_probation_anew(self, world: World) -> None:
        self.save(world)
        world.run(ticks=2)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=50)
        world.orchestrator.die(DEPLOYMENT)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=50)
        assert self.seen(world) == (2, Condition.ROLLING_OUT)
        world.run(ticks=20)
        assert self.seen(world) == (2, Condition.STABLE)

    def test_a_repeated_deploy_retries(self, world: World) -> None:
        self.save(world)
        world.run(ticks=10, step_s=READY_WITHIN_S / 5)
        world.database.deployments.request_deploy("owner", FLOW, deployment())
        world.run(ticks=2)
        assert self.seen(world) == (1, Condition.ROLLING_OUT)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.pass_time(50)
        assert self.seen(world) == (2, Condition.STABLE)

    def test_the_old_revision_keeps_running_if_the_new_stream_is_missing(self, world: World) -> None:
        del world.broker.topics[TOPIC], world.broker.logs[TOPIC]
        self.save(world)
        world.run(ticks=10)
        assert self.seen(world) == (1, Condition.ROLLED_BACK)
        assert world.orchestrator.worker_set_ids() == {DEPLOYMENT}

    def test_no_rollback_to_a_stream_that_was_removed_from_the_settings(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.save(world)
        monkeypatch.setattr(Bindings, "find", lambda *_, **__: None)
        world.run(ticks=10)
        assert world.active is not None
        assert world.active.is_reconciled
        assert world.active.phase is Phase.FAILED
        assert "Revision 1 can't run either: The stream base.log is not bound" in world.active.reason
        assert world.orchestrator.worker_set_ids() == frozenset()

    def test_a_controller_killed_in_a_rollout_restarts_the_old_revision_first(self, world: World) -> None:
        self.save(world)
        world.run(ticks=2)
        world.auto = False
        world.start_controller()
        world.run(ticks=4)
        world.orchestrator.make_ready(DEPLOYMENT)
        (worker,) = world.orchestrator.status(DEPLOYMENT)
        assert worker.is_ready
        world.run(ticks=4)
        assert self.seen(world) == (2, Condition.ROLLING_OUT)

    def test_a_controller_killed_in_a_probation_restarts_the_probation(self, world: World) -> None:
        self.save(world)
        world.run(ticks=2)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=50)
        world.auto = True
        world.start_controller()
        world.run(ticks=50)
        assert self.seen(world) == (2, Condition.ROLLING_OUT)
        world.run(ticks=50)
        assert self.seen(world) == (2, Condition.STABLE)

    def test_a_teardown_during_a_rollout_removes_everything(self, world: World) -> None:
        self.save(world)
        world.run(ticks=10)
        world.database.deployments.request_teardown(FLOW)
        world.pass_time(50)
        assert world.active is None
        assert set(world.broker.topics) == {TOPIC}
        assert (world.broker.users, world.broker.acls) == ({}, set())

    def test_offsets_of_a_running_group_are_unchanged(self, world: World) -> None:
        before = dict(world.broker.commits[f"wrk-{DEPLOYMENT}.1"])
        world.broker.members[f"wrk-{DEPLOYMENT}.1"] = 1
        world.broker.logs[TOPIC].append([])
        self.save(world)
        world.run(ticks=2)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=10)
        assert self.seen(world) == (2, Condition.ROLLING_OUT)
        assert world.broker.commits[f"wrk-{DEPLOYMENT}.1"] == before
        assert len(world.broker.logs[f"flow.{FLOW}.dlq"]) == 5, "a sink has as many partitions as its source"
