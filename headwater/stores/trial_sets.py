"""The filter sets of a trial run, whose values come with the request and are not stored."""

from collections.abc import Collection, Mapping, Sequence

from headwater.model.value_sets import SetId


class TrialSets:
    """SetLookup over given values. A set for which no values are given is empty."""

    def __init__(self, values: Mapping[SetId, Collection[str]]) -> None:
        self._values = {target: frozenset(members) for target, members in values.items()}

    def contains_many(self, target: SetId, values: Sequence[str]) -> list[bool]:
        """See SetLookup."""
        members = self._values.get(target, frozenset())
        return [value in members for value in values]
