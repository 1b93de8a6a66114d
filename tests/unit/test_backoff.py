"""The limit of the delays doubles up to a maximum, and starts again after a reset."""

from headwater.backoff import Backoff


def test_the_limit_doubles_up_to_the_maximum() -> None:
    backoff = Backoff(1.0, 5.0, jitter=lambda: 1.0)
    assert [backoff.next_delay_s() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    backoff.reset()
    assert backoff.next_delay_s() == 1.0


def test_a_delay_is_a_random_part_of_the_limit() -> None:
    assert Backoff(4.0, jitter=lambda: 0.25).next_delay_s() == 1.0
