"""The filter sets of a trial, whose values come with the request and are not stored."""

from collections.abc import Collection, Mapping, Sequence

from headwater.model.value_sets import DATASET, SetId
from headwater.stores.protocols.sets import SetLookup


class TrialSets:
    """A SetLookup in which filters have the values of the request.

    Datasets have their stored values.

    Args:
        values: The values of each filter. A filter that is missing has no values.
        sets: Looks values of datasets up.
    """

    def __init__(self, values: Mapping[SetId, Collection[str]], sets: SetLookup) -> None:
        self._filters = {set_id: frozenset(members) for set_id, members in values.items()}
        self._sets = sets

    def contains_many(self, set_id: SetId, values: Sequence[str]) -> list[bool]:
        """See SetLookup."""
        if set_id.kind == DATASET:
            return self._sets.contains_many(set_id, values)
        members = self._filters.get(set_id, frozenset())
        return [value in members for value in values]
