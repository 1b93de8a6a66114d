"""Liveness, readiness and metrics: without a key, and never behind other requests."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus

import structlog
from fastapi import APIRouter, Request, Response

from headwater.api.metrics import CONTENT_TYPE
from headwater.api.openapi import failure
from headwater.api.problems import RETRY_AFTER_S, Answer, Kind
from headwater.api.schemas import Liveness, Readiness
from headwater.api.services import Probe
from headwater.background import Loop
from headwater.errors import HeadwaterError

PROBE_TIMEOUT_S = 2.0
NOT_READY = Kind(HTTPStatus.SERVICE_UNAVAILABLE, "not-ready", "A dependency does not answer")

log = structlog.get_logger(__name__)

router = APIRouter(tags=["Health"])


class Probes:
    """Asks all dependencies at once, each on a thread of its own. A probe that hangs is not started again.

    loops: of this process; one that fails is shown under its name, beside the dependencies.
    """

    def __init__(self, probes: Mapping[str, Probe], loops: Sequence[Loop] = ()) -> None:
        self._probes = probes
        self._loops = loops
        self._threads = ThreadPoolExecutor(max_workers=max(1, len(probes)), thread_name_prefix="probe")
        self._running: dict[str, Future[bool]] = {}
        self._answered: set[str] = set()

    async def states(self) -> dict[str, bool]:
        """True for each dependency that answered within PROBE_TIMEOUT_S."""
        waiting = {name: asyncio.wrap_future(self._ask(name)) for name in self._probes}
        if waiting:
            await asyncio.wait(waiting.values(), timeout=PROBE_TIMEOUT_S)
        answers = {name: future.done() and future.result() for name, future in waiting.items()}
        return answers | {loop.name: False for loop in self._loops if loop.failing}

    def _ask(self, name: str) -> Future[bool]:
        running = self._running.get(name)
        if running is None or running.done():
            running = self._running[name] = self._threads.submit(self._answers, name)
        return running

    def _answers(self, name: str) -> bool:
        try:
            self._probes[name]()
        except HeadwaterError as error:
            if name in self._answered:
                self._answered.discard(name)
                log.warning("a dependency stopped answering", dependency=name, reason=error.detail)
            return False
        except Exception:
            log.exception("a probe failed", dependency=name)
            return False
        self._answered.add(name)
        return True

    def close(self) -> None:
        """Start no more probes."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@router.get("/healthz", operation_id="getLiveness", summary="Does this process answer?")
async def healthz() -> Liveness:
    """Always ok: asks nothing else."""
    return Liveness()


@router.get(
    "/readyz",
    operation_id="getReadiness",
    summary="Can the API do its work?",
    response_model=Readiness,
    responses={503: failure(NOT_READY)},
)
async def readyz(request: Request) -> Readiness | Response:
    """The state of each dependency, also when one of them does not answer."""
    answers = await request.app.state.probes.states()
    states = {name: "ok" if ok else "unavailable" for name, ok in answers.items()}
    if all(answers.values()):
        return Readiness(dependencies=states)
    away = ", ".join(sorted(name for name, ok in answers.items() if not ok))
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    return Answer(NOT_READY, f"Not ready: {away}.", headers, {"dependencies": states}).response(request)


@router.get(
    "/metrics",
    operation_id="getProcessMetrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request) -> Response:
    """Totals of requests, and what the processes use."""
    return Response(request.app.state.metrics.exposition(), media_type=CONTENT_TYPE)
