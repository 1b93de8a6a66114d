"""Runs Kafka, PostgreSQL and Valkey where the Pods of the cluster reach them."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.model.access import KafkaAccess
from tests.kubernetes.cluster.network import HOST
from tests.support import kafka
from tests.support.external import TcpValkey
from tests.support.postgres_server import PostgresServer

STOP_WITHIN_S = 10.0


@dataclass(frozen=True)
class Servers:
    """The running servers.

    Attributes:
        kafka: The broker, as the tests use it.
        kafka_access: The administrator's access to the broker, as Pods use it.
        postgres: The server of databases. The tests and the Pods reach it by the same URLs.
        redis_url: The URL of Valkey, for the tests and the Pods.
    """

    kafka: kafka.KafkaServer
    kafka_access: KafkaAccess
    postgres: PostgresServer
    redis_url: str


@contextlib.contextmanager
def running_servers(folder: Path) -> Iterator[Servers]:
    """Run the servers for the block. They listen on HOST, so the cluster has to run."""
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(kafka.running(folder / "kafka", host=HOST))
        postgres = PostgresServer(HOST)
        stack.callback(postgres.remove)
        postgres.start()
        valkey = TcpValkey(folder / "valkey", HOST)
        process = valkey.start()
        stack.callback(process.stop, STOP_WITHIN_S)
        valkey.wait_ready(threading.Event())
        access = broker.access.model_copy(update={"bootstrap_servers": broker.bootstrap_servers})
        yield Servers(broker, access, postgres, valkey.url)
