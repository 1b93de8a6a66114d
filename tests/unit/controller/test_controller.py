"""The controller over twins in memory: up, down, outages, kills between steps, and a clock that tests move."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from headwater.brokers.base import Resources, TopicSpec
from headwater.brokers.memory import MemoryBroker
from headwater.controller.controller import Controller
from headwater.controller.plan import WorkerSettings, resources, worker_set
from headwater.controller.reconcile import MAX_DEATHS_IN_ROLLOUT, READY_WITHIN_S, Reconciler
from headwater.controller.sweeper import Sweeper
from headwater.controller.turns import Turns
from headwater.model.dataset import Dataset, dataset_set, filter_set
from headwater.model.deployment import Condition, Deployment, Desired, Phase
from headwater.model.flow import Flow, PipelineConfig
from headwater.model.sink import KafkaSink
from headwater.model.worker import KafkaAccess
from headwater.orchestrators.memory import MemoryOrchestrator
from headwater.stores.memory.control import MemoryDatabase
from headwater.stores.memory.sets import MemoryDatasetNames, MemoryDraftSets, MemorySetStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOPIC = "stream.base.log"
FLOW, DEPLOYMENT = "01jz000000000000000000f100", "01jz0000000000000000000000"


def flow() -> Flow:
    config = PipelineConfig.model_validate(
        {
            "source": {"type": "pubsub", "chain": "base", "entity": "log"},
            "transforms": [{"uid": "t1", "type": "redis_set_filter", "filter_expr": "root = this.address"}],
            "sinks": [{"uid": "s1", "type": "kafka", "name": "out"}],
        }
    )
    return Flow(FLOW, "owner", "name", "", (), config, 1, NOW, NOW)


def deployment(deployment_id: str = DEPLOYMENT) -> Deployment:
    return Deployment(
        id=deployment_id,
        flow_id=FLOW,
        owner="owner",
        config=flow().pipeline_config,
        desired=Desired.RUNNING,
        desired_revision=1,
        generation=1,
        reader_password="reads",
        worker_password="works",
        created_at=NOW,
    )


class World:
    """Everything that outlives a controller, and a controller."""

    def __init__(self, *, auto: bool = True) -> None:
        self.now = 0.0
        self.database = MemoryDatabase()
        self.broker = MemoryBroker()
        self.sets = MemorySetStore()
        self.names = MemoryDatasetNames()
        self.auto = auto
        self.broker.ensure(Resources((TopicSpec(TOPIC, 4),), (), (), ()))
        self.start_controller()

    def start_controller(self) -> None:
        """As after a kill: nothing of the last one's memory is left, its workers neither."""
        self.orchestrator, turns = MemoryOrchestrator(auto=self.auto), Turns()
        settings = WorkerSettings(KafkaAccess(bootstrap_servers="b"), "redis", jit=False)
        reconciler = Reconciler(
            self.database.flows,
            self.database.revisions,
            self.sets,
            self.broker,
            self.orchestrator,
            settings,
            lambda _: TOPIC,
            lambda: self.now,
            turns,
        )
        sweeper = Sweeper(
            self.broker,
            self.orchestrator,
            turns,
            self.database.deployments,
            self.database.revisions,
            self.database.datasets,
            self.names,
            self.sets,
            MemoryDraftSets(),
            lambda: NOW,
        )
        self.controller = Controller("c", self.database, self.orchestrator, reconciler, sweeper, lambda: self.now)

    def deploy(self) -> Deployment:
        self.database.flows.create(flow())
        return self.database.deployments.desire_running("owner", FLOW, deployment())

    def run(self, ticks: int = 30, step_s: float = 0.5) -> None:
        """Let time pass; rounds run on threads, so each tick waits for those that it started."""
        for _ in range(ticks):
            self.controller.tick()
            if self.controller._sweeping is not None:
                self.controller._sweeping.result(10)
            for work in self.controller._work.values():
                if work.running is not None:
                    work.running.exception(10)
            self.now += step_s

    @property
    def active(self) -> Deployment | None:
        return self.database.deployments.active(FLOW)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    stop = threading.Event()
    stop.set()
    made.controller.run(stop)


