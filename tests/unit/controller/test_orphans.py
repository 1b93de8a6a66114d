"""What ended deployments may leave behind is swept; what is others' stays."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from headwater.controller.leadership import LEASE
from headwater.controller.resources import WorkerSettings, resources, worker_set
from headwater.errors import LeaseLost
from headwater.model.binding import KafkaTopic
from headwater.model.lease import Candidate
from headwater.model.worker import KafkaAccess
from tests.unit.controller.world import FLOW, LOCK, NOW, TOPIC, World, deployment


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


SECOND = "01jz0000000000000000000001"


class TestRestoredBackup:
    """The database is older than the broker: it has forgotten what was deployed since."""

    @pytest.fixture
    def restored(self, world: World) -> World:
        """The backup knows a teardown; after it, the same configuration was deployed again."""
        world.deploy()
        world.run()
        world.database.deployments.desire_absent(FLOW)
        world.run(ticks=100)
        again = deployment(SECOND)
        world.broker.ensure(resources(again, again.newest, KafkaTopic(TOPIC), 4))
        return world

    def test_what_was_deployed_since_stays_and_is_reported(self, restored: World) -> None:
        before = restored.broker.inventory()
        with capture_logs() as logs:
            restored.run(ticks=200)
        assert restored.broker.inventory() == before
        assert restored.sweeper.unknown.deployments == {SECOND}
        assert restored.sweeper.unknown.topics == {f"flow.{FLOW}.out", f"flow.{FLOW}.dlq"}
        told = [line for line in logs if "headwater sweep" in line["event"]]
        assert [line["deployments"] for line in told] == [[SECOND]]

    def test_it_goes_once_it_is_confirmed(self, restored: World) -> None:
        restored.run(ticks=100)
        restored.database.deployments.give_up([SECOND], NOW)
        restored.run(ticks=200)
        assert set(restored.broker.topics) == {TOPIC}
        assert (restored.broker.users, restored.broker.rules) == ({}, set())
        assert not restored.sweeper.unknown

    def test_a_deposed_leader_removes_nothing(self, world: World) -> None:
        made = world.deploy()
        world.run()
        world.database.deployments.desire_absent(FLOW)
        world.run(ticks=100)
        world.broker.ensure(resources(made, made.newest, KafkaTopic(TOPIC), 4))
        before = world.broker.inventory()
        world.database.leases.acquire(LEASE, Candidate("another", LOCK), 3600)
        with pytest.raises(LeaseLost):
            world.sweeper.sweep()
        assert world.broker.inventory() == before
