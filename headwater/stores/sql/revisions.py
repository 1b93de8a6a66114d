"""The store of revisions: their filters, and the revisions that can be removed."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, exists, false, func, insert, select

from headwater.model.stored_config import read_pipeline_config
from headwater.stores.protocols.configurations import RemovedFilter
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.tables import (
    ACTIVE,
    UtcDateTime,
    deployment_revisions,
    deployments,
    flow_revisions,
    flows,
    removed_filters,
)


class SqlRevisions:
    """RevisionStore in SQL."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def filters(self, config_id: str) -> Mapping[int, frozenset[str]]:
        with self._connections.reading() as connection:
            return _filters(connection, config_id)

    def superseded(self, before: datetime) -> Mapping[str, Sequence[int]]:
        superseded: dict[str, list[int]] = defaultdict(list)
        with self._connections.reading() as connection:
            for row in connection.execute(_select_superseded(before)):
                superseded[row.config_id].append(row.revision)
        return superseded

    def remove(self, config_id: str, revisions: Collection[int], now: datetime) -> None:
        is_revision = (flow_revisions.c.config_id == config_id) & (flow_revisions.c.revision == bindparam("number"))
        with self._connections.writing() as connection:
            if revisions:
                uids = _filters_only_in(revisions, _filters(connection, config_id))
                numbers = [{"number": number} for number in revisions]
                connection.execute(delete(flow_revisions).where(is_revision), numbers)
                _record_removed(connection, config_id, uids, now)

    def removed_filters(
        self, *, config_id: str | None = None, before: datetime | None = None
    ) -> Sequence[RemovedFilter]:
        table = removed_filters
        filters = select(table).order_by(table.c.removed_at, table.c.config_id, table.c.uid)
        if config_id is not None:
            filters = filters.where(table.c.config_id == config_id)
        if before is not None:
            filters = filters.where(table.c.removed_at < before)
        with self._connections.reading() as connection:
            return [RemovedFilter(*row) for row in connection.execute(filters)]

    def delete_removed_filters(self, config_id: str, uids: Collection[str]) -> None:
        is_filter = (removed_filters.c.config_id == config_id) & removed_filters.c.uid.in_(uids)
        with self._connections.writing() as connection:
            connection.execute(delete(removed_filters).where(is_filter))


def _filters_only_in(revisions: Collection[int], filters: Mapping[int, frozenset[str]]) -> frozenset[str]:
    """Return the filters that only these revisions contain.

    The filters of each stored revision are given.
    """
    contained = frozenset[str]().union(*(uids for number, uids in filters.items() if number in revisions))
    return contained.difference(*(uids for number, uids in filters.items() if number not in revisions))


def _filters(connection: Connection, config_id: str) -> dict[int, frozenset[str]]:
    """Return the uids of the filters in each stored revision."""
    stored = select(flow_revisions.c.revision, flow_revisions.c.config).where(flow_revisions.c.config_id == config_id)
    # The rows are read one by one, because each may contain megabytes of scripts.
    rows = connection.execute(stored.execution_options(yield_per=1))
    return {row.revision: read_pipeline_config(row.config).filter_uids for row in rows}


def _record_removed(connection: Connection, config_id: str, uids: Collection[str], now: datetime) -> None:
    """Record filters as removed. A filter that is recorded already gets the new time."""
    table = removed_filters
    connection.execute(delete(table).where(table.c.config_id == config_id, table.c.uid.in_(uids)))
    if uids:
        connection.execute(
            insert(table), [{"config_id": config_id, "uid": uid, "removed_at": now} for uid in sorted(uids)]
        )


def _select_superseded(before: datetime) -> Select[Any]:
    revision = flow_revisions.c.revision
    replaced_at = func.lead(flow_revisions.c.saved_at, type_=UtcDateTime).over(
        partition_by=flow_revisions.c.config_id, order_by=revision
    )
    stored = select(flow_revisions.c.config_id, revision, replaced_at.label("replaced_at")).subquery()
    of_active_deployment = (deployments.c.id == deployment_revisions.c.deployment_id) & ACTIVE
    in_use = exists().where(
        of_active_deployment,
        deployment_revisions.c.retired == false(),
        deployments.c.config_id == stored.c.config_id,
        deployment_revisions.c.revision == stored.c.revision,
    )
    return (
        select(stored.c.config_id, stored.c.revision)
        .join(flows, flows.c.id == stored.c.config_id)
        .where(flows.c.deleted == false(), stored.c.revision < flows.c.revision, stored.c.replaced_at < before, ~in_use)
        .order_by(stored.c.config_id, stored.c.revision)
    )
