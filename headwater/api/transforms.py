"""Transforms of a stored configuration. A change redeploys the pipeline when it is deployed."""

from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import Body, Response

from headwater.api import examples
from headwater.api.flow import PATH
from headwater.api.guard import guarded_router, needs
from headwater.api.openapi import body_failures, etag
from headwater.api.preconditions import Expected, set_etag
from headwater.api.rollout import until_up
from headwater.api.schemas import SavedTransform, saved_transform
from headwater.api.services import Caller, Given, Services, Waits
from headwater.api.turns import InTurn
from headwater.api.waiting import Watcher
from headwater.errors import Conflict, DeployFailed, DeployPending, NotFound, Unavailable
from headwater.model.flow import Flow
from headwater.model.transform import NewTransform, NewTransforms

SCOPES = needs("flow:write", when_deployed="flow:deploy", when_feeding_prices=True)

router = guarded_router(PATH + "/{config_id}/transforms", "Transforms")


@router.patch(
    "/{transform_uid}",
    operation_id="changeTransform",
    summary="Change one transform",
    responses=etag() | body_failures(404, 409, 412),
    openapi_extra=SCOPES,
)
async def change(
    config_id: str,
    transform_uid: str,
    body: Annotated[NewTransform, Body(openapi_examples={"filter": {"value": examples.FILTER}})],
    response: Response,
    caller: Caller,
    given: Given,
    turns: InTurn,
    watcher: Waits,
    expected: Expected,
) -> SavedTransform:
    """The body is the whole transform. It keeps its `uid` and its type, a filter its values, and a `name` that is left
    out stays.

    While the configuration is deployed, this deploys it as it is saved, and answers when it runs.
    """
    save = partial(given.flows.replace_transform, caller.owner, config_id, transform_uid, body, expected)
    saved = await turns.run(caller.owner, save)
    await _redeploy(given, watcher, saved.flow)
    set_etag(response, saved.flow)
    changed = next(t for t in saved.flow.pipeline_config.transforms if t.uid == transform_uid)
    return saved_transform(changed, saved.warnings)


@router.put(
    "",
    operation_id="replaceTransforms",
    summary="Replace the list of transforms",
    responses=etag() | body_failures(404, 409, 412),
    openapi_extra=SCOPES,
)
async def replace(
    config_id: str,
    body: Annotated[NewTransforms, Body(openapi_examples={"two new ones": {"value": examples.TRANSFORMS}})],
    response: Response,
    caller: Caller,
    given: Given,
    turns: InTurn,
    watcher: Waits,
    expected: Expected,
) -> list[SavedTransform]:
    """Adds, removes, updates and reorders in one call. A transform without a `uid`, whose `name` matches none, is new.

    While the configuration is deployed, this deploys it as it is saved, and answers when it runs.
    """
    save = partial(given.flows.replace_transforms, caller.owner, config_id, body, expected)
    saved = await turns.run(caller.owner, save)
    await _redeploy(given, watcher, saved.flow)
    set_etag(response, saved.flow)
    return [
        saved_transform(transform, [w for w in saved.warnings if f"{w.pointer}/".startswith(f"/{i}/")])
        for i, transform in enumerate(saved.flow.pipeline_config.transforms)
    ]


async def _redeploy(given: Services, watcher: Watcher, saved: Flow) -> None:
    """Deploy what was saved, when it is deployed. Whatever goes wrong, the save stays, and the answer says so."""
    stays = f"Revision {saved.revision} is saved, but does not run"
    try:
        started = await to_thread.run_sync(given.deployments.start_again, saved.owner, saved.id)
        await until_up(watcher, started, given.deploy_timeout_s)
    except (NotFound, Conflict):
        return  # not deployed, or torn down meanwhile
    except DeployFailed as error:
        raise DeployFailed(f"{stays}: {error.detail}") from error
    except Unavailable as error:
        why = error.detail if isinstance(error, DeployPending) else "Something that it depends on does not answer."
        raise DeployPending(f"{stays} yet: {why} Read GET …/deploy.", error.retry_after_s) from error
