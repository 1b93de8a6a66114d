"""The store of configurations."""

import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, exists, false, insert, select, true, update
from sqlalchemy.exc import IntegrityError

from headwater.model import rollout
from headwater.model.audit import Change, current_actor
from headwater.model.deployment import DesiredPhase
from headwater.model.flow import Flow
from headwater.model.pagination import ListPosition
from headwater.model.quota import RevisionUsage, revision_usage
from headwater.model.revision import changed_members
from headwater.model.stored_config import write_pipeline_config
from headwater.stores.sql import audit_changes, removed_filters, store_errors
from headwater.stores.sql.audit import record
from headwater.stores.sql.change_counter import increment
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.deployment_mapper import DeploymentMapper
from headwater.stores.sql.flow_mapper import NEWEST_FIRST, FlowMapper, conditions_after
from headwater.stores.sql.id_chunks import id_chunks
from headwater.stores.sql.quotas import QuotaChecker
from headwater.stores.sql.tables import ACTIVE, deployments, flow_revisions, flows

PASSWORD_BYTES = 24
_SELECT_POSITIONS = select(flows.c.created_at, flows.c.id, flow_revisions.c.stored_bytes).join(
    flow_revisions, (flow_revisions.c.config_id == flows.c.id) & (flow_revisions.c.revision == flows.c.revision)
)


class SqlFlows:
    """FlowStore in SQL."""

    def __init__(self, connections: Connections, deployment_mapper: DeploymentMapper, quotas: QuotaChecker) -> None:
        self._connections = connections
        self._deployment_mapper = deployment_mapper
        self._quotas = quotas
        self._mapper = FlowMapper(deployment_mapper.credentials)

    def create(self, flow: Flow) -> None:
        usage = _usage(flow)
        with (
            self._writing(flow) as connection,
            self._quotas.enforced(connection, flow.owner, "configurations", "stored_bytes", "script_bytes"),
        ):
            constants = {"id": flow.id, "owner": flow.owner, "created_at": flow.created_at}
            connection.execute(insert(flows).values(**constants, **_saved_columns(flow), revision=1, deleted=False))
            _insert_revision(connection, flow, 1, usage)
            record(connection, audit_changes.created(flow))

    def save(self, flow: Flow, restored_revision: int | None = None) -> frozenset[str]:
        usage = _usage(flow)
        with (
            self._writing(flow) as connection,
            self._quotas.enforced(connection, flow.owner, "stored_bytes", "script_bytes"),
        ):
            stored = self._mapper.get(connection, flow.owner, flow.id, lock=True)
            if flow.revision != stored.revision + 1:
                raise store_errors.concurrent_update(flow.id)
            saved = update(flows).where(flows.c.id == flow.id).values(**_saved_columns(flow), revision=flow.revision)
            connection.execute(saved)
            _insert_revision(connection, flow, flow.revision, usage, changed_members(stored, flow))
            without_values = removed_filters.restore(connection, flow.id, flow.pipeline_config.filter_uids)
            record(connection, _change(stored, flow, restored_revision))
            if stored.decryption_error:
                self._renew_credentials(connection, flow.id)
            return without_values

    def _renew_credentials(self, connection: Connection, config_id: str) -> None:
        """Give an active deployment new passwords if its passwords can't be decrypted.

        A deployment that is being torn down needs none.
        """
        active = self._deployment_mapper.lock_active(connection, config_id)
        if active is None or active.has_readable_passwords or active.desired is DesiredPhase.ABSENT:
            return
        passwords = (secrets.token_urlsafe(PASSWORD_BYTES) for _ in range(2))
        renewed = rollout.replace_unreadable_passwords(active, *passwords)
        self._deployment_mapper.write_passwords(connection, renewed)
        if renewed.generation != active.generation:
            self._deployment_mapper.write_desired(connection, renewed)
        record(connection, audit_changes.rotated(renewed))

    @contextmanager
    def _writing(self, flow: Flow) -> Iterator[Connection]:
        with _external_id_checked(flow), self._connections.writing() as connection:
            yield connection

    def get(self, owner: str, config_id: str) -> Flow:
        with self._connections.reading() as connection:
            return self._mapper.get(connection, owner, config_id)

    def list(self, owner: str) -> Sequence[Flow]:
        return self._select(flows.c.owner == owner, flows.c.deleted == false())

    def list_positions(self, owner: str, after: ListPosition | None, limit: int) -> Sequence[ListPosition]:
        conditions = (flows.c.owner == owner, flows.c.deleted == false())
        page = _SELECT_POSITIONS.where(*conditions, *conditions_after(after)).order_by(*NEWEST_FIRST).limit(limit)
        with self._connections.reading() as connection:
            return [ListPosition(row.created_at, row.id, size=row.stored_bytes) for row in connection.execute(page)]

    def get_many(self, owner: str, config_ids: Collection[str]) -> Sequence[Flow]:
        has_owner = (flows.c.owner == owner) & (flows.c.deleted == false())
        chunks = (self._select(has_owner, flows.c.id.in_(ids)) for ids in id_chunks(config_ids))
        matching = [flow for chunk in chunks for flow in chunk]
        return sorted(matching, key=lambda flow: (flow.created_at, flow.id), reverse=True)

    def with_external_id(self, owner: str, external_id: str) -> Sequence[Flow]:
        return self._select(flows.c.owner == owner, flows.c.deleted == false(), flows.c.external_id == external_id)

    def delete(self, owner: str, config_id: str, revision: int | None = None) -> bool:
        with self._connections.writing() as connection:
            stored = self._mapper.get(connection, owner, config_id, lock=True)
            if revision not in (None, stored.revision):
                raise store_errors.concurrent_update(config_id)
            has_id = flows.c.id == config_id
            connection.execute(update(flows).where(has_id).values(deleted=True, external_id=None))
            record(connection, audit_changes.deleted(stored))
            active = self._deployment_mapper.lock_active(connection, config_id)
            if active is None:
                increment(connection)
                return False
            self._deployment_mapper.write_desired(connection, rollout.tear_down(active, delete_configuration=True))
            return True

    def purge(self, config_id: str) -> None:
        in_use = exists().where(deployments.c.config_id == flows.c.id, ACTIVE)
        with self._connections.writing() as connection:
            connection.execute(delete(flows).where(flows.c.id == config_id, flows.c.deleted == true(), ~in_use))

    def deleted(self) -> Sequence[Flow]:
        return self._select(flows.c.deleted == true())

    def _select(self, *where: ColumnElement[Any]) -> Sequence[Flow]:
        with self._connections.reading() as connection:
            return self._mapper.select(connection, *where)


