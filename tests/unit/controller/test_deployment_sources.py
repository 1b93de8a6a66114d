"""Deployments on external streams, with dependencies in memory.

Resources and access are created and removed.
"""

from dataclasses import replace

import pytest

from headwater.brokers.base import DeploymentResources, TopicSpec
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings, KafkaTopic, PubSubSubscription, PubSubTopic
from headwater.model.deployment import Condition, Deployment, Phase
from headwater.model.worker_spec import PubSubPull
from tests.unit.controller.world import ACCESS, DEPLOYMENT, FLOW, World, deployment, flow

TOPIC = "projects/project/topics/logs"
SUBSCRIPTION = f"wrk-{DEPLOYMENT}.1"
MINE = "projects/project/subscriptions/mine"
OTHER = "01jz0000000000000000000001"


def world_with(binding: PubSubTopic | PubSubSubscription) -> World:
    world = World(bindings=Bindings({"base.log": binding}))
    world.project.topics[TOPIC] = False
    world.project.foreign.add("mine")
    return world


@pytest.fixture
def world() -> World:
    return world_with(PubSubTopic(TOPIC, ACCESS))


def active(world: World) -> Deployment:
    assert world.active is not None
    return world.active


def gone(world: World) -> bool:
    return world.database.deployments.active(FLOW) is None


class TestTopic:
    def test_a_deployment_creates_its_own_subscription(self, world: World) -> None:
        world.deploy()
        world.run()
        assert active(world).phase is Phase.RUNNING
        assert world.project.made == {SUBSCRIPTION: (TOPIC, "latest")}
        assert {topic.partitions for topic in world.broker.topics.values()} == {4}
        reads = [acl for acl in world.broker.acls if acl.operations == ("READ",) and acl.resource == "topic"]
        assert {acl.name for acl in reads if acl.user.startswith("wrk-")} == {f"flow.{FLOW}.dlq"}
        [pulse] = world.orchestrator.worker_snapshots()
        path = world.project.path(SUBSCRIPTION)
        assert pulse.spec.source == PubSubPull(project="project", subscription=path)

    def test_workers_get_the_deduplication_setting(self) -> None:
        world = world_with(PubSubTopic(TOPIC, ACCESS, deduplicate=True))
        world.deploy()
        world.run()
        [pulse] = world.orchestrator.worker_snapshots()
        path = world.project.path(SUBSCRIPTION)
        assert pulse.spec.source == PubSubPull(project="project", subscription=path, deduplicate=True)

    def test_a_teardown_removes_it_and_waits_for_pubsub(self, world: World) -> None:
        world.deploy()
        world.run()
        world.database.deployments.request_teardown(FLOW)
        world.project.away = True
        world.run(ticks=20)
        assert not gone(world)
        assert f"dep-{DEPLOYMENT}" in world.broker.users  # ACLs and users are removed afterwards
        world.project.away = False
        world.pass_time(50)
        assert gone(world)
        assert world.project.made == {}

    def test_a_successor_completes_the_teardown_of_a_killed_controller(self, world: World) -> None:
        world.deploy()
        world.run()
        world.database.deployments.request_teardown(FLOW)
        world.broker.away = True
        world.run(ticks=20)
        assert (world.project.made, gone(world)) == ({}, False)
        world.start_controller()
        world.broker.away = False
        world.pass_time(50)
        assert gone(world)

    def test_only_own_orphans_are_swept(self, world: World) -> None:
        world.deploy()
        world.run()
        world.database.deployments.request_teardown(FLOW)
        world.pass_time(50)
        foreign = "wrk-01zz0000000000000000000000.1"
        for name in (SUBSCRIPTION, foreign):
            world.project.ensure(name, TOPIC, "latest")
        world.pass_time(100)
        assert set(world.project.made) == {foreign}

    def test_another_stream_has_another_subscription_and_the_old_one_goes_when_it_is_stable(self) -> None:
        streams = {f"base.{entity}": PubSubTopic(TOPIC, ACCESS) for entity in ("log", "decoded_log")}
        world = World(bindings=Bindings(streams))
        world.project.topics[TOPIC] = False
        world.deploy()
        world.pass_time(50)
        source = flow().pipeline_config.source.model_copy(update={"entity": "decoded_log"})
        config = flow().pipeline_config.model_copy(update={"source": source})
        world.database.flows.save(replace(flow(), pipeline_config=config, revision=2))
        world.database.deployments.request_deploy("owner", FLOW, deployment())
        world.run(ticks=10)
        assert set(world.project.made) == {SUBSCRIPTION, f"wrk-{DEPLOYMENT}.2"}
        world.pass_time(50)
        assert active(world).condition is Condition.STABLE
        assert set(world.project.made) == {f"wrk-{DEPLOYMENT}.2"}

    def test_a_missing_topic_fails_the_deploy(self, world: World) -> None:
        world.project.topics.clear()
        world.deploy()
        world.run()
        assert active(world).phase is Phase.FAILED
        assert TOPIC in active(world).reason

    def test_the_controller_waits_for_pubsub(self, world: World) -> None:
        world.project.away = True
        world.deploy()
        world.run(ticks=20)
        assert not active(world).is_reconciled
        world.project.away = False
        world.run(ticks=60)
        assert active(world).phase is Phase.RUNNING

    def test_exactly_once_fails(self, world: World) -> None:
        once = flow().pipeline_config.model_copy(update={"delivery": "exactly_once"})
        world.database.flows.create(replace(flow(), pipeline_config=once))
        world.database.deployments.request_deploy("owner", FLOW, replace(deployment(), config=once))
        world.run()
        assert active(world).phase is Phase.FAILED
        assert "at_least_once" in active(world).reason


