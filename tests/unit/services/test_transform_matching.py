"""Matching of sent transforms to stored ones, for arbitrary lists."""

from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.transforms.base import TransformIdentity
from headwater.services.transform_matching import match_transforms


@dataclass(frozen=True)
class Sent:
    content: str
    uid: str | None = None
    name: str | None = None
    type: str = "redis_set_filter"


def known(uid: str, content: str, name: str | None = None, kind: str = "redis_set_filter") -> TransformIdentity:
    return TransformIdentity(uid, kind, name, content)


def uids(sent: list[Sent], stored: list[TransformIdentity], *, by_content: bool = True) -> list[str | None]:
    return [None if found is None else found.uid for found in match_transforms(sent, stored, by_content=by_content)]


A, B, C = known("a", "A"), known("b", "B"), known("c", "C")

TYPES = st.sampled_from(["v8", "redis_set_filter"])
CONTENTS = st.sampled_from("XYZ")
NAMES = st.none() | st.sampled_from(["m", "n", "o"])


@st.composite
def stored_lists(draw: st.DrawFn) -> list[TransformIdentity]:
    names = draw(st.lists(NAMES, max_size=6, unique_by=lambda name: name or object()))
    return [known(f"u{i}", draw(CONTENTS), name, draw(TYPES)) for i, name in enumerate(names)]


STORED = stored_lists()
UIDS = st.none() | st.sampled_from([f"u{i}" for i in range(7)])
SENT = st.lists(st.builds(Sent, CONTENTS, UIDS, NAMES, TYPES), max_size=7)


def as_sent(transform: TransformIdentity, *, name: bool) -> Sent:
    return Sent(transform.content, None, transform.name if name else None, transform.type)


class TestInvariants:
    @given(sent=SENT, stored=STORED, by_content=st.booleans())
    def test_no_stored_transform_is_matched_twice(
        self, sent: list[Sent], stored: list[TransformIdentity], by_content: bool
    ) -> None:
        found = uids(sent, stored, by_content=by_content)
        unnamed = [uid for new, uid in zip(sent, found, strict=True) if new.uid is None and uid is not None]
        assert len(unnamed) == len(set(unnamed))
        assert not set(unnamed) & {new.uid for new in sent}

    @given(sent=SENT, stored=STORED, by_content=st.booleans())
    def test_a_match_without_a_uid_is_of_one_type(
        self, sent: list[Sent], stored: list[TransformIdentity], by_content: bool
    ) -> None:
        for new, old in zip(sent, match_transforms(sent, stored, by_content=by_content), strict=True):
            assert old is None or new.uid is not None or old.type == new.type

    @given(sent=SENT, stored=STORED, by_content=st.booleans())
    def test_a_uid_decides(self, sent: list[Sent], stored: list[TransformIdentity], by_content: bool) -> None:
        there = {transform.uid for transform in stored}
        for new, uid in zip(sent, uids(sent, stored, by_content=by_content), strict=True):
            assert new.uid is None or uid == (new.uid if new.uid in there else None)

    @given(stored=STORED, name=st.booleans())
    def test_an_unchanged_body_changes_nothing(self, stored: list[TransformIdentity], name: bool) -> None:
        assert (
            match_transforms([as_sent(transform, name=name) for transform in stored], stored, by_content=True) == stored
        )

    @given(stored=STORED, order=st.randoms(), keep=st.lists(st.booleans(), min_size=6, max_size=6), new=SENT)
    def test_inserting_removing_and_reordering_moves_no_values_to_another_expression(
        self, stored: list[TransformIdentity], order: object, keep: list[bool], new: list[Sent]
    ) -> None:
        """New transforms do not change the uids of the kept ones."""
        kept = [transform for transform, stays in zip(stored, keep, strict=False) if stays]
        body = [as_sent(t, name=False) for t in kept] + [replace(n, uid=None, name=None) for n in new]
        order.shuffle(body)  # type: ignore[attr-defined]
        content = {transform.uid: (transform.type, transform.content) for transform in stored}
        found = uids(body, stored)
        edited = set[str]()
        for i, (one, uid) in enumerate(zip(body, found, strict=True)):
            if uid is not None and content[uid] != (one.type, one.content):
                assert len(body) == len(stored)
                assert uid == stored[i].uid
                assert content[uid] not in {(other.type, other.content) for other in body}
                edited.add(uid)
        for identity in set(content.values()):
            wanted = min(
                sum((one.type, one.content) == identity for one in body),
                sum(one == identity for one in content.values()),
            )
            assert sum(uid is not None and uid not in edited and content[uid] == identity for uid in found) == wanted

    @given(sent=SENT, stored=STORED)
    def test_in_a_list_of_transforms_only_uid_and_name_count(
        self, sent: list[Sent], stored: list[TransformIdentity]
    ) -> None:
        for new, old in zip(sent, match_transforms(sent, stored, by_content=False), strict=True):
            assert old is None or new.uid == old.uid or (new.name is not None and new.name == old.name)

    @given(
        here=st.lists(st.integers(0, 9), unique=True, max_size=5),
        there=st.lists(st.integers(0, 9), unique=True, max_size=5),
    )
    def test_of_equal_ones_the_nearest_in_order(self, here: list[int], there: list[int]) -> None:
        """Compares with all ways to pair the indexes in order."""
        sent = [Sent("X" if i in here else f"new {i}") for i in range(10)]
        stored = [known(f"u{i}", "X" if i in there else f"old {i}") for i in range(11)]
        pairs = [(i, int(uid[1:])) for i, uid in enumerate(uids(sent, stored)) if uid is not None]
        assert pairs == sorted(pairs, key=lambda pair: pair[1])
        few = min(len(here), len(there))
        ways = (
            zip(a, b, strict=True) for a in combinations(sorted(here), few) for b in combinations(sorted(there), few)
        )
        assert sum(abs(i - j) for i, j in pairs) == min(sum(abs(i - j) for i, j in way) for way in ways)


