"""What a lane makes of answers that are no good."""

from typing import cast

import pytest

from headwater.brokers.wire.cluster import Leader
from headwater.brokers.wire.connection import Connection
from headwater.brokers.wire.fetch import Answer, Fetched
from headwater.model.worker import KafkaAccess
from headwater.sources.fetcher.lane import Lane
from headwater.sources.fetcher.shelf import Reading, Shelf, Stop
from tests.support.kafka_batches import Row, build, changed

ADDRESS = ("127.0.0.1", 1)
LZ4 = 3


def batch(first: int, codec: int = 0) -> bytes:
    return build([Row(delta, 5, None, b"v" * 50) for delta in range(3)], codec, base_offset=first)


def answer(records: bytes, error: int = 0, diverging: tuple[int, int] | None = None) -> Fetched:
    return Fetched(0, error, 9, 9, 0, [], diverging, memoryview(records))


class World:
    """A lane without a connection, and the partition 0 that it reads from offset 0 on."""

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.reading = Reading(0, 0, leader=Leader(ADDRESS, 1))
        self.shelf.readings[0] = self.reading
        self.lane = Lane(self.shelf, KafkaAccess(bootstrap_servers="127.0.0.1:1"), "t", ADDRESS)

    def answered(self, fetched: Fetched) -> None:
        self.lane._take(self.reading, fetched)
        self.lane._unpack()

    def found(self) -> None:
        """The scout has found the leader again: the same one."""
        self.reading.leader = Leader(ADDRESS, 1)

    @property
    def trouble(self) -> str:
        return self.reading.trouble.why if self.reading.trouble is not None else ""

    @property
    def lasts(self) -> bool:
        return self.reading.trouble is not None and self.reading.trouble.lasts

    @property
    def came(self) -> list[int]:
        return [offset for each in self.reading.batches for offset in each.columns.offsets]


class Answered:
    """A connection on which one answer came."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def receive(self) -> Answer:
        return self._answer


@pytest.fixture
def world() -> World:
    return World()


def damaged(records: bytes) -> bytes:
    return records[:-9] + bytes([records[-9] ^ 1]) + records[-8:]


@pytest.mark.parametrize(
    "broken",
    [damaged(batch(3)), changed(batch(3, LZ4), b"\x04\x22\x4d\x18 no frame"), changed(batch(3), b"\0no record")],
    ids=["checksum", "compression", "records"],
)
def test_records_that_cannot_be_read_are_asked_for_again(world: World, broken: bytes) -> None:
    world.answered(answer(batch(0) + broken + batch(6)))
    assert world.came == [0, 1, 2]
    assert (world.reading.offset, world.reading.leader) == (3, None)
    assert world.lasts
    assert "t, partition 0, that can't be read: the batch at offset 3" in world.trouble
    world.found()
    world.answered(answer(batch(3) + batch(6)))
    assert world.trouble == ""
    assert world.came == [*range(9)]
    assert world.reading.offset == 9


def test_records_of_a_partition_that_is_read_no_more(world: World) -> None:
    world.shelf.end(0)
    world.answered(answer(batch(0)))
    assert (world.came, world.shelf.size, [*world.shelf.order]) == ([], 0, [])


def test_what_came_before_the_connection_was_lost_is_kept(world: World) -> None:
    world.lane._take(world.reading, answer(batch(0)))
    world.lane._give_up("gone")
    assert world.came == [0, 1, 2]
    assert (world.reading.offset, world.reading.leader) == (3, None)


def test_a_log_that_was_cut_off(world: World) -> None:
    world.reading.offset = 7
    world.answered(answer(b"", diverging=(1, 4)))
    assert world.reading.stop == Stop(7, 4)


@pytest.mark.parametrize(("code", "lasts"), [(6, False), (3, False), (29, True)])
def test_errors_of_a_broker(world: World, code: int, lasts: bool) -> None:
    world.answered(answer(b"", error=code))
    assert world.reading.leader is None
    assert world.trouble
    assert world.lasts == lasts
    world.found()
    world.answered(answer(b""))
    assert world.trouble == ""


def test_trouble_lasts_since_it_began(world: World) -> None:
    world.lane._give_up("gone")
    began = world.reading.trouble
    world.found()
    world.lane._give_up("no route")
    again = world.reading.trouble
    assert began is not None
    assert again is not None
    assert again.since == began.since
    assert "no route" in again.why


def test_an_answer_that_came_after_the_partition_went_to_another_broker(world: World) -> None:
    world.reading.leader = Leader(("127.0.0.1", 2), 2)
    world.lane._connection = cast("Connection", Answered(Answer(0, 0, [answer(batch(0))])))
    world.lane._receive({0: (world.reading, world.lane._wanted(world.reading))})
    world.lane._unpack()
    assert (world.came, world.reading.offset) == ([], 0)


def test_a_rewind_forgets_the_epochs_behind_it() -> None:
    reading = Reading(0, 12, 2, ((4, 1), (8, 2)))
    assert [reading.epoch_before(position) for position in (4, 5, 8, 9)] == [-1, 1, 1, 2]
    reading.rewind(8)
    assert (reading.offset, reading.last_epoch, reading.epochs) == (8, 1, ((4, 1),))
