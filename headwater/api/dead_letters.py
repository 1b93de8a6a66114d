"""Routes of the dead letters of a deployment."""

from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from fastapi import Body, Query, Response
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from headwater.api import examples
from headwater.api.dependencies import ApiKeyDep, CountLimiterDep, RecordReadLimiterDep, ServicesDep
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import body_problem_responses, problem_responses
from headwater.api.query_parameters import NULL_TO_NONE, STRICT_INTEGER
from headwater.api.schemas import Timestamp, rfc_3339
from headwater.errors import Fault, InvalidInput
from headwater.model.dead_letter import (
    LETTER_CURSOR_PATTERN,
    MAX_LETTERS_PER_PAGE,
    MAX_REDRIVEN_IDS,
    DeadLetter,
    LetterId,
    parse_letter_cursor,
)
from headwater.model.topic_record import record_member
from headwater.model.value_sets import MAX_REPORTED_FAULTS
from headwater.services.dead_letters import LetterFilter, LetterPage, LetterSummary
from headwater.services.redrives import LetterQuery

router = authenticated_router("/api/v1/flow/{config_id}/dead-letters", "Dead letters")
redrive_router = authenticated_router("/api/v1/flow/{config_id}", "Dead letters")

T = TypeVar("T")

DEFAULT_LETTERS = 100


def _require_valid(cursor: str | None) -> str | None:
    if cursor is not None:
        parse_letter_cursor(cursor)
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
async def list_letters(
    config_id: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    limiter: RecordReadLimiterDep,
    limit: Annotated[
        int, Query(ge=1, le=MAX_LETTERS_PER_PAGE, description="The number of letters on a page."), STRICT_INTEGER
    ] = DEFAULT_LETTERS,
    cursor: Annotated[
        str | None,
        Query(description="The cursor of the previous page.", json_schema_extra={"pattern": LETTER_CURSOR_PATTERN}),
        AfterValidator(_require_valid),
        NULL_TO_NONE,
    ] = None,
    error: Annotated[str | None, Query(description="Only letters with this class of error.")] = None,
    transform: Annotated[
        str | None, Query(description="Only letters of this transform (its uid) or sink (its name).")
    ] = None,
) -> Response:
    """Lists the records that could not be processed, the newest first.
    The list is also available while the pipeline is paused. A page has at most 8 MiB of records, or a single larger
    one, and looks at 20,000 letters at most. So with `error` or `transform` it may have fewer than `limit` letters, or
    none, although its cursor is not null. The list ends where the cursor is null.
    """

    def read() -> bytes:
        deployment = services.deployments.get_not_terminating(api_key.owner, config_id)
        services.dead_letters.require_component(deployment, transform, "/transform", parameter="transform")
        page = services.dead_letters.page(deployment, LetterFilter(error, transform), cursor, limit)
        return msgspec.json.encode(_page_body(page))

    return Response(await limiter.run(api_key.owner, read), media_type="application/json")


class LetterSummaryBody(BaseModel):
    """The number of dead letters with the same class of error, transform or sink, and line."""

    error: str = Field(description="The class of the error.")
    transform_uid: str = Field(description="The uid of the transform, or the name of the sink.")
    line: int | None = Field(description="The line in the script.")
    count: int = Field(description="How many letters were written since the pipeline was deployed.")
    first: Timestamp
    last: Timestamp
    example: str | None = Field(
        description="The id of the newest of these letters; null when it is not among the newest 5,000 letters of the "
        "pipeline, and always for `other`."
    )


class DeadLetterSummaryBody(BaseModel):
    """The counts of the dead letters, by class of error, transform or sink, and line."""

    items: list[LetterSummaryBody] = Field(description="The error with the newest letter first.")


@router.get(
    "/summary",
    operation_id="summarizeDeadLetters",
    summary="Count the dead letters by error",
    responses=problem_responses(404),
    openapi_extra=required_scopes("flow:read"),
)
async def summarize(
    config_id: str, api_key: ApiKeyDep, services: ServicesDep, limiter: RecordReadLimiterDep
) -> DeadLetterSummaryBody:
    """Counts the letters by class of error, transform and line.
    Each letter is counted once, when it is written, from the deploy until the teardown. Letters that were redriven, and
    letters that Kafka's retention has removed, stay in the counts. After 1,000 combinations of class, transform and
    line, further combinations are counted together, with the `error` `other` and an empty `transform_uid`.
    """

    def count() -> Sequence[LetterSummary]:
        return services.dead_letters.summary(services.deployments.get_not_terminating(api_key.owner, config_id))

    return DeadLetterSummaryBody(
        items=[
            LetterSummaryBody(
                error=each.kind.error,
                transform_uid=each.kind.component,
                line=each.kind.line,
                count=each.count,
                first=each.first,
                last=each.last,
                example=None if each.example is None else str(each.example),
            )
            for each in await limiter.run(api_key.owner, count)
        ]
    )