class TestPutOfAConfiguration:
    @pytest.mark.parametrize(
        ("sent", "wanted"),
        [
            ("NABC", [None, "a", "b", "c"]),
            ("ANBC", ["a", None, "b", "c"]),
            ("BC", ["b", "c"]),
            ("CBA", ["c", "b", "a"]),
            ("ANC", ["a", "b", "c"]),  # edited in place
            ("NAC", [None, "a", "c"]),  # the transform at N's position was moved
            ("NB", [None, "b"]),  # the body is shorter, so N may be anything
            ("BNC", ["b", None, "c"]),  # B is at N's position in the stored list, and was moved
            ("ABCC", ["a", "b", "c", None]),
            ("AAA", ["a", None, None]),
        ],
    )
    def test_without_uids_and_names(self, sent: str, wanted: list[str | None]) -> None:
        assert uids([Sent(content) for content in sent], [A, B, C]) == wanted

    def test_another_type_at_a_place_is_new(self) -> None:
        assert uids([Sent("N", type="v8")], [A]) == [None]

    def test_equal_text_of_another_type_is_no_match(self) -> None:
        assert uids([Sent("N"), Sent("A", type="v8")], [A, B]) == ["a", None]

    def test_a_name_is_followed_to_another_content_and_place(self) -> None:
        stored = [known("a", "A", "first"), known("b", "B", "second")]
        assert uids([Sent("X", name="second"), Sent("Y", name="first")], stored) == ["b", "a"]

    def test_a_name_comes_before_equal_content(self) -> None:
        stored = [known("a", "A", "first"), known("b", "B")]
        assert uids([Sent("B", name="first"), Sent("A")], stored) == ["a", None]

    def test_a_transform_is_given_a_name(self) -> None:
        assert uids([Sent("A", name="new"), Sent("X", name="other")], [A, B]) == ["a", "b"]

    def test_two_names_are_two_transforms(self) -> None:
        assert uids([Sent("X", name="new")], [known("a", "A", "old")]) == [None]

    def test_a_renamed_transform_with_the_same_content_is_the_same(self) -> None:
        assert uids([Sent("A", name="new")], [known("a", "A", "old")]) == ["a"]

    def test_a_name_with_another_type_does_not_match(self) -> None:
        assert uids([Sent("X", name="n", type="v8")], [known("a", "A", "n")]) == [None]

    def test_a_transform_with_a_uid_is_not_matched_otherwise(self) -> None:
        assert uids([Sent("A"), Sent("X", uid="a")], [A, B]) == [None, "a"]
        assert uids([Sent("X"), Sent("Y", uid="a")], [A, B]) == [None, "a"]
        assert uids([Sent("X", name="n"), Sent("Y", uid="a")], [known("a", "A", "n")]) == [None, "a"]


class TestPutOfTransforms:
    def test_a_transform_without_uid_and_name_is_new(self) -> None:
        assert uids([Sent("A"), Sent("B", name="n")], [A, B], by_content=False) == [None, None]

    def test_by_name(self) -> None:
        stored = [known("a", "A", "n"), B]
        assert uids([Sent("B", uid="b"), Sent("X", name="n")], stored, by_content=False) == ["b", "a"]
