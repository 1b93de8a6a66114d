"""Records of queue messages: their order, repeats, and the unacknowledged messages."""

from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.errors import WorkerError
from headwater.sources import unacked_messages
from headwater.sources.unacked_messages import PARTITIONS, Message, RecentMap, UnackedMessages
from tests.support.columns import plain

KEYS = ["", "a", "b", "c", "d", "e"]
MUCH = 1 << 20


def message(number: int, ordering_key: str = "", *, key: bytes | None = None, value: bytes = b"v") -> Message:
    return Message(str(number), f"{number}:1", value, key, ordering_key, 7)


class TestRecent:
    def test_forgets_the_oldest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(unacked_messages, "MAX_REMEMBERED", 2)
        recent = RecentMap[str, int]()
        assert [recent.put(key, n) for n, key in enumerate("abac")] == [None, None, 0, None]
        assert [key in recent for key in "abc"] == [True, False, True]


class TestRepeats:
    def test_a_redelivered_message_gets_its_new_ack_id(self) -> None:
        messages = UnackedMessages("t", lambda: 0)
        again = message(1)
        again.ack_id = "1:2"
        assert messages.add(message(1))
        assert messages.add(again)
        assert (messages.count, messages.ack_ids()) == (1, ["1:2"])

    def test_a_redelivered_committed_message_is_acknowledged(self) -> None:
        messages = UnackedMessages("t", lambda: 0)
        messages.add(message(1))
        partition = messages.read(1, MUCH).partitions[0]
        assert messages.commit({partition: 1}) == ["1:1"]
        assert not messages.add(message(1))
        assert messages.count == messages.size == 0

    def test_equal_messages_are_kept(self) -> None:
        messages = UnackedMessages("t", lambda: 0)
        assert [messages.add(message(n, key=b"k", value=b"x")) for n in range(2)] == [True, True]

    def test_equal_messages_are_dropped_by_choice_unless_another_came_in_between(self) -> None:
        messages = UnackedMessages("t", lambda: 0, deduplicate=True)
        taken = [messages.add(message(n, key=b"k", value=v)) for n, v in enumerate([b"x", b"x", b"y", b"x"])]
        assert taken == [True, False, True, True]
        assert messages.add(message(9, value=b"x"))  # without a natural key repeats are not detected

    def test_seeking_to_committed_messages_is_an_error(self) -> None:
        messages = UnackedMessages("t", lambda: 0)
        messages.add(message(1))
        partition = messages.read(1, MUCH).partitions[0]
        messages.commit({partition: 1})
        with pytest.raises(WorkerError):
            messages.seek({partition: 0})


class TestRead:
    def test_bounds(self) -> None:
        messages = UnackedMessages("t", lambda: 0)
        for n in range(10):
            messages.add(message(n, "a", value=b"x" * 100))
        assert [len(messages.read(3, MUCH)), len(messages.read(10, 250)), len(messages.read(10, 1))] == [3, 3, 1]

    def test_partitions_take_turns(self) -> None:
        messages = UnackedMessages("t", lambda: 0)
        for n in range(400):
            messages.add(message(n))
        assert {messages.read(1, MUCH).partitions[0] for _ in PARTITIONS} == set(PARTITIONS)

    def test_keys_and_offsets(self) -> None:
        messages = UnackedMessages("t", lambda: 50)
        for n, (ordering_key, key) in enumerate([("a", b"natural"), ("a", None)]):
            messages.add(message(n, ordering_key, key=key))
        batch = messages.read(5, MUCH)
        partition = batch.partitions[0]
        assert plain(batch) == [(b"v", b"natural", 7, partition, 50, 0), (b"v", b"a", 7, partition, 51, 0)]
        assert list(messages.message_ids(batch.partitions, batch.offsets)) == [b"0", b"1"]
        messages.add(message(2))
        assert messages.read(5, MUCH).keys == [None]


class Demo(RuleBasedStateMachine):
    """Compare with a model of the read and committed messages of each ordering key."""

    def __init__(self) -> None:
        super().__init__()
        self.messages = UnackedMessages("t", lambda: 100)
        self.numbers = count()
        self.came: dict[int, list[int]] = {p: [] for p in PARTITIONS}
        self.read = dict.fromkeys(PARTITIONS, 0)
        self.committed = dict.fromkeys(PARTITIONS, 0)

    @rule(key=st.sampled_from(KEYS), times=st.integers(1, 3))
    def comes(self, key: str, times: int) -> None:
        number = next(self.numbers)
        for _ in range(times):
            assert self.messages.add(message(number, key))
        self.came[message(number, key).partition].append(number)

    @rule(most=st.integers(1, 5))
    def reads(self, most: int) -> None:
        batch = self.messages.read(most, MUCH)
        names = self.messages.message_ids(batch.partitions, batch.offsets)
        for partition, offset, name in zip(batch.partitions, batch.offsets, names, strict=True):
            assert offset == 100 + self.read[partition]
            assert int(name) == self.came[partition][self.read[partition]]
            self.read[partition] += 1

    @rule(partition=st.sampled_from([*PARTITIONS]), data=st.data())
    def commits(self, partition: int, data: st.DataObject) -> None:
        end = data.draw(st.integers(self.committed[partition], self.read[partition]))
        done = self.came[partition][self.committed[partition] : end]
        assert self.messages.commit({partition: 100 + end}) == [f"{n}:1" for n in done]
        assert not any(self.messages.add(message(n)) for n in done)
        self.committed[partition] = end

    @rule(partition=st.sampled_from([*PARTITIONS]), data=st.data())
    def seeks(self, partition: int, data: st.DataObject) -> None:
        self.read[partition] = data.draw(st.integers(self.committed[partition], self.read[partition]))
        self.messages.seek({partition: 100 + self.read[partition]})

    @invariant()
    def counts(self) -> None:
        left = sum(len(came) - self.committed[p] for p, came in self.came.items())
        assert (self.messages.count, self.messages.size, len(self.messages.ack_ids())) == (left, left, left)
        assert self.messages.has_unread == any(len(came) > self.read[p] for p, came in self.came.items())
        assert self.messages.committed() == {p: 100 + done for p, done in self.committed.items()}


TestStory = Demo.TestCase
