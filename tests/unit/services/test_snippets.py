"""Programs read a sink's topic.

tests/acceptance/test_snippets.py runs them with a real Kafka.
"""

import ast
import json
import shutil
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from headwater.services.snippets import TopicConnection, snippets

ACCESS = TopicConnection(
    topic="flow.01kdxyz.out-a_b",
    bootstrap_servers="kafka-1.example:9092,kafka-2.example:9092",
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="SCRAM-SHA-512",
    username="dep-01kdabc",
    password="s3cretBase62",
    consumer_group="dep-01kdabc.main",
)


@pytest.fixture(params=["python", "node", "java", "kcat"])
def snippet(request: pytest.FixtureRequest) -> str:
    return snippets(ACCESS)[request.param]


class TestEach:
    def test_is_filled_in(self, snippet: str) -> None:
        for name in (*asdict(ACCESS), "ssl", "brokers", "mechanism", "jaas", "login"):
            assert f"@{name}@" not in snippet
        for value in (ACCESS.topic, "dep-01kdabc", "s3cretBase62", ACCESS.consumer_group):
            assert value in snippet
        assert all(broker in snippet for broker in ACCESS.bootstrap_servers.split(","))

    def test_drops_repeats(self, snippet: str) -> None:
        assert "headwater-src" in snippet

    def test_reads_committed_records_only(self, snippet: str) -> None:
        assert "read_committed" in snippet or "readUncommitted: false" in snippet


class TestSecurity:
    @pytest.mark.parametrize(
        ("mechanism", "module"),
        [("PLAIN", "plain.Plain"), ("SCRAM-SHA-256", "scram.Scram"), ("SCRAM-SHA-512", "scram.Scram")],
    )
    def test_the_mechanism_of_the_readers(self, mechanism: str, module: str) -> None:
        programs = snippets(
            TopicConnection(**asdict(ACCESS) | {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism})
        )
        assert f'"sasl.mechanism": "{mechanism}",' in programs["python"]
        assert f'mechanism: "{mechanism.lower()}",' in programs["node"]
        assert f'"sasl.mechanism", "{mechanism}"' in programs["java"]
        assert f"org.apache.kafka.common.security.{module}LoginModule required" in programs["java"]
        assert f"-X sasl.mechanism={mechanism} " in programs["kcat"]

    @pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
    def test_a_listener_without_a_login(self, protocol: str) -> None:
        nobody = {"sasl_mechanism": None, "username": None, "password": None}
        programs = snippets(TopicConnection(**asdict(ACCESS) | nobody | {"security_protocol": protocol}))
        ast.parse(programs["python"])
        for program in programs.values():
            assert "sasl" not in program
            assert "@" not in program.replace("@Override", "")
        assert f"ssl: {json.dumps(protocol == 'SSL')}," in programs["node"]
        assert f'"security.protocol": "{protocol}",' in programs["python"]


class TestLanguages:
    def test_python_parses(self) -> None:
        ast.parse(snippets(ACCESS)["python"])

    def test_node_parses(self, tmp_path: Path) -> None:
        node = shutil.which("node")
        if node is None:
            pytest.skip("node is not installed")
        program = tmp_path / "read.cjs"
        program.write_text(snippets(ACCESS)["node"])
        subprocess.run([node, "--check", program], check=True)

    def test_shell_parses(self, tmp_path: Path) -> None:
        subprocess.run(["sh", "-n"], input=snippets(ACCESS)["kcat"].encode(), check=True)

    def test_node_uses_tls_when_the_listener_does(self) -> None:
        tls = TopicConnection(**asdict(ACCESS) | {"security_protocol": "SASL_SSL"})
        assert "ssl: false," in snippets(ACCESS)["node"]
        assert "ssl: true," in snippets(tls)["node"]

    def test_java_quotes_the_login_twice(self) -> None:
        login = f'username="{ACCESS.username}" password="{ACCESS.password}";'
        assert json.dumps(login)[1:-1] in snippets(ACCESS)["java"]

    def test_passwords_are_quoted_for_the_shell(self) -> None:
        password = 'it\'s $HOME `id` "quoted"'
        program = snippets(replace(ACCESS, password=password))["kcat"].replace("kcat -q", "printf '%s\\n' -q")
        shown = subprocess.run(["sh"], input=program.partition("|\n")[0].encode(), capture_output=True, check=True)
        assert f"sasl.password={password}" in shown.stdout.decode().splitlines()


class TestWithoutALogin:
    @pytest.mark.parametrize("language", ["python", "node", "java", "kcat"])
    def test_no_line_logs_in(self, language: str) -> None:
        nobody = replace(ACCESS, username=None, password=None)
        with_login, without = (snippets(access)[language].splitlines() for access in (ACCESS, nobody))
        assert "sasl." not in "".join(without)
        assert [line for line in with_login if line in without] == without

    def test_python_parses(self) -> None:
        ast.parse(snippets(replace(ACCESS, username=None, password=None))["python"])


def test_the_password_is_not_in_the_repr() -> None:
    assert "s3cretBase62" not in repr(ACCESS)
