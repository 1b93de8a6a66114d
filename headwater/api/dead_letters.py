"""Routes of the dead letters of a deployment."""

import base64
from typing import Annotated, Any, Literal

import msgspec
import pydantic_core
from fastapi import Query, Response
from pydantic import AfterValidator, BaseModel, Field

from headwater.api.dependencies import ApiKeyDep, ServicesDep
from headwater.api.guarded_routes import guarded_router, required_scopes
from headwater.api.openapi import problem_responses
from headwater.api.query_parameters import NULL_TO_NONE, STRICT_INTEGER
from headwater.api.schemas import Timestamp, rfc_3339
from headwater.model.dead_letter import CURSOR_PATTERN, MAX_LETTERS_PER_PAGE, DeadLetter, parse_cursor
from headwater.services.dead_letters import LetterFilter, LetterPage

router = guarded_router("/api/v1/flow/{config_id}/dead-letters", "Dead letters")

DEFAULT_LETTERS = 100


def _require_valid(cursor: str | None) -> str | None:
    if cursor is not None:
        parse_cursor(cursor)
    return cursor


class RedrivenBody(BaseModel):
    """When a letter was redriven, and what became of it."""

    time: Timestamp
    outcome: Literal["delivered", "dropped", "failed"] = Field(
        description="`delivered`: an output was made; `dropped`: the transforms made none; `failed`: the record failed "
        "again, and is a new dead letter."
    )


class DeadLetterBody(BaseModel):
    """A record that could not be processed, and why.

    The record is in `record` when it is JSON, else in `record_base64`.
    """

    id: str = Field(description="The position of the letter: `<partition>/<offset>`.")
    time: Timestamp
    error: str = Field(description="The class of the error.")
    message: str
    transform_uid: str = Field(description="The uid of the transform, or the name of the sink.")
    line: int | None = Field(description="The line in the script.")
    column: int | None
    attempts: int
    revision: int | None = Field(description="The revision that could not process the record.")
    source: str = Field(description="The position of the source record, as in the header `headwater-src`.")
    record: Any = None
    record_base64: str | None = None
    redriven: RedrivenBody | None = Field(description="The last redrive of the letter; null when it has none.")


class DeadLettersBody(BaseModel):
    """A page of dead letters."""

    items: list[DeadLetterBody] = Field(description="The newest first.")
    cursor: str | None = Field(description="The cursor of the next page; null on the last page.")


@router.get(
    "",
    operation_id="listDeadLetters",
    summary="List the dead letters",
    response_model=DeadLettersBody,
    responses=problem_responses(404, 422),
    openapi_extra=required_scopes("flow:read"),
)
def list_letters(
    config_id: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    limit: Annotated[
        int, Query(ge=1, le=MAX_LETTERS_PER_PAGE, description="The number of letters on a page."), STRICT_INTEGER
    ] = DEFAULT_LETTERS,
    cursor: Annotated[
        str | None,
        Query(description="The cursor of the previous page.", json_schema_extra={"pattern": CURSOR_PATTERN}),
        AfterValidator(_require_valid),
        NULL_TO_NONE,
    ] = None,
    error: Annotated[str | None, Query(description="Only letters with this class of error.")] = None,
    transform: Annotated[
        str | None, Query(description="Only letters of this transform (its uid) or sink (its name).")
    ] = None,
) -> Response:
    """Lists the records that could not be processed, the newest first.
    The response is the same while the pipeline is paused. A page has at most 8 MB of records, and looks at 20,000
    letters at most: with `error` or `transform` it may have fewer than `limit` letters, or none, although its cursor is
    not null. The list ends where the cursor is null.
    """
    deployment = services.deployments.get(api_key.owner, config_id)
    page = services.dead_letters.page(deployment, LetterFilter(error, transform), cursor, limit)
    return Response(msgspec.json.encode(_page_body(page)), media_type="application/json")


def _page_body(page: LetterPage) -> dict[str, Any]:
    return {"items": [_letter_body(letter) for letter in page.letters], "cursor": page.cursor}


def _letter_body(letter: DeadLetter) -> dict[str, Any]:
    redriven = letter.redriven
    return {
        "id": str(letter.id),
        "time": rfc_3339(letter.time),
        "error": letter.kind.error,
        "message": letter.message,
        "transform_uid": letter.kind.transform_uid,
        "line": letter.kind.line,
        "column": letter.column,
        "attempts": letter.attempts,
        "revision": letter.revision,
        "source": letter.source,
        **record_members(letter.value),
        "redriven": redriven and {"time": rfc_3339(redriven.time), "outcome": redriven.outcome},
    }


def record_members(value: bytes | None) -> dict[str, Any]:
    """Return the member for a record: `record` with raw JSON, whose numbers keep all digits, or `record_base64`.

    A tombstone is the record null.
    """
    if value is None:
        return {"record": None}
    try:
        pydantic_core.from_json(value, allow_inf_nan=False)
    except ValueError:
        return {"record_base64": base64.b64encode(value).decode()}
    return {"record": msgspec.Raw(value)}
