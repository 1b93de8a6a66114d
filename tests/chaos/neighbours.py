"""Two owners: one is at all quotas and goes on trying; the other must not notice it."""

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

from tests.acceptance.stack import Stack, beside, pipeline

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
MOST_DEPLOY_S, MOST_LIST_P99_MS = 3.0, 50.0
MIB = 1 << 20


@dataclass
class Neighbours:
    """What a run found: the other owner's figures of each round, and what the first owner was answered meanwhile."""

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
    """The flags of `headwater up` that set these quotas for each owner."""
    return tuple(word for name, most in quotas.items() for word in (f"--quota-{name.replace('_', '-')}", str(most)))


def neighbours(directory: Path) -> Neighbours:
    """One run on an installation of its own."""
    stack = Stack(directory / "data", flags=flags(QUOTAS))
    stack.start()
    try:
        return measure(stack)
    finally:
        stack.stop()


def measure(stack: Stack, rounds: int = ROUNDS, deploys: int = DEPLOYS, lists: int = LISTS) -> Neighbours:
    """Fill one owner's quotas, let that owner go on, and measure the other."""
    report = Neighbours()
    full, other = (stack.client(_key(stack, name)) for name in ("full", "other"))
    with full, other:
        Greedy(full).fill()
        shown = full.get("/api/v1/flow/limits").json()["limits"]
        report.used = {one["name"]: [one["used"], one["allowed"]] for one in shown}
        greedy = Greedy(full)
        with beside(greedy.go_on):
            for _ in range(rounds):
                report.deploys_s.append(round(statistics.median(_deploys(other, deploys)), 2))
                report.list_p99_ms.append(round(sorted(_lists(other, lists))[lists * 99 // 100], 1))
        report.refused = dict(greedy.answers)
    report.load = os.getloadavg()[0]
    if statistics.median(report.deploys_s) > MOST_DEPLOY_S:
        report.faults.append("the other owner's deploys take too long")
    if statistics.median(report.list_p99_ms) > MOST_LIST_P99_MS:
        report.faults.append("the other owner's lists take too long")
    report.faults += [f"an answer was {status}" for status in report.refused if not status.endswith(" 403")]
    return report


def _key(stack: Stack, owner: str) -> str:
    made = stack.run("keys", "create", "--owner", owner)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def _deploys(client: httpx2.Client, count: int) -> Iterator[float]:
    for _ in range(count):
        flow = client.post("/api/v1/flow", json=pipeline()).json()
        began = time.perf_counter()
        answer = client.post(f"/api/v1/flow/{flow['id']}/deploy")
        yield time.perf_counter() - began
        assert answer.status_code == 200, answer.text
        assert client.delete(f"/api/v1/flow/{flow['id']}").status_code == 200


def _lists(client: httpx2.Client, count: int) -> Iterator[float]:
    for _ in range(count):
        began = time.perf_counter()
        assert client.get("/api/v1/flow").status_code == 200
        yield (time.perf_counter() - began) * 1000


class Greedy:
    """An owner who takes all that there is, and asks for more."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client
        self.answers: Counter[str] = Counter()

    def fill(self) -> None:
        """Use up every quota but that of stored bytes."""
        allowed = {one["name"]: one["allowed"] for one in self._client.get("/api/v1/flow/limits").json()["limits"]}
        self._fill_configurations(allowed["configurations"], allowed["script_bytes"])
        flows = [flow["id"] for flow in self._client.get("/api/v1/flow").json()]
        for flow_id in flows[: allowed["deployments"]]:
            answer = self._client.post(f"/api/v1/flow/{flow_id}/deploy")
            assert answer.status_code == 200, answer.text
        for number in range(allowed["datasets"]):
            made = self._client.post("/api/v1/flow/datasets", json={"name": f"d{number}"})
            assert made.status_code == 201, made.text
        first, last = made.json()["id"], allowed["set_values"]
        for begin in range(0, last, 250_000):
            values = [str(number) for number in range(begin, min(last, begin + 250_000))]
            answer = self._client.post(f"/api/v1/flow/datasets/{first}/entries", json={"values": values})
            assert answer.status_code == 200, answer.text

    def _fill_configurations(self, count: int, script_bytes: int) -> None:
        scripted = script_bytes // MIB + 1
        for number in range(count):
            if number < scripted:
                size = min(MIB, script_bytes - number * MIB)
                body = pipeline(transforms=[_script(size)], name=f"full {number}")
            else:
                body = pipeline(name=f"full {number}", parallelism=2 if number == count - 1 else 1)
            answer = self._client.post("/api/v1/flow", json=body)
            assert answer.status_code == 201, answer.text

    def go_on(self, stop: threading.Event) -> None:
        """Ask for more of everything until `stop`."""
        flows = [flow["id"] for flow in self._client.get("/api/v1/flow").json()]
        dataset = self._client.get("/api/v1/flow/datasets").json()[0]["id"]
        entries = {"values": [f"new {number}" for number in range(1_000)]}
        asked: list[tuple[str, str, Any]] = [
            ("create", "/api/v1/flow", pipeline()),
            ("deploy", f"/api/v1/flow/{flows[-1]}/deploy", None),
            ("dataset", "/api/v1/flow/datasets", {"name": "one more"}),
            ("values", f"/api/v1/flow/datasets/{dataset}/entries", entries),
        ]
        while not stop.wait(0.02):
            for what, path, body in asked:
                self.answers[f"{what} {self._client.post(path, json=body).status_code}"] += 1


def _script(size: int) -> dict[str, Any]:
    """A script of just so many bytes."""
    code = "function process(r) { return r; }\n//"
    return {"type": "v8", "script": code + "x" * (size - len(code))}
