"""Removing revisions and configurations with the sets of their filters."""

from typing import Any

import pytest

from headwater.errors import StoreUnavailable
from headwater.model.dataset import filter_set
from headwater.stores import removal
from headwater.stores.memory.control import MemoryDatabase
from headwater.stores.memory.sets import MemorySetStore
from tests.support.sql import OWNER, a_config, a_deployment, a_flow, at, next_revision


def with_filters(*uids: str) -> dict[str, Any]:
    transforms = [{"uid": uid, "type": "redis_set_filter", "filter_expr": "root = this.a"} for uid in uids]
    return {"pipeline_config": a_config(transforms=transforms)}


class World:
    """A configuration whose revisions, one a second, had these filters; each has a value."""

    def __init__(self, *revisions: str) -> None:
        self.database, self.sets = MemoryDatabase(), MemorySetStore()
        self.flow = a_flow(**with_filters(*revisions[0]))
        self.database.flows.create(self.flow)
        for uids in revisions[1:]:
            self.save(uids)
        for uid in set("".join(revisions)):
            self.sets.add(filter_set("f1", uid), ["value"])

    def save(self, uids: str) -> None:
        self.flow = next_revision(self.flow, **with_filters(*uids))
        self.database.flows.save(self.flow)

    def sweep(self, before_s: float = 100) -> None:
        removal.remove_superseded(self.database.revisions, self.sets, at(before_s))

    @property
    def left(self) -> tuple[set[int], str]:
        """The revisions, and the filters that have values."""
        uids = (uid for uid in "abcd" if self.sets.count(filter_set("f1", uid))[0])
        return set(self.database.revisions.filters("f1")), "".join(uids)


class TestSuperseded:
    def test_only_what_the_newest_has_is_left(self) -> None:
        world = World("ab", "bc", "c")
        world.sweep()
        assert world.left == ({3}, "c")

    def test_what_was_replaced_a_moment_ago_is_left(self) -> None:
        world = World("ab", "bc", "c")
        world.sweep(before_s=1.5)
        assert world.left == ({2, 3}, "bc")

    def test_what_a_deployment_may_run_is_left(self) -> None:
        world = World("a")
        world.database.deployments.desire_running(OWNER, "f1", a_deployment())
        world.save("b")
        world.save("c")
        world.sets.add(filter_set("f1", "b"), ["value"])
        world.sets.add(filter_set("f1", "c"), ["value"])
        world.sweep()
        assert world.left == ({1, 3}, "ac")

    def test_ten_thousand_saves_leave_one(self) -> None:
        world = World("a", *"b" * 10_000)
        world.sweep(before_s=1e6)
        assert world.left == ({10_001}, "b")

    def test_cut_off_between_values_and_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = World("ab", "b")

        def away(*_: object) -> None:
            raise StoreUnavailable("away")

        with monkeypatch.context() as patched:
            patched.setattr(world.database.revisions, "remove", away)
            with pytest.raises(StoreUnavailable):
                world.sweep()
        assert world.left == ({1, 2}, "b")
        world.sweep()
        assert world.left == ({2}, "b")


class TestPurge:
    def test_removes_the_values_of_all_revisions(self) -> None:
        world = World("ab", "bc", "c")
        world.database.flows.delete(OWNER, "f1")
        removal.purge("f1", world.database.flows, world.database.revisions, world.sets)
        assert world.left == (set(), "")
        assert world.database.flows.deleted() == []
