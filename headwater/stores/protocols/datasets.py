"""The protocols of the stores of datasets and of dataset names.

Scripts look up datasets by these names.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from headwater.model.value_sets import Dataset


class DatasetStore(Protocol):
    """The rows of datasets.

    Their values are in the SetStore, and the names that scripts use are in DatasetNames.
    """

    def create(self, dataset: Dataset) -> None:
        """Store a dataset in the state "pending".

        Raises Conflict when the owner has another dataset of this name.
        """

    def set_state(self, dataset_id: str, state: Literal["live", "deleting"]) -> None:
        """Change the state of a dataset. Unknown ids are no error."""

    def get(self, owner: str, dataset_id: str) -> Dataset:
        """Return a live dataset. Raises NotFound."""

    def get_removable(self, owner: str, dataset_id: str) -> Dataset:
        """Return a dataset that is live, or whose deletion was interrupted. Raises NotFound."""

    def list(self, owner: str, names: Sequence[str] = ()) -> Sequence[Dataset]:
        """Return the live datasets of an owner, newest first.

        If names are given, return only the datasets with these names.
        """

    def remove(self, dataset_id: str) -> None:
        """Remove the row of a dataset."""

    def incomplete(self) -> Sequence[Dataset]:
        """Return the datasets that an interrupted process left as "pending" or "deleting"."""


class DatasetNames(Protocol):
    """The names by which workers look up datasets: by owner, the dataset id of each name."""

    def resolve(self, owner: str, names: Sequence[str]) -> list[str | None]:
        """Return the dataset id of each name; None for an unknown name."""


class DatasetNameStore(DatasetNames, Protocol):
    """Dataset names that can be changed."""

    def put(self, owner: str, name: str, dataset_id: str) -> None:
        """Map a name to a dataset."""

    def discard(self, owner: str, name: str, dataset_id: str) -> None:
        """Remove a name, unless it belongs to another dataset by now."""
