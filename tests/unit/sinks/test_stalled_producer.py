"""When a producer without acknowledgements counts as stalled."""

import pytest

from headwater.sinks.stalled_producer import MAX_TIMEOUT_S, MIN_TIMEOUT_S, StalledProducerDetector

STEP_S = 0.5


class World:
    """A cluster whose check returns `leads` immediately, and the producers of one worker."""

    def __init__(self) -> None:
        self.now = 0.0
        self.leads: bool | None = True
        self.is_open = False
        self.detector = StalledProducerDetector(self, lambda: self.now)

    def start(self) -> None:
        self.is_open = True

    def take_result(self) -> bool | None:
        return self.leads

    def close(self) -> None:
        self.is_open = False

    def wait(self, seconds: float, acknowledged: int = 0, outstanding: int = 1) -> list[tuple[float, float]]:
        """Return when the producer counted as stalled, and the timeout.

        The time is since the start of the wait.
        """
        began, found = self.now, []
        while self.now < began + seconds:
            self.now += STEP_S
            if timeout_s := self.detector.update(acknowledged, outstanding):
                found.append((self.now - began, timeout_s))
        return found


@pytest.fixture
def world() -> World:
    return World()


def given_up(world: World, within_s: float = 1000.0) -> float:
    """Return the timeout of the next producer that gets no acknowledgement."""
    [(after_s, timeout_s)] = world.wait(within_s)[:1]
    world.now -= within_s - after_s
    world.detector.reset()
    return timeout_s


def test_the_timeout_doubles_from_producer_to_producer_up_to_the_maximum(world: World) -> None:
    assert [given_up(world, timeout_s + 1) for timeout_s in (10, 20, 40, 80, 160, 160)] == [
        10,
        20,
        40,
        80,
        MAX_TIMEOUT_S,
        MAX_TIMEOUT_S,
    ]


def test_the_timeout_is_twice_the_last_acknowledgement_time(world: World) -> None:
    assert given_up(world, 11) == MIN_TIMEOUT_S
    assert world.wait(15) == []
    assert world.wait(STEP_S, acknowledged=1) == []
    assert [timeout_s for _, timeout_s in world.wait(40, acknowledged=1)] == [2 * (15 + STEP_S)]


def test_a_fast_acknowledgement_shortens_the_timeout(world: World) -> None:
    assert [given_up(world, timeout_s + 1) for timeout_s in (10, 20)] == [10, 20]
    assert world.wait(STEP_S, acknowledged=1) == []
    assert [timeout_s for _, timeout_s in world.wait(12, acknowledged=1)] == [MIN_TIMEOUT_S]


@pytest.mark.parametrize("leads", [False, None])
def test_a_cluster_without_leaders_or_without_an_answer_is_waited_for(world: World, leads: bool | None) -> None:
    world.leads = leads
    assert world.wait(300) == []


def test_the_timeout_starts_when_the_cluster_responds_again(world: World) -> None:
    world.leads = False
    assert world.wait(60) == []
    world.leads = True
    [(after_s, timeout_s)] = world.wait(14)
    assert timeout_s == MIN_TIMEOUT_S
    assert after_s >= MIN_TIMEOUT_S


def test_an_idle_producer_sends_no_requests(world: World) -> None:
    assert world.wait(60, outstanding=0) == []
    assert not world.is_open


def test_the_checking_client_is_closed_at_the_first_acknowledgement(world: World) -> None:
    world.wait(5)
    assert world.is_open
    world.wait(STEP_S, acknowledged=1)
    assert not world.is_open
