"""Prometheus gets each series of dashboards and alerts from a real installation.

The alerts fire when workers, dependencies and processes fail.
"""

import json
import re
import socket
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.installation import Deployed, Installation, deploy, in_background, kill, pipeline
from tests.support.anvil import Anvil
from tests.support.ports import free_port
from tests.support.processes import suspended
from tests.support.prometheus_server import RULES, Prometheus, built, impatient_rules
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

DASHBOARDS = Path(__file__).parents[2] / "deploy" / "grafana"
SCRIPT = """
function process(record) {
  if (record.n % 10 === 7) throw new Error("no sevens");
  return record;
}"""
TRANSFORMS = [
    {"type": "v8", "script": SCRIPT},
    {"type": "redis_set_filter", "filter_expr": "root = this.token_address", "set_values": ["a"]},
]
VARIABLES = {'config_id="$configuration"': 'config_id=~".*"', "$ingest": ".*", "$__rate_interval": "1m"}
RARE = ("headwater_redrive_messages_received_total", 'status="429"', "headwater_ingest_skipped_total")
"""Series that exist only while a redrive runs, or after an event. `test_alerts.py` waits for their panels."""


def dashboard_queries() -> list[str]:
    """Return the expressions of all panels, with values in place of variables."""
    panels = [panel for path in DASHBOARDS.glob("*.json") for panel in json.loads(path.read_text())["panels"]]
    found = [target["expr"] for panel in panels for target in panel["targets"]]
    for name, value in VARIABLES.items():
        found = [text.replace(name, value) for text in found]
    return found


def rule_expressions() -> list[str]:
    """Return the expressions of all alert rules."""
    return [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@pytest.fixture
def prometheus(
    own_installation: Installation, anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Prometheus]:
    """Return a Prometheus that scrapes an installation with an ingest and a price pipeline."""
    built("prometheus")
    controller, prices, ingest = free_port(), free_port(), free_port()
    monkeypatch.setenv("THE_NODE", anvil.url)
    entry = {"type": "evm", "chain": "base", "rpc": "$THE_NODE", "finality": 1, "poll_s": 0.1, "from_block": 0}
    (tmp_path / "ingests.json").write_text(json.dumps({"the-chain": {**entry, "metrics_port": ingest}}))
    own_installation.variables["HEADWATER_PRICES_METRICS_PORT"] = str(prices)
    own_installation.flags = ("--ingests", str(tmp_path / "ingests.json"), "--metrics-port", str(controller))
    own_installation.start()
    targets = {"api": own_installation.port, "controller": controller, "prices": prices, "ingests": ingest}
    jobs = {f"headwater-{name}": port for name, port in targets.items()}
    prometheus = Prometheus(tmp_path, jobs, [impatient_rules(tmp_path)])
    try:
        yield prometheus
    finally:
        prometheus.stop()


def price_tick(number: int) -> dict[str, Any]:
    """Return a record with the price of a token."""
    at = {"timestamp": 1_700_000_000_000 + number, "block_number": number, "log_index": 0}
    return {"chain": "base", "token_address": f"0x{7:040x}", "price_usd": 1.0 + number / 100, "decimals": 6, **at}


def refuse_a_request(port: int) -> None:
    """Send a request that the HTTP server refuses before the API sees it."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 200_000 + b"\r\n\r\n")
        connection.recv(100)


def feed_until(installation: Installation, stop: threading.Event) -> None:
    """Write records for both pipelines until `stop` is set."""
    for start in count(step=50):
        numbers = range(start, start + 50)
        installation.feed("base", "erc20_token_transfer", ({"n": n, "token_address": "a"} for n in numbers))
        installation.feed("base", "log", (price_tick(n) for n in numbers))
        if stop.wait(0.5):
            return


def test_every_series_exists_and_alerts_fire_on_real_faults(
    own_installation: Installation, anvil: Anvil, prometheus: Prometheus
) -> None:
    with own_installation.client() as client, in_background(lambda stop: feed_until(own_installation, stop)):
        flow = deploy(client, pipeline("erc20_token_transfer", transforms=TRANSFORMS))
        deploy(client, pipeline("log", sinks=[{"type": "prices", "name": "ticks"}], name="prices"))
        refuse_a_request(own_installation.port)
        anvil.deploy("Coin", 10**30, kinds=["uint256"])
        anvil.mine(3)
        until(lambda: not missing_names(prometheus), 60, f"the series {missing_names(prometheus)}")
        until(
            lambda: "HeadwaterWorkerNotReady" not in prometheus.firing(), 60, "the end of the alert of starting workers"
        )
        until(lambda: not queries_without_result(prometheus), 90, f"{queries_without_result(prometheus)}")
        until_firing(prometheus, "HeadwaterDeadLetters", "HeadwaterErrorRate")
        check_faults_of_workers(own_installation, flow, prometheus)
        with suspended(own_installation.processes("valkey-server")):
            until_firing(prometheus, "HeadwaterDependencyUnavailable")
        with suspended(own_installation.processes("headwater controller")):
            until_firing(prometheus, "HeadwaterTargetDown", "HeadwaterNoLeader")


def check_faults_of_workers(installation: Installation, flow: Deployed, prometheus: Prometheus) -> None:
    """Stop and kill the worker of a pipeline, and wait for the alerts."""
    workers = installation.workers_of(flow)
    with suspended(workers):
        until_firing(prometheus, "HeadwaterWorkerNotReady", "HeadwaterLagWithoutProgress")

    def crash() -> bool:
        kill(installation.workers_of(flow))
        return prometheus.firing() >= {"HeadwaterWorkerCrashLoop"}

    until(crash, 90, "the alert of a worker that dies repeatedly")


def until_firing(prometheus: Prometheus, *alerts: str) -> None:
    """Wait until all of these alerts fire."""
    until(lambda: prometheus.firing() >= set(alerts), 60, f"the alerts {alerts}")


def missing_names(prometheus: Prometheus) -> set[str]:
    """Return the names in dashboards and rules that no process exposes."""
    text = " ".join([*dashboard_queries(), *rule_expressions()])
    known = prometheus.names()
    wanted = set(re.findall(r"\b(?:headwater|process)_\w+", text)) | {"up"}
    return {
        name for name in wanted if name not in known and re.sub(r"_(total|bucket|sum|count)$", "", name) not in known
    }


def queries_without_result(prometheus: Prometheus) -> list[str]:
    """Return the expressions of panels that have no series."""
    return [
        query
        for query in dashboard_queries()
        if not any(name in query for name in RARE) and not prometheus.query(query)
    ]