class RedriveRequest(BaseModel):
    """The dead letters to redrive.

    A request has exactly one of `ids`, `all`, or `error` and `transform_uid` (one or both).
    """

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[str], Field(min_length=1, max_length=MAX_REDRIVEN_IDS)] | None = Field(
        default=None, description="The ids of letters. Letters that were redriven already are sent again."
    )
    error: str | None = Field(default=None, description="Letters with this class of error.")
    transform_uid: str | None = Field(
        default=None, description="Letters of this transform (its uid) or sink (its name)."
    )
    all: Literal[True] | None = Field(default=None, description="All letters.")
    dry_run: bool = Field(default=False, description="Only count the letters.")

    def query(self) -> LetterQuery:
        """Return the letters that the request names. Raises InvalidInput."""
        by_kind = self.error is not None or self.transform_uid is not None
        if [self.ids is not None, by_kind, self.all is not None].count(True) != 1:
            detail = (
                "must name the letters in one of three ways: by `ids`, by `error` or `transform_uid` or both, or by "
                '`"all": true`'
            )
            raise InvalidInput("No letter was redriven.", [Fault("", detail)])
        return LetterQuery(None if self.ids is None else _parse_ids(self.ids), self.error, self.transform_uid)


def _parse_ids(texts: Sequence[str]) -> list[LetterId]:
    ids: list[LetterId] = []
    faults: list[Fault] = []
    for number, text in enumerate(texts):
        try:
            ids.append(LetterId.parse(text))
        except ValueError as error:
            faults.append(Fault(f"/ids/{number}", str(error)))
    if faults:
        raise InvalidInput("No letter was redriven.", faults[:MAX_REPORTED_FAULTS])
    return ids


class RedriveCount(BaseModel):
    """How many letters a redrive would send."""

    requested: int


class RedriveAccepted(BaseModel):
    """A redrive that was accepted."""

    id: str
    requested: int = Field(description="How many letters the redrive sends.")


class RedriveBody(BaseModel):
    """The state of a redrive. The counts are counts of letters, not of outputs."""

    state: Literal["running", "done", "stopped"] = Field(
        description="`running` also while the redrive waits for an earlier one, or for the end of a pause; `stopped` "
        "when the pipeline was torn down before the end."
    )
    requested: int
    delivered: int
    dropped: int
    failed: int


@router.post(
    "/redrive",
    operation_id="redriveDeadLetters",
    summary="Send dead letters through the pipeline again",
    status_code=HTTPStatus.ACCEPTED,
    response_model=RedriveAccepted,
    responses=body_problem_responses(404, 409)
    | {200: {"model": RedriveCount, "description": "The number of letters, for a dry run."}},
    openapi_extra=required_scopes("flow:deploy", with_prices_sink=True),
)
async def redrive(
    config_id: str,
    body: Annotated[RedriveRequest, Body(openapi_examples={"letters of one error": {"value": examples.REDRIVE}})],
    api_key: ApiKeyDep,
    services: ServicesDep,
    count_limiter: CountLimiterDep,
) -> Response:
    """Sends letters through the running revision, and responds before they are sent.
    Outputs have the `headwater-src` of their source record, and the header `headwater-redriven` with the id of the
    redrive. A record that fails again is a new dead letter. Letters that were redriven, or that a running or waiting
    redrive sends, are left out unless `ids` names them. The redrives of a pipeline run one after the other.
    """
    query = body.query()

    def call_with_known_component(call: Callable[[str, str, LetterQuery], T]) -> T:
        deployment = services.deployments.find(api_key.owner, config_id)
        if deployment is not None:
            services.dead_letters.require_component(deployment, query.component, "/transform_uid")
        return call(api_key.owner, config_id, query)

    if body.dry_run:
        count = await count_limiter.run(api_key.owner, partial(call_with_known_component, services.redrives.count))
        return JSONResponse(RedriveCount(requested=count).model_dump())
    requested = await count_limiter.run(api_key.owner, partial(call_with_known_component, services.redrives.request))
    accepted = RedriveAccepted(id=requested.id, requested=requested.requested)
    return JSONResponse(accepted.model_dump(), HTTPStatus.ACCEPTED)


@redrive_router.get(
    "/redrives/{redrive_id}",
    operation_id="getRedrive",
    summary="Read the state of a redrive",
    responses=problem_responses(404),
    openapi_extra=required_scopes("flow:read"),
)
def read_redrive(config_id: str, redrive_id: str, api_key: ApiKeyDep, services: ServicesDep) -> RedriveBody:
    """Returns the state of a redrive, and how many of its letters had which outcome."""
    services.flows.get(api_key.owner, config_id)
    found = services.redrives.get(config_id, redrive_id)
    counts = found.counts
    return RedriveBody(
        state=found.state,
        requested=found.requested,
        delivered=counts.delivered,
        dropped=counts.dropped,
        failed=counts.failed,
    )


def _page_body(page: LetterPage) -> dict[str, Any]:
    return {"items": [_letter_body(letter) for letter in page.letters], "cursor": page.cursor}


def _letter_body(letter: DeadLetter) -> dict[str, Any]:
    redriven = letter.redriven
    return {
        "id": str(letter.id),
        "time": rfc_3339(letter.time),
        "error": letter.kind.error,
        "message": letter.message,
        "transform_uid": letter.kind.component,
        "line": letter.kind.line,
        "column": letter.column,
        "attempts": letter.attempts,
        "revision": letter.revision,
        "source": letter.source,
        **record_member(letter.value),
        "redriven": redriven and {"time": rfc_3339(redriven.time), "outcome": redriven.outcome},
    }
