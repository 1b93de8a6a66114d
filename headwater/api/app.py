"""The HTTP API as one ASGI application, made from what it is given."""

import contextlib
from collections.abc import AsyncIterator

import anyio
import structlog
from anyio import to_thread
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

import headwater
from headwater.api import (
    cross_origin,
    datasets,
    deployment_metrics,
    deployments,
    filter_values,
    flow,
    health,
    openapi,
    prices,
    problems,
    quota_limits,
    streams,
    transforms,
    validate,
)
from headwater.api.envelope import Envelope, InternalErrors
from headwater.api.failed_keys import FailedKeys
from headwater.api.guard import Authenticator
from headwater.api.health import Probes
from headwater.api.limits import Limiter
from headwater.api.metrics import Metrics
from headwater.api.services import Services
from headwater.api.turns import MAX_AT_ONCE, MAX_PER_OWNER, Turns
from headwater.api.uploads import MAX_UPLOADS_AT_ONCE, MAX_UPLOADS_PER_OWNER
from headwater.api.waiting import Watcher
from headwater.background import Loop
from headwater.errors import StoreUnavailable
from headwater.services.ids import new_id
from headwater.services.keys import Keys

WRITE_LAST_USE_EVERY_S = 20.0
ROUTERS = (
    prices.router,  # the one that is asked most often: routes are tried in their order
    streams.router,
    datasets.router,
    quota_limits.router,
    flow.router,
    validate.router,
    transforms.router,
    deployments.router,
    deployment_metrics.router,
    filter_values.router,
    health.router,
)
DESCRIPTION = (
    "Turns firehoses of blockchain records into just the records you want, on Kafka topics of your own. "
    "Every error is a problem document (RFC 9457)."
)

log = structlog.get_logger(__name__)


def create_api(services: Services) -> FastAPI:
    """The application. Raises SetupError when `metrics_dir` is given but the process was started without it."""
    app = FastAPI(
        title="Headwater",
        version=headwater.__version__,
        description=DESCRIPTION,
        docs_url=None,
        openapi_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.services = services
    app.state.metrics = Metrics(services.metrics_dir)
    app.state.watcher = Watcher(services.deployments.progress)
    app.state.key_uses = Loop("writing the last use of keys")
    app.state.probes = Probes(services.probes, (app.state.watcher.loop, app.state.key_uses))
    app.state.authenticator = Authenticator(services.keys, FailedKeys(services.failed_keys_per_minute))
    app.state.limiter = Limiter(services.limits, app.state.metrics) if services.limits else None
    app.state.uploads = Turns(MAX_UPLOADS_AT_ONCE, MAX_UPLOADS_PER_OWNER)
    app.state.turns = Turns(MAX_AT_ONCE, MAX_PER_OWNER)
    app.state.routes = [*app.routes, *(route for router in (*ROUTERS, openapi.router) for route in router.routes)]
    for router in ROUTERS:
        app.include_router(router)
    problems.install(app)
    openapi.describe(app)
    app.add_middleware(InternalErrors)  # inside of CORS: pages of other origins read these responses too
    if services.cors_origins:
        app.add_middleware(CORSMiddleware, allow_origins=services.cors_origins, **cross_origin.OPTIONS)
    app.add_middleware(Envelope, metrics=app.state.metrics, new_id=new_id)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    keys = app.state.services.keys
    async with anyio.create_task_group() as background:
        background.start_soon(_write_last_use, keys, app.state.key_uses)
        background.start_soon(app.state.watcher.run)
        yield
        background.cancel_scope.cancel()
    await to_thread.run_sync(_write_once, keys)
    app.state.services.metrics.close()
    app.state.probes.close()


async def _write_last_use(keys: Keys, loop: Loop) -> None:
    delay_s = WRITE_LAST_USE_EVERY_S
    while True:
        await anyio.sleep(delay_s)
        try:
            await to_thread.run_sync(_write_once, keys)
            loop.succeeded()
            delay_s = WRITE_LAST_USE_EVERY_S
        except Exception as error:  # noqa: BLE001  # the requests go on, and so does this
            delay_s = loop.failed(error)


def _write_once(keys: Keys) -> None:
    try:
        keys.write_last_use()
    except StoreUnavailable as error:
        log.warning("the last use of keys was not written; it is kept for the next time", reason=error.detail)
