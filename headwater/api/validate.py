"""Trying a configuration before it is saved."""

from functools import partial
from typing import Annotated

import msgspec
from fastapi import Body, Request, Response

from headwater.api import examples
from headwater.api.guard import guarded_router, needs
from headwater.api.openapi import body_failures
from headwater.api.services import Caller, Given
from headwater.api.trial_schemas import TrialBody
from headwater.api.turns import InTurn
from headwater.errors import InvalidInput, Problem
from headwater.model.trial import MAX_SAMPLE_BYTES, NewTrial

router = guarded_router("/api/v1/flow/validate", "Configurations")


class _Samples(msgspec.Struct):
    """The records as they were sent: numbers keep their digits."""

    records: list[msgspec.Raw] | None = None


@router.post(
    "",
    operation_id="validateConfiguration",
    summary="Try a configuration without saving it",
    response_model=TrialBody,
    responses=body_failures(),
    openapi_extra=needs("flow:write"),
)
async def validate(
    body: Annotated[NewTrial, Body(openapi_examples={"one record": {"value": examples.TRIAL}})],
    request: Request,
    caller: Caller,
    given: Given,
    turns: InTurn,
) -> Response:
    """The same checks as create; then what every transform does to each of `records`, step by step. Saves nothing.

    A filter's set holds its `set_values`; `flow.contains` asks your datasets as they are. Scripts run in the sandbox.
    """
    samples = _samples(await request.body())
    trial = await turns.run(caller.owner, partial(given.trials.run, caller.owner, body.pipeline_config, samples))
    return Response(msgspec.json.encode(TrialBody.of(trial)), media_type="application/json")


def _samples(body: bytes) -> list[bytes]:
    try:
        samples = [bytes(record) for record in msgspec.json.decode(body, type=_Samples).records or ()]
    except msgspec.ValidationError as error:  # the body was found valid, but by the last of the members of one name
        raise _refused("is there more than once; send it once, as an array") from error
    size = sum(map(len, samples))
    if size > MAX_SAMPLE_BYTES:
        raise _refused(f"are {size} bytes of JSON; send at most {MAX_SAMPLE_BYTES}")
    return samples


def _refused(detail: str) -> InvalidInput:
    return InvalidInput("The configuration was not tried.", [Problem("/records", detail)])
