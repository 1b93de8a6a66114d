"""Routes of live tails: records as server-sent events, from the moment of the request on."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import Query, Response

from headwater.api import examples
from headwater.api.dependencies import ApiKeyDep, Services, ServicesDep, TailLimiterDep
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import problem_responses
from headwater.api.records import SinkName, Zerolag
from headwater.api.tail_response import MEDIA_TYPE, TailResponse
from headwater.model.key import ApiKey
from headwater.services.tail_connections import MAX_TAILS_PER_CONNECTION, TailConnection
from headwater.services.viewable_topics import ViewableTopic

router = authenticated_router("/api/v1/flow", "Records")

EVENT_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The events, until the tail ends.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": examples.TAIL}},
    }
}


@router.get(
    "/streams/{chain}/{entity}/records/tail",
    operation_id="tailStream",
    summary="Follow a stream",
    response_class=Response,
    responses=EVENT_STREAM | problem_responses(404, 409),
    openapi_extra=required_scopes("flow:read"),
)
async def tail_stream(
    chain: str,
    entity: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    limiter: TailLimiterDep,
    zerolag: Zerolag = False,
) -> Response:
    """Sends the records that are appended to a stream from now on, as server-sent events.
    docs/watch.md describes the events and the limits.
    """
    topic = services.viewable_topics.stream(chain, entity, zerolag=zerolag)
    return TailResponse(services.tails, _opening(services, api_key, lambda: [topic]), limiter)


@router.get(
    "/{config_id}/deploy/records/tail",
    operation_id="tailDeployment",
    summary="Follow outputs or dead letters",
    response_class=Response,
    responses=EVENT_STREAM | problem_responses(404, 409),
    openapi_extra=required_scopes("flow:read"),
)
async def tail_deployment(
    config_id: str, api_key: ApiKeyDep, services: ServicesDep, limiter: TailLimiterDep, sink: SinkName = None
) -> Response:
    """Sends the records that a deployment writes to a sink from now on, as server-sent events.
    docs/watch.md describes the events and the limits.
    """

    def topics() -> list[ViewableTopic]:
        return [services.viewable_topics.output(api_key.owner, config_id, sink)]

    return TailResponse(services.tails, _opening(services, api_key, topics), limiter)


@router.get(
    "/tail",
    operation_id="tailSeveral",
    summary="Follow several streams and outputs",
    response_class=Response,
    responses=EVENT_STREAM | problem_responses(404, 409),
    openapi_extra=required_scopes("flow:read"),
)
async def tail_several(
    of: Annotated[
        list[str],
        Query(
            min_length=1,
            max_length=MAX_TAILS_PER_CONNECTION,
            description="What to follow: `<configuration id>/<sink>`, `<configuration id>/dlq`, `<chain>/<entity>` or "
            "`<chain>/<entity>.zerolag`. Repeat the parameter for several tails.",
            examples=[["base/log", f"{examples.CONFIG_ID}/transfers"]],
        ),
    ],
    api_key: ApiKeyDep,
    services: ServicesDep,
    limiter: TailLimiterDep,
) -> Response:
    """Sends the new records of several streams and outputs in one connection.
    Each record has the member `of`. docs/watch.md describes the events and the limits.
    """

    def topics() -> list[ViewableTopic]:
        return [services.viewable_topics.selected(api_key.owner, each) for each in dict.fromkeys(of)]

    return TailResponse(services.tails, _opening(services, api_key, topics), limiter, names_topic=True)


def _opening(
    services: Services, key: ApiKey, topics: Callable[[], Sequence[ViewableTopic]]
) -> Callable[[], TailConnection]:
    """Return a function that finds the topics and opens their tails. It may block."""
    return lambda: services.tails.open(key, topics())
