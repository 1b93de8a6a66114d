"""The services that routes call, and the FastAPI dependencies that provide them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, cast

import anyio
from fastapi import Depends, Header, Request

from headwater.api import deploy_spans
from headwater.api.applied_watcher import AppliedWatcher
from headwater.api.deployment_watcher import DeploymentWatcher
from headwater.api.if_match import parse_if_match
from headwater.api.owner_limiter import OwnerLimiter
from headwater.model.binding import Bindings
from headwater.model.key import ApiKey
from headwater.services.applied_versions import AppliedVersions
from headwater.services.datasets import Datasets
from headwater.services.dead_letters import DeadLetters
from headwater.services.deployment_metrics import DeploymentMetrics
from headwater.services.deployments import Deployments, KafkaEndpoint
from headwater.services.filters import Filters
from headwater.services.flows import Flows, IfMatch
from headwater.services.idempotency import IdempotencyService
from headwater.services.keys import Keys
from headwater.services.overview import Overview
from headwater.services.price_details import PriceDetails
from headwater.services.prices import Prices
from headwater.services.prices_workers import PricesWorkers
from headwater.services.quotas import QuotaStores
from headwater.services.rate_limits import RateLimits
from headwater.services.records import Records
from headwater.services.redrives import Redrives
from headwater.services.revisions import Revisions
from headwater.services.sign_in import SignIns
from headwater.services.tail_connections import Tails
from headwater.services.trials import Trials
from headwater.services.viewable_topics import ViewableTopics
from headwater.tracing.spans import NoSpanExporter, SpanExporter

ReadinessProbe = Callable[[], object]
"""Checks one dependency: returns when the dependency answers, and raises a HeadwaterError when it does not.

A call may block for some seconds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services that the routes call, and the settings of the API.

    Attributes:
        bindings: Where this installation reads each stream: a Kafka topic, or Google Pub/Sub.
        has_leader: Whether a controller holds the lease, and so acts on deployments.
        rate_limits: None means that the rate of requests is not limited.
        probes: The readiness probe of each dependency, by the name that GET /readyz shows.
        deploy_timeout_s: How long a deploy, teardown or delete request waits for the controller.
        invalid_keys_per_minute: How many invalid keys one client address may send; 0 means no limit.
        cors_origins: Origins whose web pages may call the API; `*` means all.
        metrics_dir: The directory in which the API processes of one port share their metrics; None for one process.
        span_exporter: Exports the spans of requests that deploy.
    """

    keys: Keys
    sign_ins: SignIns
    idempotency: IdempotencyService
    flows: Flows
    revisions: Revisions
    trials: Trials
    deployments: Deployments
    overview: Overview
    deployment_metrics: DeploymentMetrics
    dead_letters: DeadLetters
    redrives: Redrives
    filters: Filters
    datasets: Datasets
    applied: AppliedVersions
    prices: Prices
    price_details: PriceDetails
    prices_workers: PricesWorkers
    quota_stores: QuotaStores
    viewable_topics: ViewableTopics
    records: Records
    tails: Tails
    bindings: Bindings
    kafka: KafkaEndpoint
    has_leader: Callable[[], bool]
    rate_limits: RateLimits | None = None
    probes: Mapping[str, ReadinessProbe] = field(default_factory=dict)
    deploy_timeout_s: float = 55.0
    invalid_keys_per_minute: int = 0
    cors_origins: Sequence[str] = ()
    metrics_dir: Path | None = None
    span_exporter: SpanExporter = field(default_factory=NoSpanExporter)


# The functions are `async def`: FastAPI runs a plain function as a job of the thread pool, where it may have to wait.


async def _services(request: Request) -> Services:
    return cast("Services", request.app.state.services)


async def _api_key(request: Request) -> ApiKey:
    return cast("ApiKey", request.scope["api_key"])


async def _watcher(request: Request) -> DeploymentWatcher:
    # Only routes that wait for a rollout record spans. For other routes, this call has no effect.
    deploy_spans.begin(request, request.app.state.services.span_exporter)
    return cast("DeploymentWatcher", request.app.state.watcher)


async def _applied_watcher(request: Request) -> AppliedWatcher:
    return cast("AppliedWatcher", request.app.state.applied_watcher)


async def _compile_limiter(request: Request) -> OwnerLimiter:
    return cast("OwnerLimiter", request.app.state.compile_limiter)


async def _trial_limiter(request: Request) -> OwnerLimiter:
    return cast("OwnerLimiter", request.app.state.trial_limiter)


async def _record_read_limiter(request: Request) -> OwnerLimiter:
    return cast("OwnerLimiter", request.app.state.record_read_limiter)


async def _tail_limiter(request: Request) -> anyio.CapacityLimiter:
    return cast("anyio.CapacityLimiter", request.app.state.tail_limiter)


async def _count_limiter(request: Request) -> OwnerLimiter:
    return cast("OwnerLimiter", request.app.state.count_limiter)


async def _diff_limiter(request: Request) -> OwnerLimiter:
    return cast("OwnerLimiter", request.app.state.diff_limiter)


async def _if_match(
    lines: Annotated[
        list[str],
        Header(
            alias="If-Match",
            description="The ETag of the revision that you have read. The response is 412 when the configuration has "
            "changed since.",
            examples=['"3"'],
        ),
    ] = [],  # noqa: B006  # FastAPI copies it
) -> IfMatch:
    return parse_if_match(lines)


ServicesDep = Annotated[Services, Depends(_services)]

ApiKeyDep = Annotated[ApiKey, Depends(_api_key)]
"""The API key of the request, which the middleware Authentication has checked."""

WatcherDep = Annotated[DeploymentWatcher, Depends(_watcher)]
"""The watcher that waits until the controller has acted on a deployment."""

AppliedWatcherDep = Annotated[AppliedWatcher, Depends(_applied_watcher)]
"""The watcher that waits until workers have read a version of a set."""

CompileLimiterDep = Annotated[OwnerLimiter, Depends(_compile_limiter)]
"""The limiter of requests that compile scripts in the sandbox."""

TrialLimiterDep = Annotated[OwnerLimiter, Depends(_trial_limiter)]
"""The limiter of trials, which may take most of a minute. So they have a limiter of their own."""

RecordReadLimiterDep = Annotated[OwnerLimiter, Depends(_record_read_limiter)]
"""The limiter of requests that read records from Kafka."""

TailLimiterDep = Annotated[anyio.CapacityLimiter, Depends(_tail_limiter)]
"""The limiter of live tails that are being opened or closed."""

CountLimiterDep = Annotated[OwnerLimiter, Depends(_count_limiter)]
"""The limiter of requests that count dead letters."""

DiffLimiterDep = Annotated[OwnerLimiter, Depends(_diff_limiter)]
"""The limiter of requests that compare revisions."""

IfMatchDep = Annotated[IfMatch, Depends(_if_match)]
"""The revisions in the If-Match header, one of which must be the newest. None is no condition."""
