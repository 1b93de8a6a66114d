"""Rate limits of keys, in front of the routes."""

import math

import anyio
import structlog
from anyio import to_thread
from starlette.types import Scope

from headwater.api.metrics import Metrics
from headwater.errors import RateLimited, SetStoreUnavailable
from headwater.model.key import ApiKey
from headwater.services.limits import Rate, RateLimits

MAX_CHECKS_AT_ONCE = 8
EXTRA_HEADERS = "headwater.extra_headers"
"""Member of a scope: headers that its response gets, whoever makes it."""

log = structlog.get_logger(__name__)


class Limiter:
    """Asks on threads of its own, so that a check never waits behind the work of other requests."""

    def __init__(self, limits: RateLimits, metrics: Metrics) -> None:
        self._limits = limits
        self._metrics = metrics
        self._threads = anyio.CapacityLimiter(MAX_CHECKS_AT_ONCE)

    async def __call__(self, key: ApiKey, scope: Scope, *, upload: bool, must_count: bool) -> None:
        """Count a request. Raises RateLimited.

        With the store away the request passes uncounted; one that must be counted raises SetStoreUnavailable.
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


def rate_headers(rate: Rate) -> dict[str, str]:
    """draft-ietf-httpapi-ratelimit-headers-10: q requests in w seconds; r are left, and all are in t seconds."""
    full_in_s = math.ceil((rate.size - rate.remaining) * rate.window_s / rate.size)
    return {
        "RateLimit-Policy": f'"key";q={rate.size};w={rate.window_s}',
        "RateLimit": f'"key";r={rate.remaining};t={full_in_s}',
    }