class TestSubscription:
    def second(self, world: World, deployment_id: str) -> Deployment:
        other = replace(flow(), id="01jz000000000000000000f200")
        world.database.flows.create(other)
        new = replace(deployment(deployment_id), config_id=other.id)
        world.database.deployments.request_deploy("owner", other.id, new)
        world.run()
        found = world.database.deployments.active(other.id)
        assert found is not None
        return found

    def test_a_user_managed_subscription_is_read_and_kept(self) -> None:
        world = world_with(PubSubSubscription(MINE, ACCESS))
        world.deploy()
        world.run()
        [pulse] = world.orchestrator.worker_snapshots()
        assert pulse.spec.source == PubSubPull(project="project", subscription=MINE)
        world.database.deployments.request_teardown(FLOW)
        world.pass_time(50)
        assert gone(world)
        assert (world.project.made, world.project.foreign) == ({}, {"mine"})

    @pytest.mark.parametrize("other", ["01jz0000000000000000000001", "01jy0000000000000000000001"])
    def test_a_user_managed_subscription_has_one_reader(self, other: str) -> None:
        world = world_with(PubSubSubscription(MINE, ACCESS))
        world.deploy()
        world.run()
        refused = self.second(world, other)
        assert refused.phase is Phase.FAILED
        assert "Another pipeline reads the subscription" in refused.reason
        assert active(world).phase is Phase.RUNNING

    @pytest.mark.parametrize("is_paused", [False, True])
    def test_a_refused_pipeline_moves_no_subscription(self, is_paused: bool) -> None:
        world = world_with(PubSubSubscription(MINE, ACCESS))
        world.deploy()
        world.run()
        refused = self.second(world, OTHER)
        if is_paused:
            world.database.deployments.request_pause(refused.owner, refused.config_id)
            world.run()
        world.database.deployments.request_rewind(refused.owner, refused.config_id, "latest")
        world.run()
        rewound = world.database.deployments.active(refused.config_id)
        assert rewound is not None
        assert rewound.rewind is not None
        assert "Another pipeline reads the subscription" in rewound.rewind.error
        assert world.project.positions == {}

    def test_the_older_of_two_deployments_gets_the_subscription(self) -> None:
        world = world_with(PubSubSubscription(MINE, ACCESS))
        world.deploy()
        refused = self.second(world, OTHER)
        assert refused.phase is Phase.FAILED
        assert active(world).phase is Phase.RUNNING

    def test_a_failed_deployment_releases_the_subscription(self) -> None:
        world = world_with(PubSubSubscription(MINE, ACCESS))
        world.project.foreign.clear()
        world.deploy()
        world.run()
        assert active(world).phase is Phase.FAILED
        world.project.foreign.add("mine")
        assert self.second(world, OTHER).phase is Phase.RUNNING

    def test_a_missing_subscription_fails_the_deploy(self) -> None:
        world = world_with(PubSubSubscription(MINE, ACCESS))
        world.project.foreign.clear()
        world.deploy()
        world.run()
        assert MINE in active(world).reason


class TestAnotherCluster:
    def test_groups_of_ended_deployments_are_deleted_on_the_other_cluster(self) -> None:
        access = KafkaAccess(bootstrap_servers="other")
        world = World(bindings=Bindings({"base.log": KafkaTopic("logs", access)}))
        world.cluster.ensure(DeploymentResources((TopicSpec("logs", 2),), (), ()))
        world.deploy()
        world.run()
        assert active(world).phase is Phase.RUNNING
        assert world.cluster.commits == {SUBSCRIPTION: {("logs", 0): 0, ("logs", 1): 0}}
        assert not world.broker.commits
        assert {t.partitions for name, t in world.broker.topics.items() if name.startswith("flow.")} == {2}
        assert "logs" not in {acl.name for acl in world.broker.acls}
        [pulse] = world.orchestrator.worker_snapshots()
        assert pulse.spec.source == access
        world.cluster.commits["somebody-elses"] = {("logs", 0): 1}
        world.database.deployments.request_teardown(FLOW)
        world.pass_time(100)
        assert set(world.cluster.commits) == {"somebody-elses"}
        assert not world.cluster.users