class TestUp:
    def test_a_deploy_ends_running(self, world: World) -> None:
        world.deploy()
        world.run()
        assert world.active is not None
        assert world.active.settled
        assert (world.active.phase, world.active.observed_revision) == (Phase.RUNNING, 1)
        assert (world.active.condition, world.active.stable_revision) == (Condition.ROLLING_OUT, None)
        assert "30 s" in world.active.reason
        world.run(ticks=70)
        assert (world.active.condition, world.active.stable_revision) == (Condition.STABLE, 1)
        assert world.active.reason == ""
        assert [w.is_ready for w in world.active.workers] == [True]

    def test_what_it_makes_on_the_broker(self, world: World) -> None:
        world.deploy()
        world.run()
        assert set(world.broker.topics) == {TOPIC, f"flow.{FLOW}.out", f"flow.{FLOW}.dlq"}
        assert {topic.partitions for topic in world.broker.topics.values()} == {4}
        assert world.broker.users == {f"dep-{DEPLOYMENT}": "reads", f"wrk-{DEPLOYMENT}": "works"}
        allowed = {(r.user[:3], r.resource, r.name, r.operations, r.prefixed) for r in world.broker.rules}
        assert allowed == {
            ("dep", "topic", f"flow.{FLOW}.out", ("READ",), False),
            ("dep", "topic", f"flow.{FLOW}.dlq", ("READ",), False),
            ("dep", "group", f"dep-{DEPLOYMENT}.", ("READ",), True),
            ("wrk", "topic", TOPIC, ("READ",), False),
            ("wrk", "group", f"wrk-{DEPLOYMENT}.", ("READ",), True),
            ("wrk", "topic", f"flow.{FLOW}.out", ("WRITE",), False),
            ("wrk", "topic", f"flow.{FLOW}.dlq", ("WRITE",), False),
        }

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

    def test_it_is_not_running_before_its_workers_are_ready(self) -> None:
        world = World(auto=False)
        world.deploy()
        world.run(ticks=5)
        assert world.active is not None
        assert not world.active.settled
        world.orchestrator.settle(DEPLOYMENT)
        world.run()
        assert world.active.phase is Phase.RUNNING

    def test_workers_that_never_get_ready_fail_with_a_reason(self) -> None:
        world = World(auto=False)
        world.deploy()
        world.run(ticks=10, step_s=READY_WITHIN_S / 5)
        assert world.active is not None
        assert (world.active.phase, world.active.condition) == (Phase.FAILED, Condition.FAILED)
        assert "not ready within" in world.active.reason
        assert world.orchestrator.running() == frozenset()

    def test_a_source_topic_that_does_not_exist(self, world: World) -> None:
        del world.broker.topics[TOPIC], world.broker.logs[TOPIC]
        world.deploy()
        world.run()
        assert world.active is not None
        assert world.active.phase is Phase.FAILED
        assert TOPIC in world.active.reason

    def test_a_broker_that_is_away_is_waited_for(self, world: World) -> None:
        world.broker.away = True
        world.deploy()
        world.run()
        assert world.active is not None
        assert not world.active.settled
        world.broker.away = False
        world.run(ticks=100)
        assert world.active.phase is Phase.RUNNING

    def test_the_next_controller_resumes_what_ran(self, world: World) -> None:
        world.deploy()
        world.run()
        world.start_controller()
        assert world.orchestrator.running() == frozenset()
        world.run()
        assert world.orchestrator.running() == {DEPLOYMENT}
        assert world.active is not None
        assert world.active.phase is Phase.RUNNING


