"""Configurations and their revisions."""

import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, exists, false, insert, select, true, update
from sqlalchemy.exc import IntegrityError

from headwater.model import rollout
from headwater.model.deployment import Desired
from headwater.model.flow import Flow
from headwater.model.listing import Place
from headwater.model.quota import Content, content_of, quotas_of_save
from headwater.model.stored import read_config, write_config
from headwater.stores.sql import audit_changes, store_errors
from headwater.stores.sql.audit import record
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.deployment_rows import DeploymentRows
from headwater.stores.sql.doorbell import ring
from headwater.stores.sql.quotas import QuotaRows
from headwater.stores.sql.tables import ACTIVE, deployments, flow_revisions, flows, removed_filters

PASSWORD_BYTES = 24
_NEWEST = (
    select(flows, flow_revisions.c.config, *DeploymentRows.SEALED_COLUMNS)
    .join(flow_revisions, (flow_revisions.c.flow_id == flows.c.id) & (flow_revisions.c.revision == flows.c.revision))
    .join(deployments, (deployments.c.flow_id == flows.c.id) & ACTIVE, isouter=True)
)

_PLACES = select(flows.c.created_at, flows.c.id, flow_revisions.c.stored_bytes).join(
    flow_revisions, (flow_revisions.c.flow_id == flows.c.id) & (flow_revisions.c.revision == flows.c.revision)
)
_NEWEST_FIRST = (flows.c.created_at.desc(), flows.c.id.desc())


class FlowRows:
    """Configurations as rows. One that can't be read is returned like any other, and says so."""

    def __init__(self, rows: DeploymentRows) -> None:
        self._rows = rows

    def visible(self, connection: Connection, owner: str, flow_id: str, *, lock: bool = False) -> Flow:
        """The newest revision of an owner's configuration. Raises NotFound.

        lock: two transactions that change what belongs to one configuration come one after the other.
        """
        if lock:
            connection.execute(select(flows.c.id).where(flows.c.id == flow_id).with_for_update())
        found = self.select(connection, flows.c.id == flow_id, flows.c.owner == owner, flows.c.deleted == false())
        if not found:
            raise store_errors.no_flow(flow_id)
        return found[0]

    def select(self, connection: Connection, *where: ColumnElement[Any]) -> list[Flow]:
        """Newest first."""
        found = _NEWEST.where(*where).order_by(*_NEWEST_FIRST)
        return [self._flow(row) for row in connection.execute(found)]

    def _flow(self, row: Row[Any]) -> Flow:
        has_tags = isinstance(row.tags, list) and all(isinstance(tag, str) for tag in row.tags)
        return Flow(
            id=row.id,
            owner=row.owner,
            name=row.name,
            description=row.description,
            tags=tuple(row.tags) if has_tags else (),
            pipeline_config=read_config(row.config),
            revision=row.revision,
            created_at=row.created_at,
            updated_at=row.updated_at,
            external_id=row.external_id,
            damage=self._rows.secrets_fault(row) if has_tags else store_errors.UNREADABLE_TAGS,
        )


