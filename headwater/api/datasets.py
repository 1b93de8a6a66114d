"""Routes of datasets.

Datasets are named sets in which scripts look values up with `flow.contains(name, values)`.
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from anyio import to_thread
from fastapi import Body, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from headwater.api import examples
from headwater.api.applied import Applied, VersionQuery, WaitQuery, wait_until_applied
from headwater.api.dependencies import ApiKeyDep, AppliedWatcherDep, ServicesDep
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import body_problem_responses, problem_responses
from headwater.api.pagination import LINK_RESPONSES, Cursor, Limit, stream_array
from headwater.api.query_parameters import NULL_TO_NONE, STRICT_INTEGER
from headwater.api.schemas import DatasetBody, DatasetMembership, EntriesPage, EntriesWritten
from headwater.api.uploads import run_upload
from headwater.api.values_body import read_values, streamed_values_route, value_query
from headwater.model.fields import Text
from headwater.model.pagination import parse_list_cursor
from headwater.model.value_sets import (
    DEFAULT_DATASET_VALUES_PER_PAGE,
    MAX_CURSOR,
    MAX_DATASET_NAME_CHARS,
    MAX_DATASET_VALUES_PER_PAGE,
)
from headwater.stores.protocols.sets import SetWriteResult

PATH = "/api/v1/flow/datasets"

router = authenticated_router(PATH, "Datasets")


class NewDataset(BaseModel):
    """The body that creates a dataset."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Text = Field(
        min_length=1,
        max_length=MAX_DATASET_NAME_CHARS,
        description="Unique among your datasets; stored as sent, matched exactly.",
    )


@router.post(
    "",
    status_code=201,
    operation_id="createDataset",
    summary="Create a dataset",
    responses=body_problem_responses(409),
    openapi_extra=required_scopes("sets:write"),
)
def create(
    body: Annotated[
        NewDataset, Body(openapi_examples={"named dataset": {"value": {"name": examples.DATASET["name"]}}})
    ],
    response: Response,
    api_key: ApiKeyDep,
    services: ServicesDep,
) -> DatasetBody:
    """Creates an empty dataset, which scripts can use at once."""
    dataset = services.datasets.create(api_key.owner, body.name)
    response.headers["Location"] = f"{PATH}/{dataset.id}"
    return DatasetBody.of(dataset)


@router.get(
    "",
    operation_id="listDatasets",
    summary="List your datasets",
    response_model=list[DatasetBody],
    responses=LINK_RESPONSES | problem_responses(422),
    openapi_extra=required_scopes("flow:read"),
)
def list_all(
    request: Request,
    api_key: ApiKeyDep,
    services: ServicesDep,
    names: Annotated[list[Text], Query(description="Return only the datasets with these names.")] = [],  # noqa: B006  # FastAPI copies it
    limit: Limit = None,
    cursor: Cursor = None,
) -> Response:
    """Lists the datasets, newest first."""
    position = parse_list_cursor(cursor) if cursor else None
    datasets, next_position = services.datasets.list(api_key.owner, names, position, limit)
    return stream_array(request, [map(DatasetBody.of, datasets)], next_position)


@router.post(
    "/entries",
    operation_id="addDatasetEntriesByName",
    summary="Add entries by name",
    responses=body_problem_responses(404),
    openapi_extra=streamed_values_route(
        "sets:write", {"name": examples.DATASET["name"], **examples.ENTRIES}, has_name=True
    ),
)
async def add_by_name(request: Request, api_key: ApiKeyDep, services: ServicesDep) -> EntriesWritten:
    """Adds entries to the dataset with this name.
    `count` is the number of entries that were new.
    """

    def add_entries(body: Iterator[bytes]) -> SetWriteResult:
        named_values = read_values(body, has_name=True)
        dataset = services.datasets.get_by_name(api_key.owner, named_values.name)
        return services.datasets.add(api_key.owner, dataset.id, named_values.values)

    written = await run_upload(request, add_entries)
    return EntriesWritten.of(written)


@router.get(
    "/{dataset_id}",
    operation_id="getDataset",
    summary="Read a dataset",
    responses=problem_responses(404),
    openapi_extra=required_scopes("flow:read"),
)
def read(dataset_id: str, api_key: ApiKeyDep, services: ServicesDep) -> DatasetBody:
    """Returns the dataset's name and times; `GET …/entries` lists its entries."""
    return DatasetBody.of(services.datasets.get(api_key.owner, dataset_id))


