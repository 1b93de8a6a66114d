"""Responses while Kafka or Valkey hangs: they do not reveal internal addresses, and their status is never 500."""

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.acceptance.conftest import external_servers
from tests.acceptance.stack import Deployed, Installation, alive, deployed, pipeline

FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address", "set_values": ["0xab"]}
PARTS = {"kafka": b"kafka.Kafka", "valkey": b"valkey-server"}
ANSWERS_WITHIN_S = 75


def processes_of(installation: Installation, part: str) -> list[int]:
    """Return the processes of a server of this test's installation."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(entry.name)
            command = (entry / "cmdline").read_bytes()
            if (
                PARTS[part] in command
                and installation.external is not None
                and _belongs(pid, installation.external.pid)
            ):
                found.append(pid)
    return found


def _belongs(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return False


@contextlib.contextmanager
def hanging(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGCONT)


def calls(deployment: Deployed) -> list[tuple[str, str, object]]:
    of = f"/api/v1/flow/{deployment.id}"
    return [
        ("GET", "/api/v1/flow", None),
        ("GET", of, None),
        ("POST", "/api/v1/flow", pipeline(transforms=[FILTER])),
        ("POST", f"{of}/deploy", None),
        ("GET", f"{of}/deploy", None),
        ("GET", f"{of}/deploy/stats", None),
        ("GET", f"{of}/deploy/metrics", None),
        ("GET", f"{of}/deploy/logs", None),
        ("POST", f"{of}/deploy/credentials", None),
        ("PUT", f"{of}/transforms", [FILTER]),
        ("GET", f"{deployment.filter_url()}/count", None),
        ("POST", deployment.filter_url(), {"values": ["0xcd"]}),
        ("POST", "/api/v1/flow/datasets", {"name": "watched"}),
        ("POST", "/api/v1/developer/prices/stats", [{"token_address": "0xab", "chain": "base"}]),
        ("GET", "/readyz", None),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("part", list(PARTS))
def test_responses_do_not_reveal_internal_addresses(
    part: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with external_servers(True, tmp_path_factory.mktemp("parts")) as parts:
        assert parts is not None
        secret = re.compile(
            "|".join(
                re.escape(word)
                for value in parts.settings.values()
                for word in re.findall(r"[\w.-]+:\d{4,5}|(?<=:)[\w-]{8,}(?=@)|/tmp/[\w/.-]+|headwater-admin", value)
            )
        )
        installation = Installation(tmp_path / "data", external=parts, flags=("--deploy-timeout-s", "25"))
        installation.start()
        try:
            with installation.client() as client, deployed(client, pipeline(transforms=[FILTER])) as deployment:
                pids = processes_of(installation, part)
                assert pids, f"no process of {part}"
                with hanging(pids), ThreadPoolExecutor(20) as pool:
                    asked = [pool.submit(ask, installation, *call) for call in calls(deployment)]
                    answers = [future.result(ANSWERS_WITHIN_S) for future in asked]
                assert {status for status, _ in answers} & {503}
                for status, text in answers:
                    assert status != 500, text
                    if part != "kafka" or status >= 400:
                        assert not secret.search(without_endpoint(text, deployment)), text
                    assert str(tmp_path) not in text
        finally:
            installation.stop()


def without_endpoint(text: str, deployment: Deployed) -> str:
    """Remove Kafka's public endpoint from a text, since responses may contain it."""
    return text.replace(deployment.sink["bootstrap_servers"], "")


def ask(installation: Installation, method: str, path: str, body: object) -> tuple[int, str]:
    with installation.client() as client:
        answer: httpx.Response = client.request(method, path, json=body)
        return answer.status_code, answer.text
