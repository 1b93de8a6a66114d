"""Measures GET /api/v1/flow/overview by HTTP.

`python -m benches.overview` runs it.

A thousand configurations with a history of revisions are in SQLite, half of them are deployed, and Valkey has an hour
of their metrics. One API process serves them; no pipeline runs, and Kafka is unavailable, so that all lags are null.
The benchmark prints the time of the first page after a start, of full pages, and of pages that are selected by a text
and by a state. The reference is `/healthz` in the same run.
"""

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import typer

from headwater.app.database import connect_database
from headwater.app.endpoints import Endpoints
from headwater.model.deployment import Condition, ObservedWorker, ObservedWorkerStatus, Phase
from headwater.model.key import DEFAULT_SCOPES
from headwater.model.metric import Histogram, MetricsDelta, PartitionCounts
from headwater.services.ids import new_id, utc_now
from headwater.services.keys import Keys
from headwater.settings import Settings
from headwater.stores.redis.client import connect
from headwater.stores.redis.metrics import RedisMetrics
from headwater.stores.sql.database import Database
from tests.support.ports import free_port
from tests.support.sql import OWNER, a_config, a_deployment, a_flow, next_revision, seen
from tests.support.waiting import until

PAGE = 100
MINUTES = 60
START_WITHIN_S = 120.0


def fill(database: Database, configurations: int, revisions: int, script_bytes: int) -> list[str]:
    """Create configurations with a history, and deploy each second one.

    Return the ids of the deployments.
    """
    script = f"function process(record) {{ return record }} // {'x' * script_bytes}"
    config = a_config(transforms=[{"uid": "t1", "type": "v8", "script": script}])
    deployment_ids = []
    for number in range(configurations):
        flow = replace(a_flow(new_id(), name=f"pipeline {number}", pipeline_config=config), created_at=utc_now())
        database.flows.create(flow)
        for _ in range(revisions - 1):
            flow = next_revision(flow)
            database.flows.save(flow)
        if number % 2:
            deployment_ids.append(deploy(database, flow.id))
    return deployment_ids


def deploy(database: Database, config_id: str) -> str:
    """Store a deployment whose worker is ready. Return its id."""
    new = a_deployment(new_id(), config_id=config_id)
    requested = database.deployments.request_deploy(OWNER, config_id, new)
    database.deployments.write_observations([seen(requested, Phase.RUNNING, condition=Condition.STABLE)])
    worker = ObservedWorker(
        name=f"{new.id}-0", status=ObservedWorkerStatus.RUNNING, is_ready=True, start_time=utc_now()
    )
    database.deployments.report_workers({new.id: [worker]})
    return new.id


def write_metrics(metrics: RedisMetrics, deployment_ids: list[str]) -> None:
    """Write an hour of metrics of each deployment."""
    ages = Histogram()
    for number in range(30):
        ages.add(1.2**number)
    now = int(time.time()) // 60 * 60
    for deployment_id in deployment_ids:
        for minute in range(now - 60 * (MINUTES - 1), now + 1, 60):
            counts = PartitionCounts(minute, {"messages_received": random.randrange(10**6), "messages_sent": 1_000})
            metrics.write(deployment_id, "g", "w", MetricsDelta(minute, {0: counts}, {"data_age": ages}))


@contextmanager
def serving(settings: dict[str, str], port: int) -> Iterator[httpx2.Client]:
    """Run an API process with these settings during the block."""
    command = [sys.executable, "-m", "headwater", "api", "--port", str(port)]
    process = subprocess.Popen(command, env=settings, stdout=subprocess.DEVNULL)
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
            until(lambda: responds(http), START_WITHIN_S, "the API")
            yield http
    finally:
        process.terminate()
        process.wait()


def responds(http: httpx2.Client) -> bool:
    try:
        return http.get("/healthz").status_code == 200
    except httpx2.TransportError:
        return False


def time_ms(http: httpx2.Client, path: str) -> tuple[float, httpx2.Response]:
    """Return the time of a request in ms, and its response."""
    started = time.perf_counter()
    response = http.get(path)
    elapsed_ms = 1000 * (time.perf_counter() - started)
    assert response.status_code == 200, response.text
    return elapsed_ms, response


def time_pages(http: httpx2.Client, query: str) -> list[float]:
    """Return the time of each page of a list in ms."""
    times = []
    cursor: str | None = "null"
    while cursor is not None:
        elapsed_ms, response = time_ms(http, f"/api/v1/flow/overview?limit={PAGE}&cursor={cursor}{query}")
        times.append(elapsed_ms)
        cursor = response.json()["cursor"]
    return times


def report(name: str, times: list[float]) -> None:
    p99 = statistics.quantiles(times, n=100)[98]
    typer.echo(f"{name}: p50 {statistics.median(times):.1f} ms, p99 {p99:.1f} ms, maximum {max(times):.1f} ms")


def main(configurations: int = 1000, revisions: int = 3, script_bytes: int = 5_000, rounds: int = 20) -> None:
    """Fill the stores, and measure pages."""
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        kafka = f"127.0.0.1:{free_port()}"
        endpoints = Endpoints.from_settings(Settings(data_dir=data_dir, kafka_bootstrap_servers=kafka))
        endpoints.data_directory.create()
        valkey = endpoints.embedded_valkey()
        child = valkey.start()
        try:
            valkey.wait_ready(child, START_WITHIN_S)
            with connect_database(endpoints) as database, closing(connect(valkey.url)) as client:
                key = Keys(database.keys, utc_now, time.monotonic).create(OWNER, DEFAULT_SCOPES)
                deployment_ids = fill(database, configurations, revisions, script_bytes)
                write_metrics(RedisMetrics(client), deployment_ids)
            environment = {
                "HEADWATER_DATA_DIR": folder,
                "HEADWATER_REDIS_URL": valkey.url,
                "HEADWATER_KAFKA_BOOTSTRAP_SERVERS": kafka,
                "HEADWATER_KAFKA_PASSWORD": "unused",
            }
            with serving(environment, free_port()) as http:
                http.headers["X-API-Key"] = key
                first_ms, _ = time_ms(http, f"/api/v1/flow/overview?limit={PAGE}")
                typer.echo(f"first page of {PAGE} after a start: {first_ms:.1f} ms")
                time_pages(http, "")
                report(f"pages of {PAGE}", [ms for _ in range(rounds) for ms in time_pages(http, "")])
                report("selected by a text", [ms for _ in range(rounds) for ms in time_pages(http, "&q=99")])
                report("selected by a state", [ms for _ in range(rounds) for ms in time_pages(http, "&state=failing")])
                report("reference: /healthz", [time_ms(http, "/healthz")[0] for _ in range(rounds)])
        finally:
            child.stop(grace_s=5.0)


if __name__ == "__main__":
    typer.run(main)
