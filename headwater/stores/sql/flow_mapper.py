"""Reads configurations from rows, inside of the transactions of the SQL stores."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, case, false, select

from headwater.model.flow import Flow
from headwater.model.pagination import ListPosition
from headwater.model.stored_config import read_pipeline_config
from headwater.stores.sql import credential_rows, store_errors
from headwater.stores.sql.credential_rows import CredentialRows
from headwater.stores.sql.tables import ACTIVE, deployments, flow_revisions, flows

NEWEST_FIRST = (flows.c.created_at.desc(), flows.c.id.desc())
_SELECT_NEWEST_REVISIONS = (
    select(flows, flow_revisions.c.config, *credential_rows.COLUMNS)
    .join(flow_revisions, (flow_revisions.c.config_id == flows.c.id) & (flow_revisions.c.revision == flows.c.revision))
    .join(deployments, (deployments.c.config_id == flows.c.id) & ACTIVE, isouter=True)
)


def conditions_after(after: ListPosition | None) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that select what follows a position in the list, newest first.

    Without a position, there are no conditions.
    """
    if after is None:
        return ()
    same_time = (flows.c.created_at == after.created_at) & (flows.c.id < after.id)
    return ((flows.c.created_at < after.created_at) | same_time,)


def read_tags(row: Row[Any]) -> tuple[str, ...] | None:
    """Return the tags in a row of flows; None when they can't be read."""
    has_tags = isinstance(row.tags, list) and all(isinstance(tag, str) for tag in row.tags)
    return tuple(row.tags) if has_tags else None


class FlowMapper:
    """Reads configurations from rows.

    A configuration that can't be read is returned like any other; its `unreadable_reason` says why.
    """

    def __init__(self, credentials: CredentialRows) -> None:
        self._credentials = credentials

    def get(self, connection: Connection, owner: str, config_id: str, *, lock: bool = False) -> Flow:
        """Return the newest revision of an owner's configuration. Raises NotFound.

        Args:
            connection: The transaction.
            owner: The owner.
            config_id: The id of the configuration.
            lock: Whether to lock the row of the configuration, so that transactions that change the same configuration
                or its deployment are serialised.
        """
        if lock:
            connection.execute(select(flows.c.id).where(flows.c.id == config_id).with_for_update())
        matching = self.select(connection, flows.c.id == config_id, flows.c.owner == owner, flows.c.deleted == false())
        if not matching:
            raise store_errors.configuration_not_found(config_id)
        return matching[0]

    def require(self, connection: Connection, owner: str, config_id: str) -> None:
        """Raise NotFound when the owner has no such configuration."""
        is_flow = (flows.c.id == config_id) & (flows.c.owner == owner) & (flows.c.deleted == false())
        if connection.scalar(select(flows.c.id).where(is_flow)) is None:
            raise store_errors.configuration_not_found(config_id)

    def get_revision(self, connection: Connection, config_id: str, revision: int) -> Flow:
        """Return a configuration as it was at a stored revision.

        A `decryption_error` concerns the active deployment only, so an earlier revision has none. Raises NotFound.
        """
        is_revision = (flow_revisions.c.config_id == config_id) & (flow_revisions.c.revision == revision)
        row = connection.execute(_SELECT_REVISIONS.where(is_revision)).one_or_none()
        if row is None:
            raise store_errors.revision_not_found(revision)
        return _flow(row)

    def select(self, connection: Connection, *where: ColumnElement[Any]) -> list[Flow]:
        """Return the configurations that match, newest first."""
        matching = _SELECT_NEWEST_REVISIONS.where(*where).order_by(*NEWEST_FIRST)
        return [_flow(row, self._credentials.decryption_error(row)) for row in connection.execute(matching)]


def _flow(row: Row[Any], decryption_error: str = "") -> Flow:
    tags = read_tags(row)
    return Flow(
        id=row.id,
        owner=row.owner,
        name=row.name,
        description=row.description,
        tags=tags or (),
        pipeline_config=read_pipeline_config(row.config),
        revision=row.revision,
        created_at=row.created_at,
        updated_at=row.updated_at,
        external_id=row.external_id,
        tags_error="" if tags is not None else store_errors.UNREADABLE_TAGS,
        decryption_error=decryption_error,
    )


def _common_column(name: str) -> ColumnElement[Any]:
    """Return the value of a column that revisions have in common with their configuration.

    During an upgrade, a process of an older version saves revisions without these columns. For such a revision, the
    values of the newest revision are returned.
    """
    has_columns = flow_revisions.c.name.is_not(None)
    return case((has_columns, flow_revisions.c[name]), else_=flows.c[name]).label(name)


_SELECT_REVISIONS: Select[Any] = select(
    flows.c.id,
    flows.c.owner,
    flows.c.created_at,
    *(_common_column(name) for name in ("name", "description", "tags", "external_id")),
    flow_revisions.c.revision,
    flow_revisions.c.saved_at.label("updated_at"),
    flow_revisions.c.config,
).join(flow_revisions, flow_revisions.c.config_id == flows.c.id)
