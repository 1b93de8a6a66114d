"""The command that abandons unknown deployments."""

import pytest

from headwater.app import sweep
from headwater.app.sweep import UnknownResources
from headwater.controller.deployment_resources import resources
from headwater.controller.deployment_sources import Sources
from headwater.errors import SetupError
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings, KafkaTopic
from tests.support.memory.broker import MemoryClusterAdmin
from tests.support.sql import fresh_database
from tests.unit.controller.world import DEPLOYMENT, FLOW, TOPIC, deployment


class World:
    """A broker with a deployment that is not in the database."""

    def __init__(self) -> None:
        self.broker, self.database = MemoryClusterAdmin(), fresh_database()
        self.other_cluster = MemoryClusterAdmin()
        known = deployment()
        self.broker.ensure(resources(known, known.desired_revision_record, KafkaTopic(TOPIC), 4))

    def look(self) -> UnknownResources:
        sources = Sources(
            bindings=Bindings(),
            own_cluster=self.broker,
            active_deployments=self.database.deployments.list_active,
            clusters={KafkaAccess(bootstrap_servers="127.0.0.1:9"): self.other_cluster},
        )
        return UnknownResources(self.broker, sources, self.database.deployments)


def test_listing_changes_nothing() -> None:
    world = World()
    before = world.broker.inventory()
    unknown = world.look()
    assert unknown.names.deployment_ids | unknown.names.config_ids == {DEPLOYMENT, FLOW}
    assert world.broker.inventory() == before
    assert list(world.database.deployments.ended_among([DEPLOYMENT])) == []


@pytest.mark.parametrize("named", [[], [DEPLOYMENT], [FLOW]])
def test_abandoned_deployments_are_recorded_as_ended(named: list[str]) -> None:
    world = World()
    assert world.look().record_as_ended(named) == {DEPLOYMENT, FLOW}
    assert list(world.database.deployments.ended_among([DEPLOYMENT])) == [DEPLOYMENT]
    assert list(world.database.deployments.undeployed_among([FLOW])) == [FLOW]
    assert not world.look().names


def test_an_unlisted_id_is_rejected() -> None:
    world = World()
    with pytest.raises(SetupError, match="does not list"):
        world.look().record_as_ended(["01jz0000000000000000000009"])
    with pytest.raises(SetupError, match="does not list"):
        world.look().require_listed([DEPLOYMENT, "01jz0000000000000000000009"])
    world.look().require_listed([DEPLOYMENT, FLOW])
    assert list(world.database.deployments.ended_among([DEPLOYMENT])) == []


@pytest.mark.parametrize("cluster", ["broker", "other_cluster"])
def test_resources_of_another_installation_are_removed_only_by_name(cluster: str) -> None:
    world = World()
    getattr(world, cluster).members[f"wrk-{DEPLOYMENT}.1"] = 1
    with pytest.raises(SetupError, match="another installation"):
        world.look().record_as_ended([])
    assert list(world.database.deployments.ended_among([DEPLOYMENT])) == []
    world.look().record_as_ended([DEPLOYMENT])
    assert list(world.database.deployments.ended_among([DEPLOYMENT])) == [DEPLOYMENT]


def test_an_active_deployment_is_not_ended_by_the_name_of_its_configuration() -> None:
    world = World()
    world.broker.members[f"wrk-{DEPLOYMENT}.1"] = 1
    with pytest.raises(SetupError, match=DEPLOYMENT):
        world.look().record_as_ended([FLOW])
    assert list(world.database.deployments.ended_among([DEPLOYMENT])) == []


def test_waiting_for_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "REMOVED_WITHIN_S", 0.05)
    monkeypatch.setattr(sweep, "POLL_S", 0.01)
    world = World()
    unknown = world.look()
    assert not unknown.wait_until_removed(frozenset({DEPLOYMENT}))
    world.broker.topics.clear()
    world.broker.users.clear()
    world.broker.acls.clear()
    assert unknown.wait_until_removed(frozenset({DEPLOYMENT}))
