"""The attack test, in which an attacker without an API key floods the API.

The requests of a user must not be affected.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.acceptance.installation import ROOT, Installation, in_background, pipeline
from tests.chaos.soak import measure, roles

WARM_UP_S = 20.0
SAMPLE_S = 1.0
CALLS_PER_S = 20
NEW_CONNECTION_EVERY = 10
MAX_P99_MS = 200.0
MAX_GROWTH_MIB = 50.0
STOP_WITHIN_S = 90.0


@dataclass
class AttackReport:
    """The results of a run.

    Attributes:
        growth_mib: By process, the growth from the end of the warm-up to the largest size during the attack.
    """

    minutes: float
    calls: int = 0
    failed: list[str] = field(default_factory=list)
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0
    quiet_p99_ms: float = 0.0
    growth_mib: dict[str, float] = field(default_factory=dict)
    descriptors_max: dict[str, int] = field(default_factory=dict)
    attacker: dict[str, int] = field(default_factory=dict)
    load: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.faults

    def text(self) -> str:
        return json.dumps(asdict(self), indent=2)


class User:
    """A user on 127.0.0.1 who sends list, read, check and write requests at a constant rate."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.took_ms: list[float] = []
        self.failed: list[str] = []
        with installation.client() as client:
            filter_ = {"type": "redis_set_filter", "filter_expr": "root = this.a", "set_values": ["x"]}
            self._flow = client.post("/api/v1/flow", json=pipeline(transforms=[filter_])).json()
        uid = self._flow["pipeline_config"]["transforms"][0]["uid"]
        self._path = f"/api/v1/flow/{self._flow['id']}"
        self._values = f"{self._path}/transforms/{uid}/filter-values"

    def run(self, stop: threading.Event) -> None:
        """Send requests until `stop` is set."""
        numbers = itertools.count()
        client = self._installation.client()
        while not stop.wait(1 / CALLS_PER_S):
            number = next(numbers)
            if number % NEW_CONNECTION_EVERY == 0:
                client.close()
                client = self._installation.client()
            self._call(client, number)
        client.close()

    def _call(self, client: httpx2.Client, number: int) -> None:
        calls: list[Callable[[], httpx2.Response]] = [
            lambda: client.get("/api/v1/flow"),
            lambda: client.get(self._path),
            lambda: client.get(f"{self._values}/check", params={"value": "x"}),
            lambda: client.post(self._values, json={"values": [f"v{number % 1000}"]}),
        ]
        began = time.perf_counter()
        try:
            response = calls[number % len(calls)]()
        except httpx2.TransportError as error:
            self.failed.append(f"call {number}: {error!r}")
        else:
            if response.status_code != 200:
                self.failed.append(f"call {number}: {response.status_code} {response.text[:200]}")
        self.took_ms.append((time.perf_counter() - began) * 1000)


def attack(directory: Path, minutes: float, scale: float = 1.0, warm_up_s: float = WARM_UP_S) -> AttackReport:
    """Start an installation and run the attack against it."""
    installation = Installation(directory / "data")
    installation.start()
    try:
        return _Run(installation, minutes, scale, warm_up_s).run()
    finally:
        installation.stop()


class _Run:
    def __init__(self, installation: Installation, minutes: float, scale: float, warm_up_s: float) -> None:
        self._installation = installation
        self._seconds = minutes * 60
        self._scale = scale
        self._warm_up_s = warm_up_s
        self._report = AttackReport(minutes)
        self._before: dict[str, float] = {}

    def run(self) -> AttackReport:
        user = User(self._installation)
        with in_background(user.run):
            time.sleep(self._warm_up_s)
            quiet = len(user.took_ms)
            self._before = {role: measured[0] for role, measured in self._sample().items()}
            self._attack()
        self._report.quiet_p99_ms = _percentile(user.took_ms[:quiet], 99)
        self._check_results(user.took_ms[quiet:], user.failed)
        return self._report

    def _attack(self) -> None:
        loads = []
        with ExitStack() as cleanup:
            attackers = [cleanup.enter_context(self._attacker(kind)) for kind in ("slow", "fast")]
            deadline = time.monotonic() + self._seconds + STOP_WITHIN_S
            while any(process.poll() is None for process in attackers) and time.monotonic() < deadline:
                time.sleep(SAMPLE_S)
                loads.append(os.getloadavg()[0])
                self._record_sample()
            for process in attackers:
                process.kill()
                assert process.stdout is not None
                self._report.attacker |= json.loads(process.stdout.read() or "{}")
        self._report.load = round(statistics.mean(loads), 1)

    def _attacker(self, kind: str) -> subprocess.Popen[bytes]:
        numbers = [str(self._installation.port), str(self._seconds), str(self._scale)]
        command = [sys.executable, "-m", "tests.chaos.attacker", kind, *numbers]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)

    def _record_sample(self) -> None:
        for role, (mib, descriptors, _) in self._sample().items():
            grown = round(mib - self._before.get(role, mib), 2)
            self._report.growth_mib[role] = max(grown, self._report.growth_mib.get(role, 0.0))
            most = self._report.descriptors_max.get(role, 0)
            self._report.descriptors_max[role] = max(descriptors, most)

    def _sample(self) -> dict[str, tuple[float, int, int]]:
        pids_by_role = roles(self._installation, ())
        return {role: measured for role, pids in pids_by_role if (measured := measure(pids)) is not None}

    def _check_results(self, took_ms: list[float], failed: list[str]) -> None:
        report = self._report
        report.calls, report.failed = len(took_ms), failed[:10]
        report.p50_ms, report.p99_ms = _percentile(took_ms, 50), _percentile(took_ms, 99)
        report.max_ms = round(max(took_ms), 1)
        faults = [f"{len(failed)} calls of the user failed"] if failed else []
        if report.p99_ms > MAX_P99_MS:
            faults.append(f"the user's p99 is {report.p99_ms} ms")
        faults += [f"{role} grew by {mib} MiB" for role, mib in report.growth_mib.items() if mib > MAX_GROWTH_MIB]
        missing = {"bytes of heads", "slow heads", "keys answered 401"} - set(report.attacker)
        faults += [f"the attacker did not report {figure!r}" for figure in sorted(missing)]
        report.faults = faults


def _percentile(values: list[float], percent: int) -> float:
    ordered: list[Any] = sorted(values)
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 1) if ordered else 0.0
