"""The files in deploy/ fit together, and name settings that exist."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from pydantic import TypeAdapter

import headwater
from headwater.app.ingest_kinds import KINDS
from headwater.model.kafka_security import SaslMechanism, SecurityProtocol
from headwater.settings import SECRETS, Settings, environment_variable, file_environment_variable

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "headwater"
SCHEMA = json.loads((CHART / "values.schema.json").read_text("utf-8"))
VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
VARIABLES = {*map(environment_variable, Settings.model_fields), *map(file_environment_variable, SECRETS)}
INGEST = {"name": "base", "config": {"type": "evm", "chain": "base", "rpc": "$BASE_RPC"}}


def files() -> list[Path]:
    """Return all files in deploy/ but Python's bytecode files."""
    return sorted(path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".pyc")


def changed(path: str, value: Any) -> Any:
    """Return the default values with another value at a path, such as `api.replicas`."""
    values = copy.deepcopy(VALUES)
    *parents, name = path.split(".")
    inner = values
    for parent in parents:
        inner = inner[parent]
    inner[name] = value
    return values


def is_valid(values: Any) -> bool:
    return jsonschema_rs.validator_for(SCHEMA).is_valid(values)


def missing_values(schema: Any, values: Any, path: str = "") -> Iterator[str]:
    """Yield the paths that a schema of an object has and the values do not have."""
    for name, inner in schema.get("properties", {}).items():
        if name not in values:
            yield path + name
        elif isinstance(values[name], dict) and values[name]:
            yield from missing_values(inner, values[name], f"{path}{name}.")


def test_the_schema_is_a_json_schema() -> None:
    jsonschema_rs.meta.validate(SCHEMA)


def test_the_default_values_are_valid() -> None:
    jsonschema_rs.validator_for(SCHEMA).validate(VALUES)


def test_each_value_of_the_schema_has_a_default() -> None:
    assert list(missing_values(SCHEMA, VALUES)) == ["global"]


def test_the_examples_in_the_comments_are_valid() -> None:
    examples = re.findall(r"# Example: (.+)\n(?: *#.*\n)* *(\w+):", (CHART / "values.yaml").read_text("utf-8"))
    paths = {"bindings": "streamBindings.bindings", "hosts": "api.ingress.hosts", "tls": "api.ingress.tls"}
    assert len(examples) == 4
    for text, name in examples:
        jsonschema_rs.validator_for(SCHEMA).validate(changed(paths.get(name, name), yaml.safe_load(text)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("api.replicas", 3),
        ("dashboards.labels", {"grafana_dashboard": "yes"}),
        ("image.digest", "sha256:" + "0" * 64),
        ("ingests", [INGEST]),
        ("kafka.bootstrapServers", "kafka-1.example:9093,kafka-2.example:9093"),
        ("sandbox.seccompProfile", "Localhost:profiles/headwater.json"),
        ("settings", {"HEADWATER_RATE_LIMIT": "20"}),
        ("workers.cpuLimit", "1.5"),
    ],
)
def test_accepted_values(path: str, value: Any) -> None:
    jsonschema_rs.validator_for(SCHEMA).validate(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("unknown", 1),
        ("api.replica", 3),
        ("api.replicas", "3"),
        ("api.replicas", -1),
        ("api.readinessPath", "/ready"),
        ("dashboards.labels", {"grafana_dashboard": 1}),
        ("image.digest", "latest"),
        ("image.pullPolicy", "Sometimes"),
        ("ingests", [{"name": "base"}]),
        ("ingests", [INGEST | {"name": "Base"}]),
        ("ingests", [INGEST | {"config": {"type": "bitcoin"}}]),
        ("ingests", [INGEST | {"replicas": 2}]),
        ("kafka.bootstrapServers", "kafka.example"),
        ("kafka.replication", 0),
        ("kafka.saslMechanism", "GSSAPI"),
        ("prometheusRule.enabled", "yes"),
        ("sandbox.seccompProfile", "Localhost:"),
        ("sandbox.seccompProfile", "Localhost"),
        ("settings", {"RATE_LIMIT": "20"}),
        ("settings", {"HEADWATER_RATE_LIMIT": 20}),
        ("settings", {"HEADWATER_SECRET_KEY": "text"}),
        ("streamBindings.bindings", {"log": "evm-logs"}),
        ("workers.cpuLimit", "much"),
        ("workers.memoryMb", 16),
        ("workers.namespace", "Workers"),
    ],
)
def test_refused_values(path: str, value: Any) -> None:
    assert not is_valid(changed(path, value))


def test_the_schema_has_the_choices_of_the_settings() -> None:
    kafka = SCHEMA["properties"]["kafka"]["properties"]
    assert kafka["securityProtocol"]["enum"] == TypeAdapter(SecurityProtocol).json_schema()["enum"]
    assert kafka["saslMechanism"]["enum"] == ["", *TypeAdapter(SaslMechanism).json_schema()["enum"]]
    ingests = SCHEMA["properties"]["ingests"]["items"]["properties"]
    assert ingests["config"]["properties"]["type"]["enum"] == sorted(KINDS)
    refused = SCHEMA["properties"]["settings"]["propertyNames"]["not"]["enum"]
    assert set(refused) == set(map(environment_variable, SECRETS))


def test_templates_use_values_that_exist() -> None:
    used = {path for file in files() for path in re.findall(r"\.Values((?:\.\w+)+)", file.read_text("utf-8"))}
    unknown = []
    for path in used:
        value = VALUES
        for name in path.removeprefix(".").split("."):
            if name not in value:
                unknown.append(path)
                break
            value = value[name]
    assert used
    assert unknown == []


def test_files_name_settings_that_exist() -> None:
    found = {name for file in files() for name in re.findall(r"HEADWATER_[A-Z0-9_]+", file.read_text("utf-8"))}
    assert found - VARIABLES == set()


def test_compose_gives_one_address_to_all_processes() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    commands = {name: service["command"] for name, service in compose["services"].items()}
    assert {name: command[0] for name, command in commands.items()} == {
        "api": "api",
        "controller": "controller",
        "prices": "prices",
    }
    assert all(service["env_file"] == "headwater.env" for service in compose["services"].values())


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["appVersion"] == chart["version"] == headwater.__version__


def test_files_are_ascii() -> None:
    assert [path.name for path in files() if not path.read_bytes().isascii()] == []


def test_the_chart_has_all_dashboards() -> None:
    shipped = {file.name: file.read_text("utf-8") for file in (CHART / "files" / "dashboards").iterdir()}
    assert shipped == {file.name: file.read_text("utf-8") for file in (DEPLOY / "grafana").glob("*.json")}
