"""Messages numbered into partitions: order, repeats, and what is kept until a commit."""

from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.errors import WorkerError
from headwater.sources import unacknowledged
from headwater.sources.unacknowledged import PARTITIONS, Message, Recent, Unacknowledged
from tests.support.columns import plain

KEYS = ["", "a", "b", "c", "d", "e"]
MUCH = 1 << 20


def message(number: int, ordering_key: str = "", *, key: bytes | None = None, value: bytes = b"v") -> Message:
    return Message(str(number), f"{number}:1", value, key, ordering_key, 7)


class TestRecent:
    def test_forgets_the_oldest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(unacknowledged, "REMEMBERED", 2)
        recent = Recent[str, int]()
        assert [recent.put(key, n) for n, key in enumerate("abac")] == [None, None, 0, None]
        assert [key in recent for key in "abc"] == [True, False, True]


class TestRepeats:
    def test_one_that_is_kept_gets_its_new_ack_id(self) -> None:
        kept = Unacknowledged("t", lambda: 0)
        again = message(1)
        again.ack_id = "1:2"
        assert kept.take(message(1))
        assert kept.take(again)
        assert (kept.count, kept.ack_ids()) == (1, ["1:2"])

    def test_one_that_is_committed_is_acknowledged_again(self) -> None:
        kept = Unacknowledged("t", lambda: 0)
        kept.take(message(1))
        partition = kept.read(1, MUCH).partitions[0]
        assert kept.commit({partition: 1}) == ["1:1"]
        assert not kept.take(message(1))
        assert kept.count == kept.size == 0

    def test_equal_messages_are_kept(self) -> None:
        kept = Unacknowledged("t", lambda: 0)
        assert [kept.take(message(n, key=b"k", value=b"x")) for n in range(2)] == [True, True]

    def test_equal_messages_are_dropped_by_choice_unless_another_came_in_between(self) -> None:
        kept = Unacknowledged("t", lambda: 0, deduplicate=True)
        taken = [kept.take(message(n, key=b"k", value=v)) for n, v in enumerate([b"x", b"x", b"y", b"x"])]
        assert taken == [True, False, True, True]
        assert kept.take(message(9, value=b"x"))  # without a natural key nothing is known

    def test_what_is_committed_can_not_be_sought(self) -> None:
        kept = Unacknowledged("t", lambda: 0)
        kept.take(message(1))
        partition = kept.read(1, MUCH).partitions[0]
        kept.commit({partition: 1})
        with pytest.raises(WorkerError):
            kept.seek({partition: 0})


class TestRead:
    def test_bounds(self) -> None:
        kept = Unacknowledged("t", lambda: 0)
        for n in range(10):
            kept.take(message(n, "a", value=b"x" * 100))
        assert [len(kept.read(3, MUCH)), len(kept.read(10, 250)), len(kept.read(10, 1))] == [3, 3, 1]

    def test_partitions_take_turns(self) -> None:
        kept = Unacknowledged("t", lambda: 0)
        for n in range(400):
            kept.take(message(n))
        assert {kept.read(1, MUCH).partitions[0] for _ in PARTITIONS} == set(PARTITIONS)

    def test_keys_and_offsets(self) -> None:
        kept = Unacknowledged("t", lambda: 50)
        for n, (ordering_key, key) in enumerate([("a", b"natural"), ("a", None)]):
            kept.take(message(n, ordering_key, key=key))
        batch = kept.read(5, MUCH)
        partition = batch.partitions[0]
        assert plain(batch) == [(b"v", b"natural", 7, partition, 50, 0), (b"v", b"a", 7, partition, 51, 0)]
        assert list(kept.names(batch.partitions, batch.offsets)) == [b"0", b"1"]
        kept.take(message(2))
        assert kept.read(5, MUCH).keys == [None]


class Story(RuleBasedStateMachine):
    """Against a model: the messages of each ordering key, read so far and committed so far."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = Unacknowledged("t", lambda: 100)
        self.numbers = count()
        self.came: dict[int, list[int]] = {p: [] for p in PARTITIONS}
        self.read = dict.fromkeys(PARTITIONS, 0)
        self.committed = dict.fromkeys(PARTITIONS, 0)

    @rule(key=st.sampled_from(KEYS), times=st.integers(1, 3))
    def comes(self, key: str, times: int) -> None:
        number = next(self.numbers)
        for _ in range(times):
            assert self.kept.take(message(number, key))
        self.came[message(number, key).partition].append(number)

    @rule(most=st.integers(1, 5))
    def reads(self, most: int) -> None:
        batch = self.kept.read(most, MUCH)
        names = self.kept.names(batch.partitions, batch.offsets)
        for partition, offset, name in zip(batch.partitions, batch.offsets, names, strict=True):
            assert offset == 100 + self.read[partition]
            assert int(name) == self.came[partition][self.read[partition]]
            self.read[partition] += 1

    @rule(partition=st.sampled_from([*PARTITIONS]), data=st.data())
    def commits(self, partition: int, data: st.DataObject) -> None:
        end = data.draw(st.integers(self.committed[partition], self.read[partition]))
        done = self.came[partition][self.committed[partition] : end]
        assert self.kept.commit({partition: 100 + end}) == [f"{n}:1" for n in done]
        assert not any(self.kept.take(message(n)) for n in done)
        self.committed[partition] = end

    @rule(partition=st.sampled_from([*PARTITIONS]), data=st.data())
    def seeks(self, partition: int, data: st.DataObject) -> None:
        self.read[partition] = data.draw(st.integers(self.committed[partition], self.read[partition]))
        self.kept.seek({partition: 100 + self.read[partition]})

    @invariant()
    def counts(self) -> None:
        left = sum(len(came) - self.committed[p] for p, came in self.came.items())
        assert (self.kept.count, self.kept.size, len(self.kept.ack_ids())) == (left, left, left)
        assert self.kept.unread == any(len(came) > self.read[p] for p, came in self.came.items())
        assert self.kept.committed() == {p: 100 + done for p, done in self.committed.items()}


TestStory = Story.TestCase
