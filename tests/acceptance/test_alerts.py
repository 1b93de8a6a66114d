"""Alerts fire on faults of a real installation.

The faults are in pipelines, the API, prices, ingests and the controller.

Prometheus evaluates the rules with short windows and without waiting times. `test_dashboards.py` makes further faults:
workers, Valkey and controllers that hang, workers that crash, and records that fail.
"""

import json
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import psutil
import pytest
import redis
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.acceptance.hyperliquid_node import HyperliquidNode
from tests.acceptance.installation import Deployed, Installation, deploy, in_background, kill, pipeline
from tests.acceptance.test_dashboards import dashboard_queries, refuse_a_request
from tests.support.anvil import Anvil
from tests.support.ports import free_port
from tests.support.processes import suspended
from tests.support.prometheus_server import Prometheus, built, impatient_rules
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FLOW = "/api/v1/flow"
SCRIPT = """
function process(record) {
  for (let i = 0; i < record.iterations; i++);
  if (record.fails) throw new Error("slow failure");
  return record.pad ? {pad: "x".repeat(record.pad)} : record;
}"""
PENDING_SETS = "headwater:drafts"
"""The key of the list of filter sets whose values are written before their revision is saved."""
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address", "set_values": ["a"]}


class Alerts(NamedTuple):
    """An installation with two ingests, and the Prometheus that scrapes it.

    Attributes:
        installation: The installation.
        prometheus: The Prometheus.
        anvil: The node of the ingest `base`.
        hyperliquid: The node of the ingest `hyperliquid`.
    """

    installation: Installation
    prometheus: Prometheus
    anvil: Anvil
    hyperliquid: HyperliquidNode

    def wait(self, *names: str, within_s: float = 60.0) -> None:
        """Wait until each of these alerts has fired."""
        wanted, deadline = set(names), time.monotonic() + within_s
        while wanted := wanted - self.prometheus.firing():
            assert time.monotonic() < deadline, f"not fired within {within_s} s: {wanted}"
            time.sleep(0.1)

    def wait_for_panels(self, series: str) -> None:
        """Wait until each query of the dashboards that has this series has a result."""
        queries = [query for query in dashboard_queries() if series in query]
        assert queries
        until(lambda: all(map(self.prometheus.query, queries)), 60, f"results of {queries}")


@pytest.fixture(scope="module")
def alerts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alerts]:
    """Start everything. The clock of Base is an hour late."""
    built("prometheus")
    folder = tmp_path_factory.mktemp("alerts")
    anvil = Anvil("--slots-in-an-epoch", "1", "--timestamp", str(int(time.time()) - 3_600))
    try:
        yield from running(folder, anvil)
    finally:
        anvil.stop()


def running(folder: Path, anvil: Anvil) -> Iterator[Alerts]:
    """Run an installation whose ingests read the nodes, and its Prometheus."""
    ports = {name: free_port() for name in ("controller", "prices", "ingests", "hyperliquid")}
    hyperliquid = HyperliquidNode(folder / "node", 1)
    hyperliquid.root.mkdir()
    evm = {"type": "evm", "chain": "base", "rpc": anvil.url, "finality": 1, "poll_s": 0.1, "from_block": 0}
    files = {"type": "hyperliquid", "node_data": str(hyperliquid.root), "from_start": True}
    ingests = {
        "base": {**evm, "metrics_port": ports["ingests"]},
        "hyperliquid": {**files, "metrics_port": ports["hyperliquid"]},
    }
    (folder / "ingests.json").write_text(json.dumps(ingests))
    variables = {
        "HEADWATER_PRICES_METRICS_PORT": str(ports["prices"]),
        "HEADWATER_RATE_LIMIT": "30",
        "HEADWATER_RATE_BURST": "30",
    }
    flags = ("--ingests", str(folder / "ingests.json"), "--metrics-port", str(ports["controller"]))
    installation = Installation(folder / "data", flags=flags, variables=variables)
    installation.start()
    jobs = {f"headwater-{name}": port for name, port in {**ports, "api": installation.port}.items()}
    prometheus = Prometheus(folder, jobs, [impatient_rules(folder)])
    try:
        yield Alerts(installation, prometheus, anvil, hyperliquid)
    finally:
        prometheus.stop()
        installation.stop()