@router.delete(
    "/{dataset_id}",
    status_code=204,
    operation_id="deleteDataset",
    summary="Delete a dataset",
    responses=problem_responses(404),
    openapi_extra=required_scopes("sets:write"),
)
def delete(dataset_id: str, api_key: ApiKeyDep, services: ServicesDep) -> None:
    """Deletes the dataset with all its entries.
    Scripts that use the dataset fail from now on. After a 503, send the request again: it returns 204 once everything
    is removed, and 404 when the dataset had already been removed.
    """
    services.datasets.delete(api_key.owner, dataset_id)


@router.post(
    "/{dataset_id}/entries",
    operation_id="addDatasetEntries",
    summary="Add entries",
    responses=body_problem_responses(404),
    openapi_extra=streamed_values_route("sets:write", examples.ENTRIES),
)
async def add(request: Request, dataset_id: str, api_key: ApiKeyDep, services: ServicesDep) -> EntriesWritten:
    """Adds entries to the dataset.
    Values are stored trimmed and in lower case; duplicates are ignored. `count` is the number of entries that were new.
    """

    def add_entries(body: Iterator[bytes]) -> SetWriteResult:
        services.datasets.get(api_key.owner, dataset_id)  # 404 before the body is parsed
        return services.datasets.add(api_key.owner, dataset_id, read_values(body).values)

    written = await run_upload(request, add_entries)
    return EntriesWritten.of(written)


@router.delete(
    "/{dataset_id}/entries",
    operation_id="removeDatasetEntries",
    summary="Remove entries",
    responses=body_problem_responses(404),
    openapi_extra=streamed_values_route("sets:write", examples.ENTRIES),
)
async def remove(request: Request, dataset_id: str, api_key: ApiKeyDep, services: ServicesDep) -> EntriesWritten:
    """Removes entries from the dataset.
    Values that are not in the dataset are ignored. `count` is the number of entries that were removed.
    """

    def remove_entries(body: Iterator[bytes]) -> SetWriteResult:
        services.datasets.get(api_key.owner, dataset_id)  # 404 before the body is parsed
        return services.datasets.remove(api_key.owner, dataset_id, read_values(body).values)

    written = await run_upload(request, remove_entries)
    return EntriesWritten.of(written)


@router.get(
    "/{dataset_id}/entries",
    operation_id="listDatasetEntries",
    summary="List entries",
    response_model=EntriesPage,
    responses=problem_responses(404, 422),
    openapi_extra=required_scopes("flow:read"),
)
def page(
    dataset_id: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    cursor: Annotated[
        int | None,
        Query(ge=0, le=MAX_CURSOR, description="The `cursor` of the previous page."),
        STRICT_INTEGER,
        NULL_TO_NONE,
    ] = None,
    limit: Annotated[
        int,
        Query(ge=1, le=MAX_DATASET_VALUES_PER_PAGE, description="The number of values on the page."),
        STRICT_INTEGER,
    ] = DEFAULT_DATASET_VALUES_PER_PAGE,
) -> Response:
    """Lists the entries of the dataset, which are its values, in pages.
    Each page except the last has exactly `limit` values. A value that is in the dataset during the whole listing is
    listed exactly once.
    """
    entries = services.datasets.page(api_key.owner, dataset_id, cursor, limit)
    return Response(msgspec.json.encode(EntriesPage.of(entries)), media_type="application/json")


@router.get(
    "/{dataset_id}/entries/applied",
    operation_id="getAppliedDatasetVersion",
    summary="Has every worker read a version?",
    responses=problem_responses(404, 422),
    openapi_extra=required_scopes("flow:read"),
)
async def applied(
    dataset_id: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    watcher: AppliedWatcherDep,
    version: VersionQuery = None,
    wait: WaitQuery = 0,
) -> Applied:
    """Returns whether every worker that uses the dataset has read a version of its entries.
    When `applied` is true, every batch of records that a worker starts after this response sees the write that returned
    `version`. `workers` has the workers of all your pipelines that may have looked the dataset up.
    """
    watched = await to_thread.run_sync(services.applied.dataset_set, api_key.owner, dataset_id)
    return await wait_until_applied(services.applied, watcher, watched, version, wait)


@router.get(
    "/{dataset_id}/entries/check",
    operation_id="checkDatasetEntry",
    summary="Is a value in the dataset?",
    responses=problem_responses(404, 422),
    openapi_extra=required_scopes("flow:read"),
)
def check(
    dataset_id: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    value: Annotated[str, value_query(examples.WALLET)],
) -> DatasetMembership:
    """Returns whether the value is in the dataset now."""
    return DatasetMembership(exists=services.datasets.check(api_key.owner, dataset_id, value))
