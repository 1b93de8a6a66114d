"""Configurations."""

from typing import Annotated

import anyio
from anyio import to_thread
from fastapi import Body, Depends, Request, Response

from headwater.api import examples
from headwater.api.guard import guarded_router, needs
from headwater.api.openapi import body_failures, etag, failures
from headwater.api.schemas import CreatedFlowConfig, FlowConfig, Message
from headwater.api.services import Caller, Given
from headwater.api.waiting import poll
from headwater.errors import Forbidden
from headwater.model.flow import Flow, NewFlow

PATH = "/api/v1/flow"
DEPLOY_SCOPE = "flow:deploy"
MAX_COMPILES_AT_ONCE = 4
"""Creates that may be in the sandbox at once: each holds a V8 process of some 60 MB. Others wait for their turn."""

router = guarded_router(PATH, "Configurations")


def _etag(response: Response, flow: Flow) -> None:
    response.headers["ETag"] = f'"{flow.revision}"'


async def _compile_turn(request: Request) -> anyio.CapacityLimiter:
    turns: anyio.CapacityLimiter = request.app.state.compile_turns
    return turns


@router.post(
    "",
    status_code=201,
    operation_id="createConfiguration",
    summary="Create a configuration",
    responses=etag(201) | body_failures(),
    openapi_extra=needs("flow:write"),
)
async def create(
    body: Annotated[NewFlow, Body(openapi_examples={"filter and script": {"value": examples.CREATE}})],
    response: Response,
    caller: Caller,
    given: Given,
    turns: Annotated[anyio.CapacityLimiter, Depends(_compile_turn)],
) -> CreatedFlowConfig:
    """Checks everything, compiles the scripts in the sandbox, and stores the configuration. Nothing runs yet."""
    created = await to_thread.run_sync(given.flows.create, caller.owner, body, limiter=turns)
    response.headers["Location"] = f"{PATH}/{created.flow.id}"
    _etag(response, created.flow)
    return CreatedFlowConfig.of_created(created)


@router.get(
    "",
    operation_id="listConfigurations",
    summary="List your configurations",
    responses=failures(),
    openapi_extra=needs("flow:read"),
)
def list_all(caller: Caller, given: Given) -> list[FlowConfig]:
    """Newest first."""
    return [FlowConfig.of(flow) for flow in given.flows.list(caller.owner)]


@router.get(
    "/{config_id}",
    operation_id="getConfiguration",
    summary="Read a configuration",
    responses=etag() | failures(404),
    openapi_extra=needs("flow:read"),
)
def read(config_id: str, response: Response, caller: Caller, given: Given) -> FlowConfig:
    """Its newest revision."""
    flow = given.flows.get(caller.owner, config_id)
    _etag(response, flow)
    return FlowConfig.of(flow)


@router.delete(
    "/{config_id}",
    operation_id="deleteConfiguration",
    summary="Delete a configuration",
    responses=failures(404),
    openapi_extra=needs("flow:write"),
)
async def delete(config_id: str, caller: Caller, given: Given) -> Message:
    """Tears down its deployment too; while it is deployed that needs the scope flow:deploy as well."""
    deployment = await to_thread.run_sync(given.deployments.find, caller.owner, config_id)
    if deployment and DEPLOY_SCOPE not in caller.scopes:
        raise Forbidden(DEPLOY_SCOPE)
    flow = await to_thread.run_sync(given.flows.delete, caller.owner, config_id)
    pending = "The configuration is deleted; its deployment is still being removed, and will be."
    await poll(lambda: given.deployments.none_left(config_id) or None, given.deploy_timeout_s, pending)
    await to_thread.run_sync(given.flows.forget, flow)
    return Message(message=f"Pipeline {config_id} successfully deleted")
