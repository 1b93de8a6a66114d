"""Computes the usage of the quotas that SQL counts."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, false, func, select

from headwater.model.quota import QuotaName, Usage
from headwater.stores.sql.tables import ACTIVE, HOLDS_NAME, datasets, deployments, flow_revisions, flows


def belongs_to(column: ColumnElement[str], owner: str | None) -> ColumnElement[bool]:
    """Return the condition for a row to belong to an owner.

    Every row matches when `owner` is None.
    """
    return column.is_not(None) if owner is None else column == owner


def _configurations(owner: str | None) -> Select[Any]:
    return select(func.count()).select_from(flows).where(belongs_to(flows.c.owner, owner), flows.c.deleted == false())


def _stored_bytes(owner: str | None) -> Select[Any]:
    """Return the query of the sum of the largest stored revision of each configuration.

    The quota times the number of kept revisions then bounds the history too.
    """
    largest = func.max(flow_revisions.c.stored_bytes).label("largest")
    of_owner = flows.join(flow_revisions, flow_revisions.c.config_id == flows.c.id)
    sizes = select(largest).select_from(of_owner).where(belongs_to(flows.c.owner, owner)).group_by(flows.c.id)
    return select(func.sum(sizes.subquery().c.largest))


def _script_bytes(owner: str | None) -> Select[Any]:
    return _sum_of_newest("script_bytes", owner, flows.c.deleted == false())


def _sum_of_newest(column: str, owner: str | None, *where: ColumnElement[bool]) -> Select[Any]:
    is_newest = (flow_revisions.c.config_id == flows.c.id) & (flow_revisions.c.revision == flows.c.revision)
    counted = select(func.sum(flow_revisions.c[column])).select_from(flows.join(flow_revisions, is_newest))
    return counted.where(belongs_to(flows.c.owner, owner), *where)


def _deployments(owner: str | None) -> Select[Any]:
    return select(func.count()).select_from(deployments).where(ACTIVE, belongs_to(deployments.c.owner, owner))


def _workers(owner: str | None) -> Select[Any]:
    is_desired_revision = (flow_revisions.c.config_id == deployments.c.config_id) & (
        flow_revisions.c.revision == deployments.c.desired_revision
    )
    joined = deployments.join(flow_revisions, is_desired_revision)
    workers = select(func.sum(flow_revisions.c.workers)).select_from(joined)
    return workers.where(ACTIVE, belongs_to(deployments.c.owner, owner))


def _datasets(owner: str | None) -> Select[Any]:
    return select(func.count()).select_from(datasets).where(HOLDS_NAME, belongs_to(datasets.c.owner, owner))


COUNTED_QUOTAS: Mapping[QuotaName, Callable[[str | None], Select[Any]]] = {
    "configurations": _configurations,
    "stored_bytes": _stored_bytes,
    "script_bytes": _script_bytes,
    "deployments": _deployments,
    "workers": _workers,
    "datasets": _datasets,
}
"""By quota, the function that returns the query of the usage of an owner, or of all owners for None."""


def usage_of(connection: Connection, names: Iterable[QuotaName], owner: str | None = None) -> Usage:
    """Return the usage of the quotas that SQL counts, of an owner or of all owners."""
    return {name: int(connection.scalar(COUNTED_QUOTAS[name](owner)) or 0) for name in names if name in COUNTED_QUOTAS}
