"""Requests of an owner do not slow down while another owner exceeds all quotas."""

import json
import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.acceptance.installation import Installation, in_background, pipeline

QUOTAS = {
    "configurations": 60,
    "stored_bytes": 100_000_000,
    "script_bytes": 5_000_000,
    "deployments": 3,
    "workers": 4,
    "datasets": 20,
    "set_values": 300_000,
}
ROUNDS, DEPLOYS, LISTS = 3, 5, 200
MAX_DEPLOY_S, MAX_LIST_P99_MS = 3.0, 50.0
MIB = 1 << 20


@dataclass
class NeighboursReport:
    """The results of a run.

    Attributes:
        used: By quota, the first owner's usage and the allowed usage.
        deploys_s: The median time of the other owner's deploys, per round.
        list_p99_ms: The p99 of the other owner's list requests, per round.
        refused: Counts the responses to the first owner during the rounds.
    """

    used: dict[str, list[int]] = field(default_factory=dict)
    deploys_s: list[float] = field(default_factory=list)
    list_p99_ms: list[float] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    load: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.faults

    def text(self) -> str:
        return json.dumps(asdict(self), indent=2)


def flags(quotas: dict[str, int]) -> tuple[str, ...]:
    """Return the flags of `headwater up` that set these quotas for each owner."""
    return tuple(word for name, most in quotas.items() for word in (f"--quota-{name.replace('_', '-')}", str(most)))


def neighbours(directory: Path) -> NeighboursReport:
    """Run the test on a new installation."""
    installation = Installation(directory / "data", flags=flags(QUOTAS))
    installation.start()
    try:
        return measure(installation)
    finally:
        installation.stop()


def measure(
    installation: Installation, rounds: int = ROUNDS, deploys: int = DEPLOYS, lists: int = LISTS
) -> NeighboursReport:
    """Use up one owner's quotas, and measure the other owner's requests.

    Meanwhile the first owner sends more requests.
    """
    report = NeighboursReport()
    full, other = (installation.client(_key(installation, name)) for name in ("full", "other"))
    with full, other:
        Greedy(full).use_up_quotas()
        limits = full.get("/api/v1/flow/limits").json()["limits"]
        report.used = {limit["name"]: [limit["used"], limit["allowed"]] for limit in limits}
        greedy = Greedy(full)
        with in_background(greedy.request_more):
            for _ in range(rounds):
                report.deploys_s.append(round(statistics.median(_deploys(other, deploys)), 2))
                report.list_p99_ms.append(round(sorted(_lists(other, lists))[lists * 99 // 100], 1))
        report.refused = dict(greedy.responses)
    report.load = os.getloadavg()[0]
    if statistics.median(report.deploys_s) > MAX_DEPLOY_S:
        report.faults.append("the other owner's deploys take too long")
    if statistics.median(report.list_p99_ms) > MAX_LIST_P99_MS:
        report.faults.append("the other owner's lists take too long")
    report.faults += [f"a response was {status}" for status in report.refused if not status.endswith(" 403")]
    return report


def _key(installation: Installation, owner: str) -> str:
    created = installation.run("keys", "create", "--owner", owner)
    assert created.returncode == 0, created.stderr
    return created.stdout.strip()


def _deploys(client: httpx2.Client, count: int) -> Iterator[float]:
    for _ in range(count):
        flow = client.post("/api/v1/flow", json=pipeline()).json()
        began = time.perf_counter()
        response = client.post(f"/api/v1/flow/{flow['id']}/deploy")
        yield time.perf_counter() - began
        assert response.status_code == 200, response.text
        assert client.delete(f"/api/v1/flow/{flow['id']}").status_code == 200


def _lists(client: httpx2.Client, count: int) -> Iterator[float]:
    for _ in range(count):
        began = time.perf_counter()
        assert client.get("/api/v1/flow").status_code == 200
        yield (time.perf_counter() - began) * 1000


class Greedy:
    """An owner who uses up all quotas, and requests more."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client
        self.responses: Counter[str] = Counter()

    def use_up_quotas(self) -> None:
        """Use up every quota but the one for stored bytes."""
        limits = self._client.get("/api/v1/flow/limits").json()["limits"]
        allowed = {limit["name"]: limit["allowed"] for limit in limits}
        self._fill_configurations(allowed["configurations"], allowed["script_bytes"])
        flows = [flow["id"] for flow in self._client.get("/api/v1/flow").json()]
        for config_id in flows[: allowed["deployments"]]:
            response = self._client.post(f"/api/v1/flow/{config_id}/deploy")
            assert response.status_code == 200, response.text
        for number in range(allowed["datasets"]):
            created = self._client.post("/api/v1/flow/datasets", json={"name": f"d{number}"})
            assert created.status_code == 201, created.text
        dataset, count = created.json()["id"], allowed["set_values"]
        for begin in range(0, count, 250_000):
            values = [str(number) for number in range(begin, min(count, begin + 250_000))]
            response = self._client.post(f"/api/v1/flow/datasets/{dataset}/entries", json={"values": values})
            assert response.status_code == 200, response.text

    def _fill_configurations(self, count: int, script_bytes: int) -> None:
        scripted = script_bytes // MIB + 1
        for number in range(count):
            if number < scripted:
                size = min(MIB, script_bytes - number * MIB)
                body = pipeline(transforms=[_script(size)], name=f"full {number}")
            else:
                body = pipeline(name=f"full {number}", parallelism=2 if number == count - 1 else 1)
            response = self._client.post("/api/v1/flow", json=body)
            assert response.status_code == 201, response.text

    def request_more(self, stop: threading.Event) -> None:
        """Request more of everything until `stop` is set."""
        flows = [flow["id"] for flow in self._client.get("/api/v1/flow").json()]
        dataset = self._client.get("/api/v1/flow/datasets").json()[0]["id"]
        entries = {"values": [f"new {number}" for number in range(1_000)]}
        requests: list[tuple[str, str, Any]] = [
            ("create", "/api/v1/flow", pipeline()),
            ("deploy", f"/api/v1/flow/{flows[-1]}/deploy", None),
            ("dataset", "/api/v1/flow/datasets", {"name": "one more"}),
            ("values", f"/api/v1/flow/datasets/{dataset}/entries", entries),
        ]
        while not stop.wait(0.02):
            for name, path, body in requests:
                self.responses[f"{name} {self._client.post(path, json=body).status_code}"] += 1


def _script(size: int) -> dict[str, Any]:
    """Return a v8 transform with a script of exactly `size` bytes."""
    code = "function process(r) { return r; }\n//"
    return {"type": "v8", "script": code + "x" * (size - len(code))}
