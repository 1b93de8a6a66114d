"""Pause, resume and rewind: positions outlive Kafka's, and no interruption moves them back."""

import os
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from headwater.brokers.base import DeploymentResources, TopicSpec
from headwater.controller.plan import READY_WITHIN_S
from headwater.errors import RedisUnavailable
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings, KafkaTopic, PubSubSubscription, PubSubTopic
from headwater.model.deployment import Condition, Deployment, DesiredPhase, Phase
from headwater.model.flow import Source
from headwater.model.metric import MetricsDelta, PartitionCounts
from headwater.model.positions import Move, OffsetGap, RewindTarget
from tests.unit.controller.world import ACCESS, DEPLOYMENT, FLOW, TOPIC, World, deployment

GROUP, NEXT_GROUP = f"wrk-{DEPLOYMENT}.1", f"wrk-{DEPLOYMENT}.2"
NEXT_DEPLOYMENT = "01jz0000000000000000000001"
OTHER_TOPIC = "stream.base.erc20_token_transfer"
TICKS_BEFORE_INTERRUPTION = range(1, 9) if "CI" in os.environ else (1, 5)
"""After how many ticks of a change a test kills the controller or pauses the pipeline."""


@pytest.fixture
def world() -> Iterator[World]:
    """Run a deployment that has read 5 of 10 records of partition 0."""
    world = World()
    for second in range(10):
        world.broker.append(TOPIC, 0, 1000 * second)
    world.broker.ensure(DeploymentResources((TopicSpec(OTHER_TOPIC, 4),), (), ()))
    world.deploy()
    world.stabilize()
    commit(world, 5)
    yield world
    stop = threading.Event()
    stop.set()
    world.controller.run(stop)


def commit(world: World, offset: int, group: str = GROUP) -> None:
    world.broker.commits[group][TOPIC, 0] = offset


def committed(world: World, group: str = GROUP, topic: str = TOPIC) -> int | None:
    return world.broker.commits.get(group, {}).get((topic, 0))


def active(world: World) -> Deployment:
    assert world.active is not None
    return world.active


def workers(world: World) -> int:
    return len(world.orchestrator.status(DEPLOYMENT))


def pause(world: World, ticks: int = 6) -> None:
    world.database.deployments.request_pause("owner", FLOW)
    world.run(ticks)


def resume(world: World, ticks: int = 10) -> None:
    world.database.deployments.request_resume("owner", FLOW)
    world.run(ticks)


def rewind(world: World, to: RewindTarget, ticks: int = 12) -> None:
    world.database.deployments.request_rewind("owner", FLOW, to)
    world.run(ticks)


def save(world: World, entity: str = "log") -> None:
    """Save another revision, which reads this entity."""
    old = world.database.flows.get("owner", FLOW)
    source = Source(type="pubsub", chain="base", entity=entity, start_at="earliest")
    config = old.pipeline_config.model_copy(update={"source": source})
    world.database.flows.save(replace(old, revision=old.revision + 1, pipeline_config=config))


def stored_offset(world: World, epoch: int = 1) -> int:
    return active(world).positions.groups[epoch].offsets[0]


