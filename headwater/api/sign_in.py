"""Routes that exchange a one-time code for an API key, and revoke this key."""

from http import HTTPStatus
from typing import Annotated, cast

from anyio import to_thread
from fastapi import Body, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from headwater.api import examples
from headwater.api.authentication import client_ip
from headwater.api.dependencies import ApiKeyDep, ServicesDep
from headwater.api.guarded_routes import authenticated_router, public_router, required_scopes
from headwater.api.invalid_credential_limiter import InvalidCredentialLimiter
from headwater.api.me import KeyBody
from headwater.api.openapi import body_problem_responses, problem_response, problem_responses
from headwater.api.problems import PROBLEM_TYPES
from headwater.api.schemas import Message
from headwater.errors import DatabaseUnavailable, InvalidSignInCode, RateLimited
from headwater.model.audit import Actor, set_actor
from headwater.model.sign_in import MAX_CODE_CHARS

PATH, TAG = "/api/v1/flow/sign-in", "Configurations"
SIGN_IN_ACTOR = "sign-in"
"""The audit log has this key id for the actor who signs in, before the actor has a key."""

sign_out_router = authenticated_router(PATH, TAG)
router = public_router(PATH, TAG)

SIGN_IN_RESPONSES = {
    status: response for status, response in body_problem_responses().items() if status != HTTPStatus.FORBIDDEN
} | {int(HTTPStatus.UNAUTHORIZED): problem_response(PROBLEM_TYPES[InvalidSignInCode])}


class SignInRequest(BaseModel):
    """A one-time code."""

    model_config = ConfigDict(extra="forbid", strict=True)

    code: str = Field(
        min_length=1, max_length=MAX_CODE_CHARS, description="The code at the end of the link, after `#code=`."
    )


class SignedInBody(KeyBody):
    """A new API key. Its text is shown only in this response."""

    key: str = Field(description="The text of the key, for the header `X-API-Key`.")


async def _invalid_code_limiter(request: Request) -> InvalidCredentialLimiter:
    return cast("InvalidCredentialLimiter", request.app.state.invalid_code_limiter)


@router.post(
    "",
    operation_id="signIn",
    summary="Exchange a one-time code for an API key",
    responses=SIGN_IN_RESPONSES,
)
async def sign_in(
    body: Annotated[SignInRequest, Body(openapi_examples={"a code": {"value": examples.SIGN_IN}})],
    request: Request,
    services: ServicesDep,
    limiter: Annotated[InvalidCredentialLimiter, Depends(_invalid_code_limiter)],
) -> SignedInBody:
    """Returns a new API key that is valid for 12 hours. No key is needed.
    `headwater up` and `headwater keys sign-in-link` print a link with a code. A code is valid for 60 s, and works once.
    """
    address = client_ip(request.scope)
    if wait_s := limiter.take(address):
        reason = "Your address has sent too many invalid sign-in codes."
        raise RateLimited(f"{reason} Send a valid code after {wait_s} s.", wait_s)
    set_actor(Actor(SIGN_IN_ACTOR, "", address, request.scope["request_id"]))
    try:
        text, key = await to_thread.run_sync(services.sign_ins.sign_in, body.code)
    except DatabaseUnavailable:
        limiter.give_back(address)
        raise
    limiter.give_back(address)
    return SignedInBody(**KeyBody.of(key).model_dump(), key=text)


@sign_out_router.delete(
    "",
    operation_id="signOut",
    summary="Revoke the API key of a sign-in",
    responses=problem_responses(HTTPStatus.CONFLICT),
    openapi_extra=required_scopes("flow:read"),
)
def sign_out(api_key: ApiKeyDep, services: ServicesDep) -> Message:
    """Revokes the API key of this request, when it comes from a sign-in code.
    The response is 409 for any other key.
    """
    services.sign_ins.sign_out(api_key)
    return Message(message=f"The API key {api_key.id} is revoked.")
