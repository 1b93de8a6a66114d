"""Live tails are opened, counted and ended."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

import pytest

from headwater.errors import BrokerUnavailable, DatabaseUnavailable, NotFound, RateLimited
from headwater.model.deployment import DeploymentProgress, DesiredPhase, Phase
from headwater.model.key import ApiKey
from headwater.model.topic_record import TopicRecord
from headwater.services.live_tail import END_DETAILS
from headwater.services.tail_connections import TailConnection, TailLimits, Tails
from headwater.services.viewable_topics import OwningDeployment, ViewableTopic
from tests.support.memory.tail_reader import MemoryTailReader
from tests.support.memory.tail_slots import MemoryTailSlots

STREAM = ViewableTopic("base/log", None, "stream.base.log")
OUTPUT = ViewableTopic("c1/out", None, "flow.c1.out", OwningDeployment("c1", "d1"))
RECORD = TopicRecord(0, 0, 0, None, b"{}")
PROGRESS = DeploymentProgress("d1", "c1", DesiredPhase.RUNNING, 1, 1, Phase.RUNNING, 1, 1, 1, 1, "")


def api_key(owner: str, key_id: str = "k1") -> ApiKey:
    return ApiKey(key_id, owner, b"", (), datetime(2026, 1, 2, tzinfo=UTC))


class World:
    """Tails on clusters, stores and a clock that a test changes."""

    def __init__(self) -> None:
        self.now = 100.0
        self.kafka = MemoryTailReader()
        self.kafka.create(STREAM.topic)
        self.kafka.create(OUTPUT.topic)
        self.slots = MemoryTailSlots(lambda: self.now)
        self.live_keys = {"k1", "k2"}
        self.deployments = {"c1": PROGRESS}
        self.database_away = False
        numbers = count()
        self.tails = Tails(
            readers={None: self.kafka},
            slots=self.slots,
            limits=TailLimits(total=4, per_owner=3, idle_s=900),
            is_live_key=self._is_live,
            progress=self._progress,
            new_id=lambda: f"{next(numbers):026}",
            clock=lambda: self.now,
        )

    def _is_live(self, key_id: str) -> bool:
        if self.database_away:
            raise DatabaseUnavailable("The database does not answer.")
        return key_id in self.live_keys

    def _progress(self, config_ids: Collection[str]) -> Mapping[str, DeploymentProgress]:
        return {config_id: each for config_id, each in self.deployments.items() if config_id in config_ids}

    def open(self, *topics: ViewableTopic, owner: str = "alice", key_id: str = "k1") -> TailConnection:
        return self.tails.open(api_key(owner, key_id), topics)


@pytest.fixture
def world() -> World:
    return World()


def ends(opened: TailConnection) -> list[str | None]:
    return [opened.end_reason or tail.take().end for tail in opened.tails.values()]


def test_tails_get_the_records_of_their_topics(world: World) -> None:
    opened = world.open(STREAM, OUTPUT)
    world.kafka.append(OUTPUT.topic, RECORD)
    assert [len(tail.take().records) for tail in opened.tails.values()] == [0, 1]


def test_closed_tails_get_nothing_and_free_their_slots(world: World) -> None:
    for _ in range(3):
        opened = world.open(STREAM, OUTPUT, STREAM)
        world.tails.close(opened)
        world.tails.close(opened)
    assert not world.kafka.listeners
    assert not world.tails.is_used


def test_each_topic_of_a_connection_is_a_tail_of_the_owner(world: World) -> None:
    world.open(STREAM, OUTPUT)
    with pytest.raises(RateLimited, match="You may have 3 open tails") as raised:
        world.open(STREAM, STREAM)
    assert raised.value.retry_after_s == 10
    world.open(STREAM)


def test_all_owners_together_have_a_limit(world: World) -> None:
    world.open(STREAM, STREAM, STREAM)
    with pytest.raises(RateLimited, match="allows 4 open tails of all users together"):
        world.open(STREAM, STREAM, owner="bob")
    world.open(STREAM, owner="bob")


def test_a_tail_that_can_not_be_opened_takes_no_slot(world: World) -> None:
    missing = replace(OUTPUT, topic="flow.c1.other")
    for _ in range(3):
        with pytest.raises(NotFound, match="c1/out has no topic yet"):
            world.open(STREAM, missing)
    with pytest.raises(NotFound, match="stream base/log has no topic yet"):
        world.open(replace(STREAM, topic="stream.other"))
    world.kafka.away = True
    with pytest.raises(BrokerUnavailable):
        world.open(STREAM)
    world.kafka.away = False
    assert not world.kafka.listeners
    world.open(STREAM, STREAM, STREAM)


def test_open_tails_keep_their_slots(world: World) -> None:
    world.open(STREAM, STREAM, STREAM)
    for _ in range(10):
        world.now += 10
        world.tails.check()
    with pytest.raises(RateLimited):
        world.open(STREAM)


def test_tails_end_with_their_key(world: World) -> None:
    first, second = world.open(STREAM), world.open(STREAM, key_id="k2")
    world.live_keys.remove("k1")
    world.tails.check()
    assert (ends(first), ends(second)) == (["key_ended"], [None])


@pytest.mark.parametrize("current", [None, replace(PROGRESS, id="d2"), replace(PROGRESS, desired=DesiredPhase.ABSENT)])
def test_a_tail_ends_with_its_deployment(world: World, current: DeploymentProgress | None) -> None:
    opened = world.open(STREAM, OUTPUT)
    world.tails.check()
    assert ends(opened) == [None, None]
    world.deployments = {} if current is None else {"c1": current}
    world.tails.check()
    assert ends(opened) == [None, "deployment_ended"]


def test_tails_end_when_none_of_a_connection_gets_records(world: World) -> None:
    opened, quiet = world.open(STREAM, OUTPUT), world.open(OUTPUT)
    world.now += 800
    world.kafka.append(STREAM.topic, RECORD)
    world.now += 101
    world.tails.check()
    assert (ends(opened), ends(quiet)) == ([None, None], ["idle"])


def test_an_unavailable_database_ends_no_tail(world: World) -> None:
    opened = world.open(STREAM)
    world.database_away = True
    world.tails.check()
    assert ends(opened) == [None]


def test_all_tails_end_when_the_process_stops(world: World) -> None:
    before = world.open(STREAM)
    world.tails.end_all()
    during = world.open(STREAM)
    assert (ends(before), ends(during)) == (["shutdown"], ["shutdown"])
    world.tails.disconnect()


def test_every_end_says_what_to_do() -> None:
    assert all(detail.endswith(".") for detail in END_DETAILS.values())
