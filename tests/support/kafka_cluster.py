"""Runs a Kafka cluster of three nodes without authentication.

Each node is a broker and a controller.
"""

import contextlib
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterator
from pathlib import Path

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from headwater import children
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings
from headwater.brokers.embedded.ports import FIRST_PORT
from headwater.brokers.embedded.runtime import JVM_VARIABLES, KafkaRuntime, find_runtime
from headwater.model.access import KafkaAccess
from tests.support.kafka import CACHE_DIR, WAIT_S, KafkaServer
from tests.support.ports import free_port

NODES = 3
STOP_S = 60.0
POLL_EVERY_S = 0.2
FORMAT_S = 120.0
_PROPERTIES = """
process.roles=broker,controller
node.id={node}
log.dirs=data
listeners=CLIENT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=CLIENT://127.0.0.1:{port}
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
auto.create.topics.enable=false
default.replication.factor=3
min.insync.replicas=2
offsets.topic.num.partitions=4
offsets.topic.replication.factor=3
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
controller.quorum.append.linger.ms=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
num.network.threads=2
num.io.threads=4
background.threads=2
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=8388608
metric.reporters=
"""


class Node:
    """One node, with its directory and its process."""

    def __init__(self, home: Path, runtime: KafkaRuntime, properties: str) -> None:
        self._home = home
        self._runtime = runtime
        (home / "tmp").mkdir(parents=True)
        (home / "server.properties").write_text(properties)
        self.child: children.Child | None = None

    def format(self, cluster_id: str) -> None:
        """Format the data directory."""
        (self._home / "arguments").write_text(f"--cluster-id={cluster_id}\n--config\nserver.properties\n")
        command = self._runtime.formatter("arguments")
        subprocess.run(command, cwd=self._home, check=True, capture_output=True, timeout=FORMAT_S)

    def start(self) -> None:
        """Start the process, which ends with the test process."""
        with (self._home / "kafka.log").open("ab") as log:
            environment = children.inherited_environment(*JVM_VARIABLES)
            self.child = children.spawn(
                self._runtime.broker(), env=environment, cwd=str(self._home), stdout=log, stderr=log
            )

    def stop(self) -> None:
        """Stop the process gracefully, so that it hands over its partitions first."""
        if self.child is not None:
            self.child.stop(STOP_S)


class KafkaCluster:
    """A cluster of three nodes.

    Attributes:
        access: Has only the address of the first node.
        all_nodes: Has the addresses of all nodes.
    """

    def __init__(self, directory: Path) -> None:
        ports = _free_ports(2 * NODES)
        clients, controllers = ports[:NODES], ports[NODES:]
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in enumerate(controllers, 1))
        runtime = find_runtime(CACHE_DIR, "")
        self._directory = directory
        self.nodes = [
            Node(
                directory / f"node-{node}",
                runtime,
                _PROPERTIES.format(node=node, port=port, controller_port=controller, voters=voters),
            )
            for node, (port, controller) in enumerate(zip(clients, controllers, strict=True), 1)
        ]
        self.access = KafkaAccess(bootstrap_servers=f"127.0.0.1:{clients[0]}", security_protocol="PLAINTEXT")
        self.all_nodes = self.access.model_copy(
            update={"bootstrap_servers": ",".join(f"127.0.0.1:{port}" for port in clients)}
        )
        self._admin = AdminClient(admin_settings(self.all_nodes, ClientErrors(self.all_nodes)) | {"log_level": 0})

    def start(self) -> None:
        """Start all nodes, and wait until they are in sync."""
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for node in self.nodes:
            node.format(cluster_id)
            node.start()
        self._wait_until_in_sync(())
        self._wait_for_coordinators()
        self._wait_until_in_sync(("__consumer_offsets",))

    def _wait_for_coordinators(self) -> None:
        """Request committed offsets until it succeeds.

        The first, failing request creates the offsets topic.
        """
        deadline = time.monotonic() + 2 * WAIT_S
        with self.server().consumer(group="probe") as consumer:
            while True:
                try:
                    consumer.committed([TopicPartition("any", 0)], WAIT_S)
                except KafkaException:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(POLL_EVERY_S)
                else:
                    return

    def stop(self) -> None:
        """Kill all nodes."""
        for node in self.nodes:
            if node.child is not None:
                node.child.stop(0)

    def server(self) -> KafkaServer:
        """Return the cluster in the form in which tests use a single broker."""
        return KafkaServer(self.access, self.access.bootstrap_servers, self._admin, self._directory)

    def restart(self, node: Node, topics: Collection[str]) -> None:
        """Restart a node gracefully, and wait until all partitions of the topics are in sync."""
        node.stop()
        node.start()
        self._wait_until_in_sync(topics)

    def _wait_until_in_sync(self, topics: Collection[str]) -> None:
        deadline = time.monotonic() + 2 * WAIT_S
        while not self._is_in_sync(topics):
            assert time.monotonic() < deadline, f"the cluster is not in sync; its logs are in {self._directory}"
            time.sleep(POLL_EVERY_S)

    def _is_in_sync(self, topics: Collection[str]) -> bool:
        """Return whether all nodes run, and every replica of the topics is in sync."""
        self._admin.poll(0)
        try:
            if len(self._admin.list_topics(timeout=5).brokers) < NODES:
                return False
            if not topics:
                return True
            described = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=5)
            partitions = [each for future in described.values() for each in future.result().partitions]
        except KafkaException:
            return False
        return all(len(each.isr) == NODES for each in partitions)


def _free_ports(count: int) -> list[int]:
    """Return ports below the range of ephemeral ports.

    An ephemeral port could be taken while a node restarts.
    """
    first = FIRST_PORT + free_port() % 9_000
    return [first + 10 * number for number in range(count)]


@contextlib.contextmanager
def running_cluster(directory: Path) -> Iterator[KafkaCluster]:
    """Run a cluster for the block."""
    cluster = KafkaCluster(directory)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
