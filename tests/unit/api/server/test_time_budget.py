"""The time budget of a client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.api.server.limits import ServerLimits
from headwater.api.server.time_budget import ConnectionPhase, TimeBudget

LIMITS = ServerLimits(header_timeout_s=10, stall_timeout_s=30, min_bytes_per_s=500)


def ticks_until_it_ends(budget: TimeBudget, phase: ConnectionPhase, transferred_bytes: int, most: int = 10_000) -> int:
    """Return after how many seconds a client with this transfer rate is rejected.

    Return `most` if it never is.
    """
    return next((tick for tick in range(most) if not budget.spend(phase, 1, 1.0, transferred_bytes)), most)


def test_the_time_of_a_head_is_limited() -> None:
    assert ticks_until_it_ends(TimeBudget(LIMITS), ConnectionPhase.HEAD, 1_000) == 10


@pytest.mark.parametrize(("phase", "seconds"), [(ConnectionPhase.BODY, 30), (ConnectionPhase.RESPONSE, 60)])
def test_a_stalled_transfer_ends(phase: ConnectionPhase, seconds: int) -> None:
    assert ticks_until_it_ends(TimeBudget(LIMITS), phase, 0) == seconds


@pytest.mark.parametrize("phase", [ConnectionPhase.BODY, ConnectionPhase.RESPONSE])
@pytest.mark.parametrize("transferred_bytes", [500, 501, 100_000])
def test_a_transfer_at_the_least_rate_never_ends(phase: ConnectionPhase, transferred_bytes: int) -> None:
    assert ticks_until_it_ends(TimeBudget(LIMITS), phase, transferred_bytes) == 10_000


def test_a_transfer_that_trickles_ends() -> None:
    assert ticks_until_it_ends(TimeBudget(LIMITS), ConnectionPhase.BODY, 1) == 31
    assert ticks_until_it_ends(TimeBudget(LIMITS), ConnectionPhase.BODY, 400) == 151


def test_time_in_the_application_does_not_count() -> None:
    budget = TimeBudget(LIMITS)
    assert ticks_until_it_ends(budget, ConnectionPhase.WORK, 0) == 10_000
    assert ticks_until_it_ends(budget, ConnectionPhase.BODY, 0) == 30


def test_each_request_has_its_own_budget() -> None:
    budget = TimeBudget(LIMITS)
    assert all(budget.spend(ConnectionPhase.HEAD, request, 1.0, 0) for request in range(1_000))


def test_bytes_after_the_response_do_not_add_time() -> None:
    assert ticks_until_it_ends(TimeBudget(LIMITS), ConnectionPhase.LINGER, 1_000_000) == 30


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=300))
def test_a_client_is_disconnected_only_below_the_minimum_rate(moved: list[int]) -> None:
    budget = TimeBudget(LIMITS)
    budget.spend(ConnectionPhase.BODY, 1, 0.0, 0)
    for tick, size in enumerate(moved):
        if not budget.spend(ConnectionPhase.BODY, 1, 1.0, size):
            windows = [sum(moved[start : tick + 1]) / (tick + 1 - start) for start in range(tick + 1)]
            assert min(windows) < LIMITS.min_bytes_per_s
            break
