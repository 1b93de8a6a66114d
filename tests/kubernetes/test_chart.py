"""Helm renders the chart with each of its switches, and the API server accepts the result."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.settings import SECRETS, Settings, environment_variable
from tests.kubernetes.cluster.cluster import Cluster

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "headwater"
KUBE_VERSION = "--kube-version=1.36.0"
"""A Helm that is built from source assumes an old version when it renders without a cluster."""
REQUIRED = {
    "image": {"repository": "headwater.test/headwater"},
    "secretKey": {"existingSecret": "key"},
    "postgresql": {"existingSecret": "postgresql"},
    "redis": {"existingSecret": "redis"},
    "kafka": {"existingSecret": "kafka", "bootstrapServers": "kafka.example:9093", "username": "headwater-admin"},
}
NODES = [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
TOLERATIONS = [{"key": "dedicated", "operator": "Exists"}]
INGEST = {"name": "base", "config": {"type": "evm", "chain": "base", "rpc": "$BASE_RPC"}, "existingSecret": "nodes"}
CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "no policies": {"networkPolicy": {"enabled": False}},
    "policies with addresses": {
        "networkPolicy": {
            "apiFrom": NODES,
            "metricsFrom": NODES,
            "kafka": {"ports": [9093], "to": NODES},
            "extraEgress": [{"to": NODES}],
            "workerExtraEgress": [{"to": NODES}],
        },
        "ingests": [INGEST],
    },
    "no budgets and no prices": {
        "api": {"podDisruptionBudget": {"enabled": False}},
        "controller": {"podDisruptionBudget": {"enabled": False}},
        "prices": {"enabled": False},
    },
    "autoscaling": {"api": {"autoscaling": {"enabled": True}}},
    "ingress": {
        "api": {
            "readinessPath": "/readyz",
            "preStopSeconds": 0,
            "service": {"type": "NodePort", "port": 80, "annotations": {"owner": "test"}},
            "ingress": {
                "enabled": True,
                "className": "nginx",
                "annotations": {"owner": "test"},
                "hosts": [{"host": "headwater.example", "paths": [{"path": "/", "pathType": "Prefix"}]}],
                "tls": [{"secretName": "tls", "hosts": ["headwater.example"]}],
            },
        },
        "settings": {"HEADWATER_TRUSTED_PROXIES": ""},
    },
    "ingests": {
        "ingests": [
            INGEST,
            {
                "name": "hyperliquid",
                "config": {"type": "hyperliquid", "node_data": "/data"},
                "extraVolumes": [{"name": "node", "emptyDir": {}}],
                "extraVolumeMounts": [{"name": "node", "mountPath": "/data"}],
                "metricsPort": 9300,
            },
        ]
    },
    "bindings": {
        "streamBindings": {
            "bindings": {"base.log": "logs", "polygon.log": {"pubsub": {"project": "test", "topic": "logs"}}},
            "filesSecret": "bindings",
        },
        "ingests": [INGEST],
    },
    "monitors": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}, "ingests": [INGEST]},
    "alerts": {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}}},
    "dashboards": {"dashboards": {"enabled": True, "annotations": {"grafana_folder": "Headwater"}}},
    "workers": {
        "image": {"digest": f"sha256:{'0' * 64}", "pullPolicy": "Always", "pullSecrets": ["one", "two"]},
        "workers": {
            "namespace": "default",
            "memoryMb": 2048,
            "cpuRequest": "500m",
            "cpuLimit": "2",
            "priorityClass": "high",
            "nodeSelector": {"pool": "workers"},
            "tolerations": TOLERATIONS,
        },
        "sandbox": {"seccompProfile": "Localhost:profiles/headwater.json"},
    },
    "mutual TLS": {
        "kafka": {
            "securityProtocol": "SSL",
            "keyPasswordKey": "key-password",
            "tls": {"existingSecret": "kafka-tls", "certificateKey": "tls.crt", "keyKey": "tls.key"},
            "reader": {"bootstrapServers": "kafka.example:9094", "securityProtocol": "SASL_SSL"},
        }
    },
    "OAuth": {
        "kafka": {
            "saslMechanism": "OAUTHBEARER",
            "oauthClientSecretKey": "client-secret",
            "oauth": {"tokenEndpointUrl": "https://tokens.example", "clientId": "headwater"},
            "tls": {"existingSecret": "kafka-tls", "oauthCaKey": "oauth.crt"},
        }
    },
    "given credentials": {
        "kafka": {
            "saslMechanism": "AWS_MSK_IAM",
            "awsRegion": "eu-central-1",
            "credentials": "given",
            "readerPasswordKey": "reader",
            "reader": {"saslMechanism": "SCRAM-SHA-512", "username": "reader"},
        },
        "serviceAccount": {"annotations": {"role": "headwater"}},
    },
    "plain Kafka": {"kafka": {"securityProtocol": "PLAINTEXT", "existingSecret": "", "replication": 1}},
    "scheduling": {
        "fullnameOverride": "records",
        "extraEnv": [{"name": "https_proxy", "value": "proxy.example:3128"}],
        "extraVolumes": [{"name": "authorities", "configMap": {"name": "authorities"}}],
        "extraVolumeMounts": [{"name": "authorities", "mountPath": "/etc/authorities"}],
        "topologySpreadConstraints": [],
        "api": {
            "podAnnotations": {"owner": "test"},
            "nodeSelector": {"pool": "api"},
            "tolerations": TOLERATIONS,
            "affinity": {"podAntiAffinity": {}},
            "priorityClassName": "high",
        },
        "secretKey": {"oldKey": "old-secret-key"},
        "test": {"existingSecret": "api-key"},
    },
}


def custom_resource(kind: str) -> dict[str, Any]:
    """Return what the API server must know of a custom resource of the Prometheus Operator."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def values_file(folder: Path, *layers: dict[str, Any]) -> str:
    """Write the required values and these, and return the arguments of Helm that name them."""
    arguments = []
    for number, layer in enumerate([REQUIRED, *layers]):
        path = folder / f"values{number}.yaml"
        path.write_text(json.dumps(layer))
        arguments.append(str(path))
    return f"--values={','.join(arguments)}"


