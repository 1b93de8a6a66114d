"""Middleware that applies the rate limits of API keys."""

import math
from functools import partial

import anyio
import structlog
from anyio import to_thread
from starlette.types import ASGIApp, Scope

from headwater.api.guard import Guard
from headwater.api.guarded_routes import RouteRule
from headwater.api.prometheus import PrometheusMetrics
from headwater.errors import RateLimited, RedisUnavailable
from headwater.services.rate_limits import RateDecision, RateLimits

MAX_CONCURRENT_RATE_CHECKS = 8
EXTRA_HEADERS = "headwater.extra_headers"
"""Key of the ASGI scope under which a middleware puts headers that RequestMiddleware adds to the response."""

log = structlog.get_logger(__name__)


class RateLimitMiddleware(Guard):
    """Counts each request against the rate limit of its API key, and sends 429 above it.

    A request to a route that needs no key is not counted.

    While Valkey or Redis is unavailable, requests are executed without being counted, except for requests that may
    change a deployment, which get 503.

    Valkey or Redis is queried on a separate pool of threads, so that a check never waits behind other requests.
    """

    def __init__(self, app: ASGIApp, limits: RateLimits, metrics: PrometheusMetrics) -> None:
        super().__init__(app)
        self._limits = limits
        self._metrics = metrics
        self._threads = anyio.CapacityLimiter(MAX_CONCURRENT_RATE_CHECKS)

    async def check(self, rule: RouteRule, asgi_scope: Scope) -> None:
        if not rule.needs_key:
            return
        take = partial(self._limits.take, asgi_scope["api_key"].id, upload=rule.is_streamed)
        try:
            decision = await to_thread.run_sync(take, limiter=self._threads)
        except RedisUnavailable as error:
            self._metrics.record_uncounted(passed=not rule.may_change_deployment)
            if rule.may_change_deployment:
                raise
            log.warning("a request is executed without being counted", reason=error.detail)
            return
        asgi_scope[EXTRA_HEADERS] = rate_headers(decision)
        if not decision.allowed:
            text = f"This key has sent too many requests. Send this one again after {decision.retry_after_s} s."
            raise RateLimited(text, decision.retry_after_s)


def rate_headers(decision: RateDecision) -> dict[str, str]:
    """Return the header fields of draft-ietf-httpapi-ratelimit-headers-10.

    They say: the quota is q requests per w seconds, of which r remain; after t seconds the whole quota is available
    again.
    """
    full_after_s = math.ceil((decision.limit - decision.remaining) * decision.window_s / decision.limit)
    return {
        "RateLimit-Policy": f'"key";q={decision.limit};w={decision.window_s}',
        "RateLimit": f'"key";r={decision.remaining};t={full_after_s}',
    }
