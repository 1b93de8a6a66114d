"""Datasets: named sets of an owner that scripts look values up in."""

from collections.abc import Sequence

from headwater.errors import NotFound, SetStoreUnavailable
from headwater.model.dataset import Dataset, dataset_set, normalise_all
from headwater.model.listing import Place
from headwater.services.ids import Clock, NewId
from headwater.services.set_values import Values, normalise_one
from headwater.stores.base import DatasetNames, DatasetStore, ValuePage, SetStore, SetWriteResult


class Datasets:
    """The row is in SQL; the name that scripts use and the values are in the set store.

    A row is "pending" until its name can be looked up, and "deleting" until name and values are gone; the
    controller removes what a kill leaves in between. All methods may block and raise StoreUnavailable,
    SetStoreUnavailable.
    """

    def __init__(self, store: DatasetStore, names: DatasetNames, sets: SetStore, now: Clock, new_id: NewId) -> None:
        self._store = store
        self._names = names
        self._sets = sets
        self._now = now
        self._new_id = new_id

    def create(self, owner: str, name: str) -> Dataset:
        """A new, empty dataset. Raises Conflict when the owner has one of this name."""
        now = self._now()
        dataset = Dataset(self._new_id(), owner, name, "pending", now, now)
        self._store.create(dataset)
        try:
            self._names.put(owner, name, dataset.id)
        except SetStoreUnavailable:
            self._store.set_state(dataset.id, "deleting")
            raise
        self._store.set_state(dataset.id, "live")
        return self._store.get(owner, dataset.id)

    def get(self, owner: str, dataset_id: str) -> Dataset:
        """Raises NotFound."""
        return self._store.get(owner, dataset_id)

    def list(
        self, owner: str, names: Sequence[str] = (), after: Place | None = None, limit: int | None = None
    ) -> tuple[Sequence[Dataset], Place | None]:
        """The owner's datasets behind a place, newest first, and the place where the next page begins.

        Only those of the given names, when some are given; all of them without a limit.
        """
        found = self._store.list(owner, names)
        rest = [one for one in found if after is None or _place(one).order < after.order]
        if limit is None or len(rest) <= limit:
            return rest, None
        return rest[:limit], _place(rest[limit - 1])

    def by_name(self, owner: str, name: str) -> Dataset:
        """Raises NotFound."""
        found = self._store.list(owner, [name])
        if not found:
            raise NotFound("You have no dataset of this name. Create it with POST /api/v1/flow/datasets.")
        return found[0]

    def delete(self, owner: str, dataset_id: str) -> None:
        """Remove a dataset, its name and its values. Raises NotFound.

        A removal that was cut off, by a store that was away, goes on when it is asked for again.
        """
        dataset = self._store.removable(owner, dataset_id)
        self._store.set_state(dataset.id, "deleting")
        self._names.discard(owner, dataset.name, dataset.id)
        self._sets.drop(dataset_set(dataset.id))
        self._store.remove(dataset.id)

    def add(self, owner: str, dataset_id: str, values: Values) -> SetWriteResult:
        """Add values. Idempotent. Raises NotFound."""
        self._store.get(owner, dataset_id)
        stored = normalise_all(values)
        written = self._sets.add(dataset_set(dataset_id), stored)
        self._undo_if_deleted(owner, dataset_id)
        return written

    def remove(self, owner: str, dataset_id: str, values: Values) -> SetWriteResult:
        """Remove values. Idempotent. Raises NotFound."""
        self._store.get(owner, dataset_id)
        return self._sets.remove(dataset_set(dataset_id), normalise_all(values))

    def page(self, owner: str, dataset_id: str, cursor: int | None, limit: int) -> ValuePage:
        """One page of entries. Raises NotFound."""
        self._store.get(owner, dataset_id)
        return self._sets.page(dataset_set(dataset_id), cursor, limit)

    def check(self, owner: str, dataset_id: str, value: str) -> bool:
        """True when the value, normalised, is in the dataset. Raises NotFound, InvalidInput."""
        self._store.get(owner, dataset_id)
        return self._sets.contains_many(dataset_set(dataset_id), [normalise_one(value)])[0]

    def _undo_if_deleted(self, owner: str, dataset_id: str) -> None:
        """A delete that ran beside a write may have dropped the set before the write made it again."""
        try:
            self._store.get(owner, dataset_id)
        except NotFound:
            self._sets.drop(dataset_set(dataset_id))
            raise


def _place(dataset: Dataset) -> Place:
    return Place(dataset.created_at, dataset.id)
