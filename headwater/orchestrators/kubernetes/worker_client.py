"""Talks to the HTTP interface of workers in Pods."""

import httpx2
from pydantic import TypeAdapter

from headwater.model.reading_plan import ReadingPlan
from headwater.model.worker_report import WorkerReport

CONNECT_TIMEOUT_S = 3.0
REPORT_TIMEOUT_S = 25.0
"""Longer than a worker waits for a change of its state before it answers."""
STOP_TIMEOUT_S = 20.0
_PLAN = TypeAdapter(ReadingPlan)


class WorkerClient:
    """A client for all workers of an installation.

    Its methods raise httpx2.HTTPError and ValueError.
    """

    def __init__(self) -> None:
        timeout = httpx2.Timeout(REPORT_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx2.AsyncClient(timeout=timeout, limits=limits, trust_env=False)

    async def report(self, address: str, token: str, seen_version: int, next_line: int) -> WorkerReport:
        """Return the report of a worker.

        The worker answers as soon as the report differs from the last one, or after some seconds.

        Args:
            address: `host:port` of the worker.
            token: The token of its Secret.
            seen_version: The version of the last report; 0 before the first one.
            next_line: The number of the next log line.
        """
        response = await self._client.get(
            f"http://{address}/status", params={"seen": seen_version, "line": next_line}, headers=_bearer(token)
        )
        response.raise_for_status()
        return WorkerReport.model_validate_json(response.content)

    async def join(self, address: str, token: str, plan: ReadingPlan) -> None:
        """Let a worker join its consumer group."""
        body = _PLAN.dump_json(plan)
        (await self._client.post(f"http://{address}/join", content=body, headers=_bearer(token))).raise_for_status()

    async def stop(self, address: str, token: str, *, leave: bool) -> None:
        """Ask a worker to finish and to leave Kafka, and wait for that for some seconds."""
        response = await self._client.post(
            f"http://{address}/stop", params={"leave": int(leave)}, headers=_bearer(token), timeout=STOP_TIMEOUT_S
        )
        response.raise_for_status()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