class TestPauseAndResume:
    def test_positions_are_kept_while_kafka_forgets_them(self, world: World) -> None:
        pause(world)
        assert (active(world).phase, workers(world), stored_offset(world)) == (Phase.PAUSED, 0, 5)
        assert {f"flow.{FLOW}.out", f"flow.{FLOW}.dlq"} <= world.broker.topics.keys()
        assert f"dep-{DEPLOYMENT}" in world.broker.users
        del world.broker.commits[GROUP]
        resume(world)
        assert (active(world).phase, workers(world), committed(world)) == (Phase.RUNNING, 1, 5)
        assert (active(world).gaps, active(world).positions.groups) == ((), {})

    def test_a_paused_deployment_is_not_reconciled(self, world: World) -> None:
        pause(world)
        before = active(world)
        world.pass_time(50)
        assert active(world) == before

    def test_records_that_retention_removed_are_a_gap(self, world: World) -> None:
        pause(world)
        world.broker.starts[TOPIC, 0] = 8
        resume(world)
        assert committed(world) == 8
        assert active(world).gaps == (OffsetGap(partition=0, start=5, end=8),)

    def test_offsets_that_were_committed_after_the_pause_are_kept(self, world: World) -> None:
        pause(world)
        commit(world, 9)
        resume(world)
        assert committed(world) == 9
        pause(world)
        rewind(world, {0: 3})
        resume(world)
        assert committed(world) == 3

    def test_a_new_partition_has_no_stored_position(self, world: World) -> None:
        pause(world)
        world.broker.logs[TOPIC].append([0, 0])
        resume(world)
        assert active(world).phase is Phase.RUNNING
        assert (TOPIC, 4) not in world.broker.commits[GROUP]  # the workers start at its first record

    def test_a_topic_that_was_created_again(self, world: World) -> None:
        pause(world)
        world.broker.topic_ids[TOPIC] = "another"
        resume(world)
        failed = active(world)
        assert (failed.phase, failed.condition, workers(world)) == (Phase.FAILED, Condition.FAILED, 0)
        assert "deleted and created again" in failed.reason
        assert stored_offset(world) == 5
        rewind(world, {0: 1})
        assert active(world).phase is Phase.FAILED
        rewind(world, "earliest")
        assert (active(world).phase, committed(world)) == (Phase.RUNNING, 0)

    def test_a_stream_that_is_bound_to_another_topic_meanwhile(self, world: World) -> None:
        pause(world)
        world.bindings = Bindings({"base.log": KafkaTopic(OTHER_TOPIC)})
        world.start_controller()
        world.leadership.renew("")
        resume(world, ticks=20)
        assert active(world).phase is Phase.FAILED
        assert OTHER_TOPIC in active(world).reason

    def test_a_stream_that_is_not_bound_meanwhile(self, world: World) -> None:
        save(world, entity="erc20_token_transfer")
        world.database.deployments.request_deploy("owner", FLOW, deployment())
        world.pass_time(50)
        pause(world)
        bound, world.bindings = world.bindings, Bindings({"base.erc20_token_transfer": None})  # type: ignore[dict-item]
        world.start_controller()
        world.leadership.renew("")
        resume(world, ticks=20)
        assert (active(world).phase, stored_offset(world, epoch=2)) == (Phase.FAILED, 0)
        assert "not bound" in active(world).reason
        world.bindings = bound
        world.start_controller()
        world.leadership.renew("")
        resume(world, ticks=20)
        assert (active(world).phase, committed(world, NEXT_GROUP, OTHER_TOPIC)) == (Phase.RUNNING, 0)

    def test_a_cluster_that_is_not_read_any_more_does_not_delay_the_resume(self) -> None:
        access = KafkaAccess(bootstrap_servers="other")
        streams = {"base.log": KafkaTopic(TOPIC, access), "base.erc20_token_transfer": KafkaTopic(OTHER_TOPIC)}
        world = World(bindings=Bindings(streams))
        world.cluster.ensure(DeploymentResources((TopicSpec(TOPIC, 4),), (), ()))
        world.broker.ensure(DeploymentResources((TopicSpec(OTHER_TOPIC, 4),), (), ()))
        world.deploy()
        world.pass_time(50)
        world.cluster.commits[GROUP][TOPIC, 0] = 0
        pause(world)
        stored = active(world).positions.groups[1]
        save(world, entity="erc20_token_transfer")
        world.cluster.away = True
        resume(world)
        assert (active(world).phase, workers(world)) == (Phase.RUNNING, 1)
        assert active(world).positions.groups == {1: stored.model_copy(update={"is_restore_deferred": True})}
        pause(world)
        assert stored_offset(world, epoch=2) == 0
        assert active(world).positions.groups[1] == stored

    def test_workers_that_end_slowly_delay_the_pause(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        stop_workers, ended = world.orchestrator.stop_workers, threading.Event()
        monkeypatch.setattr(world.orchestrator, "stop_workers", lambda id_: stop_workers(id_) and ended.is_set())
        pause(world)
        assert (active(world).phase, active(world).is_reconciled) == (Phase.RUNNING, False)
        commit(world, 7)
        ended.set()
        world.run(ticks=4)
        assert (active(world).phase, stored_offset(world)) == (Phase.PAUSED, 7)

    def test_an_open_transaction_delays_the_pause(self, world: World) -> None:
        world.broker.in_transaction.add(GROUP)
        pause(world)
        assert active(world).phase is Phase.RUNNING
        world.broker.in_transaction.clear()
        commit(world, 7)
        world.run(ticks=40)
        assert (active(world).phase, stored_offset(world)) == (Phase.PAUSED, 7)

    def test_a_deploy_while_pausing(self, world: World) -> None:
        world.database.deployments.request_pause("owner", FLOW)
        world.database.deployments.request_deploy("owner", FLOW, deployment())
        world.run(ticks=10)
        assert (active(world).phase, workers(world), committed(world)) == (Phase.RUNNING, 1, 5)

    def test_a_pause_while_rolling_out_ends_all_workers(self, world: World) -> None:
        world.orchestrator.auto = False
        save(world)
        world.database.deployments.request_deploy("owner", FLOW, deployment())
        world.run(ticks=4)
        assert world.orchestrator.successors(DEPLOYMENT)
        pause(world)
        world.run(ticks=20, step_s=READY_WITHIN_S)
        assert (active(world).phase, workers(world)) == (Phase.PAUSED, 0)
        assert not world.orchestrator.successors(DEPLOYMENT)
        world.orchestrator.auto = True
        resume(world)
        assert (active(world).observed_revision, active(world).phase) == (2, Phase.RUNNING)

    def test_a_pause_before_anything_has_run(self) -> None:
        world = World(auto=False)
        world.deploy()
        world.database.deployments.request_pause("owner", FLOW)
        world.run(ticks=6)
        assert (active(world).phase, active(world).positions.groups) == (Phase.PAUSED, {})
        world.orchestrator.auto = True
        resume(world)
        assert (active(world).phase, committed(world)) == (Phase.RUNNING, 0)

    def test_the_revision_before_the_pause_does_not_run_during_the_resume(self, world: World) -> None:
        pause(world)
        save(world)
        world.orchestrator.auto = False
        resume(world)
        assert {status.spec_hash for status in world.orchestrator.status(DEPLOYMENT)} == {
            status.spec_hash
            for status in (*world.orchestrator.status(DEPLOYMENT), *world.orchestrator.successors(DEPLOYMENT))
        }
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=4)
        assert active(world).observed_revision == 2

    def test_a_teardown_while_paused(self, world: World) -> None:
        pause(world)
        world.database.deployments.request_teardown(FLOW)
        world.run(ticks=10)
        assert world.active is None
        assert not world.broker.users
        assert f"flow.{FLOW}.out" not in world.broker.topics

    def test_new_credentials_while_paused(self, world: World) -> None:
        pause(world)
        world.database.deployments.request_credential_rotation("owner", FLOW, "new")
        world.run(ticks=6)
        assert (world.broker.users[f"dep-{DEPLOYMENT}"], active(world).phase) == ("new", Phase.PAUSED)
        assert (workers(world), stored_offset(world)) == (0, 5)

    def test_another_stream_and_a_rollback_to_the_first(self, world: World) -> None:
        pause(world)
        del world.broker.commits[GROUP]
        save(world, entity="erc20_token_transfer")
        world.orchestrator.auto = False
        resume(world)
        assert committed(world, NEXT_GROUP, OTHER_TOPIC) == 0
        world.run(ticks=6, step_s=READY_WITHIN_S)
        world.orchestrator.make_ready(DEPLOYMENT)
        world.run(ticks=4)
        assert (active(world).condition, active(world).observed_revision) == (Condition.ROLLED_BACK, 1)
        assert committed(world) == 5


