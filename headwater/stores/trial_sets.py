"""The filter sets of a trial: the values come with the request to validate a configuration, and are stored nowhere."""

from collections.abc import Collection, Mapping, Sequence

from headwater.model.dataset import SetId


class TrialSets:
    """Implements SetLookup over given values. A set without values is empty."""

    def __init__(self, values: Mapping[SetId, Collection[str]]) -> None:
        self._values = {target: frozenset(members) for target, members in values.items()}

    def contains_many(self, target: SetId, values: Sequence[str]) -> list[bool]:
        """See SetLookup."""
        members = self._values.get(target, frozenset())
        return [value in members for value in values]
