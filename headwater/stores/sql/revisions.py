"""The store of revisions and of removed filters."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, delete, exists, false, select

from headwater.model.flow import Flow
from headwater.model.revision import RevisionSummary
from headwater.stores.protocols.configurations import RemovedFilter
from headwater.stores.sql import removed_filters as filter_rows
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.flow_mapper import FlowMapper
from headwater.stores.sql.tables import (
    ACTIVE,
    deployment_revisions,
    deployments,
    flow_revisions,
    flows,
    removed_filters,
)


class _Rollout(NamedTuple):
    """The last rollout of a revision."""

    deployed_at: datetime
    condition: str | None


class SqlRevisions:
    """RevisionStore in SQL."""

    def __init__(self, connections: Connections, mapper: FlowMapper) -> None:
        self._connections = connections
        self._mapper = mapper

    def list(self, owner: str, config_id: str, before: int | None, limit: int) -> Sequence[RevisionSummary]:
        table = flow_revisions
        columns = (table.c.revision, table.c.saved_at, table.c.saved_by, table.c.changed)
        newest = select(*columns).where(table.c.config_id == config_id).order_by(table.c.revision.desc()).limit(limit)
        if before is not None:
            newest = newest.where(table.c.revision < before)
        with self._connections.reading() as connection:
            self._mapper.require(connection, owner, config_id)
            rollouts = _last_rollouts(connection, config_id)
            return [
                RevisionSummary(
                    row.revision,
                    row.saved_at,
                    row.saved_by or None,
                    tuple(row.changed.split()),
                    *rollouts.get(row.revision, ()),
                )
                for row in connection.execute(newest)
            ]

    def get(self, owner: str, config_id: str, revision: int) -> Flow:
        with self._connections.reading() as connection:
            self._mapper.require(connection, owner, config_id)
            return self._mapper.get_revision(connection, config_id, revision)

    def filters(self, config_id: str) -> Mapping[int, frozenset[str]]:
        with self._connections.reading() as connection:
            return filter_rows.stored_filters(connection, config_id)

    def superseded(self, before: datetime, kept: int) -> Mapping[str, Sequence[int]]:
        superseded: dict[str, list[int]] = defaultdict(list)
        with self._connections.reading() as connection:
            for row in connection.execute(_select_superseded(before, kept)):
                superseded[row.config_id].append(row.revision)
        return superseded

    def remove(self, config_id: str, revisions: Collection[int], now: datetime) -> None:
        is_revision = (flow_revisions.c.config_id == config_id) & (flow_revisions.c.revision == bindparam("number"))
        with self._connections.writing() as connection:
            if revisions:
                stored = filter_rows.stored_filters(connection, config_id)
                uids = frozenset[str]().union(*(stored.get(number, frozenset()) for number in revisions))
                filter_rows.record(connection, config_id, uids, now)
                connection.execute(delete(flow_revisions).where(is_revision), [{"number": n} for n in revisions])
                filter_rows.delete_without_revision(connection, config_id)

    def record_removed_filters(self, now: datetime) -> None:
        with self._connections.reading() as connection:
            unrecorded = filter_rows.find_unrecorded(connection)
        for config_id, uids in unrecorded.items():
            with self._connections.writing() as connection:
                filter_rows.record(connection, config_id, uids, now)

    def removed_filters(self, config_id: str | None = None) -> Sequence[RemovedFilter]:
        with self._connections.reading() as connection:
            return filter_rows.select_rows(connection, config_id)

    def begin_drop(self, before: datetime) -> Mapping[str, frozenset[str]]:
        table = removed_filters
        is_expired = (table.c.state == "kept") & (table.c.removed_at < before)
        expired = select(table.c.config_id).where(is_expired | (table.c.state == "dropping")).distinct()
        with self._connections.reading() as connection:
            config_ids = list(connection.scalars(expired.order_by(table.c.config_id)))
        dropping = dict[str, frozenset[str]]()
        for config_id in config_ids:
            with self._connections.writing() as connection:
                dropping[config_id] = filter_rows.begin_drop(connection, config_id, before)
        return {config_id: uids for config_id, uids in dropping.items() if uids}

    def finish_drop(self, config_id: str, uids: Collection[str]) -> None:
        with self._connections.writing() as connection:
            filter_rows.finish_drop(connection, config_id, uids)


def _last_rollouts(connection: Connection, config_id: str) -> Mapping[int, _Rollout]:
    """Return the last rollout of each revision that was deployed, by revision."""
    table = deployment_revisions
    rollouts = (
        select(table.c.revision, table.c.deployed_at, table.c.condition)
        .join(deployments, deployments.c.id == table.c.deployment_id)
        .where(deployments.c.config_id == config_id, table.c.deployed_at.is_not(None))
        .order_by(table.c.deployed_at)
    )
    return {row.revision: _Rollout(row.deployed_at, row.condition) for row in connection.execute(rollouts)}


def _select_superseded(before: datetime, kept: int) -> Select[Any]:
    stored, newer = flow_revisions, flow_revisions.alias("newer")
    in_use = exists().where(
        (deployments.c.id == deployment_revisions.c.deployment_id) & ACTIVE,
        deployment_revisions.c.retired == false(),
        deployments.c.config_id == stored.c.config_id,
        deployment_revisions.c.revision == stored.c.revision,
    )
    is_replaced = exists().where(
        newer.c.config_id == stored.c.config_id, newer.c.revision > stored.c.revision, newer.c.saved_at < before
    )
    # The numbers of a configuration's revisions are consecutive.
    is_old = stored.c.revision <= flows.c.revision - kept
    return (
        select(stored.c.config_id, stored.c.revision)
        .join(flows, flows.c.id == stored.c.config_id)
        .where(flows.c.deleted == false(), is_old, is_replaced, ~in_use)
        .order_by(stored.c.config_id, stored.c.revision)
    )
