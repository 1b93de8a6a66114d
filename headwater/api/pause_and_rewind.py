"""Routes that pause, resume and rewind a deployed pipeline."""

from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import Body
from pydantic import ConfigDict, WithJsonSchema

from headwater.api.dependencies import ApiKeyDep, ServicesDep, WatcherDep
from headwater.api.deployment_watcher import wait_until_running
from headwater.api.deployments import deployment_body
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import PENDING_RESPONSE, body_problem_responses, problem_responses
from headwater.api.schemas import Gap, Message, MovedPosition, ResumedDeployment, RewoundPipeline
from headwater.model.request_model import RequestModel
from headwater.model.rewind_target import TARGET_SCHEMA, parse_rewind_target
from headwater.services.deployments import is_paused, is_rewound, rewind_result

router = authenticated_router("/api/v1/flow/{config_id}", "Deployments")

PAUSE_PENDING = (
    "The workers have not ended yet. Repeat the request to wait for them, or read the state with GET …/deploy."
)
REWIND_PENDING = "Rewind in progress. Repeat the request to wait for it, or read the state with GET …/deploy."
REWIND_EXAMPLES: dict[str, Any] = {
    "to a time": {"value": {"to": "2026-01-02T03:04:05Z"}},
    "to the first record": {"value": {"to": "earliest"}},
    "to offsets": {"value": {"to": {"0": 1200, "3": 950}}},
}


class RewindRequest(RequestModel):
    """Where to rewind a pipeline to."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    to: Annotated[Any, WithJsonSchema(TARGET_SCHEMA)]
    """"earliest", "latest", an RFC 3339 time, or the offset of each partition to move."""


@router.post(
    "/pause",
    operation_id="pausePipeline",
    summary="Pause a pipeline",
    responses=problem_responses(404, 409) | PENDING_RESPONSE,
    openapi_extra=required_scopes("flow:deploy"),
)
async def pause(config_id: str, api_key: ApiKeyDep, services: ServicesDep, watcher: WatcherDep) -> Message:
    """Ends the workers after a commit, and responds when they have ended.
    Topics, credentials, filter values and positions are kept until the pipeline is resumed or torn down, however long
    that takes. The request is idempotent.
    """
    paused = await to_thread.run_sync(services.deployments.pause, api_key.owner, config_id)
    await watcher.wait_until(config_id, partial(is_paused, paused), services.deploy_timeout_s, PAUSE_PENDING)
    return Message(message=f"Pipeline {config_id} successfully paused")


@router.post(
    "/resume",
    operation_id="resumePipeline",
    summary="Resume a paused pipeline",
    responses=problem_responses(404, 409, 422) | PENDING_RESPONSE,
    openapi_extra=required_scopes("flow:deploy", with_prices_sink=True),
)
async def resume(config_id: str, api_key: ApiKeyDep, services: ServicesDep, watcher: WatcherDep) -> ResumedDeployment:
    """Deploys the newest revision, which continues where the pipeline stopped.
    The response is sent when all workers are ready. `gaps` names the offsets that retention removed from the source
    meanwhile. The request is idempotent.
    """
    resumed = await to_thread.run_sync(services.deployments.resume, api_key.owner, config_id)
    await wait_until_running(watcher, resumed, services.deploy_timeout_s)
    deployment = await to_thread.run_sync(services.deployments.get, api_key.owner, config_id)
    gaps = [Gap(**gap.model_dump()) for gap in deployment.gaps]
    return ResumedDeployment(**dict(deployment_body(deployment, services.kafka)), gaps=gaps)


@router.post(
    "/rewind",
    operation_id="rewindPipeline",
    summary="Move the positions of a pipeline",
    responses=body_problem_responses(404, 409) | PENDING_RESPONSE,
    openapi_extra=required_scopes("flow:deploy"),
)
async def rewind(
    config_id: str,
    body: Annotated[RewindRequest, Body(openapi_examples=REWIND_EXAMPLES)],
    api_key: ApiKeyDep,
    services: ServicesDep,
    watcher: WatcherDep,
) -> RewoundPipeline:
    """Ends the workers, moves their positions in the source, and starts them again.
    A paused pipeline stays paused. An offset before the first record of its partition is moved to this record;
    `positions` has the offsets that were set. An offset after the end and a time in the future are refused. Records
    that are read again have the same header `headwater-src` in their outputs.
    """
    target = parse_rewind_target(body.to)
    requested = await to_thread.run_sync(services.deployments.rewind, api_key.owner, config_id, target)
    await watcher.wait_until(config_id, partial(is_rewound, requested), services.deploy_timeout_s, REWIND_PENDING)
    deployment = await to_thread.run_sync(services.deployments.get, api_key.owner, config_id)
    result = rewind_result(requested, deployment)
    await to_thread.run_sync(services.deployments.mark_rewind_answered, requested)
    return RewoundPipeline(
        message=f"Pipeline {config_id} successfully rewound", positions=MovedPosition.by_partition(result.moves)
    )
