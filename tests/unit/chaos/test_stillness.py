"""The judge of partitions that stand still, given answers of Kafka and the lack of them."""

import pytest

from tests.chaos.stillness import Stillness


class World:
    """A topic of two partitions with 100 records each, and a clock of the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stillness = Stillness(2, lambda: self.now)
        self.committed = {0: 0, 1: 0}

    def answers(self, seconds: int, moving: tuple[int, ...] = ()) -> None:
        for _ in range(seconds):
            self.now += 1
            for partition in moving:
                self.committed[partition] += 1
            self.stillness.note_answer({0: 100, 1: 100}, self.committed)

    def silence(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.stillness.note_silence()


@pytest.fixture
def world() -> World:
    made = World()
    made.answers(1, moving=(0, 1))
    return made


def test_a_partition_that_stands_still_is_seen_beside_one_that_moves(world: World) -> None:
    world.answers(20, moving=(0,))
    assert world.stillness.longest_s == {0: 1.0, 1: 20.0}
    assert not world.stillness.all_moved_since(1.0)
    assert world.stillness.still() == {0: 0.0, 1: 20.0}


def test_time_without_an_answer_does_not_count(world: World) -> None:
    world.answers(3)
    world.silence(50)
    world.answers(4)
    assert world.stillness.longest_s == {0: 4.0, 1: 4.0}


def test_a_partition_that_is_read_to_its_end_does_not_stand_still(world: World) -> None:
    world.committed = {0: 100, 1: 99}
    world.answers(1)
    world.answers(30)
    assert world.stillness.longest_s == {0: 1.0, 1: 30.0}
    assert world.stillness.still() == {0: 0.0, 1: 30.0}
