"""Leftovers of ended deployments are removed, and resources of others are kept."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from headwater.brokers.base import DeploymentResources, TopicSpec
from headwater.controller.deployment_resources import WorkerSettings, resources, worker_set
from headwater.controller.leadership import CONTROLLER_LEASE
from headwater.errors import LeaseLost
from headwater.model.access import KafkaAccess
from headwater.model.binding import KafkaTopic
from headwater.model.lease import Candidate
from tests.unit.controller.world import FLOW, LOCK, NOW, TOPIC, World, deployment


class TestOrphans:
    """Create resources like a broker that executes requests of a killed controller late."""

    def test_all_resources_of_ended_deployments_are_removed(self, world: World) -> None:
        deployment = world.deploy()
        world.run()
        wanted = resources(deployment, deployment.desired_revision_record, KafkaTopic(TOPIC), 4)
        running = worker_set(
            deployment,
            deployment.desired_revision_record,
            KafkaTopic(TOPIC),
            WorkerSettings(KafkaAccess(bootstrap_servers="b"), "", jit=False),
        )
        world.database.deployments.request_teardown(FLOW)
        world.pass_time(50)
        world.broker.ensure(wanted)
        world.orchestrator.ensure(running)
        world.pass_time(100)
        assert set(world.broker.topics) == {TOPIC}
        assert (world.broker.users, world.broker.acls, world.orchestrator.worker_set_ids()) == (
            {},
            set(),
            frozenset(),
        )

    def test_resources_of_other_installations_are_kept(self, world: World) -> None:
        foreign = replace(deployment("01zz0000000000000000000000"), config_id="01zz0000000000000000000001")
        world.broker.ensure(resources(foreign, foreign.desired_revision_record, KafkaTopic(TOPIC), 4))
        before = world.broker.inventory()
        world.pass_time(100)
        assert world.broker.inventory() == before

    def test_topics_of_a_new_deployment_are_kept(self, world: World) -> None:
        world.deploy()
        world.run()
        world.database.deployments.request_teardown(FLOW)
        world.pass_time(50)
        world.database.deployments.request_deploy("owner", FLOW, deployment("01jz0000000000000000000001"))
        world.pass_time(100)
        assert set(world.broker.topics) == {TOPIC, f"flow.{FLOW}.out", f"flow.{FLOW}.dlq"}


class TestWithoutUsers:
    """The operator manages Kafka, so the name of a topic does not prove its owner."""

    @pytest.fixture
    def world(self) -> Iterator[World]:
        world = World(manages_users=False)
        yield world
        stop = threading.Event()
        stop.set()
        world.controller.run(stop)

    @pytest.fixture
    def torn_down(self, world: World) -> World:
        world.deploy()
        world.run()
        assert (world.broker.users, world.broker.acls) == ({}, set())
        world.database.deployments.request_teardown(FLOW)
        world.pass_time(50)
        assert set(world.broker.topics) == {TOPIC}
        return world

    def make(self, world: World, *topics: str) -> None:
        world.broker.ensure(DeploymentResources(tuple(TopicSpec(topic, 1) for topic in topics), (), ()))

    def test_only_topics_of_recorded_teardowns_are_removed(self, torn_down: World) -> None:
        others = [f"flow.{FLOW}.somebody", "flow.01zz0000000000000000000001.out", "flow.other"]
        self.make(torn_down, f"flow.{FLOW}.out", f"flow.{FLOW}.dlq", *others)
        torn_down.pass_time(100)
        assert set(torn_down.broker.topics) == {TOPIC, *others}
        assert torn_down.sweeper.unknown.topics == set(others[:2])

    def test_no_topic_is_removed_while_a_deployment_is_unknown(self, torn_down: World) -> None:
        self.make(torn_down, f"flow.{FLOW}.out")
        torn_down.broker.commit_start_offsets(f"wrk-{SECOND}.1", TOPIC, "latest")
        torn_down.pass_time(100)
        assert set(torn_down.broker.topics) == {TOPIC, f"flow.{FLOW}.out"}

    def test_confirmed_resources_are_removed(self, torn_down: World) -> None:
        self.make(torn_down, f"flow.{FLOW}.somebody")
        torn_down.pass_time(50)
        torn_down.database.deployments.record_as_ended([FLOW], NOW)
        torn_down.pass_time(100)
        assert set(torn_down.broker.topics) == {TOPIC}

    def test_workers_log_in_as_headwater_does(self) -> None:
        ended, access = deployment(), KafkaAccess(bootstrap_servers="b", username="operator", password="p")
        own, given = (
            worker_set(
                ended, ended.desired_revision_record, KafkaTopic(TOPIC), WorkerSettings(access, "", False, manages)
            ).spec.kafka
            for manages in (True, False)
        )
        assert own.username == f"wrk-{ended.id}"
        assert given == access


SECOND = "01jz0000000000000000000001"


class TestRestoredBackup:
    """The database was restored from a backup, so it lacks later deployments."""

    @pytest.fixture
    def restored(self, world: World) -> World:
        """The backup has a teardown, after which the same configuration was deployed again."""
        world.deploy()
        world.run()
        world.database.deployments.request_teardown(FLOW)
        world.pass_time(50)
        again = deployment(SECOND)
        world.broker.ensure(resources(again, again.desired_revision_record, KafkaTopic(TOPIC), 4))
        return world

    def test_later_deployments_are_kept_and_reported(self, restored: World) -> None:
        before = restored.broker.inventory()
        with capture_logs() as logs:
            restored.pass_time(100)
        assert restored.broker.inventory() == before
        assert restored.sweeper.unknown.deployment_ids == {SECOND}
        assert restored.sweeper.unknown.topics == {f"flow.{FLOW}.out", f"flow.{FLOW}.dlq"}
        reports = [line for line in logs if "headwater sweep" in line["event"]]
        assert [line["deployments"] for line in reports] == [[SECOND]]

    def test_later_deployments_are_removed_when_confirmed(self, restored: World) -> None:
        restored.pass_time(50)
        restored.database.deployments.record_as_ended([SECOND], NOW)
        restored.pass_time(100)
        assert set(restored.broker.topics) == {TOPIC}
        assert (restored.broker.users, restored.broker.acls) == ({}, set())
        assert not restored.sweeper.unknown

    def test_a_deposed_leader_removes_nothing(self, world: World) -> None:
        deployment = world.deploy()
        world.run()
        world.database.deployments.request_teardown(FLOW)
        world.pass_time(50)
        world.broker.ensure(resources(deployment, deployment.desired_revision_record, KafkaTopic(TOPIC), 4))
        before = world.broker.inventory()
        world.database.leases.acquire(CONTROLLER_LEASE, Candidate("another", LOCK), 3600)
        with pytest.raises(LeaseLost):
            world.sweeper.sweep()
        assert world.broker.inventory() == before
