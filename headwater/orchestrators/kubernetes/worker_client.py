"""Talks to the HTTP interface of workers in Pods."""

import asyncio

from pydantic import TypeAdapter, ValidationError

from headwater.model.reading_plan import ReadingPlan
from headwater.model.worker_report import WorkerReport

CONNECT_TIMEOUT_S = 3.0
REPORT_TIMEOUT_S = 25.0
"""Longer than a worker waits for a change of its state before it answers."""
STOP_TIMEOUT_S = 20.0
MAX_RESPONSE_BYTES = 16 << 20
_READING_PLAN = TypeAdapter(ReadingPlan)


class WorkerRequestError(Exception):
    """A request to a worker has failed. The text says why."""


class WorkerClient:
    """A client for all workers of an installation. Its methods raise WorkerRequestError.

    Each request has a connection of its own, which the worker closes. A general HTTP client would take most of the
    controller's CPU time when there are a thousand workers.
    """

    async def report(self, address: str, token: str, seen_version: int, next_line: int) -> WorkerReport:
        """Return the report of a worker.

        The worker answers as soon as the report differs from the last one, or after some seconds.

        Args:
            address: `host:port` of the worker.
            token: The token of its Secret.
            seen_version: The version of the last report; 0 before the first one.
            next_line: The number of the next log line.
        """
        target = f"/status?seen={seen_version}&line={next_line}"
        body = await _request("GET", address, target, token, timeout_s=REPORT_TIMEOUT_S)
        try:
            return WorkerReport.model_validate_json(body)
        except ValidationError as error:
            raise WorkerRequestError(f"the report of the worker at {address} is not valid") from error

    async def join(self, address: str, token: str, reading_plan: ReadingPlan) -> None:
        """Let a worker join its consumer group."""
        await _request(
            "POST", address, "/join", token, _READING_PLAN.dump_json(reading_plan), timeout_s=REPORT_TIMEOUT_S
        )

    async def stop(self, address: str, token: str, *, leave_group: bool) -> None:
        """Ask a worker to finish its batches and to close its Kafka clients.

        Waits some seconds for the end. With `leave_group`, the worker also leaves its consumer group.
        """
        await _request("POST", address, f"/stop?leave={leave_group:d}", token, timeout_s=STOP_TIMEOUT_S)


async def _request(method: str, address: str, target: str, token: str, body: bytes = b"", *, timeout_s: float) -> bytes:
    """Send a request, and return the body of the response. Raises WorkerRequestError.

    The timeout begins when the connection is open.
    """
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    try:
        response = await _exchange(address, head.encode() + body, timeout_s)
    except OSError as error:
        reason = str(error) or type(error).__name__
        raise WorkerRequestError(f"the worker at {address} does not answer ({reason})") from error
    return _body(address, response)


async def _exchange(address: str, request: bytes, timeout_s: float) -> bytes:
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request)
        async with asyncio.timeout(timeout_s):
            return await _read_to_end(reader)
    finally:
        writer.close()


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    """Return all bytes, at most MAX_RESPONSE_BYTES of them."""
    parts: list[bytes] = []
    size = 0
    while size < MAX_RESPONSE_BYTES and (part := await reader.read(1 << 16)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _body(address: str, response: bytes) -> bytes:
    """Return the body of a successful response. Raises WorkerRequestError."""
    head, _, body = response.partition(b"\r\n\r\n")
    status, *fields = head.decode("latin-1").split("\r\n")
    code = status.split(" ")[1:2]
    if not code or not code[0].startswith("2"):
        raise WorkerRequestError(f"the worker at {address} answers: {status or 'nothing'}")
    length = next((field.partition(":")[2] for field in fields if field.lower().startswith("content-length:")), "")
    if length.strip() != str(len(body)):
        raise WorkerRequestError(f"the response of the worker at {address} is not complete")
    return body
