"""Routes of pipeline configurations: create, list, read, replace, delete."""

from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import Body, Query, Request, Response

from headwater.api import examples
from headwater.api.dependencies import ApiKeyDep, CompileLimiterDep, IfMatchDep, ServicesDep, WatcherDep
from headwater.api.guarded_routes import authenticated_router, require_prices_scope, required_scopes
from headwater.api.openapi import PENDING_RESPONSE, body_problem_responses, etag_responses, problem_responses
from headwater.api.pagination import LINK_RESPONSES, Cursor, Limit, stream_array
from headwater.api.schemas import FlowConfig, Message
from headwater.model.fields import Text
from headwater.model.flow import MAX_EXTERNAL_ID_CHARS, Flow, NewFlow
from headwater.model.pagination import parse_list_cursor
from headwater.services.flows import FlowList

PATH = "/api/v1/flow"

CreateBody = Annotated[NewFlow, Body(openapi_examples={"filter and script": {"value": examples.CREATE}})]
ReplaceBody = Annotated[NewFlow, Body(openapi_examples={"two workers": {"value": examples.UPDATE}})]

ExternalId = Annotated[
    Text | None,
    Query(min_length=1, max_length=MAX_EXTERNAL_ID_CHARS, description="Only the configuration with this external_id."),
]

router = authenticated_router(PATH, "Configurations")


def set_etag(response: Response, flow: Flow) -> None:
    """Set the ETag of a response to the revision of a configuration (RFC 9110, section 8.8.3)."""
    response.headers["ETag"] = f'"{flow.revision}"'


@router.post(
    "",
    status_code=201,
    operation_id="createConfiguration",
    summary="Create a configuration",
    responses=etag_responses(201) | body_problem_responses(409),
    openapi_extra=required_scopes("flow:write"),
)
async def create(
    body: CreateBody, response: Response, api_key: ApiKeyDep, services: ServicesDep, compile_limiter: CompileLimiterDep
) -> FlowConfig:
    """Checks the configuration, compiles its scripts in the sandbox, and stores it.
    Nothing runs until the configuration is deployed. A prices sink also needs the scope `prices:write`.
    """
    require_prices_scope(api_key, body.pipeline_config.sinks)
    created = await compile_limiter.run(api_key.owner, partial(services.flows.create, api_key.owner, body))
    response.headers["Location"] = f"{PATH}/{created.flow.id}"
    set_etag(response, created.flow)
    return FlowConfig.of(created.flow, created.warnings)


@router.get(
    "",
    operation_id="listConfigurations",
    summary="List your configurations",
    response_model=list[FlowConfig],
    responses=LINK_RESPONSES | problem_responses(422),
    openapi_extra=required_scopes("flow:read"),
)
def list_all(
    request: Request,
    api_key: ApiKeyDep,
    services: ServicesDep,
    external_id: ExternalId = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Response:
    """Lists the configurations, newest first.
    With `external_id`, the array has at most one configuration.

    A configuration that exists during the whole listing is on exactly one page.
    """
    if external_id is None:
        flows = services.flows.list(api_key.owner, parse_list_cursor(cursor) if cursor else None, limit)
    else:
        flows = FlowList(iter([services.flows.with_external_id(api_key.owner, external_id)]), None)
    return stream_array(request, (map(FlowConfig.of, part) for part in flows.parts), flows.next_position)


@router.get(
    "/{config_id}",
    operation_id="getConfiguration",
    summary="Read a configuration",
    responses=etag_responses() | problem_responses(404),
    openapi_extra=required_scopes("flow:read"),
)
def read(config_id: str, response: Response, api_key: ApiKeyDep, services: ServicesDep) -> FlowConfig:
    """Returns the newest revision of the configuration."""
    flow = services.flows.get(api_key.owner, config_id)
    set_etag(response, flow)
    return FlowConfig.of(flow)


@router.put(
    "/{config_id}",
    operation_id="replaceConfiguration",
    summary="Replace a configuration",
    responses=etag_responses() | body_problem_responses(404, 409, 412),
    openapi_extra=required_scopes("flow:write"),
)
async def replace(
    config_id: str,
    body: ReplaceBody,
    response: Response,
    api_key: ApiKeyDep,
    services: ServicesDep,
    compile_limiter: CompileLimiterDep,
    if_match: IfMatchDep,
) -> FlowConfig:
    """Checks the whole configuration and stores it as a new revision.
    A running pipeline stays unchanged: deploy again to apply the change. A prices sink also needs the scope
    `prices:write`.

    A transform with a `uid` updates the stored transform with this uid, and a filter keeps its values. A transform
    without a `uid` updates the stored transform with the same `name`, else a stored transform with the same content.
    When neither exists and the number of transforms is unchanged, it updates the stored transform at the same position.
    This requires that both have the same type, that at most one of them has a name, and that no other transform has the
    content of either.

    When a filter is removed while another one is added, `warnings` names the removed filter.
    """
    require_prices_scope(api_key, body.pipeline_config.sinks)
    save = partial(services.flows.replace, api_key.owner, config_id, body, if_match)
    saved = await compile_limiter.run(api_key.owner, save)
    set_etag(response, saved.flow)
    return FlowConfig.of(saved.flow, saved.warnings)


@router.delete(
    "/{config_id}",
    operation_id="deleteConfiguration",
    summary="Delete a configuration",
    responses=problem_responses(404, 409, 412) | PENDING_RESPONSE,
    openapi_extra=required_scopes("flow:write", when_deployed="flow:deploy"),
)
async def delete(
    config_id: str, api_key: ApiKeyDep, services: ServicesDep, if_match: IfMatchDep, watcher: WatcherDep
) -> Message:
    """Deletes the configuration and tears down its deployment.
    A repeat of the request while the teardown is in progress waits for its end. Later repeats get 404.
    """
    await to_thread.run_sync(services.flows.delete, api_key.owner, config_id, if_match)
    pending_detail = (
        "The configuration is deleted. Removal of its deployment continues in the background; repeat the DELETE to "
        "wait for it."
    )
    await watcher.wait_until(config_id, lambda progress: progress is None, services.deploy_timeout_s, pending_detail)
    await to_thread.run_sync(services.flows.purge, config_id)
    return Message(message=f"Pipeline {config_id} successfully deleted")
