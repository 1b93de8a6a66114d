"""Applies the rate limits of API keys to requests."""

import math

import anyio
import structlog
from anyio import to_thread
from starlette.types import Scope

from headwater.api.metrics import PrometheusMetrics
from headwater.errors import RateLimited, SetStoreUnavailable
from headwater.model.key import ApiKey
from headwater.services.rate_limits import RateDecision, RateLimits

MAX_CONCURRENT_RATE_CHECKS = 8
EXTRA_HEADERS = "headwater.extra_headers"
"""Key of the ASGI scope under which a handler puts headers that RequestMiddleware adds to the response."""

log = structlog.get_logger(__name__)


class RateLimiter:
    """Applies the rate limit of API keys.

    It queries the set store on a separate pool of threads, so that a check never waits behind other requests.
    """

    def __init__(self, limits: RateLimits, metrics: PrometheusMetrics) -> None:
        self._limits = limits
        self._metrics = metrics
        self._threads = anyio.CapacityLimiter(MAX_CONCURRENT_RATE_CHECKS)

    async def __call__(self, key: ApiKey, scope: Scope, *, upload: bool, must_count: bool) -> None:
        """Count a request. Raises RateLimited when the key has sent too many.

        While the set store is unavailable, a request passes uncounted; with `must_count` it raises SetStoreUnavailable.
        """
        try:
            rate = await to_thread.run_sync(lambda: self._limits.take(key.id, upload=upload), limiter=self._threads)
        except SetStoreUnavailable as error:
            self._metrics.uncounted(passed=not must_count)
            if must_count:
                raise
            log.warning("a request passes uncounted", reason=error.detail)
            return
        scope[EXTRA_HEADERS] = rate_headers(rate)
        if not rate.allowed:
            text = f"This key has sent too many requests. Send this one again after {rate.retry_after_s} s."
            raise RateLimited(text, rate.retry_after_s)


def rate_headers(rate: RateDecision) -> dict[str, str]:
    """Return the headers of draft-ietf-httpapi-ratelimit-headers-10.

    They say: the quota is q requests per w seconds, of which r remain; after t seconds the whole quota is available
    again.
    """
    full_in_s = math.ceil((rate.size - rate.remaining) * rate.window_s / rate.size)
    return {
        "RateLimit-Policy": f'"key";q={rate.size};w={rate.window_s}',
        "RateLimit": f'"key";r={rate.remaining};t={full_in_s}',
    }
