"""Stored revisions of configurations: what their filters are, and which nobody needs any more."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, bindparam, delete, exists, false, func, select

from headwater.model.flow import PipelineConfig
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.tables import (
    ACTIVE,
    UtcDateTime,
    deployment_revisions,
    deployments,
    flow_revisions,
    flows,
)


class SqlRevisions:
    """RevisionStore in SQL."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def filters(self, flow_id: str) -> Mapping[int, frozenset[str]]:
        stored = select(flow_revisions.c.revision, flow_revisions.c.config).where(flow_revisions.c.flow_id == flow_id)
        with self._connections.reading() as connection:
            # Row by row: each may hold megabytes of scripts.
            rows = connection.execution_options(yield_per=1).execute(stored)
            return {row.revision: PipelineConfig.model_validate_json(row.config).filter_uids for row in rows}

    def superseded(self, before: datetime) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        with self._connections.reading() as connection:
            for row in connection.execute(_superseded(before)):
                found[row.flow_id].append(row.revision)
        return found

    def remove(self, flow_id: str, revisions: Collection[int]) -> None:
        this = (flow_revisions.c.flow_id == flow_id) & (flow_revisions.c.revision == bindparam("number"))
        with self._connections.writing() as connection:
            if revisions:
                connection.execute(delete(flow_revisions).where(this), [{"number": number} for number in revisions])


def _superseded(before: datetime) -> Select[Any]:
    revision = flow_revisions.c.revision
    replaced_at = func.lead(flow_revisions.c.saved_at, type_=UtcDateTime).over(
        partition_by=flow_revisions.c.flow_id, order_by=revision
    )
    stored = select(flow_revisions.c.flow_id, revision, replaced_at.label("replaced_at")).subquery()
    asked_for = (deployments.c.id == deployment_revisions.c.deployment_id) & ACTIVE
    in_use = exists().where(
        asked_for,
        deployment_revisions.c.retired == false(),
        deployments.c.flow_id == stored.c.flow_id,
        deployment_revisions.c.revision == stored.c.revision,
    )
    return (
        select(stored.c.flow_id, stored.c.revision)
        .join(flows, flows.c.id == stored.c.flow_id)
        .where(flows.c.deleted == false(), stored.c.revision < flows.c.revision, stored.c.replaced_at < before, ~in_use)
        .order_by(stored.c.flow_id, stored.c.revision)
    )
