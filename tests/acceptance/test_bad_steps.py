"""Mistakes of new users, and the error message for each."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import HEADWATER, Installation, pipeline
from tests.support.ports import free_port


def up(data_dir: Path, *flags: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `headwater up`, which must fail to start."""
    command = [*HEADWATER, "up", "--data-dir", str(data_dir), *flags]
    environment = {**os.environ, **env}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def refusal(ended: subprocess.CompletedProcess[str]) -> str:
    """Return the error message of a command that could not start, which must be a single line."""
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr


class TestStarting:
    def test_port_taken(self, installation: Installation, tmp_path: Path) -> None:
        sentence = refusal(up(tmp_path / "data", "--port", str(installation.port)))
        assert str(installation.port) in sentence
        assert "--port" in sentence

    def test_data_directory_in_use(self, installation: Installation) -> None:
        sentence = refusal(up(installation.data_dir, "--port", str(free_port())))
        assert str(installation.data_dir) in sentence
        assert "in use" in sentence
        assert "--data-dir" in sentence

    @pytest.mark.slow
    def test_no_maven(self, tmp_path: Path) -> None:
        empty = tmp_path / "bin"
        empty.mkdir()
        flags = ("--port", str(free_port()), "--cache-dir", str(tmp_path / "cache"))
        sentence = refusal(up(tmp_path / "data", *flags, PATH=str(empty)))
        assert "Maven" in sentence
        assert "install" in sentence.lower()

    @pytest.mark.slow
    def test_no_network(self, tmp_path: Path) -> None:
        settings = tmp_path / ".m2" / "settings.xml"
        settings.parent.mkdir()
        mirror = "<mirror><id>m</id><mirrorOf>*</mirrorOf><url>http://127.0.0.1:9/</url></mirror>"
        settings.write_text(f"<settings><mirrors>{mirror}</mirrors></settings>")
        flags = ("--port", str(free_port()), "--cache-dir", str(tmp_path / "cache"))
        sentence = refusal(up(tmp_path / "data", *flags, MAVEN_OPTS=f"-Duser.home={tmp_path}"))
        assert "network" in sentence

    @pytest.mark.slow
    def test_java_too_old(self, tmp_path: Path) -> None:
        java = tmp_path / "java"
        java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.22\" 2024-01-16' >&2\n")
        java.chmod(0o755)
        sentence = refusal(up(tmp_path / "data", "--port", str(free_port()), "--kafka-java", str(java)))
        assert "11" in sentence
        assert "17" in sentence

    def test_not_linux(self, tmp_path: Path) -> None:
        pretend = (
            "import sys; from headwater.__main__ import main; from headwater.app import up; "
            "sys.platform = 'darwin'; main()"
        )
        command = [sys.executable, "-c", pretend, "up", "--data-dir", str(tmp_path / "data")]
        sentence = refusal(subprocess.run(command, capture_output=True, text=True, timeout=60))
        assert "Linux" in sentence

    def test_invalid_setting(self, tmp_path: Path) -> None:
        sentence = refusal(up(tmp_path / "data", HEADWATER_PORT="eighty"))
        assert "HEADWATER_PORT" in sentence

    @pytest.mark.long
    def test_replay_without_an_installation(self, tmp_path: Path) -> None:
        file = tmp_path / "records.jsonl"
        file.write_text("{}\n")
        command = [
            *HEADWATER,
            "replay",
            "--chain",
            "base",
            "--entity",
            "log",
            "--data-dir",
            str(tmp_path / "no"),
            str(file),
        ]
        sentence = refusal(subprocess.run(command, capture_output=True, text=True, timeout=60))
        assert "headwater up" in sentence


class TestCalling:
    def post(self, client: httpx2.Client, **config: Any) -> dict[str, Any]:
        answer = client.post("/api/v1/flow", json=pipeline(**config))
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        body: dict[str, Any] = answer.json()
        return body

    @pytest.mark.proves("5/every-endpoint-requires-an-api-key")
    def test_wrong_key(self, installation: Installation) -> None:
        wrong = installation.key[:-1] + ("a" if installation.key[-1] != "a" else "b")
        answer = httpx2.get(f"{installation.url}/api/v1/flow", headers={"X-API-Key": wrong})
        assert answer.status_code == 401
        assert "X-API-Key" in answer.json()["detail"]
        assert "headwater keys create" in answer.json()["detail"]

    @pytest.mark.proves("2.2/transform.v8")
    def test_script_with_a_syntax_error(self, installation: Installation, client: httpx2.Client) -> None:
        script = textwrap.dedent("""
            function process(record) {
              return record +;
            }""").lstrip()
        problem = self.post(client, transforms=[{"type": "v8", "script": script}])
        (fault,) = problem["errors"]
        assert fault["pointer"] == "/pipeline_config/transforms/0/script"
        assert "line 2" in fault["detail"]
        assert "column 18" in fault["detail"]

    @pytest.mark.proves("2.2/source.chain")
    def test_unknown_chain(self, installation: Installation, client: httpx2.Client) -> None:
        problem = self.post(client, chain="bitcoin")
        (fault,) = problem["errors"]
        assert fault["pointer"] == "/pipeline_config/source/chain"
        assert all(chain in fault["detail"] for chain in ("polygon", "base", "solana", "hyperliquid"))

    def test_invalid_expression(self, installation: Installation, client: httpx2.Client) -> None:
        problem = self.post(client, transforms=[{"type": "redis_set_filter", "filter_expr": "root = this."}])
        (fault,) = problem["errors"]
        assert fault["pointer"] == "/pipeline_config/transforms/0/filter_expr"
        assert "column" in fault["detail"]

    def test_zerolag_without_a_binding(self, installation: Installation, client: httpx2.Client) -> None:
        source = {"chain": "base", "entity": "log", "is_zerolag": True}
        problem = self.post(client, source=source)
        assert problem["errors"][0]["pointer"] == "/pipeline_config/source/is_zerolag"


class TestDocs:
    def test_the_page_loads_nothing_from_other_hosts(self, installation: Installation) -> None:
        page = httpx2.get(f"{installation.url}/docs")
        assert page.status_code == 200
        for quote in ('"', "'"):
            for attribute in (f"src={quote}", f"href={quote}"):
                for place in page.text.split(attribute)[1:]:
                    address = place.split(quote)[0]
                    assert not address.startswith(("http", "//")), address
                    if not address.startswith("data:"):
                        assert httpx2.get(httpx2.URL(f"{installation.url}/docs").join(address)).status_code == 200, (
                            address
                        )
        assert httpx2.get(f"{installation.url}/openapi.json").json()["openapi"].startswith("3.")