class TestRedeploy:
    """Revision 1 writes to `out`; the next ones change that."""

    @pytest.fixture
    def world(self) -> Iterator[World]:
        made = World()
        made.deploy()
        made.run(ticks=100)
        made.orchestrator.auto = False
        yield made
        stop = threading.Event()
        stop.set()
        made.controller.run(stop)

    def save(self, world: World, sink: str = "other") -> None:
        old = world.database.flows.get("owner", FLOW)
        changed = old.pipeline_config.model_copy(update={"sinks": [KafkaSink(uid="s", type="kafka", name=sink)]})
        world.database.flows.save(replace(old, revision=old.revision + 1, pipeline_config=changed))
        world.database.deployments.desire_running("owner", FLOW, deployment())

    def seen(self, world: World) -> tuple[int | None, Condition]:
        assert world.active is not None
        return world.active.observed_revision, world.active.condition

    def test_the_old_revision_runs_until_the_new_one_is_ready(self, world: World) -> None:
        self.save(world)
        world.run(ticks=10)
        assert self.seen(world) == (1, Condition.ROLLING_OUT)
        assert [w.is_ready for w in world.orchestrator.status(DEPLOYMENT)] == [True]
        assert {f"flow.{FLOW}.out", f"flow.{FLOW}.other"} <= set(world.broker.topics)
        world.orchestrator.settle(DEPLOYMENT)
        world.run(ticks=10)
        assert self.seen(world) == (2, Condition.ROLLING_OUT)
        assert f"flow.{FLOW}.out" in world.broker.topics

    def test_once_it_is_stable_nothing_of_the_old_one_is_left(self, world: World) -> None:
        self.save(world)
        world.run(ticks=2)
        world.orchestrator.settle(DEPLOYMENT)
        world.run(ticks=100)
        assert self.seen(world) == (2, Condition.STABLE)
        assert set(world.broker.topics) == {TOPIC, f"flow.{FLOW}.other", f"flow.{FLOW}.dlq"}
        assert {rule.name for rule in world.broker.rules if rule.resource == "topic"} == set(world.broker.topics)

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
        for _ in range(MAX_DEATHS_IN_ROLLOUT):
            world.orchestrator.die(DEPLOYMENT)
        world.run(ticks=10)
        assert self.seen(world) == (1, Condition.ROLLED_BACK)

    def test_workers_that_die_on_probation(self, world: World) -> None:
        self.save(world)
        world.run(ticks=2)
        world.orchestrator.settle(DEPLOYMENT)
        world.run(ticks=10)
        world.orchestrator.die(DEPLOYMENT)
        world.orchestrator.settle(DEPLOYMENT)
        world.run(ticks=10)
        assert self.seen(world) == (2, Condition.ROLLING_OUT), "one death can have many causes"
        world.orchestrator.die(DEPLOYMENT)
        world.run(ticks=10)
        assert self.seen(world) == (2, Condition.ROLLED_BACK)
        world.orchestrator.settle(DEPLOYMENT)
        world.run(ticks=10)
        assert self.seen(world) == (1, Condition.ROLLED_BACK)
        world.run(ticks=100)
        assert self.seen(world) == (1, Condition.ROLLED_BACK)

    def test_deploying_again_tries_again(self, world: World) -> None:
        self.save(world)
        world.run(ticks=10, step_s=READY_WITHIN_S / 5)
        world.database.deployments.desire_running("owner", FLOW, deployment())
        world.run(ticks=2)
        assert self.seen(world) == (1, Condition.ROLLING_OUT)
        world.orchestrator.settle(DEPLOYMENT)
        world.run(ticks=100)
        assert self.seen(world) == (2, Condition.STABLE)

    def test_a_stream_that_does_not_exist_leaves_the_old_one_running(self, world: World) -> None:
        del world.broker.topics[TOPIC], world.broker.logs[TOPIC]
        self.save(world)
        world.run(ticks=10)
        assert self.seen(world) == (1, Condition.ROLLED_BACK)
        assert world.orchestrator.running() == {DEPLOYMENT}

    def test_a_controller_killed_in_a_rollout_first_brings_back_what_ran(self, world: World) -> None:
        self.save(world)
        world.run(ticks=2)
        world.auto = False
        world.start_controller()
        world.run(ticks=4)
        world.orchestrator.settle(DEPLOYMENT)
        (worker,) = world.orchestrator.status(DEPLOYMENT)
        assert worker.is_ready
        world.run(ticks=4)
        assert self.seen(world) == (2, Condition.ROLLING_OUT)

    def test_a_controller_killed_on_probation_begins_it_anew(self, world: World) -> None:
        self.save(world)
        world.run(ticks=2)
        world.orchestrator.settle(DEPLOYMENT)
        world.run(ticks=50)
        world.auto = True
        world.start_controller()
        world.run(ticks=50)
        assert self.seen(world) == (2, Condition.ROLLING_OUT)
        world.run(ticks=50)
        assert self.seen(world) == (2, Condition.STABLE)

    def test_a_teardown_in_a_rollout_wins_and_leaves_nothing(self, world: World) -> None:
        self.save(world)
        world.run(ticks=10)
        world.database.deployments.desire_absent(FLOW)
        world.run(ticks=100)
        assert world.active is None
        assert set(world.broker.topics) == {TOPIC}
        assert (world.broker.users, world.broker.rules) == ({}, set())

    def test_positions_of_a_running_group_are_left_alone(self, world: World) -> None:
        before = dict(world.broker.commits[f"wrk-{DEPLOYMENT}.1"])
        world.broker.members[f"wrk-{DEPLOYMENT}.1"] = 1
        world.broker.logs[TOPIC].append([])
        self.save(world)
        world.run(ticks=2)
        world.orchestrator.settle(DEPLOYMENT)
        world.run(ticks=10)
        assert self.seen(world) == (2, Condition.ROLLING_OUT)
        assert world.broker.commits[f"wrk-{DEPLOYMENT}.1"] == before
        assert len(world.broker.logs[f"flow.{FLOW}.dlq"]) == 5, "a sink has as many partitions as its source"


