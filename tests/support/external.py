"""Runs Kafka, Valkey and PostgreSQL outside of Headwater.

`python -m tests.support.external DIR [HOST]` starts the servers, prints Headwater's settings as one JSON object, and
restarts servers that end, until SIGTERM or the end of its input. So tests can kill these servers like the processes of
`headwater up`. HOST is the advertised host of Kafka's outer listener, whose port is in ports.json. The variable
HEADWATER_TEST_KAFKA_PROPERTIES has further lines for Kafka's server.properties.
"""

import json
import os
import secrets
import signal
import sys
import threading
from pathlib import Path

import redis

from headwater.app.topics import create_topics, stream_topics
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.brokers.embedded import EmbeddedKafka
from headwater.children import Child, spawn
from headwater.logging_setup import configure_logging
from headwater.model.binding import Bindings
from headwater.stores import embedded_valkey
from headwater.supervisor import SupervisedProcess, Supervisor
from tests.support.ports import free_port
from tests.support.postgres_server import PostgresServer

TICK_S = 0.1
READY_WITHIN_S = 60.0
CACHE_DIR = Path(os.environ.get("HEADWATER_CACHE_DIR", "~/.cache/headwater"))


class TcpValkey:
    """A Valkey server that listens on a TCP port and requires a password."""

    def __init__(self, directory: Path, host: str = "127.0.0.1") -> None:
        self._directory = directory
        self._host = host
        self._port = free_port()
        self._password = secrets.token_hex(8)
        self.url = f"redis://:{self._password}@{host}:{self._port}/0"

    def start(self) -> Child:
        """Start the server, which restores its data from its append-only file."""
        self._directory.mkdir(exist_ok=True)
        options = {
            "--port": str(self._port),
            "--bind": self._host,
            "--requirepass": self._password,
            "--dir": str(self._directory),
            "--save": "",
            "--appendonly": "yes",
        }
        arguments = [word for option in options.items() for word in option]
        with (self._directory / "log").open("ab") as log:
            return spawn([str(embedded_valkey.find_binary()), *arguments], stdout=log, stderr=log)

    def wait_ready(self, stop: threading.Event) -> None:
        """Wait until the server answers."""
        with redis.Redis.from_url(self.url) as client:
            while not stop.is_set():
                try:
                    client.ping()
                except redis.ConnectionError:
                    stop.wait(TICK_S)
                else:
                    return


def main(directory: Path, advertised_host: str) -> None:
    """Run until SIGTERM or the end of the input."""
    configure_logging("info")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=_stop_with_the_input, args=(stop,), daemon=True).start()
    supervisor, postgres = Supervisor(), PostgresServer()
    try:
        directory.mkdir(parents=True)
        kafka = EmbeddedKafka(directory, CACHE_DIR, advertised_host=advertised_host)
        print(json.dumps(_start(directory, kafka, supervisor, postgres, stop)), flush=True)
        while not stop.wait(TICK_S):
            supervisor.restart_ended()
    finally:
        supervisor.stop()
        postgres.remove()


def _stop_with_the_input(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def _start(
    directory: Path, kafka: EmbeddedKafka, supervisor: Supervisor, postgres: PostgresServer, stop: threading.Event
) -> dict[str, str]:
    valkey = TcpValkey(directory / "tcp-valkey")
    kafka.prepare()
    with (directory / "kafka" / "server.properties").open("a") as properties:  # a later line wins
        properties.write("\n" + os.environ.get("HEADWATER_TEST_KAFKA_PROPERTIES", ""))
    child = supervisor.start(SupervisedProcess("kafka", kafka.start, grace_s=30.0))
    supervisor.start(SupervisedProcess("valkey", valkey.start))
    postgres.start()
    valkey.wait_ready(stop)
    kafka.wait_ready(child, READY_WITHIN_S)
    access = kafka.access()
    create_topics(KafkaClusterAdmin(access), stream_topics(Bindings()), stop)
    return {
        "HEADWATER_DATABASE_URL": postgres.url(),
        "HEADWATER_REDIS_URL": valkey.url,
        "HEADWATER_KAFKA_BOOTSTRAP_SERVERS": access.bootstrap_servers,
        "HEADWATER_KAFKA_USERNAME": access.username,
        "HEADWATER_KAFKA_PASSWORD": access.password,
        "HEADWATER_KAFKA_REPLICATION": "1",
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(sys.argv[2:] or [""]))
