"""Builds the ASGI application of the HTTP API from its services."""

import contextlib
from collections.abc import AsyncIterator
from functools import cache

import anyio
import structlog
from anyio import to_thread
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute
from starlette.middleware import Middleware

from headwater.api import (
    configurations,
    console,
    datasets,
    dead_letters,
    deployment_metrics,
    deployments,
    filter_values,
    health,
    me,
    openapi,
    overview,
    pause_and_rewind,
    price_details,
    prices,
    problems,
    quota_limits,
    records,
    revisions,
    sign_in,
    streams,
    tails,
    transforms,
    validate,
)
from headwater.api.applied_watcher import AppliedWatcher
from headwater.api.authentication import Authentication
from headwater.api.cors import MIDDLEWARE_OPTIONS
from headwater.api.dependencies import Services
from headwater.api.deployment_watcher import DeploymentWatcher
from headwater.api.guard import BodyLimit, ConditionalScopes, RequestHeadCheck, RequiredScope
from headwater.api.health import ReadinessProbes
from headwater.api.idempotency import Idempotency
from headwater.api.invalid_credential_limiter import InvalidCredentialLimiter
from headwater.api.middleware import ProblemMiddleware, RequestMiddleware
from headwater.api.owner_limiter import (
    MAX_CONCURRENT_COMPILES,
    MAX_CONCURRENT_COMPILES_PER_OWNER,
    MAX_CONCURRENT_COUNTS,
    MAX_CONCURRENT_COUNTS_PER_OWNER,
    MAX_CONCURRENT_DIFFS,
    MAX_CONCURRENT_DIFFS_PER_OWNER,
    MAX_CONCURRENT_RECORD_READS,
    MAX_CONCURRENT_RECORD_READS_PER_OWNER,
    MAX_CONCURRENT_TRIALS,
    MAX_CONCURRENT_TRIALS_PER_OWNER,
    MAX_CONCURRENT_UPLOADS,
    MAX_CONCURRENT_UPLOADS_PER_OWNER,
    MAX_WAIT_FOR_READS_S,
    OwnerLimiter,
)
from headwater.api.prometheus import PrometheusMetrics
from headwater.api.rate_limits import RateLimitMiddleware
from headwater.api.route_table import RouteTable, Routing
from headwater.api.tail_response import MAX_CONCURRENT_OPENINGS
from headwater.errors import DatabaseUnavailable
from headwater.loop_health import LoopHealth
from headwater.services.ids import new_id
from headwater.services.keys import Keys
from headwater.services.tail_connections import CHECK_EVERY_S, Tails

WRITE_LAST_USE_EVERY_S = 20.0
ROUTERS = (
    prices.router,
    price_details.router,
    streams.router,
    records.router,
    tails.router,
    datasets.router,
    quota_limits.router,
    me.router,
    sign_in.sign_out_router,
    sign_in.router,
    overview.router,
    configurations.router,
    validate.router,
    revisions.router,
    transforms.router,
    deployments.router,
    pause_and_rewind.router,
    deployment_metrics.router,
    dead_letters.router,
    dead_letters.redrive_router,
    filter_values.router,
    health.router,
    openapi.router,
    console.router,
)
ROUTES = tuple(route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute))
TABLE = RouteTable(ROUTES)

log = structlog.get_logger(__name__)


@cache
def _description() -> bytes:
    """Return the OpenAPI description of all routes.

    It is rendered once, since rendering takes long and every client may request it.
    """
    return openapi.render_description(ROUTES)