class SqlFlows:
    """FlowStore in SQL."""

    def __init__(self, connections: Connections, rows: DeploymentRows, quotas: QuotaRows) -> None:
        self._connections = connections
        self._rows = rows
        self._quotas = quotas
        self._flows = FlowRows(rows)

    def create(self, flow: Flow) -> None:
        content = _content(flow)
        with (
            self._writing(flow) as connection,
            self._quotas.enforced(connection, flow.owner, "configurations", "stored_bytes", "script_bytes"),
        ):
            first = {"id": flow.id, "owner": flow.owner, "created_at": flow.created_at, "deleted": False}
            connection.execute(insert(flows).values(**first, **_saved(flow), revision=1))
            _insert_revision(connection, flow, 1, content)
            record(connection, audit_changes.created(flow))

    def save(self, flow: Flow) -> None:
        content = _content(flow)
        with (
            self._writing(flow) as connection,
            self._quotas.enforced(connection, flow.owner, *quotas_of_save(content, _replaced_bytes(connection, flow))),
        ):
            stored = self._flows.visible(connection, flow.owner, flow.id, lock=True)
            if flow.revision != stored.revision + 1:
                raise store_errors.saved_meanwhile(flow.id)
            this = update(flows).where(flows.c.id == flow.id)
            connection.execute(this.values(**_saved(flow), revision=flow.revision))
            _insert_revision(connection, flow, flow.revision, content)
            record(connection, audit_changes.saved(stored, flow))
            if stored.damage:
                self._renew_credentials(connection, flow.id)

    def _renew_credentials(self, connection: Connection, flow_id: str) -> None:
        """Give an active deployment other passwords where its own can't be opened."""
        active = self._rows.active(connection, flow_id)
        if active is not None and active.desired is Desired.RUNNING and not active.has_secrets:
            renewed = rollout.renew_credentials(active, *(secrets.token_urlsafe(PASSWORD_BYTES) for _ in range(2)))
            self._rows.reseal(connection, renewed)
            self._rows.desire(connection, renewed)
            record(connection, audit_changes.rotated(renewed))

    @contextmanager
    def _writing(self, flow: Flow) -> Iterator[Connection]:
        with _external_id_checked(flow), self._connections.writing() as connection:
            yield connection

    def get(self, owner: str, flow_id: str) -> Flow:
        with self._connections.reading() as connection:
            return self._flows.visible(connection, owner, flow_id)

    def list(self, owner: str) -> Sequence[Flow]:
        return self._select(flows.c.owner == owner, flows.c.deleted == false())

    def list_positions(self, owner: str, after: Place | None, limit: int) -> Sequence[Place]:
        mine = [flows.c.owner == owner, flows.c.deleted == false()]
        if after is not None:
            same_time = (flows.c.created_at == after.created_at) & (flows.c.id < after.id)
            mine.append((flows.c.created_at < after.created_at) | same_time)
        found = _PLACES.where(*mine).order_by(*_NEWEST_FIRST).limit(limit)
        with self._connections.reading() as connection:
            return [Place(*row) for row in connection.execute(found)]

    def get_many(self, owner: str, flow_ids: Collection[str]) -> Sequence[Flow]:
        return self._select(flows.c.owner == owner, flows.c.deleted == false(), flows.c.id.in_(flow_ids))

    def with_external_id(self, owner: str, external_id: str) -> Sequence[Flow]:
        return self._select(flows.c.owner == owner, flows.c.deleted == false(), flows.c.external_id == external_id)

    def delete(self, owner: str, flow_id: str, revision: int | None = None) -> bool:
        with self._connections.writing() as connection:
            stored = self._flows.visible(connection, owner, flow_id, lock=True)
            if revision not in (None, stored.revision):
                raise store_errors.saved_meanwhile(flow_id)
            gone = update(flows).where(flows.c.id == flow_id).values(deleted=True, external_id=None)
            connection.execute(gone)
            record(connection, audit_changes.deleted(stored))
            active = self._rows.active(connection, flow_id)
            if active is None:
                ring(connection)
                return False
            self._rows.desire(connection, rollout.tear_down(active, delete_flow=True))
            return True

    def purge(self, flow_id: str) -> None:
        in_use = exists().where(deployments.c.flow_id == flows.c.id, ACTIVE)
        with self._connections.writing() as connection:
            connection.execute(delete(flows).where(flows.c.id == flow_id, flows.c.deleted == true(), ~in_use))

    def deleted(self) -> Sequence[Flow]:
        return self._select(flows.c.deleted == true())

    def _select(self, *where: ColumnElement[Any]) -> Sequence[Flow]:
        with self._connections.reading() as connection:
            return self._flows.select(connection, *where)


def _saved(flow: Flow) -> dict[str, Any]:
    """The columns that each save writes."""
    return {
        "name": flow.name,
        "description": flow.description,
        "tags": list(flow.tags),
        "updated_at": flow.updated_at,
        "external_id": flow.external_id,
    }


@contextmanager
def _external_id_checked(flow: Flow) -> Iterator[None]:
    """Explain the one rule of the table that a user can break; both databases name its columns or its index."""
    try:
        yield
    except IntegrityError as error:
        if "external_id" not in str(error.orig):
            raise
        raise store_errors.external_id_taken(flow.external_id) from error


def _content(flow: Flow) -> Content:
    return content_of(write_config(flow.pipeline_config), flow.name, flow.description, *flow.tags)


def _replaced_bytes(connection: Connection, flow: Flow) -> int:
    """The stored bytes of the revision before this one, which never change."""
    before = (flow_revisions.c.flow_id == flow.id) & (flow_revisions.c.revision == flow.revision - 1)
    return connection.scalar(select(flow_revisions.c.stored_bytes).where(before)) or 0


def _insert_revision(connection: Connection, flow: Flow, revision: int, content: Content) -> None:
    """Add a revision. Filters that it has are removed no longer."""
    config = write_config(flow.pipeline_config)
    saved = {"flow_id": flow.id, "revision": revision, "config": config, "saved_at": flow.updated_at}
    counted = asdict(content)
    counted["filter_uids"] = " ".join(counted["filter_uids"])
    connection.execute(insert(flow_revisions).values(**saved, **counted))
    filters = flow.pipeline_config.filter_uids
    back = (removed_filters.c.flow_id == flow.id) & removed_filters.c.uid.in_(filters)
    if filters:
        connection.execute(delete(removed_filters).where(back))
