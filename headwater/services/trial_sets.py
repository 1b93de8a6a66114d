"""The filter sets of a trial run, whose values come with the request and are not stored."""

from collections.abc import Collection, Mapping, Sequence

from headwater.model.value_sets import SetId
from headwater.stores.protocols.sets import SetLookup


class TrialSets:
    """SetLookup in which filters have the given values, or none.

    Datasets are looked up in `sets`.
    """

    def __init__(self, values: Mapping[SetId, Collection[str]], sets: SetLookup) -> None:
        self._values = {target: frozenset(members) for target, members in values.items()}
        self._sets = sets

    def contains_many(self, target: SetId, values: Sequence[str]) -> list[bool]:
        """See SetLookup."""
        if target.kind == "ds":
            return self._sets.contains_many(target, values)
        members = self._values.get(target, frozenset())
        return [value in members for value in values]