class TestCredentials:
    def test_rotation(self, world: World) -> None:
        world.deploy()
        world.run()
        world.database.deployments.desire_credentials("owner", FLOW, "newer")
        world.run()
        assert world.active is not None
        assert world.active.observed_credentials == 2
        assert world.broker.users == {f"dep-{DEPLOYMENT}": "newer", f"wrk-{DEPLOYMENT}": "works"}
        assert world.active.condition is Condition.ROLLING_OUT


class TestDown:
    def test_teardown_leaves_nothing_but_the_configuration(self, world: World) -> None:
        world.deploy()
        world.run()
        world.sets.add(filter_set(FLOW, "t1"), ["x"])
        world.database.deployments.desire_absent(FLOW)
        world.run(ticks=100)
        assert world.active is None
        assert set(world.broker.topics) == {TOPIC}
        assert (world.broker.users, world.broker.rules, world.orchestrator.running()) == ({}, set(), frozenset())
        assert world.broker.inventory().groups == frozenset()
        assert world.sets.count(filter_set(FLOW, "t1"))[0] == 1
        assert world.database.flows.get("owner", FLOW)

    def test_groups_with_members_go_later(self, world: World) -> None:
        world.deploy()
        world.run()
        world.broker.members[f"dep-{DEPLOYMENT}.main"] = 1
        world.database.deployments.desire_absent(FLOW)
        world.run(ticks=100)
        assert world.active is None
        assert world.broker.inventory().groups == {f"dep-{DEPLOYMENT}.main"}
        world.broker.members[f"dep-{DEPLOYMENT}.main"] = 0
        world.run(ticks=100)
        assert world.broker.inventory().groups == frozenset()

    def test_other_installations_groups_are_not_touched(self, world: World) -> None:
        foreign = "wrk-01zz0000000000000000000000.1"
        world.broker.commits[foreign] = {(TOPIC, 0): 5}
        world.run(ticks=100)
        assert foreign in world.broker.inventory().groups

    def test_delete_removes_filter_values_and_the_configuration(self, world: World) -> None:
        world.deploy()
        world.run()
        world.sets.add(filter_set(FLOW, "t1"), ["x"])
        assert world.database.flows.delete("owner", FLOW)
        world.run(ticks=100)
        assert world.sets.count(filter_set(FLOW, "t1"))[0] == 0
        assert world.database.flows.deleted() == []
        assert set(world.broker.topics) == {TOPIC}

    def test_delete_of_what_is_not_deployed(self, world: World) -> None:
        world.database.flows.create(flow())
        world.sets.add(filter_set(FLOW, "t1"), ["x"])
        assert not world.database.flows.delete("owner", FLOW)
        world.run(ticks=20)
        assert world.sets.count(filter_set(FLOW, "t1"))[0] == 0
        assert world.database.flows.deleted() == []

    def test_a_kill_half_way_is_finished_by_the_next_controller(self, world: World) -> None:
        world.deploy()
        world.run(ticks=1)
        world.database.deployments.desire_absent(FLOW)
        world.start_controller()
        world.run(ticks=100)
        assert world.active is None
        assert set(world.broker.topics) == {TOPIC}


