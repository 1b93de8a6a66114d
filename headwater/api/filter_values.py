"""Values of redis_set_filter transforms. Changes take effect at once, without a deploy."""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from fastapi import Query, Request, Response

from headwater.api import examples
from headwater.api.guard import guarded_router, required_scopes
from headwater.api.openapi import body_problem_responses, problem_responses
from headwater.api.parsing import STRICT_INTEGER, NULL_TO_NONE
from headwater.api.schemas import Added, FilterCount, FilterPage, Membership, Removed
from headwater.api.dependencies import ApiKeyDep, ServicesDep
from headwater.api.concurrency import upload
from headwater.api.values_body import required_scopes_with_values, read_values, stream_values, value_query
from headwater.model.dataset import DEFAULT_PAGE, MAX_CURSOR, MAX_PAGE
from headwater.stores.base import SetWriteResult

router = guarded_router("/api/v1/flow/{config_id}/transforms/{transform_uid}/filter-values", "Filter values")


@router.post(
    "",
    operation_id="addFilterValues",
    summary="Add values",
    responses=body_problem_responses(404, 409),
    openapi_extra=required_scopes_with_values("sets:write", examples.VALUES),
)
async def add(request: Request, config_id: str, transform_uid: str, caller: ApiKeyDep, given: ServicesDep) -> Added:
    """Values are stored trimmed and in lower case; duplicates are ignored. `added` counts the new ones."""
    where = (caller.owner, config_id, transform_uid)

    def work(body: Iterator[bytes]) -> SetWriteResult:
        given.filters.target(*where)
        return given.filters.add(*where, read_values(body).values)

    return Added.of(await upload(request, work))


@router.put(
    "",
    operation_id="replaceFilterValues",
    summary="Replace all values",
    responses=body_problem_responses(404, 409),
    openapi_extra=required_scopes_with_values("sets:write", examples.VALUES, any_number=True),
)
async def replace(request: Request, config_id: str, transform_uid: str, caller: ApiKeyDep, given: ServicesDep) -> FilterCount:
    """Any number of values; an empty array clears the filter. No reader ever sees old and new values together.

    Of two at once, the one that ends last wins whole. `count` counts the distinct values.
    """
    where = (caller.owner, config_id, transform_uid)
    written = await upload(request, lambda body: given.filters.replace(*where, stream_values(body)))
    return FilterCount(count=written.count, version=written.version)


@router.delete(
    "",
    operation_id="removeFilterValues",
    summary="Remove values",
    responses=body_problem_responses(404, 409),
    openapi_extra=required_scopes_with_values("sets:write", examples.VALUES),
)
async def remove(request: Request, config_id: str, transform_uid: str, caller: ApiKeyDep, given: ServicesDep) -> Removed:
    """Values that are not in the filter are ignored. `removed` counts those that were."""
    where = (caller.owner, config_id, transform_uid)

    def work(body: Iterator[bytes]) -> SetWriteResult:
        given.filters.target(*where)
        return given.filters.remove(*where, read_values(body).values)

    return Removed.of(await upload(request, work))


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
    caller: ApiKeyDep,
    given: ServicesDep,
    cursor: Annotated[
        int | None, Query(ge=0, le=MAX_CURSOR, description="From the page before."), STRICT_INTEGER, NULL_TO_NONE
    ] = None,
    count: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Values on the page."), STRICT_INTEGER] = DEFAULT_PAGE,
) -> Response:
    """Exactly `count` values, except on the last page; a value that stays is listed once and only once."""
    found = given.filters.page(caller.owner, config_id, transform_uid, cursor, count)
    return Response(msgspec.json.encode(FilterPage.of(found)), media_type="application/json")


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
    caller: ApiKeyDep,
    given: ServicesDep,
    value: Annotated[str, value_query(examples.CONTRACT)],
) -> Membership:
    """Answers for the filter as it is now."""
    is_member = given.filters.check(caller.owner, config_id, transform_uid, value)
    return Membership(value=value, is_member=is_member)


@router.get(
    "/count",
    operation_id="countFilterValues",
    summary="Count the values",
    responses=problem_responses(404, 409),
    openapi_extra=required_scopes("flow:read"),
)
def count(config_id: str, transform_uid: str, caller: ApiKeyDep, given: ServicesDep) -> FilterCount:
    """The number of values in the filter as it is now."""
    number, version = given.filters.count(caller.owner, config_id, transform_uid)
    return FilterCount(count=number, version=version)
