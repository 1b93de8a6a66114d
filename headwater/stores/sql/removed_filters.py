"""The rows of removed filters, inside of transactions of flows.py and revisions.py.

A filter is live while the newest revision of its configuration or a revision of the active deployment contains it.
Before a transaction changes rows depending on which filters are live, it locks the row of the configuration, as saves
and deploys do. `find_unrecorded` takes no lock: it finds candidates, which `record` checks again.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, false, insert, select, union_all, update

from headwater.stores.protocols.configurations import RemovedFilter
from headwater.stores.sql import store_errors
from headwater.stores.sql.tables import (
    ACTIVE,
    deployment_revisions,
    deployments,
    flow_revisions,
    flows,
    removed_filters,
)


def stored_filters(connection: Connection, config_id: str) -> dict[int, frozenset[str]]:
    """Return the uids of the filters in each stored revision, by revision."""
    stored = select(flow_revisions.c.revision, flow_revisions.c.filter_uids).where(
        flow_revisions.c.config_id == config_id
    )
    return {row.revision: frozenset(row.filter_uids.split()) for row in connection.execute(stored)}


def select_rows(connection: Connection, config_id: str | None = None) -> list[RemovedFilter]:
    """Return the removed filters, of all configurations or of one, oldest first."""
    table = removed_filters
    filters = select(table).order_by(table.c.removed_at, table.c.config_id, table.c.uid)
    if config_id is not None:
        filters = filters.where(table.c.config_id == config_id)
    return [RemovedFilter(*row) for row in connection.execute(filters)]


def restore(connection: Connection, config_id: str, uids: Collection[str]) -> frozenset[str]:
    """Delete the rows of filters that a new revision contains again.

    Return the uids of the filters whose values have been dropped. Raises Unavailable while values are being dropped.
    """
    rows = {row.uid: row.state for row in select_rows(connection, config_id) if row.uid in uids}
    if dropping := sorted(uid for uid, state in rows.items() if state == "dropping"):
        raise store_errors.values_being_dropped(", ".join(dropping))
    _delete(connection, config_id, rows)
    return frozenset(uid for uid, state in rows.items() if state == "dropped")


def find_unrecorded(connection: Connection) -> Mapping[str, frozenset[str]]:
    """Return by configuration the filters of stored revisions that must be recorded."""
    recorded = defaultdict[str, set[str]](set)
    for row in select_rows(connection):
        recorded[row.config_id].add(row.uid)
    candidates = defaultdict[str, set[str]](set)
    for config_id, stored, newest in connection.execute(_SELECT_FILTERS_OF_EARLIER_REVISIONS):
        candidates[config_id].update(set(stored.split()) - set(newest.split()))
    missing = {config_id: uids - recorded[config_id] for config_id, uids in candidates.items()}
    unrecorded = {
        config_id: frozenset(uids - _live_filters(connection, config_id)) for config_id, uids in missing.items() if uids
    }
    return {config_id: uids for config_id, uids in unrecorded.items() if uids}


def record(connection: Connection, config_id: str, uids: Collection[str], now: datetime) -> None:
    """Record filters as removed, except live filters and filters that are recorded already."""
    _lock(connection, config_id)
    recorded = {row.uid for row in select_rows(connection, config_id)}
    if removed := set(uids) - recorded - _live_filters(connection, config_id):
        connection.execute(
            insert(removed_filters),
            [{"config_id": config_id, "uid": uid, "removed_at": now} for uid in sorted(removed)],
        )


def delete_without_revision(connection: Connection, config_id: str) -> None:
    """Delete the rows of dropped filters that no stored revision contains."""
    stored = frozenset[str]().union(*stored_filters(connection, config_id).values())
    rows = select_rows(connection, config_id)
    _delete(connection, config_id, [row.uid for row in rows if row.state == "dropped" and row.uid not in stored])


def begin_drop(connection: Connection, config_id: str, before: datetime) -> frozenset[str]:
    """Change the state of filters that were removed before a time to `dropping`.

    Return all filters in this state. The row of a filter that is live is deleted instead.
    """
    _lock(connection, config_id)
    _delete(connection, config_id, _live_filters(connection, config_id))
    expired = (removed_filters.c.state == "kept") & (removed_filters.c.removed_at < before)
    of_configuration = removed_filters.c.config_id == config_id
    connection.execute(update(removed_filters).where(of_configuration, expired).values(state="dropping"))
    return frozenset(row.uid for row in select_rows(connection, config_id) if row.state == "dropping")


def finish_drop(connection: Connection, config_id: str, uids: Collection[str]) -> None:
    """Record that the values of filters have been dropped."""
    _lock(connection, config_id)
    dropping = _is_filter(config_id, uids) & (removed_filters.c.state == "dropping")
    connection.execute(update(removed_filters).where(dropping).values(state="dropped"))
    delete_without_revision(connection, config_id)


_NEWEST = flow_revisions.alias("newest")
_SELECT_FILTERS_OF_EARLIER_REVISIONS = (
    select(flow_revisions.c.config_id, flow_revisions.c.filter_uids, _NEWEST.c.filter_uids)
    .distinct()
    .select_from(flow_revisions)
    .join(flows, flows.c.id == flow_revisions.c.config_id)
    .join(_NEWEST, (_NEWEST.c.config_id == flows.c.id) & (_NEWEST.c.revision == flows.c.revision))
    .where(
        flows.c.deleted == false(),
        flow_revisions.c.revision < flows.c.revision,
        flow_revisions.c.filter_uids != "",
        flow_revisions.c.filter_uids != _NEWEST.c.filter_uids,
    )
)


def _live_filters(connection: Connection, config_id: str) -> frozenset[str]:
    """Return the uids of the filters that are saved or deployed now."""
    newest = select(flows.c.revision).where(flows.c.id == config_id)
    deployed = (
        select(deployment_revisions.c.revision)
        .join(deployments, deployments.c.id == deployment_revisions.c.deployment_id)
        .where(deployments.c.config_id == config_id, ACTIVE, deployment_revisions.c.retired == false())
    )
    live = select(flow_revisions.c.filter_uids).where(
        flow_revisions.c.config_id == config_id, flow_revisions.c.revision.in_(union_all(newest, deployed))
    )
    return frozenset[str]().union(*(uids.split() for uids in connection.scalars(live)))


def _lock(connection: Connection, config_id: str) -> None:
    connection.execute(select(flows.c.id).where(flows.c.id == config_id).with_for_update())


def _delete(connection: Connection, config_id: str, uids: Collection[str]) -> None:
    if uids:
        connection.execute(delete(removed_filters).where(_is_filter(config_id, uids)))


def _is_filter(config_id: str, uids: Collection[str]) -> ColumnElement[bool]:
    return (removed_filters.c.config_id == config_id) & removed_filters.c.uid.in_(uids)
