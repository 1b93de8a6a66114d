"""Route of trials.

A trial checks a configuration and runs it on sample records without saving it.
"""

from functools import partial
from typing import Annotated

import msgspec
from fastapi import Body, Request, Response

from headwater.api import examples
from headwater.api.dependencies import ApiKeyDep, CompileLimiterDep, ServicesDep
from headwater.api.guarded_routes import guarded_router, required_scopes
from headwater.api.openapi import body_problem_responses
from headwater.api.trial_schemas import TrialBody
from headwater.errors import Fault, InvalidInput
from headwater.model.trial import MAX_SAMPLE_BYTES, NewTrial

router = guarded_router("/api/v1/flow/validate", "Configurations")


class _Samples(msgspec.Struct):
    """The member `records` of the body as raw JSON, so that numbers keep all digits."""

    records: list[msgspec.Raw] | None = None


@router.post(
    "",
    operation_id="validateConfiguration",
    summary="Run a configuration on sample records without saving it",
    response_model=TrialBody,
    responses=body_problem_responses(),
    openapi_extra=required_scopes("flow:write"),
)
async def validate(
    body: Annotated[NewTrial, Body(openapi_examples={"one record": {"value": examples.TRIAL}})],
    request: Request,
    api_key: ApiKeyDep,
    services: ServicesDep,
    compile_limiter: CompileLimiterDep,
) -> Response:
    """Checks the configuration and runs it on sample records.
    The configuration is checked as create does. Each of `records` passes through the transforms, and the response has
    the result of each step. Nothing is saved.

    A filter tests against its `set_values`; `flow.contains` uses your current datasets. Scripts run in the sandbox.
    """
    samples = _parse_samples(await request.body())
    run = partial(services.trials.run, api_key.owner, body.pipeline_config, samples)
    trial = await compile_limiter.run(api_key.owner, run)
    return Response(msgspec.json.encode(TrialBody.of(trial)), media_type="application/json")


def _parse_samples(body: bytes) -> list[bytes]:
    try:
        samples = [bytes(record) for record in msgspec.json.decode(body, type=_Samples).records or ()]
    except msgspec.ValidationError as error:
        # The body has several members named `records`. FastAPI has validated the last one; an earlier one is invalid.
        raise _invalid_records("is there more than once; send it once, as an array") from error
    size = sum(map(len, samples))
    if size > MAX_SAMPLE_BYTES:
        raise _invalid_records(f"are {size} bytes of JSON; send at most {MAX_SAMPLE_BYTES}")
    return samples


def _invalid_records(detail: str) -> InvalidInput:
    return InvalidInput("The configuration was not validated.", [Fault("/records", detail)])
