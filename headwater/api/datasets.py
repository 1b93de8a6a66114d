"""Datasets: named sets that scripts look values up in with `flow.contains(name, values)`."""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from fastapi import Body, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from headwater.api import examples
from headwater.api.guard import guarded_router, required_scopes
from headwater.api.pagination import LINK, Cursor, Limit, streamed
from headwater.api.openapi import body_problem_responses, problem_responses
from headwater.api.parsing import STRICT_INTEGER, NULL_TO_NONE
from headwater.api.schemas import DatasetBody, EntriesPage, EntriesWritten, Existence
from headwater.api.dependencies import ApiKeyDep, ServicesDep
from headwater.api.concurrency import upload
from headwater.api.values_body import required_scopes_with_values, read_values, value_query
from headwater.model.dataset import DEFAULT_DATASET_PAGE, MAX_CURSOR, MAX_DATASET_NAME_CHARS, MAX_DATASET_PAGE
from headwater.model.listing import place_of
from headwater.model.text import Text
from headwater.stores.base import SetWriteResult

PATH = "/api/v1/flow/datasets"

router = guarded_router(PATH, "Datasets")


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
    body: Annotated[NewDataset, Body(openapi_examples={"a name": {"value": {"name": examples.DATASET["name"]}}})],
    response: Response,
    caller: ApiKeyDep,
    given: ServicesDep,
) -> DatasetBody:
    """It starts empty, and scripts can look values up in it at once."""
    dataset = given.datasets.create(caller.owner, body.name)
    response.headers["Location"] = f"{PATH}/{dataset.id}"
    return DatasetBody.of(dataset)


@router.get(
    "",
    operation_id="listDatasets",
    summary="List your datasets",
    response_model=list[DatasetBody],
    responses=LINK | problem_responses(422),
    openapi_extra=required_scopes("flow:read"),
)
def list_all(
    request: Request,
    caller: ApiKeyDep,
    given: ServicesDep,
    names: Annotated[list[Text], Query(description="Only those of these names.")] = [],  # noqa: B006  # FastAPI copies it
    limit: Limit = None,
    cursor: Cursor = None,
) -> Response:
    """Newest first."""
    found, following = given.datasets.list(caller.owner, names, place_of(cursor) if cursor else None, limit)
    return streamed(request, [map(DatasetBody.of, found)], following)


@router.post(
    "/entries",
    operation_id="addDatasetEntriesByName",
    summary="Add entries by name",
    responses=body_problem_responses(404),
    openapi_extra=required_scopes_with_values("sets:write", {"name": examples.DATASET["name"], **examples.ENTRIES}, named=True),
)
async def add_by_name(request: Request, caller: ApiKeyDep, given: ServicesDep) -> EntriesWritten:
    """`count` counts the new ones."""

    def work(body: Iterator[bytes]) -> SetWriteResult:
        sent = read_values(body, named=True)
        dataset = given.datasets.by_name(caller.owner, sent.name)
        return given.datasets.add(caller.owner, dataset.id, sent.values)

    written = await upload(request, work)
    return EntriesWritten(count=written.changed)


@router.get(
    "/{dataset_id}",
    operation_id="getDataset",
    summary="Read a dataset",
    responses=problem_responses(404),
    openapi_extra=required_scopes("flow:read"),
)
def read(dataset_id: str, caller: ApiKeyDep, given: ServicesDep) -> DatasetBody:
    """Its name and times; `GET …/entries` lists what is in it."""
    return DatasetBody.of(given.datasets.get(caller.owner, dataset_id))


@router.delete(
    "/{dataset_id}",
    status_code=204,
    operation_id="deleteDataset",
    summary="Delete a dataset",
    responses=problem_responses(404),
    openapi_extra=required_scopes("sets:write"),
)
def delete(dataset_id: str, caller: ApiKeyDep, given: ServicesDep) -> None:
    """With all its entries. Scripts that look values up in it fail from now on. After a 503 send it again: it answers
    204 once all of it is removed, and 404 when it had been removed meanwhile.
    """
    given.datasets.delete(caller.owner, dataset_id)


@router.post(
    "/{dataset_id}/entries",
    operation_id="addDatasetEntries",
    summary="Add entries",
    responses=body_problem_responses(404),
    openapi_extra=required_scopes_with_values("sets:write", examples.ENTRIES),
)
async def add(request: Request, dataset_id: str, caller: ApiKeyDep, given: ServicesDep) -> EntriesWritten:
    """Values are stored trimmed and in lower case; duplicates are ignored. `count` counts the new ones."""

    def work(body: Iterator[bytes]) -> SetWriteResult:
        given.datasets.get(caller.owner, dataset_id)
        return given.datasets.add(caller.owner, dataset_id, read_values(body).values)

    written = await upload(request, work)
    return EntriesWritten(count=written.changed)


@router.delete(
    "/{dataset_id}/entries",
    operation_id="removeDatasetEntries",
    summary="Remove entries",
    responses=body_problem_responses(404),
    openapi_extra=required_scopes_with_values("sets:write", examples.ENTRIES),
)
async def remove(request: Request, dataset_id: str, caller: ApiKeyDep, given: ServicesDep) -> EntriesWritten:
    """Values that are not in the dataset are ignored. `count` counts those that were."""

    def work(body: Iterator[bytes]) -> SetWriteResult:
        given.datasets.get(caller.owner, dataset_id)
        return given.datasets.remove(caller.owner, dataset_id, read_values(body).values)

    written = await upload(request, work)
    return EntriesWritten(count=written.changed)


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
    caller: ApiKeyDep,
    given: ServicesDep,
    cursor: Annotated[
        int | None, Query(ge=0, le=MAX_CURSOR, description="From the page before."), STRICT_INTEGER, NULL_TO_NONE
    ] = None,
    limit: Annotated[
        int, Query(ge=1, le=MAX_DATASET_PAGE, description="Values on the page."), STRICT_INTEGER
    ] = DEFAULT_DATASET_PAGE,
) -> Response:
    """Exactly `limit` values, except on the last page; a value that stays is listed once and only once."""
    found = given.datasets.page(caller.owner, dataset_id, cursor, limit)
    return Response(msgspec.json.encode(EntriesPage.of(found)), media_type="application/json")


@router.get(
    "/{dataset_id}/entries/check",
    operation_id="checkDatasetEntry",
    summary="Is a value in the dataset?",
    responses=problem_responses(404, 422),
    openapi_extra=required_scopes("flow:read"),
)
def check(
    dataset_id: str,
    caller: ApiKeyDep,
    given: ServicesDep,
    value: Annotated[str, value_query(examples.WALLET)],
) -> Existence:
    """Answers for the dataset as it is now."""
    return Existence(exists=given.datasets.check(caller.owner, dataset_id, value))
