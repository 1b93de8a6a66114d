"""Datasets' rows in memory."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from headwater.model.dataset import Dataset, SetId, dataset_set
from headwater.stores.memory.audit import MemoryAudit
from headwater.stores.memory.leases import MemoryLeases
from headwater.stores.memory.order import newest_first
from headwater.stores.memory.quotas import MemoryQuotas
from headwater.stores.sql import changes, store_errors


class MemoryDatasets:
    """DatasetStore in memory."""

    def __init__(self, audit: MemoryAudit, leases: MemoryLeases) -> None:
        self._audit = audit
        self._leases = leases
        self._lock = threading.RLock()
        self.quotas: MemoryQuotas
        self._datasets: dict[str, Dataset] = {}

    def create(self, dataset: Dataset) -> None:
        with self._lock, self._leases.fenced():
            self._check_name(dataset)
            with self.quotas.enforced(dataset.owner, "datasets", undo=lambda: self._forget(dataset)):
                self._datasets[dataset.id] = replace(dataset, state="pending")
            self._audit.record(changes.dataset_created(dataset))

    def set_state(self, dataset_id: str, state: Literal["live", "deleting"]) -> None:
        with self._lock, self._leases.fenced():
            dataset = self._datasets.get(dataset_id)
            if dataset is not None:
                moved = replace(dataset, state=state)
                self._check_name(moved)
                self._datasets[dataset_id] = moved
                if state == "deleting" != dataset.state:
                    self._audit.record(changes.dataset_deleted(dataset))

    def _forget(self, dataset: Dataset) -> None:
        del self._datasets[dataset.id]

    def number_of(self, owner: str | None) -> int:
        """How many datasets that are not going away an owner has, or all together."""
        with self._lock:
            return sum(d.state != "deleting" and owner in (None, d.owner) for d in self._datasets.values())

    def sets(self, owner: str | None) -> Sequence[SetId]:
        """The sets of an owner's datasets, or of all."""
        with self._lock:
            return [dataset_set(d.id) for d in self._datasets.values() if owner in (None, d.owner)]

    def _check_name(self, dataset: Dataset) -> None:
        """Raise Conflict when another dataset of the owner holds the name; one that is going away holds none."""
        others = (d for d in self._datasets.values() if d.id != dataset.id and d.state != "deleting")
        taken = any(d.owner == dataset.owner and d.name == dataset.name for d in others)
        if taken and dataset.state != "deleting":
            raise store_errors.name_taken(dataset.name)

    def get(self, owner: str, dataset_id: str) -> Dataset:
        return self._one(owner, dataset_id, "live")

    def removable(self, owner: str, dataset_id: str) -> Dataset:
        return self._one(owner, dataset_id, "live", "deleting")

    def _one(self, owner: str, dataset_id: str, *states: str) -> Dataset:
        with self._lock:
            dataset = self._datasets.get(dataset_id)
            if dataset is None or dataset.owner != owner or dataset.state not in states:
                raise store_errors.no_dataset(dataset_id)
            return dataset

    def list(self, owner: str, names: Sequence[str] = ()) -> Sequence[Dataset]:
        with self._lock:
            live = [d for d in self._datasets.values() if d.owner == owner and d.state == "live"]
            return newest_first([d for d in live if not names or d.name in names])

    def remove(self, dataset_id: str) -> None:
        with self._lock, self._leases.fenced():
            self._datasets.pop(dataset_id, None)

    def unsettled(self) -> Sequence[Dataset]:
        with self._lock:
            return newest_first([d for d in self._datasets.values() if d.state != "live"])
