"""Configurations."""

from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import Body, Query, Request, Response

from headwater.api import examples
from headwater.api.guard import guarded_router, needs, require_prices_scope
from headwater.api.listing import LINK, Cursor, Limit, streamed
from headwater.api.openapi import body_failures, etag, failures
from headwater.api.preconditions import Expected, set_etag
from headwater.api.schemas import FlowConfig, Message
from headwater.api.services import Caller, Given, Waits
from headwater.api.turns import InTurn
from headwater.model.flow import MAX_EXTERNAL_ID_CHARS, NewFlow
from headwater.model.listing import place_of
from headwater.model.text import Text
from headwater.services.flows import FlowList

PATH = "/api/v1/flow"

Created = Annotated[NewFlow, Body(openapi_examples={"filter and script": {"value": examples.CREATE}})]
Replaced = Annotated[NewFlow, Body(openapi_examples={"two workers": {"value": examples.UPDATE}})]

ExternalId = Annotated[
    Text | None,
    Query(min_length=1, max_length=MAX_EXTERNAL_ID_CHARS, description="Only the configuration with this external_id."),
]

router = guarded_router(PATH, "Configurations")


@router.post(
    "",
    status_code=201,
    operation_id="createConfiguration",
    summary="Create a configuration",
    responses=etag(201) | body_failures(409),
    openapi_extra=needs("flow:write"),
)
async def create(body: Created, response: Response, caller: Caller, given: Given, turns: InTurn) -> FlowConfig:
    """Checks everything, compiles the scripts in the sandbox, and stores the configuration. Nothing runs yet."""
    require_prices_scope(caller, body.pipeline_config.sinks)
    created = await turns.run(caller.owner, partial(given.flows.create, caller.owner, body))
    response.headers["Location"] = f"{PATH}/{created.flow.id}"
    set_etag(response, created.flow)
    return FlowConfig.of(created.flow, created.warnings)


@router.get(
    "",
    operation_id="listConfigurations",
    summary="List your configurations",
    response_model=list[FlowConfig],
    responses=LINK | failures(422),
    openapi_extra=needs("flow:read"),
)
def list_all(
    request: Request,
    caller: Caller,
    given: Given,
    external_id: ExternalId = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Response:
    """Newest first. With `external_id` an array of none or one.

    A configuration that is there during the whole listing is on exactly one page.
    """
    if external_id is None:
        found = given.flows.list(caller.owner, place_of(cursor) if cursor else None, limit)
    else:
        found = FlowList(iter([given.flows.with_external_id(caller.owner, external_id)]), None)
    return streamed(request, (map(FlowConfig.of, part) for part in found.parts), found.following)


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
    set_etag(response, flow)
    return FlowConfig.of(flow)


@router.put(
    "/{config_id}",
    operation_id="replaceConfiguration",
    summary="Replace a configuration",
    responses=etag() | body_failures(404, 409, 412),
    openapi_extra=needs("flow:write"),
)
async def replace(
    config_id: str,
    body: Replaced,
    response: Response,
    caller: Caller,
    given: Given,
    turns: InTurn,
    expected: Expected,
) -> FlowConfig:
    """Checks and stores all of it as a new revision. A deployment runs on as it is: deploy again to apply the change.

    A transform with a `uid` updates the one that has it, and a filter keeps its values. One without a `uid` updates
    the one with its `name`, else the one that it equals, else the one at its own position when nothing else moved.
    `warnings` names a filter that ends while a new one begins.
    """
    require_prices_scope(caller, body.pipeline_config.sinks)
    save = partial(given.flows.replace, caller.owner, config_id, body, expected)
    saved = await turns.run(caller.owner, save)
    set_etag(response, saved.flow)
    return FlowConfig.of(saved.flow, saved.warnings)


@router.delete(
    "/{config_id}",
    operation_id="deleteConfiguration",
    summary="Delete a configuration",
    responses=failures(404, 409, 412),
    openapi_extra=needs("flow:write", when_deployed="flow:deploy"),
)
async def delete(config_id: str, caller: Caller, given: Given, expected: Expected, watcher: Waits) -> Message:
    """Tears down its deployment too. Asked again while that goes on, it waits on; then there is nothing to be found."""
    await to_thread.run_sync(given.flows.delete, caller.owner, config_id, expected)
    pending = (
        "The configuration is deleted; its deployment is still being removed, and will be. Ask again to wait for it."
    )
    await watcher.until(config_id, lambda seen: seen is None, given.deploy_timeout_s, pending)
    await to_thread.run_sync(given.flows.forget, config_id)
    return Message(message=f"Pipeline {config_id} successfully deleted")
