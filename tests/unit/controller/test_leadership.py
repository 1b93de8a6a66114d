"""Leadership depends on the database's clock and a fencing token.

It does not depend on the controllers' clocks.
"""

from datetime import datetime, timedelta

import pytest

from headwater.controller.leadership import CONTROLLER_LEASE, LEASE_TTL_S, MIN_REMAINING_S, Leadership
from headwater.errors import DatabaseUnavailable, LeaseLost
from headwater.model.lease import Leader, current_fence
from tests.support.memory.leases import MemoryLeases
from tests.support.sql import T0


class World:
    """A database with its own clock, and controllers with different clocks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.leases = MemoryLeases(self._now)

    def _now(self) -> datetime:
        return T0 + timedelta(seconds=self.seconds)

    def controller(self, lock: str = "", ahead_s: float = 0.0) -> Leadership:
        return Leadership(self.leases, lock, lambda: self.seconds + ahead_s)


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("ahead_s", [-60.0, 60.0])
def test_wrong_clocks_have_no_effect(world: World, ahead_s: float) -> None:
    leader, other = world.controller(), world.controller(ahead_s=ahead_s)
    for second in range(30):
        world.seconds = second
        leader.renew()
        other.renew()
        assert (leader.leads, other.leads) == (True, False)
    world.seconds += LEASE_TTL_S
    other.renew()
    assert (leader.leads, other.leads) == (False, True)
    with pytest.raises(LeaseLost):
        leader.require_lease()


def test_every_start_has_another_identity(world: World) -> None:
    first, second = world.controller(), world.controller()
    first.renew()
    holder = world.leases.leader(CONTROLLER_LEASE)
    first.release()
    second.renew()
    assert holder is not None
    assert world.leases.leader(CONTROLLER_LEASE) not in (None, holder)


def test_a_controller_with_the_same_lock_takes_over_immediately(world: World) -> None:
    killed, copy, again = world.controller("m:1"), world.controller("m:2"), world.controller("m:1")
    killed.renew()
    copy.renew()
    again.renew()
    assert (copy.leads, again.leads) == (False, True)


def test_a_deposed_leader_ends(world: World) -> None:
    first, second = world.controller(), world.controller()
    first.renew()
    world.seconds += LEASE_TTL_S
    second.renew()
    second.release()
    with pytest.raises(LeaseLost):
        first.renew()
    assert not first.leads


def test_nothing_is_removed_shortly_before_the_lease_expires(world: World) -> None:
    leader = world.controller()
    leader.renew()
    leader.require_lease()
    world.seconds += LEASE_TTL_S - MIN_REMAINING_S + 0.1
    assert leader.leads
    with pytest.raises(DatabaseUnavailable, match="renew its lease"):
        leader.require_lease()


def test_acting_sets_the_fence_and_needs_a_lease(world: World) -> None:
    leader = world.controller()
    with pytest.raises(LeaseLost), leader.fenced_writes():
        pass
    leader.renew()
    with leader.fenced_writes():
        fence = current_fence()
    assert fence is not None
    assert (fence.lease, fence.fencing_token, current_fence()) == (CONTROLLER_LEASE, 1, None)


def test_failures_are_visible_to_other_processes(world: World) -> None:
    world.controller().renew("sweeping: it broke")
    leader = world.leases.leader(CONTROLLER_LEASE)
    assert isinstance(leader, Leader)
    assert leader.current_failure == "sweeping: it broke"
