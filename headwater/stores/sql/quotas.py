"""Quotas in SQL: limits, usage, and the check in the transaction of a change."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, delete, false, func, insert, select, text

from headwater.model.quota import Allowed, QuotaDefaults, QuotaName, Usage, excess
from headwater.model.value_sets import SetId, dataset_set, filter_set
from headwater.stores.sql import store_errors
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.tables import (
    ACTIVE,
    HOLDS_NAME,
    datasets,
    deployments,
    flow_revisions,
    flows,
    quotas,
    removed_filters,
)

SERIALIZE_QUOTA_CHANGES = "SELECT pg_advisory_xact_lock(7234190385527)"
"""Serialises the changes that are subject to a quota, so that each change sees those before it."""

Where = tuple[ColumnElement[bool], ...]


class QuotaChecker:
    """Checks quotas inside of the transactions of other stores."""

    def __init__(self, defaults: QuotaDefaults) -> None:
        self._defaults = defaults

    @contextmanager
    def enforced(self, connection: Connection, owner: str, *names: QuotaName) -> Iterator[None]:
        """Compare the usage before and after the block.

        Raises QuotaExceeded, which rolls the transaction back. The block must be the whole rest of the transaction,
        because on PostgreSQL the lock that serialises changes has to be the first one of the transaction.
        """
        allowed = self.allowed(connection, owner)
        own = [name for name in names if allowed[name] is not None]
        shared = [name for name in names if name in self._defaults.total]
        if not own and not shared:
            yield
            return
        if connection.dialect.name == "postgresql":
            connection.execute(text(SERIALIZE_QUOTA_CHANGES))
        before, all_before = usage_of(connection, own, owner), usage_of(connection, shared)
        yield
        over = excess(before, usage_of(connection, own, owner), allowed)
        over = over or excess(all_before, usage_of(connection, shared), self._defaults.total, of_all=True)
        if over is not None:
            raise store_errors.quota_exceeded(over)

    def allowed(self, connection: Connection, owner: str) -> dict[QuotaName, int | None]:
        """Return the limits of an owner."""
        rows = connection.execute(select(quotas.c.name, quotas.c.allowed).where(quotas.c.owner == owner))
        return self._defaults.allowed({row.name: row.allowed for row in rows})


class SqlQuotas:
    """QuotaStore in SQL."""

    def __init__(self, connections: Connections, rows: QuotaChecker, defaults: QuotaDefaults) -> None:
        self._connections = connections
        self._rows = rows
        self.total = defaults.total

    def allowed(self, owner: str) -> Allowed:
        with self._connections.reading() as connection:
            return self._rows.allowed(connection, owner)

    def usage(self, owner: str) -> Usage:
        with self._connections.reading() as connection:
            return usage_of(connection, _COUNTS, owner)

    def set_limits(self, owner: str, limits: Allowed, reset: Sequence[QuotaName]) -> None:
        this = quotas.c.owner == owner
        with self._connections.writing() as connection:
            connection.execute(delete(quotas).where(this, quotas.c.name.in_([*limits, *reset])))
            rows = [{"owner": owner, "name": name, "allowed": allowed} for name, allowed in limits.items()]
            if rows:
                connection.execute(insert(quotas), rows)

    def overrides(self) -> Mapping[str, Allowed]:
        found: dict[str, dict[QuotaName, int | None]] = {}
        with self._connections.reading() as connection:
            for row in connection.execute(select(quotas).order_by(quotas.c.owner)):
                found.setdefault(row.owner, {})[row.name] = row.allowed
        return found

    def sets(self, owner: str | None = None) -> Sequence[SetId]:
        of_flows = (flow_revisions.c.config_id == flows.c.id) & _of(flows.c.owner, owner)
        filters = select(flow_revisions.c.config_id, flow_revisions.c.filter_uids).where(of_flows)
        kept = select(removed_filters.c.config_id, removed_filters.c.uid).join(
            flows, flows.c.id == removed_filters.c.config_id
        )
        named = select(datasets.c.id).where(_of(datasets.c.owner, owner))
        with self._connections.reading() as connection:
            rows = connection.execute(filters)
            found = {filter_set(row.config_id, uid) for row in rows for uid in row.filter_uids.split()}
            found.update(filter_set(*row) for row in connection.execute(kept.where(_of(flows.c.owner, owner))))
            return [*found, *map(dataset_set, connection.scalars(named))]


def usage_of(connection: Connection, names: Iterable[QuotaName], owner: str | None = None) -> Usage:
    """Return the usage of the quotas that SQL counts, of an owner or of all owners."""
    return {name: int(connection.scalar(_COUNTS[name](owner)) or 0) for name in names if name in _COUNTS}


def _of(column: ColumnElement[str], owner: str | None) -> ColumnElement[bool]:
    return column.is_not(None) if owner is None else column == owner


def _configurations(owner: str | None) -> Select[Any]:
    return select(func.count()).select_from(flows).where(_of(flows.c.owner, owner), flows.c.deleted == false())


def _stored_bytes(owner: str | None) -> Select[Any]:
    return _sum_of_revisions("stored_bytes", owner)


def _script_bytes(owner: str | None) -> Select[Any]:
    newest = flow_revisions.c.revision == flows.c.revision
    return _sum_of_revisions("script_bytes", owner, newest, flows.c.deleted == false())


def _sum_of_revisions(column: str, owner: str | None, *where: ColumnElement[bool]) -> Select[Any]:
    joined = flow_revisions.join(flows, flow_revisions.c.config_id == flows.c.id)
    counted = select(func.sum(flow_revisions.c[column])).select_from(joined)
    return counted.where(_of(flows.c.owner, owner), *where)


def _deployments(owner: str | None) -> Select[Any]:
    return select(func.count()).select_from(deployments).where(ACTIVE, _of(deployments.c.owner, owner))


def _workers(owner: str | None) -> Select[Any]:
    of_desired = (flow_revisions.c.config_id == deployments.c.config_id) & (
        flow_revisions.c.revision == deployments.c.desired_revision
    )
    joined = deployments.join(flow_revisions, of_desired)
    return select(func.sum(flow_revisions.c.workers)).select_from(joined).where(ACTIVE, _of(deployments.c.owner, owner))


def _datasets(owner: str | None) -> Select[Any]:
    return select(func.count()).select_from(datasets).where(HOLDS_NAME, _of(datasets.c.owner, owner))


_COUNTS: dict[QuotaName, Callable[[str | None], Select[Any]]] = {
    "configurations": _configurations,
    "stored_bytes": _stored_bytes,
    "script_bytes": _script_bytes,
    "deployments": _deployments,
    "workers": _workers,
    "datasets": _datasets,
}
