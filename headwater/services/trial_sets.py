"""The filter sets of a trial.

New filters have the values of the request, and stored filters their live values.
"""

from collections.abc import Collection, Mapping, Sequence

from headwater.model.value_sets import SetId
from headwater.stores.protocols.sets import SetLookup


class TrialSets:
    """A SetLookup in which new filters have the values of the request.

    The other sets have their stored values.

    Args:
        new_filters: The values of each new filter.
        sets: Looks values of stored sets up.
    """

    def __init__(self, new_filters: Mapping[SetId, Collection[str]], sets: SetLookup) -> None:
        self._new_filters = {set_id: frozenset(members) for set_id, members in new_filters.items()}
        self._sets = sets

    def contains_many(self, set_id: SetId, values: Sequence[str]) -> list[bool]:
        """See SetLookup."""
        members = self._new_filters.get(set_id)
        if members is None:
            return self._sets.contains_many(set_id, values)
        return [value in members for value in values]