def environments(documents: list[Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name and the environment of each Deployment, without the variables of secrets."""
    maps = {each["metadata"]["name"]: each["data"] for each in documents if each["kind"] == "ConfigMap"}
    for each in documents:
        if each["kind"] != "Deployment":
            continue
        (container,) = each["spec"]["template"]["spec"]["containers"]
        environment: dict[str, str] = {}
        for source in container["envFrom"]:
            environment |= maps[source["configMapRef"]["name"]] if "configMapRef" in source else {}
        environment |= {variable["name"]: variable["value"] for variable in container.get("env", [])}
        secret_files = [f"{environment_variable(name)}_FILE" for name in SECRETS]
        yield each["metadata"]["name"], {n: v for n, v in environment.items() if n not in secret_files}


def rejected_variables(environment: dict[str, str]) -> str:
    """Return the error of `Settings` for an environment; an empty text without an error."""
    program = "from headwater.settings import Settings; Settings()"
    result = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    return result.stderr


@pytest.fixture(scope="session", autouse=True)
def custom_resources(cluster: Cluster) -> None:
    for resource in map(custom_resource, ("ServiceMonitor", "PrometheusRule")):
        cluster.kubectl("apply", "--filename=-", stdin=json.dumps(resource))
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{resource['metadata']['name']}")


def test_lint(cluster: Cluster, tmp_path: Path) -> None:
    cluster.helm("lint", "--strict", str(CHART), KUBE_VERSION)
    cluster.helm("lint", "--strict", str(CHART), KUBE_VERSION, values_file(tmp_path))


def test_required_values(cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match=r"Set \w+\.\w+ to"):
        cluster.helm("template", "headwater", str(CHART), KUBE_VERSION)


def test_unknown_values(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="replica"):
        cluster.helm("template", "headwater", str(CHART), KUBE_VERSION, values_file(tmp_path, {"api": {"replica": 3}}))


@pytest.mark.parametrize("case", CASES)
def test_the_api_server_accepts_each_case(cluster: Cluster, namespace: str, tmp_path: Path, case: str) -> None:
    # The server warns about Pods that do not meet the restricted standard.
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/warn=restricted")
    values = values_file(tmp_path, CASES[case])
    text = cluster.helm("template", "headwater", str(CHART), KUBE_VERSION, f"--namespace={namespace}", values)
    documents = [each for each in yaml.safe_load_all(text) if each]
    accounts = [each for each in documents if each["kind"] == "ServiceAccount"]  # a Pod needs one that exists
    cluster.kubectl("apply", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": accounts}))
    cluster.kubectl("apply", "--dry-run=server", "--warnings-as-errors", "--filename=-", stdin=text)
    known = {environment_variable(name) for name in Settings.model_fields}
    for name, environment in environments(documents):
        unknown = [variable for variable in environment if variable.startswith("HEADWATER_") and variable not in known]
        assert (name, unknown) == (name, [])
        assert (name, rejected_variables(environment)) == (name, "")


def rendered(cluster: Cluster, folder: Path, case: str) -> list[Any]:
    """Return the objects that the chart has in a case."""
    text = cluster.helm("template", "headwater", str(CHART), KUBE_VERSION, values_file(folder, CASES[case]))
    return [each for each in yaml.safe_load_all(text) if each]


def test_the_rules_are_the_ones_of_prometheus(cluster: Cluster, tmp_path: Path) -> None:
    (rule,) = [each for each in rendered(cluster, tmp_path, "alerts") if each["kind"] == "PrometheusRule"]
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"] == yaml.safe_load((DEPLOY / "prometheus" / "headwater.rules.yaml").read_text("utf-8"))


def test_the_dashboards_are_the_ones_of_grafana(cluster: Cluster, tmp_path: Path) -> None:
    maps = [each for each in rendered(cluster, tmp_path, "dashboards") if each["kind"] == "ConfigMap"]
    found: dict[str, str] = {}
    for each in maps:
        if each["metadata"]["labels"].get("grafana_dashboard") == "1":
            assert each["metadata"]["annotations"] == {"grafana_folder": "Headwater"}
            found |= each["data"]
    files = (DEPLOY / "grafana").glob("*.json")
    assert found == {f"headwater-{file.name}": file.read_text("utf-8") for file in files}


def test_the_jobs_have_the_names_that_the_alerts_expect(cluster: Cluster, tmp_path: Path) -> None:
    monitors = [each for each in rendered(cluster, tmp_path, "monitors") if each["kind"] == "ServiceMonitor"]
    jobs = [rule["replacement"] for each in monitors for rule in each["spec"]["endpoints"][0]["relabelings"]]
    assert jobs == ["headwater-api", "headwater-metrics"]
