"""Routes of the transforms of a stored configuration.

When a configuration is deployed, a change of its transforms is deployed too.
"""

from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import Body, Response

from headwater.api import examples
from headwater.api.configurations import PATH, set_etag
from headwater.api.dependencies import ApiKeyDep, CompileLimiterDep, IfMatchDep, Services, ServicesDep, WatcherDep
from headwater.api.deployment_watcher import DeploymentWatcher, wait_until_running
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import PENDING_RESPONSE, body_problem_responses, etag_responses
from headwater.api.schemas import SAVED_TRANSFORM, saved_transform
from headwater.errors import (
    Conflict,
    DeployFailed,
    DeployPending,
    NotFound,
    QuotaExceeded,
    StoredDataUnreadable,
    Unavailable,
)
from headwater.model.deployment import Deployment, DesiredPhase
from headwater.model.flow import Flow
from headwater.model.transforms import NewTransform, NewTransforms, TransformConfig

SCOPES = required_scopes("flow:write", when_deployed="flow:deploy", with_prices_sink=True)

router = authenticated_router(PATH + "/{config_id}/transforms", "Transforms")


@router.patch(
    "/{transform_uid}",
    operation_id="changeTransform",
    summary="Change one transform",
    response_model=SAVED_TRANSFORM,
    responses=etag_responses() | body_problem_responses(404, 409, 412) | PENDING_RESPONSE,
    openapi_extra=SCOPES,
)
async def change(
    config_id: str,
    transform_uid: str,
    body: Annotated[NewTransform, Body(openapi_examples={"filter": {"value": examples.FILTER}})],
    response: Response,
    api_key: ApiKeyDep,
    services: ServicesDep,
    compile_limiter: CompileLimiterDep,
    watcher: WatcherDep,
    if_match: IfMatchDep,
) -> TransformConfig:
    """Replaces one transform with the transform in the body.
    The transform keeps its `uid` and its type, a filter keeps its values, and an omitted `name` keeps the stored name.

    When the configuration is deployed, the saved revision is deployed too, and the response is sent when it runs. A
    paused pipeline stays paused; the saved revision runs when it is resumed.
    """
    save = partial(services.flows.replace_transform, api_key.owner, config_id, transform_uid, body, if_match)
    saved = await compile_limiter.run(api_key.owner, save)
    await redeploy(services, watcher, saved.flow)
    set_etag(response, saved.flow)
    changed = next(transform for transform in saved.flow.pipeline_config.transforms if transform.uid == transform_uid)
    return saved_transform(changed, saved.warnings)


@router.put(
    "",
    operation_id="replaceTransforms",
    summary="Replace the list of transforms",
    response_model=list[SAVED_TRANSFORM],
    responses=etag_responses() | body_problem_responses(404, 409, 412) | PENDING_RESPONSE,
    openapi_extra=SCOPES,
)
async def replace(
    config_id: str,
    body: Annotated[NewTransforms, Body(openapi_examples={"two new transforms": {"value": examples.TRANSFORMS}})],
    response: Response,
    api_key: ApiKeyDep,
    services: ServicesDep,
    compile_limiter: CompileLimiterDep,
    watcher: WatcherDep,
    if_match: IfMatchDep,
) -> list[TransformConfig]:
    """Adds, removes, updates and reorders transforms in one request.
    A transform without a `uid` is new, unless a stored transform has the same `name`.

    When the configuration is deployed, the saved revision is deployed too, and the response is sent when it runs. A
    paused pipeline stays paused; the saved revision runs when it is resumed.
    """
    save = partial(services.flows.replace_transforms, api_key.owner, config_id, body, if_match)
    saved = await compile_limiter.run(api_key.owner, save)
    await redeploy(services, watcher, saved.flow)
    set_etag(response, saved.flow)
    return [
        saved_transform(transform, [fault for fault in saved.warnings if f"{fault.pointer}/".startswith(f"/{i}/")])
        for i, transform in enumerate(saved.flow.pipeline_config.transforms)
    ]


async def redeploy(services: Services, watcher: DeploymentWatcher, saved: Flow) -> Deployment | None:
    """Deploy the saved revision when the configuration is deployed and not paused.

    Return the deployment when the revision runs, and None when the revision was only saved. If the deploy fails, the
    revision stays saved, and the error says so.
    """
    prefix = f"Revision {saved.revision} is saved but does not run"
    try:
        started = await to_thread.run_sync(services.deployments.redeploy, saved.owner, saved.id)
        if started.desired is DesiredPhase.PAUSED:
            return None
        await wait_until_running(watcher, started, services.deploy_timeout_s)
        return await to_thread.run_sync(services.deployments.get, saved.owner, saved.id)
    except QuotaExceeded as error:
        raise QuotaExceeded(f"{prefix}: {error.detail}", error.used, error.allowed) from error
    except (DeployFailed, StoredDataUnreadable) as error:
        raise type(error)(f"{prefix}: {error.detail}") from error
    except (NotFound, Conflict):
        return None  # the configuration is not deployed, or its deployment was torn down or paused meanwhile
    except Unavailable as error:
        reason = "The rollout is in progress." if isinstance(error, DeployPending) else "A dependency is unavailable."
        detail = f"{prefix} yet: {reason} Read the state of the deployment with GET …/deploy."
        raise DeployPending(detail, error.retry_after_s) from error
