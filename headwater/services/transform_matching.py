"""Matches the transforms of a request to the stored transforms that they update.

A filter's values belong to its uid, so a wrong match would give the values of one filter to another.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import inf
from typing import Protocol

from headwater.model.transforms.base import TransformIdentity


class MatchableTransform(Protocol):
    """The attributes by which a sent transform is matched to a stored one.

    Attributes:
        content: The expression of a filter, or the script.
    """

    @property
    def uid(self) -> str | None: ...
    @property
    def type(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def content(self) -> str: ...


def match_transforms(
    sent: Sequence[MatchableTransform], stored: Sequence[TransformIdentity], *, by_content: bool
) -> list[TransformIdentity | None]:
    """Return for each sent transform the stored transform that it updates; None when it is new.

    The uid decides, then the name together with the type. With by_content, a sent transform is then matched to an equal
    stored transform, and else it may be matched to the stored transform at the same position.

    The caller must refuse uids that are unknown, sent twice, or of another type. In all other matches both transforms
    have the same type, and no stored transform is matched twice.
    """
    matching = _Matching(sent, stored)
    matching.by_uid()
    matching.by_name()
    if by_content:
        matching.by_content()
        matching.by_position()
    return matching.matches


class _Matching:
    """The matches that were found so far.

    Each method applies one rule to the sent transforms that have no match yet.

    Attributes:
        matches: For each sent transform, the stored transform that it is matched to; None when there is none yet.
    """

    def __init__(self, sent: Sequence[MatchableTransform], stored: Sequence[TransformIdentity]) -> None:
        self._sent = sent
        self._stored = stored
        self._matched_uids: set[str] = set()
        self.matches: list[TransformIdentity | None] = [None] * len(sent)

    def by_uid(self) -> None:
        stored_by_uid = {transform.uid: transform for transform in self._stored}
        for index, sent in enumerate(self._sent):
            if sent.uid in stored_by_uid:
                self._match(index, stored_by_uid[sent.uid])

    def by_name(self) -> None:
        for index, sent in self._unmatched():
            namesakes = (stored for stored in self._stored if (stored.name, stored.type) == (sent.name, sent.type))
            if sent.name is not None and (stored := next(namesakes, None)) and stored.uid not in self._matched_uids:
                self._match(index, stored)

    def by_content(self) -> None:
        """Match equal transforms.

        Among several equal transforms, the transforms at the nearest positions are matched, in order.
        """
        sent_indexes: dict[tuple[str, str], list[int]] = defaultdict(list)
        for index, sent in self._unmatched():
            sent_indexes[_content_of(sent)].append(index)
        for content, indexes in sent_indexes.items():
            stored_indexes = [
                i for i, stored in enumerate(self._stored) if self._is_free(i) and _content_of(stored) == content
            ]
            for sent_index, stored_index in _pair_nearest(indexes, stored_indexes):
                self._match(sent_index, self._stored[stored_index])

    def by_position(self) -> None:
        """Match transforms whose content was edited at their position.

        Two transforms are matched only when no other transform has the content of one of them.
        """
        if len(self._sent) != len(self._stored):
            return
        stored_contents = {_content_of(stored) for stored in self._stored}
        sent_contents = {_content_of(sent) for sent in self._sent}
        for index, sent in self._unmatched():
            stored = self._stored[index]
            is_edited = _content_of(sent) not in stored_contents and _content_of(stored) not in sent_contents
            # by_name has matched equal names, so two transforms that both have a name here are different transforms.
            have_names = sent.name is not None and stored.name is not None
            if is_edited and not have_names and sent.type == stored.type and self._is_free(index):
                self._match(index, stored)

    def _unmatched(self) -> Iterator[tuple[int, MatchableTransform]]:
        return ((i, sent) for i, sent in enumerate(self._sent) if sent.uid is None and self.matches[i] is None)

    def _is_free(self, stored_index: int) -> bool:
        return self._stored[stored_index].uid not in self._matched_uids

    def _match(self, index: int, stored: TransformIdentity) -> None:
        self.matches[index] = stored
        self._matched_uids.add(stored.uid)


def _content_of(transform: MatchableTransform | TransformIdentity) -> tuple[str, str]:
    return transform.type, transform.content


def _pair_nearest(sent: Sequence[int], stored: Sequence[int]) -> list[tuple[int, int]]:
    """Pair the indexes of two ascending sequences in order, with the least sum of distances.

    Every index of the shorter sequence gets a partner.
    """
    if len(sent) > len(stored):
        return [(sent_index, stored_index) for stored_index, sent_index in _pair_nearest(stored, sent)]
    # best[n]: the least sum of distances of the first n sent indexes, and their partners
    best: list[tuple[float, tuple[int, ...]]] = [(0, ()), *([(inf, ())] * len(sent))]
    for stored_index in stored:
        # Every shorter pairing may be extended by this index, or skip it. The longest pairing comes first, so that no
        # pairing is extended twice.
        for count in reversed(range(len(sent))):
            distance, partners = best[count]
            longer = distance + abs(sent[count] - stored_index), (*partners, stored_index)
            best[count + 1] = min(best[count + 1], longer)
    return list(zip(sent, best[-1][1], strict=True))
