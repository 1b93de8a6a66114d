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
from confluent_kafka import Producer

from tests.kubernetes.cluster.cluster import Cluster
from tests.kubernetes.cluster.servers import Servers
from tests.support.waiting import until

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "headwater"
NAME = "headwater"
REPLICATION = 1
START_WITHIN_S = 240.0


class Release:
    """An installation by the chart, in a namespace of its own.

    Attributes:
        namespace: The namespace of the release and of its workers.
        key: An API key with all scopes.
    """

    def __init__(self, cluster: Cluster, servers: Servers, namespace: str, image: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.key = ""
        self._servers = servers
        self._repository, self._tag = image.rsplit(":", 1)
        self._database = f"headwater_{namespace.replace('-', '_')}"
        self._secret_key = b64encode(secrets.token_bytes(32)).decode()
        self._producer = Producer({**servers.kafka.plain_settings, "enable.idempotence": True, "log_level": 0})

    def install(self, values: Path, **changes: Any) -> None:
        """Install the chart, and wait until the API serves and a controller leads.

        Args:
            values: The file of values to write.
            **changes: Values in addition to the ones that every test needs.
        """
        self._servers.postgres.execute(f"CREATE DATABASE {self._database}")
        self._create_secret("key", "secret-key", self._secret_key)
        self._create_secret("postgresql", "url", self._servers.postgres.url(self._database))
        self._create_secret("redis", "url", self._servers.redis_url)
        self._create_secret("kafka", "password", self._servers.kafka_access.password)
        values.write_text(json.dumps(self._values() | changes))
        self.cluster.helm("install", NAME, str(CHART), "-n", self.namespace, "-f", str(values))
        self.key = self._create_key()
        until(self._is_ready, START_WITHIN_S, "the readiness of the release")

    def _create_secret(self, name: str, key: str, value: str) -> None:
        body = {"metadata": {"name": name}, "stringData": {key: value}}
        self.cluster.post(f"/api/v1/namespaces/{self.namespace}/secrets", body)

    def _values(self) -> dict[str, Any]:
        access = self._servers.kafka_access
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

    def _create_key(self) -> str:
        """Create an API key with the command line, as an operator does."""
        settings = {"HEADWATER_DATABASE_URL": self._servers.postgres.url(self._database)}
        result = subprocess.run(
            [sys.executable, "-m", "headwater", "keys", "create", "--owner", "me"],
            env=os.environ | settings | {"HEADWATER_SECRET_KEY": self._secret_key},
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

    def client(self, number: int = 0) -> httpx2.Client:
        """Return a client of one of the API's Pods."""
        address = self.pods("api")[number]["status"]["podIP"]
        return httpx2.Client(base_url=f"http://{address}:8080", headers={"X-API-Key": self.key}, timeout=70)

    def create_stream(self, chain: str, entity: str, partitions: int = 4) -> None:
        """Create the topic of a stream, as the operator of Kafka does."""
        self._servers.kafka.create_topic(f"stream.{chain}.{entity}", partitions)

    def feed(self, chain: str, entity: str, records: Iterable[dict[str, Any]]) -> None:
        """Write records to a stream, and wait until they are acknowledged."""
        for record in records:
            self._producer.produce(f"stream.{chain}.{entity}", json.dumps(record).encode(), str(record.get("n")))
            self._producer.poll(0)
        assert self._producer.flush(60) == 0