class TestOrphans:
    """What a broker may carry out late, after a killed controller had asked for it."""

    def test_users_rules_topics_and_workers_of_ended_deployments_go(self, world: World) -> None:
        made = world.deploy()
        world.run()
        wanted = resources(made, made.newest, TOPIC, 4)
        running = worker_set(
            made, made.newest, TOPIC, WorkerSettings(KafkaAccess(bootstrap_servers="b"), "", jit=False)
        )
        world.database.deployments.desire_absent(FLOW)
        world.run(ticks=100)
        world.broker.ensure(wanted)
        world.orchestrator.ensure(running)
        world.run(ticks=200)
        assert set(world.broker.topics) == {TOPIC}
        assert (world.broker.users, world.broker.rules, world.orchestrator.running()) == ({}, set(), frozenset())

    def test_those_of_other_installations_stay(self, world: World) -> None:
        foreign = replace(deployment("01zz0000000000000000000000"), flow_id="01zz0000000000000000000001")
        world.broker.ensure(resources(foreign, foreign.newest, TOPIC, 4))
        before = world.broker.inventory()
        world.run(ticks=200)
        assert world.broker.inventory() == before

    def test_topics_of_a_new_deployment_stay(self, world: World) -> None:
        world.deploy()
        world.run()
        world.database.deployments.desire_absent(FLOW)
        world.run(ticks=100)
        world.database.deployments.desire_running("owner", FLOW, deployment("01jz0000000000000000000001"))
        world.run(ticks=200)
        assert set(world.broker.topics) == {TOPIC, f"flow.{FLOW}.out", f"flow.{FLOW}.dlq"}


class TestDatasets:
    def test_a_creation_that_was_cut_off_is_removed(self, world: World) -> None:
        made = datetime(2025, 12, 31, tzinfo=UTC)
        world.database.datasets.create(Dataset("d1", "owner", "name", "pending", made, made))
        world.names.put("owner", "name", "d1")
        world.sets.add(dataset_set("d1"), ["x"])
        world.run(ticks=5)
        assert world.database.datasets.unsettled() == []
        assert world.names.resolve("owner", ["name"]) == [None]
        assert world.sets.count(dataset_set("d1"))[0] == 0


class TestLeadership:
    def test_a_standby_does_nothing_and_a_deposed_leader_ends(self, world: World) -> None:
        world.database.leases.acquire("controller", "another", datetime.now(UTC), 3600)
        world.deploy()
        world.run()
        assert world.orchestrator.running() == frozenset()
        world.database.leases.release("controller", "another")
        world.run()
        assert world.orchestrator.running() == {DEPLOYMENT}
        world.database.leases.release("controller", "c")
        world.database.leases.acquire("controller", "another", datetime.now(UTC), 3600)
        world.run()
        world.controller.run(threading.Event())