def repeated(work: Callable[[], object], every_s: float) -> Callable[[threading.Event], None]:
    """Return a function for `in_background` that repeats `work`."""

    def run(stop: threading.Event) -> None:
        while not stop.wait(every_s):
            work()

    return run


def write(installation: Installation, topic: str, values: list[bytes], key: bytes = b"") -> None:
    producer = Producer({**installation.admin_config(), "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    for value in values:
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0


def records(count: int, **members: Any) -> list[bytes]:
    return [json.dumps({"n": n, "token_address": "a", **members}).encode() for n in range(count)]


def new_workers(installation: Installation, old: set[int]) -> list[int]:
    return [pid for pid in installation.workers() if pid not in old]


def test_pipelines(alerts: Alerts) -> None:
    installation, topic = alerts.installation, "stream.base.erc20_token_transfer"
    with installation.client() as client:
        flow = deploy(client, pipeline(transforms=[{"type": "v8", "script": SCRIPT}]))
        an_hour_ago = int(time.time() - 3_600) * 1_000
        with in_background(repeated(lambda: write(installation, topic, records(50, block_timestamp=an_hour_ago)), 1)):
            alerts.wait("HeadwaterDataOld")
        too_large = {"pad": 999_000, "transaction_hash": "0x" + "0" * 45_000}
        write(installation, topic, records(1, **too_large), key=("0" * 45_000).encode())
        alerts.wait("HeadwaterOutputErrors")
        check_redrive(alerts, client, flow)
        with suspended(installation.workers_of(flow)):  # for longer than it takes until the controller kills them
            write(installation, topic, records(10_500, iterations=100_000))
            with in_background(repeated(lambda: write(installation, topic, records(20)), 0.5)):
                alerts.wait("HeadwaterLagGrows")
                alerts.wait("HeadwaterOutputLate", within_s=120)
        with in_background(repeated(lambda: kill(installation.workers_of(flow)), 0.2)):
            alerts.wait("HeadwaterWorkerRestarts", within_s=90)


def check_redrive(alerts: Alerts, client: httpx2.Client, flow: Deployed) -> None:
    """Suspend the worker of a redrive that has not ended."""
    installation = alerts.installation
    write(installation, "stream.base.erc20_token_transfer", records(3_000, fails=True, iterations=200_000))

    def all_have_failed() -> object:
        time.sleep(0.2)  # the rate limit is low
        return client.get(f"{FLOW}/{flow.id}/deploy/stats").json()["lag"] == 0

    until(all_have_failed, 120, "the last dead letter")
    old = set(installation.workers())
    response = client.post(f"{FLOW}/{flow.id}/dead-letters/redrive", json={"all": True})
    assert response.status_code == 202, response.text
    until(lambda: new_workers(installation, old), 30, "the worker of the redrive")
    alerts.wait_for_panels("headwater_redrive_messages_received_total")
    with suspended(new_workers(installation, old)):
        alerts.wait("HeadwaterRedriveStuck")


def test_a_deploy_that_fails(alerts: Alerts) -> None:
    installation = alerts.installation
    old = set(installation.workers())
    with installation.client() as client, in_background(repeated(lambda: kill(new_workers(installation, old)), 0.05)):
        created = client.post(FLOW, json=pipeline("erc721_token_transfer")).json()
        assert client.post(f"{FLOW}/{created['id']}/deploy").status_code == 422
        alerts.wait("HeadwaterPipelinePending", "HeadwaterPipelineFailed")


def test_prices(alerts: Alerts) -> None:
    installation = alerts.installation
    tick = {"chain": "base", "token_address": f"0x{7:040x}", "decimals": 6, "block_number": 1, "log_index": 0}
    unpriced = {**tick, "price_quote": 2.0, "quote_address": f"0x{8:040x}", "timestamp": 1_700_000_000_000}
    with installation.client() as client:
        deploy(client, pipeline("log", sinks=[{"type": "prices", "name": "ticks"}], name="prices"))
        lines = [json.dumps(unpriced).encode()] * 50
        with in_background(repeated(lambda: write(installation, "stream.base.log", lines), 0.5)):
            alerts.wait("HeadwaterTicksUnpriced")
    with suspended(installation.processes("prices worker")):
        value = struct.pack("<qQdB", 1_700_000_000_000, 1, 1.0, 6)
        write(installation, "headwater.ticks", [value] * 100_001, key=f"base:0x{7:040x}".encode())
        alerts.wait("HeadwaterPricesBehind", "HeadwaterPricesStale")


def test_the_controller_and_the_ingests(alerts: Alerts) -> None:
    installation, anvil = alerts.installation, alerts.anvil
    admin = AdminClient(installation.admin_config())
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    unknown = UserScramCredentialUpsertion("dep-01ke0a2x8rv5c3m7qd9t4jw6hz", scram, b"password")
    admin.alter_user_scram_credentials([unknown])[unknown.user].result(30)
    anvil.deploy("Coin", 10**30, kinds=["uint256"])
    anvil.mine(3)
    alerts.wait("HeadwaterIngestBehind", "HeadwaterUnknownDeployments")


def test_a_node_that_loses_blocks_and_writes_large_events(alerts: Alerts) -> None:
    node = alerts.hyperliquid
    node.write(20, 0)
    alerts.wait_for_panels("headwater_ingest_gaps_total")
    node.write_large_event(1_100_000)
    with (node.root / "node_order_statuses_by_block/hourly/20260430/21").open("ab") as file:
        file.write(b"no JSON\n")
    node.write(20, 0)
    alerts.wait("HeadwaterIngestGaps", "HeadwaterIngestLeftOut")
    alerts.wait_for_panels("headwater_ingest_skipped_total")


def test_the_api(alerts: Alerts) -> None:
    installation = alerts.installation
    with installation.client() as client:
        flow = deploy(client, pipeline("log", transforms=[FILTER], name="filter"))

        def read_metrics() -> None:
            with suppress(httpx2.TransportError):
                client.get(f"{FLOW}/{flow.id}/deploy/metrics")

        with in_background(repeated(read_metrics, 0.005)):
            alerts.wait("HeadwaterRateLimited")
            alerts.wait_for_panels('status="429"')
        with in_background(repeated(lambda: refuse_a_request(installation.port), 0.02)):
            alerts.wait("HeadwaterRequestsRefused")
        valkey = installation.processes("valkey-server")
        with in_background(repeated(lambda: write(installation, "stream.base.log", records(20)), 0.2)):
            with in_background(repeated(lambda: suspend_shortly(valkey), 0.05)):
                alerts.wait("HeadwaterLookupsSlow")
            with suspended(valkey), in_background(repeated(read_metrics, 0.1)):
                alerts.wait("HeadwaterApiErrors", "HeadwaterApiSlow", "HeadwaterRateLimitUncounted")


def test_a_key_of_another_program(alerts: Alerts) -> None:
    """Another program stores a text under a key of Headwater."""
    (valkey,) = alerts.installation.processes("valkey-server")
    sockets = {each.laddr for each in psutil.Process(valkey).net_connections("unix") if each.laddr}
    client = redis.Redis(unix_socket_path=str(sockets.pop()))
    kept = client.dump(PENDING_SETS)
    client.set(PENDING_SETS, "a text")
    alerts.wait("HeadwaterLoopFailing")
    client.delete(PENDING_SETS)
    if kept is not None:
        client.restore(PENDING_SETS, 0, kept)


def suspend_shortly(pids: list[int]) -> None:
    """Suspend processes for less than the timeout of their clients."""
    with suspended(pids):
        time.sleep(0.9)


def test_a_node_that_has_ended(alerts: Alerts) -> None:
    alerts.anvil.stop()
    alerts.wait("HeadwaterIngestErrors", within_s=90)


def test_a_worker_without_memory(tmp_path: Path) -> None:
    metrics_port = free_port()
    flags = ("--worker-memory-mb", "32", "--metrics-port", str(metrics_port))
    installation = Installation(tmp_path / "data", flags=flags)
    installation.start()
    prometheus = Prometheus(tmp_path, {"headwater-controller": metrics_port}, [impatient_rules(tmp_path)])
    try:
        with installation.client() as client:
            created = client.post(FLOW, json=pipeline()).json()

            def request_deploy(_: threading.Event) -> None:
                client.post(f"{FLOW}/{created['id']}/deploy")

            with in_background(request_deploy):
                until(lambda: "HeadwaterWorkerOutOfMemory" in prometheus.firing(), 60, "the alert")
    finally:
        prometheus.stop()
        installation.stop()
