"""Creates, reads, changes and deletes datasets, in which scripts look values up."""

from collections.abc import Sequence

from headwater.errors import NotFound, RedisUnavailable
from headwater.model.pagination import ListPosition
from headwater.model.value_sets import Dataset, dataset_set_id, normalise_all
from headwater.services.ids import NewId, Now
from headwater.services.set_values import Values, normalise_one
from headwater.stores.protocols.datasets import DatasetNameStore, DatasetStore
from headwater.stores.protocols.sets import SetStore, SetWriteResult, ValuePage


class Datasets:
    """Creates, reads, changes and deletes datasets.

    A dataset has a row in the SQL database. Its values, and the name by which scripts use it, are in Valkey. The state
    of the row is "pending" until scripts can look the name up, and "deleting" until the name and the values are
    removed. The controller's sweeper removes datasets whose creation or deletion was interrupted.

    All methods may block and raise DatabaseUnavailable and RedisUnavailable.
    """

    def __init__(
        self, *, store: DatasetStore, names: DatasetNameStore, sets: SetStore, now: Now, new_id: NewId
    ) -> None:
        self._store = store
        self._names = names
        self._sets = sets
        self._now = now
        self._new_id = new_id

    def create(self, owner: str, name: str) -> Dataset:
        """Create an empty dataset. Raises Conflict when the owner has a dataset with this name."""
        now = self._now()
        dataset = Dataset(self._new_id(), owner, name, "pending", now, now)
        self._store.create(dataset)
        try:
            self._names.put(owner, name, dataset.id)
        except RedisUnavailable:
            self._store.set_state(dataset.id, "deleting")
            raise
        self._store.set_state(dataset.id, "live")
        return self._store.get(owner, dataset.id)

    def get(self, owner: str, dataset_id: str) -> Dataset:
        """Return the dataset with this id. Raises NotFound."""
        return self._store.get(owner, dataset_id)

    def list(
        self, owner: str, names: Sequence[str] = (), after: ListPosition | None = None, limit: int | None = None
    ) -> tuple[Sequence[Dataset], ListPosition | None]:
        """Return a page of the owner's datasets, newest first.

        Also returns the position after which the next page begins; None on the last page.

        Args:
            names: The names of the datasets to return; empty for all names.
            after: The position after which this page begins; None for the first page.
            limit: The number of datasets on a page; None for all datasets.
        """
        datasets = [
            dataset
            for dataset in self._store.list(owner, names)
            if after is None or _position(dataset).order < after.order
        ]
        if limit is None or len(datasets) <= limit:
            return datasets, None
        return datasets[:limit], _position(datasets[limit - 1])

    def get_by_name(self, owner: str, name: str) -> Dataset:
        """Return the owner's dataset with this name. Raises NotFound."""
        datasets = self._store.list(owner, [name])
        if not datasets:
            raise NotFound("You have no dataset with this name. Create it with POST /api/v1/flow/datasets.")
        return datasets[0]

    def delete(self, owner: str, dataset_id: str) -> None:
        """Remove a dataset, its name and its values. Raises NotFound.

        When a deletion fails because a store is unavailable, it can be repeated.
        """
        dataset = self._store.get_removable(owner, dataset_id)
        self._store.set_state(dataset.id, "deleting")
        self._names.discard(owner, dataset.name, dataset.id)
        self._sets.drop(dataset_set_id(dataset.id))
        self._store.remove(dataset.id)

    def add(self, owner: str, dataset_id: str, values: Values) -> SetWriteResult:
        """Add values. Idempotent. Raises NotFound."""
        self._store.get(owner, dataset_id)
        written = self._sets.add(dataset_set_id(dataset_id), normalise_all(values))
        self._drop_if_deleted(owner, dataset_id)
        return written

    def remove(self, owner: str, dataset_id: str, values: Values) -> SetWriteResult:
        """Remove values. Idempotent. Raises NotFound."""
        self._store.get(owner, dataset_id)
        return self._sets.remove(dataset_set_id(dataset_id), normalise_all(values))

    def page(self, owner: str, dataset_id: str, cursor: int | None, limit: int) -> ValuePage:
        """Return one page of values. Raises NotFound."""
        self._store.get(owner, dataset_id)
        return self._sets.page(dataset_set_id(dataset_id), cursor, limit)

    def check(self, owner: str, dataset_id: str, value: str) -> bool:
        """Whether the normalised value is in the dataset. Raises NotFound, InvalidInput."""
        self._store.get(owner, dataset_id)
        return self._sets.contains_many(dataset_set_id(dataset_id), [normalise_one(value)])[0]

    def _drop_if_deleted(self, owner: str, dataset_id: str) -> None:
        """Drop the set when the dataset was deleted during a write.

        The write may have re-created the set. Raises NotFound when the dataset was deleted.
        """
        try:
            self._store.get(owner, dataset_id)
        except NotFound:
            self._sets.drop(dataset_set_id(dataset_id))
            raise


def _position(dataset: Dataset) -> ListPosition:
    return ListPosition(dataset.created_at, dataset.id)
