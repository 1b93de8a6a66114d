"""Routes of liveness, readiness and metrics.

These routes need no key and never wait for other requests.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus

import structlog
from fastapi import APIRouter, Request, Response

from headwater.api.dependencies import ReadinessProbe
from headwater.api.openapi import problem_response
from headwater.api.problems import RETRY_AFTER_S, ProblemResponse, ProblemType
from headwater.api.prometheus import OPENMETRICS
from headwater.api.schemas import Liveness, Readiness
from headwater.errors import HeadwaterError
from headwater.loop_health import LoopHealth

PROBE_TIMEOUT_S = 2.0
NOT_READY = ProblemType(HTTPStatus.SERVICE_UNAVAILABLE, "not-ready", "A dependency is unavailable")

log = structlog.get_logger(__name__)

router = APIRouter(tags=["Health"])


class ReadinessProbes:
    """Probes all dependencies at the same time, each on a thread of its own.

    While a probe hangs, it is not started again.

    Args:
        probes: The probe of each dependency, by the name of the dependency.
        loops: The background loops of this process. A failing loop is listed among the dependencies.
    """

    def __init__(self, probes: Mapping[str, ReadinessProbe], loops: Sequence[LoopHealth] = ()) -> None:
        self._probes = probes
        self._loops = loops
        self._threads = ThreadPoolExecutor(max_workers=max(1, len(probes)), thread_name_prefix="probe")
        self._running: dict[str, Future[bool]] = {}
        self._unavailable: set[str] = set()

    async def check(self) -> dict[str, bool]:
        """Return for each dependency and each failing loop whether it is available.

        A dependency is available when it answers within PROBE_TIMEOUT_S. A failing loop is not available.
        """
        results = {name: asyncio.wrap_future(self._start(name)) for name in self._probes}
        if results:
            await asyncio.wait(results.values(), timeout=PROBE_TIMEOUT_S)
        availability = {name: result.done() and result.result() for name, result in results.items()}
        for name in (name for name, result in results.items() if not result.done()):
            self._log_once(name, f"The probe has not ended within {PROBE_TIMEOUT_S:g} s.")
        return availability | {loop.name: False for loop in self._loops if loop.error}

    def _start(self, name: str) -> Future[bool]:
        running = self._running.get(name)
        if running is None or running.done():
            running = self._running[name] = self._threads.submit(self._probe, name)
        return running

    def _probe(self, name: str) -> bool:
        try:
            self._probes[name]()
        except HeadwaterError as error:
            self._log_once(name, error.detail)
            return False
        except Exception:
            log.exception("a probe failed", dependency=name)
            return False
        self._unavailable.discard(name)
        return True

    def _log_once(self, name: str, reason: str) -> None:
        """Log why a dependency is unavailable, once until it is available again."""
        if name not in self._unavailable:
            self._unavailable.add(name)
            log.warning("a dependency is unavailable", dependency=name, reason=reason)

    def close(self) -> None:
        """Start no more probes."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@router.get("/healthz", operation_id="getLiveness", summary="Does this process answer?")
async def healthz() -> Liveness:
    """Returns `ok` without a probe of any dependency."""
    return Liveness()


@router.get(
    "/readyz",
    operation_id="getReadiness",
    summary="Can the API do its work?",
    response_model=Readiness,
    responses={503: problem_response(NOT_READY)},
)
async def readyz(request: Request) -> Readiness | Response:
    """Returns the state of each dependency, also when one of them does not answer."""
    availability = await request.app.state.probes.check()
    states = {name: "ok" if is_available else "unavailable" for name, is_available in availability.items()}
    if all(availability.values()):
        return Readiness(dependencies=states)
    unavailable = ", ".join(sorted(name for name, is_available in availability.items() if not is_available))
    detail = f"Not ready: {unavailable}. The log of the API has the reasons. Send the same request again."
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    return ProblemResponse(NOT_READY, detail, headers, {"dependencies": states}).response(request)


@router.get(
    "/metrics",
    operation_id="getProcessMetrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {kind: {"schema": {"type": "string"}} for kind in ("text/plain", OPENMETRICS)}}},
)
async def metrics(request: Request) -> Response:
    """Returns metrics of requests, of the API's CPU time and memory, and of dependencies."""
    if request.app.state.metrics.is_stale:
        request.app.state.metrics.record_availability(await request.app.state.probes.check())
    content, content_type = request.app.state.metrics.exposition(request.headers.get("accept", ""))
    return Response(content, media_type=content_type)
