"""Filter values through a real API: one big PUT, and what other calls notice of uploads. `python -m benches.uploads`

Every answer is checked. References of the same run: the same values into one plain SET by pipelined SADDs, and the same
calls while nothing is uploaded.
"""

import http.client
import json
import math
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

import httpx2
import redis
import typer

from benches._installation import installation
from headwater.model.value_sets import MAX_PAGE, MAX_VALUES_PER_REQUEST
from headwater.stores.embedded_valkey import EmbeddedValkey
from tests.acceptance.stack import Stack, pipeline
from tests.support.processes import suspended

BLOCK = 1 << 18
ROUNDS = 200
UPLOADS = 5
WAITING = 40
PROBE_EVERY_S = 0.01
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}


class Api(NamedTuple):
    """A running API."""

    port: int
    key: str


def write_body(path: Path, count: int) -> None:
    """A body of `count` random addresses."""
    with path.open("wb") as file:
        file.write(b'{"values":[')
        for at in range(0, count, 10_000):
            size = min(10_000, count - at)
            digits = os.urandom(20 * size).hex()
            part = ",".join([f'"0x{digits[i : i + 40]}"' for i in range(0, 40 * size, 40)])
            file.write((("," if at else "") + part).encode())
        file.write(b"]}")


def send(api: Api, method: str, path: str, body: Path) -> tuple[float, dict[str, int]]:
    """Seconds from the first byte to the answer, and the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=600)
    headers = {"X-API-Key": api.key, "Content-Type": "application/json", "Content-Length": str(body.stat().st_size)}
    with body.open("rb") as file:
        began = time.perf_counter()
        connection.request(method, path, iter(lambda: file.read(BLOCK), b""), headers)
        answer = connection.getresponse()
        told = answer.read()
    took = time.perf_counter() - began
    assert answer.status == 200, told
    connection.close()
    return took, json.loads(told)


def upload_until(stop: Event, api: Api, path: str, body: Path) -> None:
    """Uploads one body again and again."""
    while not stop.is_set():
        send(api, "POST", path, body)


@contextmanager
def looping(api: Api, path: str, body: Path) -> Iterator[None]:
    """A client that uploads all the time, in a process of its own."""
    context = get_context("spawn")
    stop = context.Event()
    process = context.Process(target=upload_until, args=(stop, api, path, body))
    process.start()
    yield
    stop.set()
    process.join()


def resident(stack: Stack) -> dict[int, int]:
    """The most bytes that each API process has held since it was started."""
    held = {}
    for pid in stack.below("headwater api"):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                held[pid] = int(line.split()[1]) << 10
    return held


def percentile(took: list[float], share: float) -> float:
    """In ms."""
    return sorted(took)[math.ceil(share * len(took)) - 1] * 1e3


class Probe:
    """Asks one thing after another from a thread, and notes how long each answer takes."""

    def __init__(self, client: httpx2.Client, paths: dict[str, str]) -> None:
        self._client = client
        self._paths = paths
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.took: dict[str, list[float]] = {name: [] for name in paths}

    def _run(self) -> None:
        while not self._stop.wait(PROBE_EVERY_S):
            for name, path in self._paths.items():
                began = time.perf_counter()
                assert self._client.get(path).status_code == 200
                self.took[name].append(time.perf_counter() - began)

    def __enter__(self) -> "Probe":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def tell(self, what: str) -> None:
        """Print what was noted."""
        for name, took in self.took.items():
            typer.echo(
                f"  {what}: {name:8} p50 {percentile(took, 0.5):6.1f} ms  p99 {percentile(took, 0.99):6.1f} ms"
                f"  most {max(took) * 1e3:6.1f} ms  ({len(took)} calls)"
            )


def one_put(stack: Stack, api: Api, store: redis.Redis, path: str, body: Path, count: int) -> None:
    """The big PUT, then the same one again over it."""
    for name in ("PUT of", "the same over it:"):
        held, used = resident(stack), store.info("memory")["used_memory"]
        took, answer = send(api, "PUT", path, body)
        assert answer["count"] == count
        grew = max(after - held[pid] for pid, after in resident(stack).items())
        per_value = (store.info("memory")["used_memory"] - used) / count
        typer.echo(
            f"{name} {count:,} values: {took:.1f} s, {count / took:,.0f} values/s; API +{grew / 1e6:.0f} MB;"
            f" {per_value:+.1f} bytes per value"
        )


def reference(body: Path, count: int) -> None:
    """The same values into one plain SET of another server."""
    with tempfile.TemporaryDirectory() as folder:
        embedded = EmbeddedValkey(Path(folder))
        child = embedded.start()
        embedded.wait_ready(child, 30.0)
        values = json.loads(body.read_bytes())["values"]
        with redis.Redis.from_url(embedded.url) as client:
            before = client.info("memory")["used_memory"]
            began = time.perf_counter()
            for at in range(0, count, 10_000):
                client.sadd("plain", *values[at : at + 10_000])
            took = time.perf_counter() - began
            per_value = (client.info("memory")["used_memory"] - before) / count
        child.stop(10)
    typer.echo(
        f"  reference, one plain SET: {took:.1f} s, {count / took:,.0f} values/s; {per_value:.1f} bytes per value"
    )


def calls(api: Api, path: str) -> None:
    """Single calls, one after the other on one connection of the standard library: what a client adds is least so."""
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=60)
    paths = {
        "healthz (reference)": "/healthz",
        "check": f"{path}/check?value=0x{1:040x}",
        "page of 100": f"{path}?count=100",
        f"page of {MAX_PAGE:,}": f"{path}?count={MAX_PAGE}",
    }
    for name, url in paths.items():
        took = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            connection.request("GET", url, headers={"X-API-Key": api.key})
            answer = connection.getresponse()
            answer.read()
            took.append(time.perf_counter() - began)
            assert answer.status == 200
        typer.echo(f"{name:24} p50 {statistics.median(took) * 1e3:6.2f} ms  p99 {percentile(took, 0.99):6.2f} ms")


def parallel(stack: Stack, api: Api, client: httpx2.Client, path: str, folder: Path) -> None:
    """UPLOADS at once, then beside a client that uploads all the time and deploys that wait; other calls meanwhile."""
    bodies = [folder / f"part-{number}.json" for number in range(3 * UPLOADS + 1)]
    for body in bodies:
        write_body(body, MAX_VALUES_PER_REQUEST)
    probed = {"healthz": "/healthz", "check": f"{path}/check?value=x", "page": path, "list": "/api/v1/flow"}
    with Probe(client, probed) as quiet:
        time.sleep(2)
    quiet.tell("nothing else")
    with Probe(client, probed) as probe:
        at_once(api, path, bodies[:UPLOADS])
    probe.tell(f"{UPLOADS} uploads")
    with looping(api, path, bodies[-1]), Probe(client, probed) as probe:
        at_once(api, path, bodies[UPLOADS : 2 * UPLOADS])
    probe.tell(f"{UPLOADS} + looping")
    with waiting_deploys(stack), looping(api, path, bodies[-1]), Probe(client, probed) as probe:
        at_once(api, path, bodies[2 * UPLOADS : 3 * UPLOADS])
    probe.tell(f"{UPLOADS} + looping + {WAITING} deploys")


@contextmanager
def waiting_deploys(stack: Stack) -> Iterator[None]:
    """Deploy calls that wait, since the controller is stopped; they go on at the end of the block.

    One that is told that it took too long asks again, as a user would.
    """
    (controller,) = stack.below("headwater controller")
    over = threading.Event()

    def deploy(flow_id: str) -> int:
        with stack.client() as waiting:
            while True:
                status = waiting.post(f"/api/v1/flow/{flow_id}/deploy").status_code
                if status != 503 or over.is_set():
                    return status

    with stack.client() as client, ThreadPoolExecutor(WAITING) as pool:
        ids = [client.post("/api/v1/flow", json=pipeline()).json()["id"] for _ in range(WAITING)]
        with suspended([controller]):
            answers = [pool.submit(deploy, flow_id) for flow_id in ids]
            yield
            assert not any(answer.done() for answer in answers)
            over.set()
        assert {answer.result() for answer in answers} <= {200, 503}
        assert {client.delete(f"/api/v1/flow/{flow_id}").status_code for flow_id in ids} == {200}


def at_once(api: Api, path: str, bodies: list[Path]) -> None:
    """POST all bodies at once."""
    began = time.perf_counter()
    with get_context("spawn").Pool(len(bodies)) as pool:
        ready = time.perf_counter()
        answers = pool.starmap(send, [(api, "POST", path, body) for body in bodies], chunksize=1)
        took = time.perf_counter() - ready
    assert ready > began
    assert all(answer["added"] == MAX_VALUES_PER_REQUEST for _, answer in answers)
    values = MAX_VALUES_PER_REQUEST * len(bodies)
    typer.echo(
        f"{len(bodies)} POSTs of {MAX_VALUES_PER_REQUEST:,} at once: {took:.1f} s, {values / took:,.0f} values/s"
    )


def main(values: int = 10_000_000, flags: str = "") -> None:
    """Run all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        body = folder / "body.json"
        write_body(body, values)
        with installation(flags.split()) as stack:
            api = Api(stack.port, stack.key)
            with stack.client() as client, redis.Redis.from_url(EmbeddedValkey(stack.data_dir).url) as store:
                flow = client.post("/api/v1/flow", json=pipeline(transforms=[FILTER])).json()
                uid = flow["pipeline_config"]["transforms"][0]["uid"]
                path = f"/api/v1/flow/{flow['id']}/transforms/{uid}/filter-values"
                one_put(stack, api, store, path, body, values)
                reference(body, values)
                calls(api, path)
                parallel(stack, api, client, path, folder)


if __name__ == "__main__":
    typer.run(main)
