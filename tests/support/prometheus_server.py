"""Builds Prometheus and promtool, and runs Prometheus on series that it scrapes."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.kafka import CACHE_DIR
from tests.support.ports import free_port
from tests.support.waiting import until

SOURCE = Path(__file__).parent / "prometheus"
RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "headwater.rules.yaml"
COMMANDS = "github.com/prometheus/prometheus/cmd/"


def built(name: str) -> Path:
    """Return the program `prometheus` or `promtool`.

    Both are built once from the Go module in tests/support/prometheus, without service discovery.
    """
    if shutil.which("go") is None:
        assert not os.environ.get("CI"), "CI needs Go, for the tests of dashboards and alerts"
        pytest.skip("The tests of dashboards and alerts need Go, to build Prometheus.")
    text = b"".join((SOURCE / file).read_bytes() for file in ("go.mod", "go.sum"))
    folder = CACHE_DIR.expanduser() / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"{name}-{hashlib.sha256(text).hexdigest()[:16]}"
    with (folder / "prometheus.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            unfinished = program.with_suffix(".new")
            options = ["-mod=readonly", "-buildvcs=false", "-tags", "remove_all_sd", "-o", str(unfinished)]
            environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": ""}
            subprocess.run(["go", "build", *options, COMMANDS + name], cwd=SOURCE, check=True, env=environment)
            unfinished.rename(program)
    return program


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run promtool, and return its output."""
    return subprocess.run([str(built("promtool")), *arguments], capture_output=True, text=True, check=False)


def impatient_rules(folder: Path) -> Path:
    """Write the alert rules with short windows and without waiting times. Return the file.

    The windows of counts of faults are longer than the others, so that a test can cause enough faults.
    """
    rules = re.sub(r"\[\d+[mh]\]", "[15s]", RULES.read_text())
    rules = re.sub(r"(increase\(headwater_(?:pipeline_worker_restarts|ingest_errors)_total)\[15s\]", r"\1[1m]", rules)
    file = folder / "rules.yaml"
    file.write_text(re.sub(r"for: \w+", "for: 1s", rules))
    return file


class Prometheus:
    """A running Prometheus, which scrapes every three seconds.

    Args:
        folder: An empty folder for its configuration and data.
        targets: The ports on 127.0.0.1 to scrape, by the name of their job.
        rules: Files with alert rules, which are evaluated once a second.
    """

    def __init__(self, folder: Path, targets: Mapping[str, int], rules: Sequence[Path] = ()) -> None:
        self._url = f"http://127.0.0.1:{free_port()}"
        jobs = [
            {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]} for name, port in targets.items()
        ]
        config = {
            "global": {"scrape_interval": "3s", "scrape_timeout": "3s", "evaluation_interval": "1s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": jobs,
        }
        (folder / "prometheus.yaml").write_text(json.dumps(config))  # YAML includes JSON
        flags = {
            "config.file": folder / "prometheus.yaml",
            "storage.tsdb.path": folder / "data",
            "web.listen-address": self._url.removeprefix("http://"),
        }
        with (folder / "prometheus.log").open("wb") as log:
            command = [str(built("prometheus")), *(f"--{name}={value}" for name, value in flags.items())]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._http = httpx2.Client(base_url=self._url, timeout=30)
        until(self._is_ready, 60, "the start of Prometheus")

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, "Prometheus ended"
        try:
            return self._http.get("/-/ready").is_success
        except httpx2.TransportError:
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an expression."""
        found: list[dict[str, Any]] = self._get("query", query=expression)["result"]
        return found

    def _get(self, path: str, **parameters: str) -> Any:
        response = self._http.get(f"/api/v1/{path}", params=parameters)
        assert response.status_code == 200, f"{parameters}: {response.text}"
        return response.json()["data"]

    def names(self) -> set[str]:
        """Return the names of all series, and of all metrics that the targets declare."""
        answers = [self._get(path) for path in ("label/__name__/values", "metadata")]
        return {name for answer in answers for name in answer}

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        return {series["metric"]["alertname"] for series in self.query('ALERTS{alertstate="firing"}')}

    def stop(self) -> None:
        """Stop Prometheus."""
        self._http.close()
        self._process.terminate()
        self._process.wait(30)
