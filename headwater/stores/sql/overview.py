"""The store that lists configurations with their deployments."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from sys import intern
from typing import Any

from sqlalchemy import ColumnElement, Text, cast, false, func, or_, select, tuple_

from headwater.model.deployment import DesiredPhase
from headwater.model.pagination import ListPosition, split_by_size
from headwater.model.pipeline_state import (
    ConfigurationQuery,
    ConfigurationSummary,
    DeploymentSummary,
    PipelineState,
)
from headwater.model.stored_config import UnreadablePipelineConfig, read_pipeline_config
from headwater.stores.protocols.overview import RevisionId, SourceStream
from headwater.stores.sql import credential_rows
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.credential_rows import CredentialRows
from headwater.stores.sql.deployment_mapper import read_states, read_workers
from headwater.stores.sql.flow_mapper import NEWEST_FIRST, conditions_after, read_tags
from headwater.stores.sql.position_columns import read_stored_positions
from headwater.stores.sql.tables import (
    ACTIVE,
    deployment_revisions,
    deployments,
    flow_revisions,
    flows,
    worker_states,
)

REVISIONS_PER_QUERY = 200
_LOWER_CASE_WITH_ASCII = {
    "I": "i",
    "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}": "i\N{COMBINING DOT ABOVE}",
    "\N{KELVIN SIGN}": "k",
}
"""The letters that `str.lower` converts to ASCII letters, but `lower` of some databases does not.

`lower` of PostgreSQL with a Turkish locale converts "I" to a dotless i.
"""

_EFFECTIVE_REVISION = func.coalesce(deployments.c.observed_revision, deployments.c.desired_revision)
_SELECT_SUMMARIES = (
    select(
        *(flows.c[name] for name in ("id", "name", "external_id", "tags", "revision", "created_at", "updated_at")),
        *credential_rows.COLUMNS,
        deployments.c.desired,
        deployments.c.condition,
        deployments.c.positions,
        deployment_revisions.c.stream,
        deployment_revisions.c.source_epoch,
        worker_states.c.workers,
    )
    .select_from(flows)
    .join(deployments, (deployments.c.config_id == flows.c.id) & ACTIVE, isouter=True)
    .join(
        deployment_revisions,
        (deployment_revisions.c.deployment_id == deployments.c.id)
        & (deployment_revisions.c.revision == _EFFECTIVE_REVISION),
        isouter=True,
    )
    .join(worker_states, worker_states.c.deployment_id == deployments.c.id, isouter=True)
    .where(flows.c.deleted == false())
    .order_by(*NEWEST_FIRST)
)
_IS_DRAFT = deployments.c.id.is_(None) | (deployments.c.desired == DesiredPhase.ABSENT.value)
_IS_PAUSED = deployments.c.desired == DesiredPhase.PAUSED.value
_IS_RUNNING = deployments.c.id.is_not(None) & ~_IS_DRAFT & ~_IS_PAUSED
_MAY_HAVE_STATE: dict[PipelineState, ColumnElement[bool]] = {
    "draft": _IS_DRAFT,
    "paused": _IS_PAUSED,
    "deployed": _IS_RUNNING,
    "failing": _IS_RUNNING,
}
"""A condition that holds for all configurations in a state.

The state `unreadable` has no condition, because it shows only when the pipeline is read.
"""


class SqlOverview:
    """OverviewStore in SQL."""

    def __init__(self, connections: Connections, credentials: CredentialRows) -> None:
        self._connections = connections
        self._credentials = credentials

    def summaries(
        self, owner: str, query: ConfigurationQuery, after: ListPosition | None, limit: int
    ) -> Sequence[ConfigurationSummary]:
        selected = _SELECT_SUMMARIES.where(flows.c.owner == owner, *_conditions(query), *conditions_after(after)).limit(
            limit
        )
        with self._connections.reading() as connection:
            return [self._summary(row) for row in connection.execute(selected)]

    def sources(self, revisions: Collection[RevisionId]) -> Mapping[RevisionId, SourceStream]:
        return {id_: source for part in self._parts(sorted(revisions)) for id_, source in self._sources_in(part)}

    def _parts(self, revisions: Sequence[RevisionId]) -> Iterator[Sequence[RevisionId]]:
        """Split revisions into parts whose texts are small enough to be in memory together."""
        for start in range(0, len(revisions), REVISIONS_PER_QUERY):
            wanted = revisions[start : start + REVISIONS_PER_QUERY]
            sizes = select(flow_revisions.c.config_id, flow_revisions.c.revision, flow_revisions.c.stored_bytes)
            with self._connections.reading() as connection:
                rows = connection.execute(sizes.where(_is_among(wanted))).all()
            yield from (
                [RevisionId(row.config_id, row.revision) for row in part]
                for part in split_by_size(rows, lambda row: int(row.stored_bytes))
            )

    def _sources_in(self, revisions: Sequence[RevisionId]) -> list[tuple[RevisionId, SourceStream]]:
        texts = select(flow_revisions.c.config_id, flow_revisions.c.revision, flow_revisions.c.config)
        with self._connections.reading() as connection:
            rows = connection.execute(texts.where(_is_among(revisions))).all()
        return [
            (
                RevisionId(row.config_id, row.revision),
                SourceStream(intern(config.source.chain), intern(config.source.entity)),
            )
            for row in rows
            if not isinstance(config := read_pipeline_config(row.config), UnreadablePipelineConfig)
        ]

    def _summary(self, row: Any) -> ConfigurationSummary:
        tags = read_tags(row)
        return ConfigurationSummary(
            id=row.id,
            name=row.name,
            external_id=row.external_id,
            tags=tags or (),
            revision=row.revision,
            created_at=row.created_at,
            updated_at=row.updated_at,
            is_row_readable=tags is not None and not self._credentials.decryption_error(row),
            deployment=_deployment(row),
        )


def _deployment(row: Any) -> DeploymentSummary | None:
    if row.deployment_id is None:
        return None
    states, _ = read_states(row)
    if states["desired"] is DesiredPhase.ABSENT:
        return None
    source_epoch = row.source_epoch or 1
    return DeploymentSummary(
        id=row.deployment_id,
        desired=states["desired"],
        condition=states["condition"],
        workers=read_workers(row.workers) or (),
        stream=row.stream or "",
        source_epoch=source_epoch,
        positions=read_stored_positions(row.positions).groups.get(source_epoch),
    )


def _is_among(revisions: Sequence[RevisionId]) -> ColumnElement[bool]:
    return tuple_(flow_revisions.c.config_id, flow_revisions.c.revision).in_(revisions)


def _lower(column: ColumnElement[str]) -> ColumnElement[str]:
    """Return the text of a column in lower case, with the same ASCII letters as in `str.lower`."""
    for upper, lower in _LOWER_CASE_WITH_ASCII.items():
        column = func.replace(column, upper, lower)
    return func.lower(column)


def _conditions(query: ConfigurationQuery) -> Iterator[ColumnElement[bool]]:
    """Yield conditions that hold for all configurations that match."""
    # A text with other letters is compared by the caller only: `lower` of SQLite, and of PostgreSQL with some locales,
    # changes only ASCII letters.
    if query.text is not None and query.text.isascii():
        text, columns = query.text.lower(), (flows.c.id, flows.c.name, flows.c.external_id)
        yield or_(*(_lower(column).contains(text, autoescape=True) for column in columns))
    if query.tag is not None:
        yield cast(flows.c.tags, Text).contains(json.dumps(query.tag), autoescape=True)
    if query.state is not None and query.state in _MAY_HAVE_STATE:
        yield _MAY_HAVE_STATE[query.state]
