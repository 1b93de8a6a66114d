"""Routes of the values of redis_set_filter transforms.

Changes take effect at once, without a deploy.
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from anyio import to_thread
from fastapi import Query, Request, Response

from headwater.api import examples
from headwater.api.applied import Applied, VersionQuery, WaitQuery, wait_until_applied
from headwater.api.dependencies import ApiKeyDep, AppliedWatcherDep, ServicesDep
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import body_problem_responses, problem_responses
from headwater.api.query_parameters import NULL_TO_NONE, STRICT_INTEGER
from headwater.api.schemas import (
    FilterCount,
    FilterMembership,
    FilterPage,
    FilterSummary,
    ValuesAdded,
    ValuesRemoved,
)
from headwater.api.uploads import run_upload
from headwater.api.values_body import read_values, stream_values, streamed_values_route, value_query
from headwater.model.value_sets import DEFAULT_VALUES_PER_PAGE, MAX_CURSOR, MAX_VALUES_PER_PAGE
from headwater.stores.protocols.sets import SetWriteResult

router = authenticated_router("/api/v1/flow/{config_id}/transforms/{transform_uid}/filter-values", "Filter values")


@router.post(
    "",
    operation_id="addFilterValues",
    summary="Add values",
    responses=body_problem_responses(404, 409),
    openapi_extra=streamed_values_route("sets:write", examples.VALUES),
)
async def add(
    request: Request, config_id: str, transform_uid: str, api_key: ApiKeyDep, services: ServicesDep
) -> ValuesAdded:
    """Adds values to the filter.
    Values are stored trimmed and in lower case; duplicates are ignored. `added` is the number of values that were new.
    """

    def add_values(body: Iterator[bytes]) -> SetWriteResult:
        services.filters.require(api_key.owner, config_id, transform_uid)  # 404 or 409 before the body is parsed
        return services.filters.add(api_key.owner, config_id, transform_uid, read_values(body).values)

    return ValuesAdded.of(await run_upload(request, add_values))


@router.put(
    "",
    operation_id="replaceFilterValues",
    summary="Replace all values",
    responses=body_problem_responses(404, 409),
    openapi_extra=streamed_values_route("sets:write", examples.VALUES, any_number=True),
)
async def replace(
    request: Request, config_id: str, transform_uid: str, api_key: ApiKeyDep, services: ServicesDep
) -> FilterCount:
    """Replaces all values of the filter; an empty array clears the filter.
    The body may have any number of values. No worker ever sees a mixture of old and new values. `count` is the number
    of distinct values.

    When two requests replace the values at the same time, the request that ends last determines all values.
    """

    def replace_values(body: Iterator[bytes]) -> SetWriteResult:
        return services.filters.replace(api_key.owner, config_id, transform_uid, stream_values(body))

    written = await run_upload(request, replace_values)
    return FilterCount(count=written.count, version=written.version)


@router.delete(
    "",
    operation_id="removeFilterValues",
    summary="Remove values",
    responses=body_problem_responses(404, 409),
    openapi_extra=streamed_values_route("sets:write", examples.VALUES),
)
async def remove(
    request: Request, config_id: str, transform_uid: str, api_key: ApiKeyDep, services: ServicesDep
) -> ValuesRemoved:
    """Removes values from the filter.
    Values that are not in the filter are ignored. `removed` is the number of values that were removed.
    """

    def remove_values(body: Iterator[bytes]) -> SetWriteResult:
        services.filters.require(api_key.owner, config_id, transform_uid)  # 404 or 409 before the body is parsed
        return services.filters.remove(api_key.owner, config_id, transform_uid, read_values(body).values)

    return ValuesRemoved.of(await run_upload(request, remove_values))


@router.get(
    "",
    operation_id="listFilterValues",
    summary="List values",
    response_model=FilterPage,
    responses=problem_responses(404, 409, 422),
    openapi_extra=required_scopes("flow:read"),
)
def page(
    config_id: str,
    transform_uid: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    cursor: Annotated[
        int | None,
        Query(ge=0, le=MAX_CURSOR, description="The `cursor` of the previous page."),
        STRICT_INTEGER,
        NULL_TO_NONE,
    ] = None,
    count: Annotated[
        int, Query(ge=1, le=MAX_VALUES_PER_PAGE, description="The number of values on the page."), STRICT_INTEGER
    ] = DEFAULT_VALUES_PER_PAGE,
) -> Response:
    """Lists the values of the filter in pages.
    Each page except the last has exactly `count` values. A value that is in the filter during the whole listing is
    listed exactly once.
    """
    values = services.filters.page(api_key.owner, config_id, transform_uid, cursor, count)
    return Response(msgspec.json.encode(FilterPage.of(values)), media_type="application/json")


@router.get(
    "/check",
    operation_id="checkFilterValue",
    summary="Is a value in the filter?",
    responses=problem_responses(404, 409, 422),
    openapi_extra=required_scopes("flow:read"),
)
def check(
    config_id: str,
    transform_uid: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    value: Annotated[str, value_query(examples.CONTRACT)],
) -> FilterMembership:
    """Returns whether the value is in the filter now."""
    is_member = services.filters.check(api_key.owner, config_id, transform_uid, value)
    return FilterMembership(value=value, is_member=is_member)


@router.get(
    "/applied",
    operation_id="getAppliedFilterVersion",
    summary="Has every worker read a version?",
    responses=problem_responses(404, 409, 422),
    openapi_extra=required_scopes("flow:read"),
)
async def applied(
    config_id: str,
    transform_uid: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    watcher: AppliedWatcherDep,
    version: VersionQuery = None,
    wait: WaitQuery = 0,
) -> Applied:
    """Returns whether every worker has read a version of the filter's values.
    When `applied` is true, every batch of records that a worker starts after this response sees the write that returned
    `version`. A worker usually reports a new version within two seconds.
    """
    watched = await to_thread.run_sync(services.applied.filter_set, api_key.owner, config_id, transform_uid)
    return await wait_until_applied(services.applied, watcher, watched, version, wait)


@router.get(
    "/count",
    operation_id="countFilterValues",
    summary="Count the values",
    responses=problem_responses(404, 409),
    openapi_extra=required_scopes("flow:read"),
)
def count(config_id: str, transform_uid: str, api_key: ApiKeyDep, services: ServicesDep) -> FilterSummary:
    """Returns the current number of values in the filter, and their digest.
    Filters with equal values have equal digests, whatever the order of the writes was.
    """
    summary = services.filters.summary(api_key.owner, config_id, transform_uid)
    return FilterSummary(count=summary.size, version=summary.version, digest=summary.digest)
