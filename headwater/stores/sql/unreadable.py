"""Finds stored rows that can't be read, for `headwater doctor`.

The stores read such rows without raising.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from sqlalchemy import Connection, false, select

from headwater.model.stored_config import UnreadablePipelineConfig, read_pipeline_config
from headwater.stores.sql import logs
from headwater.stores.sql.deployment_mapper import DeploymentMapper, read_workers
from headwater.stores.sql.flow_mapper import FlowMapper
from headwater.stores.sql.keys import has_scopes
from headwater.stores.sql.tables import (
    ACTIVE,
    api_keys,
    deployments,
    flow_revisions,
    flows,
    worker_logs,
    worker_states,
)


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A stored row that this version can't read.

    Attributes:
        kind: The kind of object, such as "deployment".
        id: The id of the object.
        owner: The owner of the object; empty if it has none.
        reason: What is wrong, and what to do.
    """

    kind: str
    id: str
    owner: str
    reason: str


UNREADABLE_WORKERS = (
    "The stored states of the deployment's workers can't be read. The controller replaces them when the state of a "
    "worker changes."
)
UNREADABLE_LOG_LINES = (
    "{} stored log lines of the deployment can't be read. The API leaves them out; they are deleted with the "
    "deployment."
)
UNREADABLE_SCOPES = (
    "The scopes of the API key can't be read, so the key has none. Revoke it, and create another one with "
    "`headwater keys create`."
)
UNREADABLE_REVISION = (
    "Revision {} can't be read: {}. No rollback to it is possible; the newest revision is not affected."
)


def unreadable_rows(connection: Connection, deployment_mapper: DeploymentMapper) -> Iterator[UnreadableRow]:
    """Yield the unreadable rows that a user or operator meets, kind by kind."""
    for flow in FlowMapper(deployment_mapper.credentials).select(connection, flows.c.deleted == false()):
        if flow.unreadable_reason:
            yield UnreadableRow("configuration", flow.id, flow.owner, flow.unreadable_reason)
    yield from _old_revisions(connection)
    for deployment in deployment_mapper.list_active(connection):
        if deployment.unreadable_reason:
            yield UnreadableRow("deployment", deployment.id, deployment.owner, deployment.unreadable_reason)
    yield from _workers(connection)
    yield from _log_lines(connection)
    for key in connection.execute(select(api_keys)):
        if not has_scopes(key.scopes):
            yield UnreadableRow("API key", key.id, key.owner, UNREADABLE_SCOPES)


def _old_revisions(connection: Connection) -> Iterator[UnreadableRow]:
    old = (
        select(flow_revisions, flows.c.owner)
        .join(flows, flows.c.id == flow_revisions.c.config_id)
        .where(flow_revisions.c.revision != flows.c.revision)
        .order_by(flow_revisions.c.config_id)
    )
    for row in connection.execute(old.execution_options(yield_per=1)):
        config = read_pipeline_config(row.config)
        if isinstance(config, UnreadablePipelineConfig):
            reason = UNREADABLE_REVISION.format(row.revision, config.fault)
            yield UnreadableRow("revision", row.config_id, row.owner, reason)


def _workers(connection: Connection) -> Iterator[UnreadableRow]:
    states = select(worker_states, deployments.c.owner).join(
        deployments, deployments.c.id == worker_states.c.deployment_id
    )
    for row in connection.execute(states.where(ACTIVE)):
        if read_workers(row.workers) is None:
            yield UnreadableRow("worker states", row.deployment_id, row.owner, UNREADABLE_WORKERS)


def _log_lines(connection: Connection) -> Iterator[UnreadableRow]:
    lines = select(worker_logs.c.deployment_id, worker_logs.c.line, deployments.c.owner).join(
        deployments, deployments.c.id == worker_logs.c.deployment_id
    )
    rows = connection.execute(lines.order_by(worker_logs.c.deployment_id))
    for deployment_id, rows_of_deployment in groupby(rows, attrgetter("deployment_id")):
        unreadable = [row for row in rows_of_deployment if logs.read_line(row.line) is None]
        if unreadable:
            yield UnreadableRow(
                "log lines", deployment_id, unreadable[0].owner, UNREADABLE_LOG_LINES.format(len(unreadable))
            )
