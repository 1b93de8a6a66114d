"""Builds the ASGI application of the HTTP API from its services."""

import contextlib
from collections.abc import AsyncIterator

import anyio
import structlog
from anyio import to_thread
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

import headwater
from headwater.api import (
    configurations,
    cors,
    datasets,
    deployment_metrics,
    deployments,
    filter_values,
    health,
    openapi,
    prices,
    problems,
    quota_limits,
    streams,
    transforms,
    validate,
)
from headwater.api.concurrency import (
    MAX_CONCURRENT_CHECKS,
    MAX_CONCURRENT_CHECKS_PER_OWNER,
    MAX_CONCURRENT_UPLOADS,
    MAX_CONCURRENT_UPLOADS_PER_OWNER,
    OwnerLimiter,
    Watcher,
)
from headwater.api.dependencies import Services
from headwater.api.failed_keys import FailedKeys
from headwater.api.guard import Authenticator
from headwater.api.health import ReadinessProbes
from headwater.api.metrics import PrometheusMetrics
from headwater.api.middleware import InternalErrors, RequestMiddleware
from headwater.api.rate_limits import RateLimiter
from headwater.errors import StoreUnavailable
from headwater.loop_health import LoopHealth
from headwater.services.ids import new_id
from headwater.services.keys import Keys

WRITE_LAST_USE_EVERY_S = 20.0
ROUTERS = (
    prices.router,  # first, because routes are matched in order and this one is called most often
    streams.router,
    datasets.router,
    quota_limits.router,
    configurations.router,
    validate.router,
    transforms.router,
    deployments.router,
    deployment_metrics.router,
    filter_values.router,
    health.router,
)
DESCRIPTION = (
    "OwnerLimiter firehoses of blockchain records into just the records you want, on Kafka topics of your own. "
    "Every error is a problem document (RFC 9457)."
)

log = structlog.get_logger(__name__)


def create_api(services: Services) -> FastAPI:
    """Build the application.

    Raises SetupError when `metrics_dir` is given but the process was started without PROMETHEUS_MULTIPROC_DIR.
    """
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
    app.state.metrics = PrometheusMetrics(services.metrics_dir)
    app.state.watcher = Watcher(services.deployments.progress)
    app.state.key_uses = LoopHealth("writing the last use of keys")
    app.state.probes = ReadinessProbes(services.probes, (app.state.watcher.loop, app.state.key_uses))
    app.state.authenticator = Authenticator(services.keys, FailedKeys(services.failed_keys_per_minute))
    app.state.limiter = RateLimiter(services.limits, app.state.metrics) if services.limits else None
    app.state.upload_limiter = OwnerLimiter(MAX_CONCURRENT_UPLOADS, MAX_CONCURRENT_UPLOADS_PER_OWNER)
    app.state.check_limiter = OwnerLimiter(MAX_CONCURRENT_CHECKS, MAX_CONCURRENT_CHECKS_PER_OWNER)
    app.state.routes = [*app.routes, *(route for router in (*ROUTERS, openapi.router) for route in router.routes)]
    for router in ROUTERS:
        app.include_router(router)
    problems.install(app)
    openapi.describe(app)
    # Inside the CORS middleware, so that web pages of other origins can read the responses to internal errors too.
    app.add_middleware(InternalErrors)
    if services.cors_origins:
        app.add_middleware(CORSMiddleware, allow_origins=services.cors_origins, **cors.MIDDLEWARE_OPTIONS)
    app.add_middleware(RequestMiddleware, metrics=app.state.metrics, new_id=new_id)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    keys = app.state.services.keys
    async with anyio.create_task_group() as background:
        background.start_soon(_write_last_use, keys, app.state.key_uses)
        background.start_soon(app.state.watcher.run)
        yield
        background.cancel_scope.cancel()
    await to_thread.run_sync(_write_last_use_once, keys)
    app.state.services.metrics.close()
    app.state.probes.close()


async def _write_last_use(keys: Keys, loop: LoopHealth) -> None:
    delay_s = WRITE_LAST_USE_EVERY_S
    while True:
        await anyio.sleep(delay_s)
        try:
            await to_thread.run_sync(_write_last_use_once, keys)
            loop.succeeded()
            delay_s = WRITE_LAST_USE_EVERY_S
        except Exception as error:  # noqa: BLE001  # an unexpected error must not end this loop
            delay_s = loop.failed(error)


def _write_last_use_once(keys: Keys) -> None:
    try:
        keys.write_last_use()
    except StoreUnavailable as error:
        log.warning("the last use of keys was not written; it is kept for the next attempt", reason=error.detail)
