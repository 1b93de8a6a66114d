"""What the API is given, and how a route gets at it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, cast

from fastapi import Depends, Request

from headwater.api.waiting import Watcher
from headwater.model.binding import Bindings
from headwater.model.key import ApiKey
from headwater.services.datasets import Datasets
from headwater.services.deployments import Deployments, KafkaEndpoint
from headwater.services.filters import Filters
from headwater.services.flows import Flows
from headwater.services.idempotency import Calls
from headwater.services.keys import Keys
from headwater.services.limits import RateLimits
from headwater.services.metrics import Metrics
from headwater.services.prices import Prices
from headwater.services.quotas import QuotaStores
from headwater.services.trials import Trials

Probe = Callable[[], object]
"""Returns when a dependency answers, raises a HeadwaterError when it does not. May block for some seconds."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that the routes call.

    limits: None for no rate limits. probes: readiness by name of the dependency, as GET /readyz shows it.
    is_led: whether a controller looks after deployments. deploy_timeout_s: how long deploy, teardown and delete wait.
    failed_keys_per_minute: how many keys that are not valid one address may send; 0 means no limit.
    cors_origins: origins whose web pages may call the API; `*` means all.
    metrics_dir: where the API processes of one port share their metrics; None for a single process.
    """

    keys: Keys
    calls: Calls
    flows: Flows
    trials: Trials
    deployments: Deployments
    metrics: Metrics
    filters: Filters
    datasets: Datasets
    prices: Prices
    quotas: QuotaStores
    bindings: Bindings
    kafka: KafkaEndpoint
    is_led: Callable[[], bool]
    limits: RateLimits | None = None
    probes: Mapping[str, Probe] = field(default_factory=dict)
    deploy_timeout_s: float = 55.0
    failed_keys_per_minute: int = 0
    cors_origins: Sequence[str] = ()
    metrics_dir: Path | None = None


# Dependencies are `async def`: FastAPI runs a plain function as a job of the thread pool, where it may have to wait.


async def _services(request: Request) -> Services:
    return cast("Services", request.app.state.services)


async def _caller(request: Request) -> ApiKey:
    return cast("ApiKey", request.scope["api_key"])


async def _watcher(request: Request) -> Watcher:
    return cast("Watcher", request.app.state.watcher)


Given = Annotated[Services, Depends(_services)]
"""The services, as a parameter of a route."""

Caller = Annotated[ApiKey, Depends(_caller)]
"""The key that GuardedRoute found good, as a parameter of a route."""

Waits = Annotated[Watcher, Depends(_watcher)]
"""Waits for the controller, as a parameter of a route."""
