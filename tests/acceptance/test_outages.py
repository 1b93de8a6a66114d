"""Responses while Kafka or Valkey hangs.

They do not reveal internal addresses, and their status is never 500.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.conftest import external_servers
from tests.acceptance.installation import Deployed, Installation, deployed, pipeline
from tests.support.processes import descendants, suspended

FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address", "set_values": ["0xab"]}
PARTS = {"kafka": "kafka.Kafka", "valkey": "valkey-server"}
ANSWERS_WITHIN_S = 75


def processes_of(installation: Installation, part: str) -> list[int]:
    """Return the processes of a server of this test's installation."""
    assert installation.external is not None
    return [process.pid for process in descendants(installation.external.pid) if PARTS[part] in process.command]


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
                with suspended(pids), ThreadPoolExecutor(20) as pool:
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
        answer: httpx2.Response = client.request(method, path, json=body)
        return answer.status_code, answer.text
