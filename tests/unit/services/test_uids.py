"""Which stored transform a sent one updates, whatever lists are sent."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from headwater.model.transform import NewTransform, Transform
from headwater.services.uids import uid_problems, updated

TYPES = ("v8", "redis_set_filter")
_new, _stored = TypeAdapter(NewTransform), TypeAdapter(Transform)


def members(kind: str) -> dict[str, str]:
    return {"type": kind} | ({"script": ""} if kind == "v8" else {"filter_expr": ""})


def new(kind: str, uid: str | None) -> NewTransform:
    made: NewTransform = _new.validate_python(members(kind) | ({} if uid is None else {"uid": uid}))
    return made


def stored(kind: str, uid: str) -> Transform:
    made: Transform = _stored.validate_python(members(kind) | {"uid": uid})
    return made


STORED = st.lists(st.sampled_from(TYPES), max_size=5).map(
    lambda kinds: [stored(k, f"u{i}") for i, k in enumerate(kinds)]
)
SENT = st.lists(
    st.builds(new, st.sampled_from(TYPES), st.none() | st.sampled_from([f"u{i}" for i in range(6)])), max_size=6
)


@given(sent=SENT, before=STORED, by_position=st.booleans())
def test_the_rules(sent: list[NewTransform], before: list[Transform], by_position: bool) -> None:
    found = updated(sent, before, by_position=by_position)
    problems = {problem.pointer for problem in uid_problems(sent, found, lambda i: f"/{i}")}
    known = {transform.uid: transform for transform in before}
    counts = Counter(transform.uid for transform in sent)
    seen: set[str | None] = set()
    for i, (one, old) in enumerate(zip(sent, found, strict=True)):
        if one.uid is None:
            there = before[i] if by_position and i < len(before) else None
            taken = there is not None and there.type == one.type and not counts[there.uid]
            assert old is (there if taken else None)
            assert not {f"/{i}/uid", f"/{i}/type"} & problems
        else:
            assert old is known.get(one.uid)
            assert (f"/{i}/uid" in problems) == (one.uid not in known or one.uid in seen)
            other_type = old is not None and old.type != one.type
            assert (f"/{i}/type" in problems) == (other_type and one.uid not in seen)
        seen.add(one.uid)
    if not problems:
        kept = [old.uid for old in found if old is not None]
        assert len(kept) == len(set(kept))


def test_a_uid_that_is_named_elsewhere_is_not_taken_over_by_position() -> None:
    before = [stored("v8", "a"), stored("v8", "b")]
    sent = [new("v8", None), new("v8", "a")]
    assert updated(sent, before, by_position=True) == [None, before[0]]


def test_no_position_in_a_list_of_transforms() -> None:
    assert updated([new("v8", None)], [stored("v8", "a")], by_position=False) == [None]
