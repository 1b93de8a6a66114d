"""Headwater as a release of its chart, which tests use like a user."""

import json
import os
import secrets
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx2
import psutil
from confluent_kafka import Producer

from tests.kubernetes.cluster.cluster import Cluster
from tests.kubernetes.cluster.servers import Servers
from tests.support.waiting import until

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "headwater"
NAME = "headwater"
REPLICATION = 1
START_WITHIN_S = 240.0
WORKERS = "app.kubernetes.io/component=worker"


class Release:
    """An installation by the chart, in a namespace of its own.

    Attributes:
        namespace: The namespace of the release and of its workers.
        key: An API key with all scopes.
        url: The URL of the API's Service.

    Args:
        cluster: The cluster.
        servers: The Kafka, PostgreSQL and Valkey of the release.
        namespace: The namespace, which must exist.
        image: The image, with its tag.
        folder: Where files of the release are.
    """

    def __init__(self, cluster: Cluster, servers: Servers, namespace: str, image: str, folder: Path) -> None:
        self.cluster = cluster
        self.servers = servers
        self.namespace = namespace
        self.key = self.url = ""
        self._values_file = folder / "values.json"
        self._repository, self._tag = image.rsplit(":", 1)
        self._database = f"headwater_{namespace.replace('-', '_')}"
        self._secret_key = b64encode(secrets.token_bytes(32)).decode()
        self._producer = Producer({**servers.kafka.plain_settings, "enable.idempotence": True, "log_level": 0})

    def install(self) -> None:
        """Install the chart, and wait until the API serves and a controller leads."""
        self.servers.postgres.execute(f"CREATE DATABASE {self._database}")
        self._create_secret("key", "secret-key", self._secret_key)
        self._create_secret("postgresql", "url", self.servers.postgres.url(self._database))
        self._create_secret("redis", "url", self.servers.redis_url)
        self._create_secret("kafka", "password", self.servers.kafka_access.password)
        self._helm("install", {})
        self.key = self._create_key()
        service = self.cluster.get(f"/api/v1/namespaces/{self.namespace}/services/{NAME}-api")
        self.url = f"http://{service['spec']['clusterIP']}:8080"
        until(self._is_ready, START_WITHIN_S, "the readiness of the release")

    def upgrade(self, changes: dict[str, Any]) -> None:
        """Change values, and wait until all Deployments have them.

        All other values are the ones of the installation.
        """
        self._helm("upgrade", changes, "--wait", "--timeout=200s")

    def _helm(self, command: str, changes: dict[str, Any], *options: str) -> None:
        values = self._values()
        for name, change in changes.items():
            values[name] = values[name] | change
        self._values_file.write_text(json.dumps(values))
        files = ["--values", str(self._values_file)]
        self.cluster.helm(command, NAME, str(CHART), "--namespace", self.namespace, *files, *options)

    def _create_secret(self, name: str, key: str, value: str) -> None:
        body = {"metadata": {"name": name}, "stringData": {key: value}}
        self.cluster.post(f"/api/v1/namespaces/{self.namespace}/secrets", body)

    def _values(self) -> dict[str, Any]:
        access = self.servers.kafka_access
        small = {"resources": {"requests": {"cpu": "10m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}}
        return {
            "image": {"repository": self._repository, "tag": self._tag, "pullPolicy": "Never"},
            "secretKey": {"existingSecret": "key"},
            "postgresql": {"existingSecret": "postgresql"},
            "redis": {"existingSecret": "redis"},
            "kafka": {
                "existingSecret": "kafka",
                "bootstrapServers": access.bootstrap_servers,
                "securityProtocol": access.security_protocol,
                "username": access.username,
                "replication": REPLICATION,
            },
            "api": small,
            "controller": small,
            "prices": small,
            "workers": {"memoryMb": 512, "cpuRequest": "10m"},
        }

    @property
    def settings(self) -> dict[str, str]:
        """The environment variables with which commands on this machine use the release."""
        access = self.servers.kafka_access
        return {
            "HEADWATER_DATABASE_URL": self.servers.postgres.url(self._database),
            "HEADWATER_SECRET_KEY": self._secret_key,
            "HEADWATER_REDIS_URL": self.servers.redis_url,
            "HEADWATER_KAFKA_BOOTSTRAP_SERVERS": access.bootstrap_servers,
            "HEADWATER_KAFKA_SECURITY_PROTOCOL": access.security_protocol,
            "HEADWATER_KAFKA_USERNAME": access.username,
            "HEADWATER_KAFKA_PASSWORD": access.password,
            "HEADWATER_KAFKA_REPLICATION": str(REPLICATION),
        }

    def _create_key(self) -> str:
        """Create an API key with the command line, as an operator does."""
        result = subprocess.run(
            [sys.executable, "-m", "headwater", "keys", "create", "--owner", "me"],
            env=os.environ | self.settings,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout.split()[-1]

    def _is_ready(self) -> bool:
        if len(self.pods("api")) < 2:
            return False
        try:
            with self.client() as client:
                return client.get("/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def pods(self, component: str) -> list[dict[str, Any]]:
        """Return the Pods of a component that have an address and are not being deleted."""
        selector = f"app.kubernetes.io/component={component}"
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={selector}"
        pods: Sequence[dict[str, Any]] = self.cluster.get(path)["items"]
        return [pod for pod in pods if pod["status"].get("podIP") and "deletionTimestamp" not in pod["metadata"]]

    def processes(self, pod: str) -> list[int]:
        """Return the ids of the processes of a Pod. The first process of its container comes first."""
        found = psutil.process_iter(["environ"])
        return sorted(each.pid for each in found if (each.info["environ"] or {}).get("HOSTNAME") == pod)

    def leader(self) -> tuple[int, str]:
        """Return the fencing token and the Pod of the leading controller.

        A controller whose container has been restarted does not count until it leads again.
        """
        found: list[tuple[int, str]] = []
        for pod in self.pods("controller"):
            name = pod["metadata"]["name"]
            log = self.cluster.client.get(f"/api/v1/namespaces/{self.namespace}/pods/{name}/log").text
            lines = [line for line in log.splitlines() if "this controller leads" in line]
            found += [(int(json.loads(line)["fencing_token"]), name) for line in lines]
        return max(found, default=(0, ""))

    def worker_objects(self) -> list[str]:
        """Return the names of all Pods and Secrets of workers."""
        return self.kubectl("get", "pods,secrets", "--selector", WORKERS, "--output=name").split()

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl in the namespace of the release, and return its output."""
        return self.cluster.kubectl(*arguments, "--namespace", self.namespace)

    def client(self, key: str | None = None) -> httpx2.Client:
        """Return a client of the API."""
        return httpx2.Client(base_url=self.url, headers={"X-API-Key": key or self.key}, timeout=70)

    def create_stream(self, chain: str, entity: str, partitions: int = 4) -> None:
        """Create the topic of a stream, as the operator of Kafka does."""
        self.servers.kafka.create_topic(f"stream.{chain}.{entity}", partitions)

    def feed(self, chain: str, entity: str, records: Iterable[dict[str, Any]]) -> None:
        """Write records to a stream, and wait until they are acknowledged."""
        for record in records:
            self._producer.produce(f"stream.{chain}.{entity}", json.dumps(record).encode(), str(record.get("n")))
            self._producer.poll(0)
        assert self._producer.flush(60) == 0
