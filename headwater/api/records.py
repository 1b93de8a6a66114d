"""Routes that show records: of streams, of sinks, and dead letters."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel, BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from headwater.api.dependencies import ApiKeyDep, RecordReadLimiterDep, ServicesDep
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import problem_responses
from headwater.api.query_parameters import STRICT_BOOLEAN, STRICT_INTEGER
from headwater.api.schemas import Timestamp
from headwater.model.fields import is_none
from headwater.model.timestamps import parse_rfc_3339
from headwater.services.records import DEFAULT_RECORDS, MAX_RECORDS
from headwater.services.viewable_topics import ViewableTopic

router = authenticated_router("/api/v1/flow", "Records")


def _to_time(sent: object) -> object:
    """Parse an RFC 3339 time.

    A plus sign that the client did not percent-encode arrives as a space.
    """
    return parse_rfc_3339(sent.replace(" ", "+")) if isinstance(sent, str) else sent


Limit = Annotated[
    int,
    Query(ge=1, le=MAX_RECORDS, description="The number of records; fewer are returned when they are over 8 MB."),
    STRICT_INTEGER,
]
Since = Annotated[
    datetime | SkipJsonSchema[None],
    Query(
        alias="from",
        description="Returns the first records from this time on (RFC 3339), by their Kafka timestamps, in place of "
        "the newest ones.",
        json_schema_extra={"pattern": "^(19[7-9][0-9]|[2-9][0-9]{3})-"},
    ),
    BeforeValidator(_to_time),
]
Zerolag = Annotated[
    bool,
    Query(description="Whether to read the zerolag stream, which has the records of blocks that are not final yet."),
    STRICT_BOOLEAN,
]
SinkName = Annotated[
    str | SkipJsonSchema[None],
    Query(
        description="The name of a sink, or `dlq` for the dead letters; default: the first sink with a topic, else "
        "`dlq`."
    ),
]


class RecordItem(BaseModel):
    """A record of a stream."""

    record: Any = Field(default=None, description="The JSON value of the record, with all digits of its numbers.")
    record_base64: str | None = Field(
        default=None, description="In place of `record`, when the value is not JSON.", exclude_if=is_none
    )
    partition: int
    offset: int
    timestamp: Timestamp | None = Field(description="The record's Kafka timestamp.")
    key: str | None = Field(default=None, description="The record's key.")
    key_base64: str | None = Field(
        default=None, description="In place of `key`, when the key is not UTF-8.", exclude_if=is_none
    )


class OutputItem(RecordItem):
    """A record of a sink, or a dead letter."""

    headers: dict[str, str | None] = Field(description="The record's headers.")
    headers_base64: dict[str, str] | None = Field(
        default=None, description="The headers whose values are not UTF-8.", exclude_if=is_none
    )


class StreamRecords(BaseModel):
    """Records of a stream, oldest first."""

    items: list[RecordItem]


class OutputRecords(BaseModel):
    """Records of a sink or dead letters, oldest first."""

    items: list[OutputItem]


@router.get(
    "/streams/{chain}/{entity}/records",
    operation_id="getStreamRecords",
    summary="Look at records of a stream",
    response_model=StreamRecords,
    responses=problem_responses(404, 409),
    openapi_extra=required_scopes("flow:read"),
)
async def stream_records(
    chain: str,
    entity: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    limiter: RecordReadLimiterDep,
    limit: Limit = DEFAULT_RECORDS,
    zerolag: Zerolag = False,
    since: Since = None,
) -> Response:
    """Returns the newest records of a stream, oldest first.
    With `from`, returns the first records from a time on. All partitions are read.
    Only committed records are returned. A stream that is read from Google Pub/Sub can't be looked at.
    """
    topic = services.viewable_topics.stream(chain, entity, zerolag=zerolag)
    return _response(await limiter.run(api_key.owner, partial(services.records.read, topic, limit, since)))


@router.get(
    "/{config_id}/deploy/records",
    operation_id="getDeploymentRecords",
    summary="Look at outputs or dead letters",
    response_model=OutputRecords,
    responses=problem_responses(404, 409),
    openapi_extra=required_scopes("flow:read"),
)
async def deployment_records(
    config_id: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    limiter: RecordReadLimiterDep,
    sink: SinkName = None,
    limit: Limit = DEFAULT_RECORDS,
    since: Since = None,
) -> Response:
    """Returns the newest records of a sink, oldest first.
    With `from`, returns the first records from a time on.
    Only committed records are returned, with their headers.
    """

    def read() -> list[bytes]:
        topic: ViewableTopic = services.viewable_topics.output(api_key.owner, config_id, sink)
        return services.records.read(topic, limit, since)

    return _response(await limiter.run(api_key.owner, read))


def _response(items: Sequence[bytes]) -> Response:
    body = b'{"items":[' + b",".join(items) + b"]}"
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})
