"""What ended deployments may leave behind is swept; what is others' stays."""

from dataclasses import replace

from headwater.controller.plan import WorkerSettings, resources, worker_set
from headwater.model.binding import KafkaTopic
from headwater.model.worker import KafkaAccess
from tests.unit.controller.world import FLOW, TOPIC, World, deployment


class TestOrphans:
    """What a broker may carry out late, after a killed controller had asked for it."""

    def test_users_rules_topics_and_workers_of_ended_deployments_go(self, world: World) -> None:
        made = world.deploy()
        world.run()
        wanted = resources(made, made.newest, KafkaTopic(TOPIC), 4)
        running = worker_set(
            made, made.newest, KafkaTopic(TOPIC), WorkerSettings(KafkaAccess(bootstrap_servers="b"), "", jit=False)
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
        world.broker.ensure(resources(foreign, foreign.newest, KafkaTopic(TOPIC), 4))
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
