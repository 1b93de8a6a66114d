"""One process that stands for the HTTP interface of all workers, for `many_deployments`.

`python -m benches._pretended_workers` runs it. It listens on port 8090 of all addresses. A worker is known by the
address that a request was sent to, and by its token. It answers like app/worker_server.py: a worker is prepared when it
is first asked, ready after `POST /join`, and ended after `POST /stop`.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field
from itertools import count
from urllib.parse import parse_qs, urlsplit

from headwater.app.worker_server import REPORT_TIMEOUT_S
from headwater.model.worker_protocol import Heartbeat, TransformCounters
from headwater.model.worker_report import WorkerReport

PORT = 8090
BINS = range(-20, 20)
_versions = count(1)


@dataclass(slots=True)
class Worker:
    """The state of a worker.

    Attributes:
        is_joined: Whether it was asked to join its consumer group.
        has_ended: Whether it was asked to stop.
        version: The version of its report.
        changed: Is replaced and set at each change.
    """

    is_joined: bool = False
    has_ended: bool = False
    version: int = field(default_factory=lambda: next(_versions))
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def change(self, *, is_joined: bool = False, has_ended: bool = False) -> None:
        """Change the state."""
        self.is_joined |= is_joined
        self.has_ended |= has_ended
        self.version = next(_versions)
        self.changed.set()
        self.changed = asyncio.Event()

    async def report(self, seen_version: int) -> bytes:
        """Return the report, as soon as its version is another one or the time is over."""
        if self.version == seen_version:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), REPORT_TIMEOUT_S)
        report = WorkerReport(
            version=self.version,
            heartbeat=_heartbeat("ready" if self.is_joined else "prepared"),
            quiet_s=0.1,
            may_join=self.is_joined,
            has_ended=self.has_ended,
            lines=[],
            next_line=0,
        )
        return report.model_dump_json().encode()


def _heartbeat(state: str) -> Heartbeat:
    """Return a heartbeat of the size that a worker sends after it has processed records."""
    bins = {number: 1_000_000 + number for number in BINS}
    return Heartbeat(
        state=state,
        spec_hash="0123456789abcdef",
        progress=1_000_000,
        committed_batches=10_000,
        counters={"messages_received": 1_000_000, "messages_sent": 1_000_000, "processor_error": 0, "output_error": 0},
        times={"total_latency": bins, "processing_latency": bins, "data_age": bins, "lookup_latency": bins},
        transforms={"01jz0000000000000000000000": TransformCounters(received=1_000_000, sent=1_000_000)},
        set_versions={},
        uptime_s=100_000.5,
        cpu_s=1_000.5,
        scripts_cpu_s=1_000.5,
    )


class Server:
    """Serves all workers."""

    def __init__(self) -> None:
        self._workers: dict[tuple[str, str], Worker] = {}

    async def serve(self) -> None:
        """Serve until the task is cancelled."""
        server = await asyncio.start_server(self._answer, "0.0.0.0", PORT, backlog=1024)
        await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            target = head[0].split(" ")[1]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            await reader.readexactly(int(headers.get("content-length", "0")))
            host = writer.get_extra_info("sockname")[0]
            worker = self._workers.setdefault((host, headers.get("authorization", "")), Worker())
            body = await _result(worker, target)
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            await writer.drain()
        writer.close()


async def _result(worker: Worker, target: str) -> bytes:
    url = urlsplit(target)
    if url.path == "/status":
        return await worker.report(int(parse_qs(url.query)["seen"][0]))
    worker.change(is_joined=url.path == "/join", has_ended=url.path == "/stop")
    return b""


if __name__ == "__main__":
    asyncio.run(Server().serve())
