"""How the in-memory consumer group assigns its partitions."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.memory.source import MemoryGroup, MemorySource, MemoryTopic


class Quiet:
    """A listener that does nothing."""

    def on_assigned(self, partitions: list[int]) -> None:
        pass

    def on_revoked(self, partitions: list[int]) -> None:
        pass

    def on_lost(self, partitions: list[int]) -> None:
        pass


@given(partitions=st.integers(1, 8), moves=st.lists(st.booleans(), max_size=12))
def test_every_partition_has_one_owner_and_shares_are_even(partitions: int, moves: list[bool]) -> None:
    group = MemoryGroup(MemoryTopic("t", [[] for _ in range(partitions)]), dict.fromkeys(range(partitions), 0))
    members: list[MemorySource] = []
    for joins in [True, *moves]:
        if joins or len(members) == 1:
            members.append(MemorySource(group, lambda seconds: None))
            members[-1].join(Quiet())
        else:
            members.pop(0).close()
        for member in members * 3:
            member.poll(1, 0)
        counts = [list(group.owners.values()).count(member) for member in members]
        assert sum(counts) == partitions
        assert max(counts) <= -(-partitions // len(members))


def test_partitions_keep_their_owner_if_possible() -> None:
    group = MemoryGroup(MemoryTopic("t", [[], [], [], []]), dict.fromkeys(range(4), 0))
    first, second = MemorySource(group), MemorySource(group)
    first.join(Quiet())
    first.poll(1, 0)
    second.join(Quiet())
    for member in (first, second, first, second):
        member.poll(1, 0)
    assert [p for p, owner in sorted(group.owners.items()) if owner is first] == [0, 1]
