"""The rows of datasets."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

from sqlalchemy import ColumnElement, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from headwater.model.value_sets import Dataset
from headwater.stores.sql import audit_changes, store_errors
from headwater.stores.sql.audit import record
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.quotas import QuotaChecker
from headwater.stores.sql.tables import datasets


class SqlDatasets:
    """DatasetStore in SQL."""

    def __init__(self, connections: Connections, quotas: QuotaChecker) -> None:
        self._connections = connections
        self._quotas = quotas

    def create(self, dataset: Dataset) -> None:
        pending = replace(dataset, state="pending")
        try:
            with (
                self._connections.writing() as connection,
                self._quotas.enforced(connection, dataset.owner, "datasets"),
            ):
                connection.execute(insert(datasets).values(**asdict(pending)))
                record(connection, audit_changes.dataset_created(dataset))
        except IntegrityError as error:
            raise store_errors.dataset_name_taken(dataset.name) from error

    def set_state(self, dataset_id: str, state: Literal["live", "deleting"]) -> None:
        has_id = datasets.c.id == dataset_id
        try:
            with self._connections.writing() as connection:
                row = connection.execute(select(datasets).where(has_id).with_for_update()).one_or_none()
                connection.execute(update(datasets).where(has_id).values(state=state))
                if row is not None and state == "deleting" and row.state != "deleting":
                    record(connection, audit_changes.dataset_deleted(_dataset(row)))
        except IntegrityError as error:
            raise store_errors.dataset_name_taken(self._select(has_id)[0].name) from error

    def get(self, owner: str, dataset_id: str) -> Dataset:
        return self._get(owner, dataset_id, "live")

    def get_removable(self, owner: str, dataset_id: str) -> Dataset:
        return self._get(owner, dataset_id, "live", "deleting")

    def _get(self, owner: str, dataset_id: str, *states: str) -> Dataset:
        matching = self._select(datasets.c.owner == owner, datasets.c.id == dataset_id, datasets.c.state.in_(states))
        if not matching:
            raise store_errors.dataset_not_found(dataset_id)
        return matching[0]

    def list(self, owner: str, names: Sequence[str] = ()) -> Sequence[Dataset]:
        has_name = [datasets.c.name.in_(set(names))] if names else []
        return self._select(datasets.c.owner == owner, datasets.c.state == "live", *has_name)

    def remove(self, dataset_id: str) -> None:
        with self._connections.writing() as connection:
            connection.execute(delete(datasets).where(datasets.c.id == dataset_id))

    def incomplete(self) -> Sequence[Dataset]:
        return self._select(datasets.c.state != "live")

    def _select(self, *where: ColumnElement[Any]) -> Sequence[Dataset]:
        """Return the datasets that match, newest first."""
        newest_first = (datasets.c.created_at.desc(), datasets.c.id.desc())
        matching = select(datasets).where(*where).order_by(*newest_first)
        with self._connections.reading() as connection:
            return [_dataset(row) for row in connection.execute(matching)]


def _dataset(row: Row[Any]) -> Dataset:
    return Dataset(**row._asdict())
