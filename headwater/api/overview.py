"""Route that lists configurations with their states, rates and lags."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import Query, Response
from pydantic import AfterValidator, BaseModel, Field

from headwater.api.dependencies import ApiKeyDep, ServicesDep
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import problem_responses
from headwater.api.pagination import require_valid_cursor
from headwater.api.query_parameters import NULL_TO_NONE, STRICT_INTEGER
from headwater.api.schemas import Timestamp
from headwater.model.deployment import Condition, effective_condition
from headwater.model.fields import Text
from headwater.model.flow import MAX_NAME_CHARS
from headwater.model.pagination import LIST_CURSOR_PATTERN, parse_list_cursor
from headwater.model.pipeline_state import ConfigurationQuery, PipelineState
from headwater.model.recent_metrics import RecentMetrics
from headwater.services.overview import ListedConfiguration, MetricsById

router = authenticated_router("/api/v1/flow/overview", "Configurations")

MAX_ITEMS = 200
DEFAULT_ITEMS = 100
RATES_TIMEOUT_S = 1.0
"""How long the list waits for the rates. Rates that are not known by then are null."""
_PER_MINUTE = "One count for each minute of the last hour, the oldest minute first; null when they are not known."


class SourceStream(BaseModel):
    """The stream that a pipeline reads."""

    chain: str
    entity: str


class OverviewItem(BaseModel):
    """A configuration in a list.

    Members about its deployment are null while it is not deployed.
    """

    id: str
    name: str
    external_id: str | None
    tags: list[str]
    source: SourceStream | None = Field(
        description="The source of the newest revision; null when this version of Headwater can't read it."
    )
    state: PipelineState = Field(
        description="`draft`: not deployed; `failing`: the last rollout failed or was rolled back, or a worker is in a "
        "crash loop or has not been ready for 60 s; `unreadable`: this version of Headwater can't read it."
    )
    condition: Condition | None = Field(description="The condition of the last rollout, as in GET …/deploy.")
    revision: int = Field(description="The number of the newest revision.")
    updated_at: Timestamp = Field(description="The time when the newest revision was saved.")
    messages_received: Sequence[int] | None = Field(description=_PER_MINUTE)
    messages_sent: Sequence[int] | None = Field(description=_PER_MINUTE)
    errors: Sequence[int] | None = Field(description=f"Errors of processors and outputs. {_PER_MINUTE}")
    avg_data_age_ms: float | None = Field(
        description="The mean age of the data over the last hour; null when nothing was measured."
    )
    lag: int | None = Field(
        description="Number of records in the source that are not processed yet. It is read in the background, so it "
        "is null in the first answers."
    )

    @classmethod
    def of(cls, listed: ListedConfiguration, metrics: RecentMetrics | None, lag: int | None) -> "OverviewItem":
        """Return the item for a configuration.

        The stored values are valid already, so they are not validated again.
        """
        summary, state, source = listed
        deployment = summary.deployment
        return cls.model_construct(
            id=summary.id,
            name=summary.name,
            external_id=summary.external_id,
            tags=list(summary.tags),
            source=None if source is None else SourceStream.model_construct(chain=source.chain, entity=source.entity),
            state=state,
            condition=None if deployment is None else effective_condition(deployment.desired, deployment.condition),
            revision=summary.revision,
            updated_at=summary.updated_at,
            messages_received=None if metrics is None else metrics.received,
            messages_sent=None if metrics is None else metrics.sent,
            errors=None if metrics is None else metrics.errors,
            avg_data_age_ms=None if metrics is None else metrics.data_age_ms,
            lag=lag,
        )


class OverviewBody(BaseModel):
    """A page of configurations."""

    items: list[OverviewItem] = Field(description="The newest configuration first.")
    cursor: str | None = Field(description="The cursor of the next page; null on the last page.")
    first_minute: Timestamp = Field(description="The start of the first minute that the counts of all items cover.")


@router.get(
    "",
    operation_id="getOverview",
    summary="List your configurations with their states and rates",
    response_model=OverviewBody,
    responses=problem_responses(422),
    openapi_extra=required_scopes("flow:read"),
)
async def read(
    api_key: ApiKeyDep,
    services: ServicesDep,
    limit: Annotated[
        int, Query(ge=1, le=MAX_ITEMS, description="The number of configurations on a page."), STRICT_INTEGER
    ] = DEFAULT_ITEMS,
    cursor: Annotated[
        str | None,
        Query(
            description="The `cursor` of the previous page.",
            json_schema_extra={"pattern": LIST_CURSOR_PATTERN},
        ),
        AfterValidator(require_valid_cursor),
        NULL_TO_NONE,
    ] = None,
    q: Annotated[
        Text | None,
        Query(
            min_length=1,
            max_length=MAX_NAME_CHARS,
            description="Only configurations whose id, name or external_id contains this text, in any case.",
        ),
    ] = None,
    tag: Annotated[Text | None, Query(min_length=1, description="Only configurations with this tag.")] = None,
    state: Annotated[PipelineState | None, Query(description="Only configurations in this state.")] = None,
) -> Response:
    """Lists your configurations with their states, rates and lags, newest first.
    Rates are null while Valkey or Redis is unavailable, and lags are null when Kafka has been unavailable for a minute.
    Neither delays the response by more than a second.
    """
    overview = services.overview
    after, query = parse_list_cursor(cursor) if cursor else None, ConfigurationQuery(q, tag, state)
    page = await to_thread.run_sync(partial(overview.page, api_key.owner, query, after, limit))
    first_minute = overview.first_minute
    reading = overview.metrics(page.deployments, first_minute)
    lags = overview.lags(page.deployments)
    metrics = await _result(reading)
    body = OverviewBody.model_construct(
        items=[_item(listed, metrics, lags) for listed in page.items],
        cursor=None if page.next_position is None else page.next_position.cursor(),
        first_minute=first_minute,
    )
    return Response(body.model_dump_json(), media_type="application/json")


def _item(listed: ListedConfiguration, metrics: MetricsById | None, lags: Mapping[str, int]) -> OverviewItem:
    if listed.summary.deployment is None:
        return OverviewItem.of(listed, None, None)
    id_ = listed.summary.deployment.id
    return OverviewItem.of(listed, None if metrics is None else metrics.get(id_), lags.get(id_))


async def _result(reading: "Future[MetricsById | None]") -> MetricsById | None:
    """Return the result of a read; None when it takes longer than RATES_TIMEOUT_S.

    The read is not cancelled, since other requests may wait for it.
    """
    await asyncio.wait([asyncio.wrap_future(reading)], timeout=RATES_TIMEOUT_S)
    return reading.result() if reading.done() else None