def create_api(services: Services) -> FastAPI:
    """Build the application.

    Raises SetupError when `services.metrics_dir` is set but the process was started without PROMETHEUS_MULTIPROC_DIR.
    """
    metrics = PrometheusMetrics(services.metrics_dir)
    app = FastAPI(
        docs_url=None,
        openapi_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
        routes=[TABLE],
        middleware=_middleware(services, metrics),
    )
    app.state.services = services
    app.state.metrics = metrics
    app.state.watcher = DeploymentWatcher(services.deployments.progress)
    app.state.applied_watcher = AppliedWatcher(services.applied.read)
    app.state.key_use_health = LoopHealth("writing the last use of keys")
    app.state.tails_health = LoopHealth("checking live tails")
    loops = (app.state.watcher.poll_health, app.state.applied_watcher.poll_health)
    app.state.probes = ReadinessProbes(services.probes, (*loops, app.state.key_use_health, app.state.tails_health))
    app.state.invalid_code_limiter = InvalidCredentialLimiter(services.invalid_keys_per_minute)
    app.state.upload_limiter = OwnerLimiter(MAX_CONCURRENT_UPLOADS, MAX_CONCURRENT_UPLOADS_PER_OWNER)
    app.state.compile_limiter = OwnerLimiter(MAX_CONCURRENT_COMPILES, MAX_CONCURRENT_COMPILES_PER_OWNER)
    app.state.trial_limiter = OwnerLimiter(MAX_CONCURRENT_TRIALS, MAX_CONCURRENT_TRIALS_PER_OWNER)
    app.state.record_read_limiter = OwnerLimiter(
        MAX_CONCURRENT_RECORD_READS, MAX_CONCURRENT_RECORD_READS_PER_OWNER, MAX_WAIT_FOR_READS_S
    )
    app.state.tail_limiter = anyio.CapacityLimiter(MAX_CONCURRENT_OPENINGS)
    app.state.count_limiter = OwnerLimiter(MAX_CONCURRENT_COUNTS, MAX_CONCURRENT_COUNTS_PER_OWNER, MAX_WAIT_FOR_READS_S)
    app.state.diff_limiter = OwnerLimiter(MAX_CONCURRENT_DIFFS, MAX_CONCURRENT_DIFFS_PER_OWNER)
    problems.install(app)
    openapi.add_description(app, _description)
    console.add_console(app)
    return app


def _middleware(services: Services, metrics: PrometheusMetrics) -> list[Middleware]:
    """Return the middlewares in the order in which a request passes them.

    FastAPI reads the body after the last middleware. CORSMiddleware is outside of ProblemMiddleware, so that web pages
    of other origins can read the errors too.
    """
    origins, rate_limits = services.cors_origins, services.rate_limits
    invalid_key_limiter = InvalidCredentialLimiter(services.invalid_keys_per_minute)
    cors = [Middleware(CORSMiddleware, allow_origins=origins, **MIDDLEWARE_OPTIONS)] if origins else []
    rate_limit = [Middleware(RateLimitMiddleware, limits=rate_limits, metrics=metrics)] if rate_limits else []
    return [
        Middleware(RequestMiddleware, metrics=metrics, new_id=new_id),
        *cors,
        Middleware(ProblemMiddleware),
        Middleware(Routing, table=TABLE),
        Middleware(Authentication, keys=services.keys, invalid_key_limiter=invalid_key_limiter),
        Middleware(RequiredScope),
        *rate_limit,
        Middleware(RequestHeadCheck),
        Middleware(BodyLimit),
        Middleware(ConditionalScopes, deployments=services.deployments, flows=services.flows),
        Middleware(Idempotency, service=services.idempotency, routes=ROUTES),
    ]


def end_waits(app: FastAPI) -> None:
    """Let requests that wait fail with ApiStopping.

    They wait for a deployment, or until all workers have read a version of a set.
    """
    app.state.watcher.stop()
    app.state.applied_watcher.stop()


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    keys, live_tails = app.state.services.keys, app.state.services.tails
    async with anyio.create_task_group() as background:
        background.start_soon(_write_last_use, keys, app.state.key_use_health)
        background.start_soon(app.state.watcher.run)
        background.start_soon(_check_tails, live_tails, app.state.tails_health)
        background.start_soon(app.state.applied_watcher.run)
        yield
        background.cancel_scope.cancel()
    await to_thread.run_sync(_write_last_use_once, keys)
    live_tails.end_all()
    await to_thread.run_sync(live_tails.disconnect)
    app.state.services.deployment_metrics.close()
    app.state.services.overview.close()
    app.state.services.prices_workers.close()
    app.state.probes.close()


async def _write_last_use(keys: Keys, health: LoopHealth) -> None:
    delay_s = WRITE_LAST_USE_EVERY_S
    while True:
        await anyio.sleep(delay_s)
        try:
            await to_thread.run_sync(_write_last_use_once, keys)
            health.on_success()
            delay_s = WRITE_LAST_USE_EVERY_S
        except Exception as error:  # noqa: BLE001  # an unexpected error must not end this loop
            delay_s = health.on_error(error)


def _write_last_use_once(keys: Keys) -> None:
    try:
        keys.write_last_use()
    except DatabaseUnavailable as error:
        log.warning("the last use of keys was not written; it is kept for the next attempt", reason=error.detail)


async def _check_tails(live_tails: Tails, health: LoopHealth) -> None:
    delay_s = CHECK_EVERY_S
    while True:
        await anyio.sleep(delay_s)
        try:
            if live_tails.is_used:
                await to_thread.run_sync(live_tails.check)
            health.on_success()
            delay_s = CHECK_EVERY_S
        except Exception as error:  # noqa: BLE001  # an unexpected error must not end this loop
            delay_s = health.on_error(error)
