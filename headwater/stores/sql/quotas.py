"""Quotas in SQL: limits, usage, and the check in the transaction of a change."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, delete, insert, select, text

from headwater.model.quota import Limits, QuotaDefaults, QuotaName, Usage, find_excess
from headwater.model.value_sets import SetId, dataset_set_id, filter_set_id
from headwater.stores.sql import store_errors
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.tables import (
    datasets,
    flow_revisions,
    flows,
    quotas,
    removed_filters,
)
from headwater.stores.sql.usage import COUNTED_QUOTAS, belongs_to, usage_of

_SERIALIZE_CHANGES = "SELECT pg_advisory_xact_lock(7234190385527)"
"""Serialises the changes that are subject to a quota, so that each change sees those before it."""


class QuotaChecker:
    """Checks quotas inside of the transactions of other stores."""

    def __init__(self, defaults: QuotaDefaults) -> None:
        self._defaults = defaults

    @contextmanager
    def enforced(self, connection: Connection, owner: str, *names: QuotaName) -> Iterator[None]:
        """Compare the usage before and after the block.

        Raises QuotaExceeded, which rolls the transaction back. The transaction must take no other lock before the
        block, because on PostgreSQL the block takes the lock that serialises changes. Changes after it are not checked.
        """
        limits, total_limits = self.limits(connection, owner), self._defaults.total
        limited = [name for name in names if limits[name] is not None]
        limited_in_total = [name for name in names if name in total_limits]
        if not limited and not limited_in_total:
            yield
            return
        if connection.dialect.name == "postgresql":
            connection.execute(text(_SERIALIZE_CHANGES))
        before, total_before = usage_of(connection, limited, owner), usage_of(connection, limited_in_total)
        yield
        exceeded = find_excess(before, usage_of(connection, limited, owner), limits) or find_excess(
            total_before, usage_of(connection, limited_in_total), total_limits, is_total=True
        )
        if exceeded is not None:
            raise store_errors.quota_exceeded(exceeded)

    def limits(self, connection: Connection, owner: str) -> dict[QuotaName, int | None]:
        """Return the limits of an owner."""
        rows = connection.execute(select(quotas.c.name, quotas.c.allowed).where(quotas.c.owner == owner))
        return self._defaults.limits({row.name: row.allowed for row in rows})


class SqlQuotas:
    """QuotaStore in SQL."""

    def __init__(self, connections: Connections, checker: QuotaChecker, defaults: QuotaDefaults) -> None:
        self._connections = connections
        self._checker = checker
        self.total_limits = defaults.total

    def limits(self, owner: str) -> Limits:
        with self._connections.reading() as connection:
            return self._checker.limits(connection, owner)

    def usage(self, owner: str) -> Usage:
        with self._connections.reading() as connection:
            return usage_of(connection, COUNTED_QUOTAS, owner)

    def set_limits(self, owner: str, limits: Limits, reset: Sequence[QuotaName]) -> None:
        changed = (quotas.c.owner == owner) & quotas.c.name.in_([*limits, *reset])
        with self._connections.writing() as connection:
            connection.execute(delete(quotas).where(changed))
            rows = [{"owner": owner, "name": name, "allowed": limit} for name, limit in limits.items()]
            if rows:
                connection.execute(insert(quotas), rows)

    def overrides(self) -> Mapping[str, Limits]:
        limits: dict[str, dict[QuotaName, int | None]] = {}
        with self._connections.reading() as connection:
            for row in connection.execute(select(quotas).order_by(quotas.c.owner)):
                limits.setdefault(row.owner, {})[row.name] = row.allowed
        return limits

    def sets(self, owner: str | None = None) -> Sequence[SetId]:
        is_flow_of_owner = belongs_to(flows.c.owner, owner)
        stored_revisions = select(flow_revisions.c.config_id, flow_revisions.c.filter_uids).where(
            flow_revisions.c.config_id == flows.c.id, is_flow_of_owner
        )
        removed = select(removed_filters.c.state, removed_filters.c.config_id, removed_filters.c.uid).where(
            removed_filters.c.config_id == flows.c.id, is_flow_of_owner
        )
        dataset_ids = select(datasets.c.id).where(belongs_to(datasets.c.owner, owner))
        with self._connections.reading() as connection:
            rows = connection.execute(stored_revisions.distinct())
            filters = {filter_set_id(row.config_id, uid) for row in rows for uid in row.filter_uids.split()}
            for state, *path in connection.execute(removed):
                (filters.discard if state == "dropped" else filters.add)(filter_set_id(*path))
            return [*filters, *map(dataset_set_id, connection.scalars(dataset_ids))]
