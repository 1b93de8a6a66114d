"""The sets of a case: the values of its filters, and its datasets."""

from collections.abc import Collection, Mapping, Sequence

from headwater.model.value_sets import SetId


class CaseSets:
    """A SetLookup and DatasetNames in memory. The id of a dataset is its name.

    Args:
        sets: The normalised values of each set.
    """

    def __init__(self, sets: Mapping[SetId, Collection[str]]) -> None:
        self._sets = sets
        self._datasets = {set_id.id for set_id in sets if set_id.kind == "ds"}

    def contains_many(self, set_id: SetId, values: Sequence[str]) -> list[bool]:
        """See SetLookup."""
        members = self._sets.get(set_id, ())
        return [value in members for value in values]

    def resolve(self, owner: str, names: Sequence[str]) -> list[str | None]:  # noqa: ARG002 - a case has one owner
        """See DatasetNames."""
        return [name if name in self._datasets else None for name in names]
