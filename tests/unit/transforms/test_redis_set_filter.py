"""The filter with a set store in memory."""

from collections.abc import Sequence

import pytest

from headwater.errors import InvalidExpression, RedisUnavailable
from headwater.model.record import RecordBatch
from headwater.model.transforms.redis_set_filter import RedisSetFilterTransform
from headwater.model.value_sets import SetId, filter_set_id
from headwater.transforms.base import Transform, TransformContext
from headwater.transforms.redis_set_filter import build
from tests.support.columns import plain
from tests.support.memory.sets import MemoryDatasetNames, MemorySetStore

TARGET = filter_set_id("c1", "t1")


class CountingStore(MemorySetStore):
    """A set store that counts lookups, and that is unavailable while `away` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []
        self.away = False

    def contains_many(self, set_id: SetId, values: Sequence[str]) -> list[bool]:
        if self.away:
            raise RedisUnavailable("away")
        self.asked.append(sorted(values))
        return super().contains_many(set_id, values)


@pytest.fixture
def sets() -> CountingStore:
    store = CountingStore()
    store.add(TARGET, ["0xa", "0xb", "5"])
    return store


def build_filter(sets: MemorySetStore, expression: str = "root = this.a") -> Transform:
    config = RedisSetFilterTransform(uid="t1", type="redis_set_filter", filter_expr=expression)
    return build(config, TransformContext("c1", "ann", sets, MemoryDatasetNames()))


def batch(*values: bytes | None) -> RecordBatch:
    numbers = list(range(len(values)))
    return RecordBatch.of("topic", list(values), [b"k"] * len(values), numbers, numbers, numbers, [0] * len(values))


def test_keeps_members_as_they_are(sets: CountingStore) -> None:
    given_ = batch(b'{"a": "0xA" , "n": 1.00}', b'{"a": "0xc"}', b'{"a": 5}', b"{}", b'{"a": ["x", "0xb"]}')
    outcome = build_filter(sets).start(given_).result()
    assert outcome.failures == []
    assert plain(outcome.output) == [plain(given_)[row] for row in (0, 2, 4)]
    assert len(given_) == 5


def test_one_lookup_for_a_batch(sets: CountingStore) -> None:
    build_filter(sets).start(batch(*[b'{"a": "0xA"}', b'{"a": "0xc"}'] * 50)).result()
    assert sets.asked == [["0xa"] * 50 + ["0xc"] * 50]


def test_repeated_values_are_looked_up_once(sets: CountingStore) -> None:
    kept = (
        build_filter(sets, "root = [this.a, this.b]")
        .start(batch(*[b'{"a": "0xA", "b": "0xa"}', b'{"a": 1}'] * 50))
        .result()
        .output
    )
    assert sets.asked == [["0xa", "1"]]
    assert len(kept) == 50


def test_nothing_to_look_up(sets: CountingStore) -> None:
    assert len(build_filter(sets).start(batch(b"{}", b'{"a": {}}')).result().output) == 0
    assert sets.asked == []


def test_failures_name_row_and_transform(sets: CountingStore) -> None:
    pending = build_filter(sets, "root = this.a.lowercase()").start(batch(b'{"a": "0xa"}', None, b"[]", b'{"a": 1}'))
    outcome = pending.result()
    assert len(outcome.output) == 1
    assert [(f.row, f.error, f.component) for f in outcome.failures] == [
        (1, "InvalidJSON", "t1"),
        (2, "NotAnObject", "t1"),
    ]


def test_the_filter_waits_for_the_store(sets: CountingStore) -> None:
    sets.away = True
    pending = build_filter(sets).start(batch(b'{"a": "0xa"}'))
    for _ in range(2):
        with pytest.raises(RedisUnavailable):
            pending.result()
    sets.away = False
    assert pending.done()
    assert len(pending.result().output) == 1


def test_the_set_at_the_end_of_the_batch_counts(sets: CountingStore) -> None:
    pending = build_filter(sets).start(batch(b'{"a": "new"}'))
    sets.add(TARGET, ["new"])
    assert len(pending.result().output) == 1


def test_an_empty_filter_passes_nothing(sets: CountingStore) -> None:
    sets.replace(TARGET, [])
    assert len(build_filter(sets).start(batch(b'{"a": "0xa"}')).result().output) == 0


def test_a_bad_expression() -> None:
    with pytest.raises(InvalidExpression):
        build_filter(MemorySetStore(), "root = ")
