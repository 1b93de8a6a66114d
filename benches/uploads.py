"""Measures uploads of filter values over HTTP, and other requests during uploads.

`python -m benches.uploads` runs it.

Every response is checked. The references of the same run are adding the same values to a plain Redis set by SADD, and
the same requests while nothing is uploaded.
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

from benches._installation import running_installation
from headwater.model.value_sets import MAX_VALUES_PER_PAGE, MAX_VALUES_PER_REQUEST
from headwater.stores.embedded_valkey import EmbeddedValkey
from tests.acceptance.installation import Installation, pipeline
from tests.support.processes import suspended

BLOCK = 1 << 18
ROUNDS = 200
UPLOADS = 5
WAITING = 40
PROBE_EVERY_S = 0.01
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}


class Api(NamedTuple):
    """The port of a running API and a key for it."""

    port: int
    key: str


def write_body(path: Path, count: int) -> None:
    """Write a request body of `count` random addresses to a file."""
    with path.open("wb") as file:
        file.write(b'{"values":[')
        for at in range(0, count, 10_000):
            size = min(10_000, count - at)
            digits = os.urandom(20 * size).hex()
            part = ",".join([f'"0x{digits[i : i + 40]}"' for i in range(0, 40 * size, 40)])
            file.write((("," if at else "") + part).encode())
        file.write(b"]}")


def send(api: Api, method: str, path: str, body: Path) -> tuple[float, dict[str, int]]:
    """Send a body.

    Return the seconds from its first byte to the end of the response, and the response's JSON.
    """
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=600)
    headers = {"X-API-Key": api.key, "Content-Type": "application/json", "Content-Length": str(body.stat().st_size)}
    with body.open("rb") as file:
        started = time.perf_counter()
        connection.request(method, path, iter(lambda: file.read(BLOCK), b""), headers)
        response = connection.getresponse()
        content = response.read()
    took = time.perf_counter() - started
    assert response.status == 200, content
    connection.close()
    return took, json.loads(content)


def upload_until(stop: Event, api: Api, path: str, body: Path) -> None:
    """Upload one body repeatedly until the event is set."""
    while not stop.is_set():
        send(api, "POST", path, body)


@contextmanager
def continuous_upload(api: Api, path: str, body: Path) -> Iterator[None]:
    """Upload a body repeatedly in another process, for the block."""
    context = get_context("spawn")
    stop = context.Event()
    process = context.Process(target=upload_until, args=(stop, api, path, body))
    process.start()
    yield
    stop.set()
    process.join()


def peak_memory(installation: Installation) -> dict[int, int]:
    """Return the peak resident memory of each API process since its start, in bytes."""
    peaks = {}
    for pid in installation.processes("headwater api"):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                peaks[pid] = int(line.split()[1]) << 10
    return peaks


def percentile(took: list[float], share: float) -> float:
    """Return a percentile of times in seconds, in ms."""
    return sorted(took)[math.ceil(share * len(took)) - 1] * 1e3


class Probe:
    """Requests several paths in turn from a thread, and records how long each request takes."""

    def __init__(self, client: httpx2.Client, paths: dict[str, str]) -> None:
        self._client = client
        self._paths = paths
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.took: dict[str, list[float]] = {name: [] for name in paths}

    def _run(self) -> None:
        while not self._stop.wait(PROBE_EVERY_S):
            for name, path in self._paths.items():
                started = time.perf_counter()
                assert self._client.get(path).status_code == 200
                self.took[name].append(time.perf_counter() - started)

    def __enter__(self) -> "Probe":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def report(self, label: str) -> None:
        """Print percentiles of the recorded times."""
        for name, took in self.took.items():
            typer.echo(
                f"  {label}: {name:8} p50 {percentile(took, 0.5):6.1f} ms  p99 {percentile(took, 0.99):6.1f} ms"
                f"  max {max(took) * 1e3:6.1f} ms  ({len(took)} calls)"
            )


def one_put(installation: Installation, api: Api, store: redis.Redis, path: str, body: Path, count: int) -> None:
    """Measure the big PUT, and then the same PUT again."""
    for name in ("PUT of", "the same PUT again:"):
        peaks, used = peak_memory(installation), store.info("memory")["used_memory"]
        took, response = send(api, "PUT", path, body)
        assert response["count"] == count
        grew = max(after - peaks[pid] for pid, after in peak_memory(installation).items())
        per_value = (store.info("memory")["used_memory"] - used) / count
        typer.echo(
            f"{name} {count:,} values: {took:.1f} s, {count / took:,.0f} values/s; API +{grew / 1e6:.0f} MB;"
            f" {per_value:+.1f} bytes per value"
        )


def reference(body: Path, count: int) -> None:
    """Measure adding the same values to a plain set of another server."""
    with tempfile.TemporaryDirectory() as folder:
        embedded = EmbeddedValkey(Path(folder))
        child = embedded.start()
        embedded.wait_ready(child, 30.0)
        values = json.loads(body.read_bytes())["values"]
        with redis.Redis.from_url(embedded.url) as client:
            before = client.info("memory")["used_memory"]
            started = time.perf_counter()
            for at in range(0, count, 10_000):
                client.sadd("plain", *values[at : at + 10_000])
            took = time.perf_counter() - started
            per_value = (client.info("memory")["used_memory"] - before) / count
        child.stop(10)
    typer.echo(
        f"  reference, one plain SET: {took:.1f} s, {count / took:,.0f} values/s; {per_value:.1f} bytes per value"
    )


def calls(api: Api, path: str) -> None:
    """Measure single requests on one connection of http.client.

    Other HTTP clients add more time.
    """
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=60)
    paths = {
        "healthz (reference)": "/healthz",
        "check": f"{path}/check?value=0x{1:040x}",
        "page of 100": f"{path}?count=100",
        f"page of {MAX_VALUES_PER_PAGE:,}": f"{path}?count={MAX_VALUES_PER_PAGE}",
    }
    for name, url in paths.items():
        took = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            connection.request("GET", url, headers={"X-API-Key": api.key})
            response = connection.getresponse()
            response.read()
            took.append(time.perf_counter() - started)
            assert response.status == 200
        typer.echo(f"{name:24} p50 {statistics.median(took) * 1e3:6.2f} ms  p99 {percentile(took, 0.99):6.2f} ms")


def parallel(installation: Installation, api: Api, client: httpx2.Client, path: str, folder: Path) -> None:
    """Measure other requests during uploads, and while deploys are waiting.

    There are concurrent uploads, and a continuous upload.
    """
    bodies = [folder / f"part-{number}.json" for number in range(3 * UPLOADS + 1)]
    for body in bodies:
        write_body(body, MAX_VALUES_PER_REQUEST)
    probed = {"healthz": "/healthz", "check": f"{path}/check?value=x", "page": path, "list": "/api/v1/flow"}
    with Probe(client, probed) as quiet:
        time.sleep(2)
    quiet.report("nothing else")
    with Probe(client, probed) as probe:
        at_once(api, path, bodies[:UPLOADS])
    probe.report(f"{UPLOADS} uploads")
    with continuous_upload(api, path, bodies[-1]), Probe(client, probed) as probe:
        at_once(api, path, bodies[UPLOADS : 2 * UPLOADS])
    probe.report(f"{UPLOADS} + continuous upload")
    with waiting_deploys(installation), continuous_upload(api, path, bodies[-1]), Probe(client, probed) as probe:
        at_once(api, path, bodies[2 * UPLOADS : 3 * UPLOADS])
    probe.report(f"{UPLOADS} + continuous upload + {WAITING} deploys")


@contextmanager
def waiting_deploys(installation: Installation) -> Iterator[None]:
    """Keep deploy requests waiting for the block: the controller is paused by SIGSTOP.

    A request that times out with 503 is repeated, as a user would repeat it.
    """
    (controller,) = installation.processes("headwater controller")
    block_ended = threading.Event()

    def deploy(config_id: str) -> int:
        with installation.client() as waiting:
            while True:
                status = waiting.post(f"/api/v1/flow/{config_id}/deploy").status_code
                if status != 503 or block_ended.is_set():
                    return status

    with installation.client() as client, ThreadPoolExecutor(WAITING) as pool:
        ids = [client.post("/api/v1/flow", json=pipeline()).json()["id"] for _ in range(WAITING)]
        with suspended([controller]):
            calls = [pool.submit(deploy, config_id) for config_id in ids]
            yield
            assert not any(call.done() for call in calls)
            block_ended.set()
        assert {call.result() for call in calls} <= {200, 503}
        assert {client.delete(f"/api/v1/flow/{config_id}").status_code for config_id in ids} == {200}


def at_once(api: Api, path: str, bodies: list[Path]) -> None:
    """POST all bodies concurrently and print the rate."""
    started = time.perf_counter()
    with get_context("spawn").Pool(len(bodies)) as pool:
        ready = time.perf_counter()
        responses = pool.starmap(send, [(api, "POST", path, body) for body in bodies], chunksize=1)
        took = time.perf_counter() - ready
    assert ready > started
    assert all(response["added"] == MAX_VALUES_PER_REQUEST for _, response in responses)
    values = MAX_VALUES_PER_REQUEST * len(bodies)
    typer.echo(
        f"{len(bodies)} POSTs of {MAX_VALUES_PER_REQUEST:,} at once: {took:.1f} s, {values / took:,.0f} values/s"
    )


def main(values: int = 10_000_000, flags: str = "") -> None:
    """Run the benchmark on a new installation."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        body = folder / "body.json"
        write_body(body, values)
        with running_installation(flags.split()) as installation:
            api = Api(installation.port, installation.key)
            with (
                installation.client() as client,
                redis.Redis.from_url(EmbeddedValkey(installation.data_dir).url) as store,
            ):
                flow = client.post("/api/v1/flow", json=pipeline(transforms=[FILTER])).json()
                uid = flow["pipeline_config"]["transforms"][0]["uid"]
                path = f"/api/v1/flow/{flow['id']}/transforms/{uid}/filter-values"
                one_put(installation, api, store, path, body, values)
                reference(body, values)
                calls(api, path)
                parallel(installation, api, client, path, folder)


if __name__ == "__main__":
    typer.run(main)