def _saved_columns(flow: Flow) -> dict[str, Any]:
    """Return the columns that each save writes."""
    return {**_common_columns(flow), "updated_at": flow.updated_at}


def _common_columns(flow: Flow) -> dict[str, Any]:
    """Return the columns that configurations and their revisions have in common."""
    return {
        "name": flow.name,
        "description": flow.description,
        "tags": list(flow.tags),
        "external_id": flow.external_id,
    }


@contextmanager
def _external_id_checked(flow: Flow) -> Iterator[None]:
    """Translate the IntegrityError of an external_id that is not unique to Conflict.

    The error messages of both databases contain the name of the index or its columns.
    """
    try:
        yield
    except IntegrityError as error:
        if "external_id" not in str(error.orig):
            raise
        raise store_errors.external_id_taken(flow.external_id) from error


def _usage(flow: Flow) -> RevisionUsage:
    return revision_usage(write_pipeline_config(flow.pipeline_config), flow.name, flow.description, *flow.tags)


def _change(before: Flow, after: Flow, restored_revision: int | None) -> Change:
    if restored_revision is None:
        return audit_changes.saved(before, after)
    return audit_changes.restored(before, after, restored_revision)


def _insert_revision(
    connection: Connection, flow: Flow, revision: int, usage: RevisionUsage, changed: Sequence[str] = ()
) -> None:
    content = {"config_id": flow.id, "revision": revision, "config": write_pipeline_config(flow.pipeline_config)}
    history = {"saved_at": flow.updated_at, "saved_by": current_actor().key_id, "changed": " ".join(changed)}
    counted = asdict(usage) | {"filter_uids": " ".join(usage.filter_uids)}
    connection.execute(insert(flow_revisions).values(**content, **_common_columns(flow), **history, **counted))
