"""Route of trials.

A trial checks a configuration and runs it on sample records without saving it. The API calls it a validation.
"""

from typing import Annotated, Any

import msgspec
from fastapi import Body, Request, Response

from headwater.api import examples
from headwater.api.dependencies import ApiKeyDep, ServicesDep, TrialLimiterDep
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import body_problem_responses
from headwater.api.trial_schemas import TrialBody
from headwater.errors import Fault, Forbidden, InvalidInput
from headwater.model.trial import MAX_SAMPLE_BYTES, NewTrial

router = authenticated_router("/api/v1/flow/validate", "Configurations")

READ_SCOPE = "flow:read"
EXAMPLES: dict[str, Any] = {
    "one record": {"value": examples.TRIAL},
    "the newest records of the stream": {"value": examples.STREAM_TRIAL},
}


class _Records(msgspec.Struct):
    """The member `records` of the body as raw JSON, so that numbers keep all digits."""

    records: list[msgspec.Raw] | None = None


_decode_records = msgspec.json.Decoder(_Records).decode


@router.post(
    "",
    operation_id="validateConfiguration",
    summary="Run a configuration on sample records without saving it",
    response_model=TrialBody,
    responses=body_problem_responses(404, 409),
    openapi_extra=required_scopes("flow:write"),
)
async def validate(
    body: Annotated[NewTrial, Body(openapi_examples=EXAMPLES)],
    request: Request,
    api_key: ApiKeyDep,
    services: ServicesDep,
    trial_limiter: TrialLimiterDep,
) -> Response:
    """Checks the configuration and runs it on sample records.
    These are the `records` of the body, or a `sample` of the stream. Each record passes through the transforms, and
    the response has the result of each step. Nothing is saved.

    The configuration is checked as create does; with the `id` of a stored configuration, it is checked as PUT does.
    Filters that the stored configuration has are tested against their live values, and all others against their
    `set_values`; `flow.contains` uses your current datasets. With `against`, another revision processes the records
    too, and the response compares the results.

    Up to 200 records run for at most 10 s, more for at most 50 s. Reading a stream or live values, which the members
    `sample`, `against` and `id` do, needs the scope `flow:read` too.
    """
    records = _parse_records(await request.body())
    if READ_SCOPE not in api_key.scopes and (body.sample or body.against is not None or body.id is not None):
        raise Forbidden(READ_SCOPE)

    def run() -> bytes:
        return TrialBody.encode(services.trials.run(api_key.owner, body, records))

    return Response(await trial_limiter.run(api_key.owner, run), media_type="application/json")


def _parse_records(body: bytes) -> list[bytes]:
    try:
        records = [bytes(record) for record in _decode_records(body).records or ()]
    except msgspec.ValidationError as error:
        # The body has several members named `records`. FastAPI has validated the last one; an earlier one is invalid.
        raise _invalid_records("is there more than once; send it once, as an array") from error
    size = sum(map(len, records))
    if size > MAX_SAMPLE_BYTES:
        raise _invalid_records(f"are {size} bytes of JSON; send at most {MAX_SAMPLE_BYTES}")
    return records


def _invalid_records(detail: str) -> InvalidInput:
    return InvalidInput("The configuration was not validated.", [Fault("/records", detail)])