class TestInterruptions:
    """A controller that is killed between any two steps moves no position back."""

    def test_a_kill_after_the_positions_were_committed(self, world: World) -> None:
        pause(world)
        del world.broker.commits[GROUP]
        world.database.deployments.request_resume("owner", FLOW)
        world.controller._reconciler.reconcile(active(world))  # its observation is lost
        assert committed(world) == 5
        world.start_controller()
        world.run(ticks=40)
        assert (active(world).phase, committed(world)) == (Phase.RUNNING, 5)

    @pytest.mark.parametrize("ticks", TICKS_BEFORE_INTERRUPTION)
    def test_a_kill_during_a_resume_whose_workers_have_committed(self, world: World, ticks: int) -> None:
        pause(world)
        resume(world, ticks)
        if workers(world):
            commit(world, 9)
        world.start_controller()
        world.run(ticks=60)
        assert active(world).phase is Phase.RUNNING
        assert committed(world) in (5, 9)
        commit(world, 9)
        world.run(ticks=20)
        assert committed(world) == 9

    @pytest.mark.parametrize("ticks", TICKS_BEFORE_INTERRUPTION)
    def test_a_pause_during_a_resume(self, world: World, ticks: int) -> None:
        pause(world)
        resume(world, ticks)
        if workers(world):
            commit(world, 9)
        expected = committed(world)
        pause(world, ticks=10)
        assert (active(world).phase, stored_offset(world)) == (Phase.PAUSED, expected)

    @pytest.mark.parametrize("ticks", TICKS_BEFORE_INTERRUPTION)
    def test_a_kill_during_a_rewind(self, world: World, ticks: int) -> None:
        rewind(world, {0: 2}, ticks)
        world.start_controller()
        world.run(ticks=60)
        deployment = active(world)
        assert (deployment.phase, committed(world), deployment.condition) == (Phase.RUNNING, 2, Condition.STABLE)
        assert deployment.rewind is not None
        assert deployment.rewind.moves == {0: Move(before=5, after=2)}

    @pytest.mark.parametrize("ticks", TICKS_BEFORE_INTERRUPTION)
    def test_a_kill_during_a_resume_over_a_gap(self, world: World, ticks: int) -> None:
        pause(world)
        world.broker.starts[TOPIC, 0] = 8
        resume(world, ticks)
        world.start_controller()
        world.run(ticks=60)
        assert (active(world).phase, committed(world)) == (Phase.RUNNING, 8)
        assert active(world).gaps == (OffsetGap(partition=0, start=5, end=8),)

    def test_valkey_is_away_after_the_positions_were_committed(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pause(world)
        rewind(world, {1: 0})
        world.broker.starts[TOPIC, 0] = 8

        def away(*_: object) -> None:
            raise RedisUnavailable("Valkey or Redis does not answer.")

        with monkeypatch.context() as patch:
            patch.setattr(world.metrics, "restart_counting", away)
            resume(world)
            assert (committed(world), workers(world)) == (8, 0)
            world.broker.starts[TOPIC, 0] = 9
        world.run(ticks=60)
        assert (active(world).phase, committed(world)) == (Phase.RUNNING, 9)
        assert active(world).gaps == (
            OffsetGap(partition=0, start=5, end=8),
            OffsetGap(partition=0, start=8, end=9),
        )

    @pytest.mark.parametrize("ticks", TICKS_BEFORE_INTERRUPTION)
    def test_a_pause_during_a_resume_over_a_gap(self, world: World, ticks: int) -> None:
        world.broker.append(TOPIC, 1, 0)
        world.broker.commits[GROUP][TOPIC, 1] = 1
        pause(world)
        world.broker.starts[TOPIC, 0] = 8
        resume(world, ticks)
        gaps = (OffsetGap(partition=0, start=5, end=8),)
        unanswered = () if active(world).phase is Phase.RUNNING else gaps
        pause(world, ticks=10)
        rewind(world, {1: 0})
        resume(world)
        assert (active(world).phase, active(world).gaps) == (Phase.RUNNING, unanswered)
        pause(world)
        resume(world)
        assert (active(world).phase, active(world).gaps) == (Phase.RUNNING, ())

    def test_a_member_that_has_not_left_delays_the_resume(self, world: World) -> None:
        pause(world)
        world.broker.members[GROUP] = 1
        resume(world)
        assert (workers(world), active(world).phase, stored_offset(world)) == (0, Phase.PAUSED, 5)
        world.broker.members[GROUP] = 0
        world.run(ticks=60)
        assert active(world).phase is Phase.RUNNING


class TestRewind:
    @pytest.mark.parametrize(
        ("to", "after"),
        [
            ("earliest", 0),
            ("latest", 10),
            ("1970-01-01T00:00:03Z", 3),
            ("2999-01-01T00:00:00Z", 10),
            ({0: 7}, 7),
            ({0: 99}, 10),
        ],
    )
    def test_positions_move_and_the_same_revision_runs(self, world: World, to: RewindTarget, after: int) -> None:
        before = active(world)
        rewind(world, to)
        rewound = active(world)
        assert (rewound.phase, rewound.condition, workers(world)) == (Phase.RUNNING, before.condition, 1)
        assert committed(world) == after
        assert rewound.rewind is not None
        assert rewound.rewind.state == "done"
        assert rewound.rewind.moves[0] == Move(before=5, after=after)
        assert rewound.rewind.moves.keys() == ({0} if isinstance(to, dict) else {0, 1, 2, 3})

    def test_other_partitions_stay(self, world: World) -> None:
        world.broker.append(TOPIC, 1, 0)
        world.broker.commits[GROUP][TOPIC, 1] = 1
        rewind(world, {0: 0})
        assert world.broker.commits[GROUP] == {(TOPIC, 0): 0, (TOPIC, 1): 1, (TOPIC, 2): 0, (TOPIC, 3): 0}

    def test_a_paused_deployment_stays_paused(self, world: World) -> None:
        pause(world)
        rewind(world, "earliest")
        rewind(world, {0: 3})
        assert (active(world).phase, active(world).desired, workers(world)) == (Phase.PAUSED, DesiredPhase.PAUSED, 0)
        assert stored_offset(world) == 3
        assert active(world).rewind is not None
        assert active(world).rewind.moves == {0: Move(before=0, after=3)}  # type: ignore[union-attr]
        resume(world)
        assert (committed(world), active(world).gaps) == (3, ())

    def test_offsets_that_retention_removed(self, world: World) -> None:
        world.broker.starts[TOPIC, 0] = 4
        rewind(world, {0: 1})
        assert committed(world) == 4

    def test_an_unknown_partition_changes_nothing(self, world: World) -> None:
        rewind(world, {9: 1})
        rewound = active(world)
        assert rewound.rewind is not None
        assert (rewound.rewind.state, rewound.rewind.moves) == ("failed", {})
        assert "no partition 9" in rewound.rewind.error
        assert (rewound.phase, committed(world), workers(world)) == (Phase.RUNNING, 5, 1)

    def test_records_that_are_read_again_count_again(self, world: World) -> None:
        counts = MetricsDelta(0, {0: PartitionCounts(5, {"messages_received": 5})}, {})
        world.metrics.write(DEPLOYMENT, GROUP, "a worker", counts)
        rewind(world, {0: 2})
        assert world.metrics.acquire_partitions(DEPLOYMENT, GROUP, "the next", [0, 1]) == {0: 2}

    def test_a_resume_does_not_count_again(self, world: World) -> None:
        counts = MetricsDelta(0, {0: PartitionCounts(6, {"messages_received": 6})}, {})
        world.metrics.write(DEPLOYMENT, GROUP, "a worker", counts)
        pause(world)
        resume(world)
        assert world.metrics.acquire_partitions(DEPLOYMENT, GROUP, "the next", [0]) == {0: 6}

    def test_the_rolled_back_revision_runs_on(self, world: World) -> None:
        world.orchestrator.auto = False
        save(world, entity="erc20_token_transfer")
        world.database.deployments.request_deploy("owner", FLOW, deployment())
        world.run(ticks=20, step_s=READY_WITHIN_S / 5)
        assert active(world).condition is Condition.ROLLED_BACK
        world.orchestrator.auto = True
        rewind(world, "earliest")
        rewound = active(world)
        assert (rewound.condition, rewound.observed_revision, committed(world)) == (Condition.ROLLED_BACK, 1, 0)

    def test_a_newer_request_replaces_a_pending_one(self, world: World) -> None:
        world.database.deployments.request_rewind("owner", FLOW, "earliest")
        rewind(world, "latest")
        assert committed(world) == 10

    def test_a_deploy_during_a_rewind(self, world: World) -> None:
        world.database.deployments.request_rewind("owner", FLOW, "earliest")
        save(world)
        world.database.deployments.request_deploy("owner", FLOW, deployment())
        world.run(ticks=20)
        assert (active(world).observed_revision, committed(world)) == (2, 0)

    def test_kafka_is_away(self, world: World) -> None:
        world.broker.away = True
        rewind(world, "earliest")
        assert active(world).rewind is not None
        assert active(world).rewind.is_pending  # type: ignore[union-attr]
        world.broker.away = False
        world.run(ticks=60)
        assert (active(world).phase, committed(world)) == (Phase.RUNNING, 0)


class TestPubSub:
    @pytest.fixture
    def world(self) -> World:
        world = World(bindings=Bindings({"base.log": PubSubTopic("projects/project/topics/logs", ACCESS)}))
        world.project.topics["projects/project/topics/logs"] = True
        world.deploy()
        world.run()
        return world

    def test_a_pause_keeps_the_subscription(self, world: World) -> None:
        pause(world)
        assert (active(world).phase, workers(world)) == (Phase.PAUSED, 0)
        assert GROUP in world.project.names()
        resume(world)
        assert active(world).phase is Phase.RUNNING

    @pytest.mark.parametrize("to", ["earliest", "latest", "2026-01-02T03:04:05Z"])
    def test_a_rewind_moves_the_subscription(self, world: World, to: str) -> None:
        rewind(world, to)
        assert world.project.positions == {GROUP: to}
        assert active(world).rewind is not None
        assert active(world).rewind.moves == {}  # type: ignore[union-attr]
        assert (active(world).phase, workers(world)) == (Phase.RUNNING, 1)

    def test_a_rewind_before_a_worker_was_ready(self, world: World) -> None:
        world.database.deployments.request_teardown(FLOW)
        world.run()
        save(world)
        world.orchestrator.auto = False
        world.database.deployments.request_deploy("owner", FLOW, deployment(NEXT_DEPLOYMENT))
        world.run(ticks=4)
        group = f"wrk-{NEXT_DEPLOYMENT}.1"
        assert world.project.positions == {group: "earliest"}
        pause(world)
        rewind(world, "latest")
        world.orchestrator.auto = True
        resume(world)
        assert active(world).phase is Phase.RUNNING
        assert world.project.positions == {group: "latest"}

    def test_a_topic_that_keeps_no_messages(self, world: World) -> None:
        world.project.topics["projects/project/topics/logs"] = False
        rewind(world, "earliest")
        assert active(world).rewind is not None
        assert "keeps no messages" in active(world).rewind.error  # type: ignore[union-attr]
        assert (active(world).phase, workers(world)) == (Phase.RUNNING, 1)

    def test_a_subscription_of_the_operator(self) -> None:
        path = "projects/project/subscriptions/mine"
        world = World(bindings=Bindings({"base.log": PubSubSubscription(path, ACCESS)}))
        world.project.foreign.add("mine")
        world.deploy()
        world.run()
        rewind(world, "latest")
        assert world.project.positions == {"mine": "latest"}
