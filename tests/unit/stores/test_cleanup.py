"""The removal of revisions and configurations with the sets of their filters."""

from typing import Any

import pytest

from headwater.errors import DatabaseUnavailable, Unavailable
from headwater.model.value_sets import filter_set_id
from headwater.stores import cleanup
from tests.support.memory.sets import MemoryPendingSets, MemorySetStore
from tests.support.sql import OWNER, a_config, a_deployment, a_flow, at, fresh_database, next_revision


def with_filters(*uids: str) -> dict[str, Any]:
    transforms = [{"uid": uid, "type": "redis_set_filter", "filter_expr": "root = this.a"} for uid in uids]
    return {"pipeline_config": a_config(transforms=transforms)}


class World:
    """A configuration with revisions that were saved a second apart.

    Each of their filters has one value.
    """

    def __init__(self, *revisions: str) -> None:
        self.database, self.sets = fresh_database(), MemorySetStore()
        self.flow = a_flow(**with_filters(*revisions[0]))
        self.database.flows.create(self.flow)
        for uids in revisions[1:]:
            self.save(uids)
        for uid in set("".join(revisions)):
            self.sets.add(filter_set_id("f1", uid), ["value"])

    def save(self, uids: str) -> None:
        self.flow = next_revision(self.flow, **with_filters(*uids))
        self.database.flows.save(self.flow)

    def sweep(self, before_s: float = 100, kept: int = 1) -> None:
        cleanup.remove_superseded(self.database.revisions, at(before_s), kept, at(before_s))

    def expire(self, before_s: float) -> None:
        cleanup.remove_expired_filters(self.database.revisions, self.sets, at(before_s))

    @property
    def left(self) -> tuple[set[int], str]:
        """Return the stored revisions, and the filters that have values."""
        uids = (uid for uid in "abcd" if self.sets.count(filter_set_id("f1", uid)).size)
        return set(self.database.revisions.filters("f1")), "".join(uids)


class TestSuperseded:
    def test_only_the_newest_is_left_and_all_values(self) -> None:
        world = World("ab", "bc", "c")
        world.sweep()
        assert world.left == ({3}, "abc")

    def test_recently_replaced_revisions_are_kept(self) -> None:
        world = World("ab", "bc", "c")
        world.sweep(before_s=1.5)
        assert world.left == ({2, 3}, "abc")

    def test_the_newest_are_kept_and_their_removed_filters_are_recorded(self) -> None:
        world = World("ab", "bc", "c")
        world.sweep(kept=2)
        assert world.left == ({2, 3}, "abc")
        world.sweep(kept=100)
        assert [removed.uid for removed in world.database.revisions.removed_filters()] == ["a", "b"]

    def test_revisions_of_deployments_are_kept(self) -> None:
        world = World("a")
        world.database.deployments.request_deploy(OWNER, "f1", a_deployment())
        world.save("b")
        world.save("c")
        world.sets.add(filter_set_id("f1", "b"), ["value"])
        world.sets.add(filter_set_id("f1", "c"), ["value"])
        world.sweep()
        assert world.left == ({1, 3}, "abc")
        assert [removed.uid for removed in world.database.revisions.removed_filters()] == ["b"]

    @pytest.mark.long
    def test_two_thousand_saves_leave_one(self) -> None:
        world = World("a", *"b" * 2_000)
        world.sweep(before_s=1e6)
        assert world.left == ({2_001}, "ab")


class TestExpired:
    def test_values_are_removed_after_their_retention(self) -> None:
        world = World("ab", "b")
        world.sweep(before_s=1.5)  # a is removed
        world.save("c")
        world.sets.add(filter_set_id("f1", "c"), ["value"])
        world.sweep(before_s=100)  # b is removed
        world.expire(before_s=1.5)
        assert world.left == ({3}, "abc")
        world.expire(before_s=100)
        assert world.left == ({3}, "bc")
        world.expire(before_s=101)
        assert world.left == ({3}, "c")
        assert world.database.revisions.removed_filters() == []

    def test_values_are_removed_while_an_earlier_revision_is_kept(self) -> None:
        world = World("ab", "b")
        world.sweep(kept=100)
        world.expire(before_s=101)
        assert world.left == ({1, 2}, "b")
        assert [removed.state for removed in world.database.revisions.removed_filters()] == ["dropped"]

    def test_a_restored_filter_keeps_its_values(self) -> None:
        world = World("a", "b")
        world.sweep()
        world.save("ab")
        assert world.database.revisions.removed_filters() == []
        world.expire(before_s=1e6)
        assert world.left == ({2, 3}, "ab")

    @pytest.mark.parametrize("interrupted", ["drop", "finish_drop"])
    def test_an_interrupted_removal_is_completed(self, monkeypatch: pytest.MonkeyPatch, interrupted: str) -> None:
        world = World("ab", "b")
        world.sweep()

        def away(*_: object) -> None:
            raise DatabaseUnavailable("away")

        with monkeypatch.context() as patched:
            patched.setattr(world.sets if interrupted == "drop" else world.database.revisions, interrupted, away)
            with pytest.raises(DatabaseUnavailable):
                world.expire(before_s=1e6)
        with pytest.raises(Unavailable):
            world.save("ab")
        world.expire(before_s=0)
        assert world.left == ({2}, "b")
        assert world.database.revisions.removed_filters() == []


class TestDrafts:
    def test_values_of_a_removed_filter_are_not_abandoned(self) -> None:
        """The revision was saved, but its sets could not be removed from the list of pending sets."""
        world, pending_sets = World("a", "b"), MemoryPendingSets()
        pending_sets.add([filter_set_id("f1", "a"), filter_set_id("f1", "d")], at(0))
        world.sets.add(filter_set_id("f1", "d"), ["value"])
        world.sweep()
        cleanup.remove_abandoned_sets(pending_sets, world.database.revisions, world.sets, at(1e6))
        assert world.left == ({2}, "ab")


class TestPurge:
    def test_removes_the_values_of_all_revisions(self) -> None:
        world = World("ab", "bc", "c")
        world.sweep()
        world.save("d")
        world.database.flows.delete(OWNER, "f1")
        cleanup.purge_configuration("f1", world.database.flows, world.database.revisions, world.sets)
        assert world.left == (set(), "")
        assert world.database.flows.deleted() == []
        assert world.database.revisions.removed_filters() == []
