"""Runs an embedded Kafka broker per test session.

It has helpers to produce and consume records.
"""

import contextlib
import functools
import itertools
import os
import secrets
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, TopicMetadata

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings, consumer_settings, producer_settings
from headwater.brokers.embedded import EmbeddedKafka
from headwater.model.access import KafkaAccess
from tests.support.waiting import until

WAIT_S = 60.0
CACHE_DIR = Path(os.environ.get("HEADWATER_CACHE_DIR", "~/.cache/headwater"))

_numbers = itertools.count(1)


@dataclass(frozen=True)
class KafkaServer:
    """A running broker. All tests of a session share it, so they use `unique` names.

    Attributes:
        access: The administrator's access.
    """

    access: KafkaAccess
    bootstrap_servers: str
    admin: AdminClient = field(repr=False)
    data_dir: Path

    def unique(self, prefix: str) -> str:
        """Return a name that no other test uses."""
        return f"{prefix}-{secrets.token_hex(4)}-{next(_numbers)}"

    @property
    def plain_settings(self) -> dict[str, str]:
        """The settings with which any librdkafka client authenticates.

        A worker's other settings are not among them.
        """
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.access.security_protocol,
            "sasl.mechanism": self.access.sasl_mechanism,
            "sasl.username": self.access.username,
            "sasl.password": self.access.password,
        }

    def user(self, name: str, password: str) -> KafkaAccess:
        """Return the access of another user."""
        return self.access.model_copy(update={"username": name, "password": password})

    @property
    def port(self) -> int:
        """The port of the broker's listener."""
        return int(self.access.bootstrap_servers.rpartition(":")[2])

    def create_topic(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """Create a topic, wait until its partitions have leaders, and return its name.

        The topic has no retention limit, since records of tests may have timestamps that are years old, and the broker
        would delete them during the test.
        """
        config = {"retention.ms": "-1"} | (config or {})
        self.admin.create_topics([NewTopic(name, partitions, -1, config=config)])[name].result(WAIT_S)
        until(lambda: self._has_leaders(name, partitions), WAIT_S, f"leaders for all partitions of {name}")
        return name

    def _has_leaders(self, topic: str, partitions: int) -> bool:
        known = self._metadata(topic).partitions.values()
        return len([partition for partition in known if partition.leader >= 0]) == partitions

    def _is_unknown(self, topic: str) -> bool:
        error = self._metadata(topic).error
        return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART

    def _metadata(self, topic: str) -> TopicMetadata:
        """Return the broker's metadata of a topic.

        The producer asks, because the admin client caches metadata.
        """
        found: TopicMetadata = self._writer.list_topics(topic, WAIT_S).topics[topic]
        return found

    def commit(self, group: str, topic: str, positions: Mapping[int, int], epoch: int = -1) -> None:
        """Commit offsets for a group without members.

        A consumer's commit could hang, since it has no timeout.

        `epoch` is the leader epoch of the records before the offsets.
        """
        offsets = [TopicPartition(topic, partition, position, "", epoch) for partition, position in positions.items()]
        futures = self.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, offsets)])
        stored = futures[group].result(WAIT_S).topic_partitions
        assert not any(partition.error for partition in stored), stored

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """Delete the records below an offset, as retention does."""
        for future in self.admin.delete_records([TopicPartition(topic, partition, before)]).values():
            future.result(WAIT_S)

    def recreate_topic(self, name: str, partitions: int) -> None:
        """Delete a topic and create it again with the same name."""
        self.admin.delete_topics([name])[name].result(WAIT_S)
        until(lambda: self._is_unknown(name), WAIT_S, f"the deletion of topic {name}")
        self.create_topic(name, partitions)

    def grow(self, topic: str, partitions: int) -> None:
        """Raise a topic's number of partitions, and wait until the metadata has the new number."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(WAIT_S)
        while len(self._writer.list_topics(topic, WAIT_S).topics[topic].partitions) < partitions:
            pass

    def produce(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        partition: int = 0,
        keys: Sequence[bytes | None] | None = None,
        timestamp_ms: int = 0,
        access: KafkaAccess | None = None,
    ) -> None:
        """Write records to one partition and wait until they are acknowledged.

        Fail the test if the broker rejects one.

        A `timestamp_ms` of 0 means the current time.
        """
        rejected: list[KafkaError] = []
        producer = self._writer if access is None else self.producer(access)
        for value, key in zip(values, keys or [None] * len(values), strict=True):
            producer.produce(
                topic,
                value,
                key,
                partition,
                on_delivery=lambda error, _: rejected.append(error) if error else None,
                timestamp=timestamp_ms,
            )
        left = producer.flush(WAIT_S)
        assert (left, rejected) == (0, []), f"{left} records not acknowledged, rejected: {rejected}"

    @functools.cached_property
    def _writer(self) -> Producer:
        """A shared producer, since an idempotent producer takes half a second to start."""
        return self.producer(self.access)

    def producer(self, access: KafkaAccess) -> Producer:
        """Return a producer with a worker's settings."""
        return Producer(producer_settings(access, ClientErrors(access), 0))

    def consume(
        self, topic: str, count: int, *, access: KafkaAccess | None = None, group: str | None = None
    ) -> list[Message]:
        """Return the next `count` records of a topic, sorted by partition and offset.

        Fail the test after WAIT_S.

        Reading starts at the committed offsets of the group, or else at the beginning of all partitions.
        """
        with self.consumer(access, group) as consumer:
            if group is None:
                partitions = consumer.list_topics(topic, WAIT_S).topics[topic].partitions
                consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            else:
                consumer.subscribe([topic])
            messages = read(consumer, count)
        return sorted(messages, key=lambda message: (message.partition(), message.offset()))

    def read_all(self, topic: str) -> list[Message]:
        """Return all committed records of a topic, sorted by partition and offset."""
        with self.consumer(more={"enable.partition.eof": True}) as consumer:
            unread = set(consumer.list_topics(topic, WAIT_S).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, number, 0) for number in unread])
            found: list[Message] = []
            deadline = time.monotonic() + WAIT_S
            while unread:
                assert time.monotonic() < deadline, f"no end of the partitions {unread} within {WAIT_S:g} s"
                for message in consumer.consume(1000, 0.2):
                    error = message.error()
                    if error is None:
                        found.append(message)
                    else:
                        assert error.code() == KafkaError._PARTITION_EOF, error
                        unread.discard(cast("int", message.partition()))
        return sorted(found, key=lambda message: (message.partition(), message.offset()))

    @contextlib.contextmanager
    def consumer(
        self,
        access: KafkaAccess | None = None,
        group: str | None = None,
        reset: str = "earliest",
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> Iterator[Consumer]:
        """Open a consumer for the block. `more` has additional settings."""
        access = access or self.access
        settings = consumer_settings(access, ClientErrors(access), group or self.unique("test-reader"))
        consumer = Consumer(settings | {"auto.offset.reset": reset, **more})
        try:
            yield consumer
        finally:
            consumer.close()

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return the end offset of each partition."""
        with self.consumer() as consumer:
            partitions = consumer.list_topics(topic, WAIT_S).topics[topic].partitions
            return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), WAIT_S)[1] for p in partitions}


def read(consumer: Consumer, count: int) -> list[Message]:
    """Return the next `count` records of a consumer.

    Fail the test on an error message and after WAIT_S.
    """
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        batch = consumer.consume(count - len(found), 0.2)
        errors = [message.error() for message in batch if message.error()]
        assert not errors, errors
        found += batch
    assert len(found) == count, f"{len(found)} of {count} records came within {WAIT_S:g} s"
    return found


def server(embedded: EmbeddedKafka) -> KafkaServer:
    """Return the server of a running broker."""
    access = embedded.access()
    admin = AdminClient(admin_settings(access, ClientErrors(access)))
    return KafkaServer(access, embedded.bootstrap_servers, admin, embedded.data_dir)


@contextlib.contextmanager
def running(data_dir: Path, *, has_authorizer: bool = True, host: str = "127.0.0.1") -> Iterator[KafkaServer]:
    """Run a broker with SCRAM and ACLs for the block. Its jars come from the shared cache.

    Without an authorizer, every user may do everything. Its `bootstrap_servers` are on `host`.
    """
    embedded = EmbeddedKafka(data_dir, CACHE_DIR, host=host)
    embedded.prepare()
    if not has_authorizer:
        properties = data_dir / "kafka" / "server.properties"
        lines = properties.read_text().splitlines()
        of_rules = ("authorizer.", "super.users=", "allow.everyone")
        properties.write_text("\n".join(line for line in lines if not line.startswith(of_rules)))
    child = embedded.start()
    try:
        embedded.wait_ready(child)
        yield server(embedded)
    finally:
        child.stop(15)


class OwnKafka:
    """A broker for one test, which may kill or suspend it."""

    def __init__(self, data_dir: Path) -> None:
        self._embedded = EmbeddedKafka(data_dir, CACHE_DIR)
        self._embedded.prepare()
        self.start()
        self.server = server(self._embedded)

    def start(self) -> None:
        """Start the broker and wait until it is ready."""
        self._child = self._embedded.start()
        self._embedded.wait_ready(self._child)

    def kill(self) -> None:
        """Kill the broker."""
        self._child.send(signal.SIGKILL)
        self._child.wait(30)

    def suspend(self) -> None:
        """Stop all threads of the broker, so that it keeps its connections and calls nothing."""
        self._child.send(signal.SIGSTOP)
        threads = [*Path(f"/proc/{self._child.pid}/task").iterdir()]
        while any((thread / "stat").read_text().rpartition(")")[2].split()[0] != "T" for thread in threads):
            time.sleep(0.001)

    def resume(self) -> None:
        """Continue all threads of the broker."""
        self._child.send(signal.SIGCONT)

    def stop(self) -> None:
        """Stop the broker, even if it is suspended."""
        self.resume()
        self._child.stop(15)


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[OwnKafka]:
    """Run a broker for one test."""
    broker = OwnKafka(tmp_path / "kafka")
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """Run the session's broker."""
    with running(tmp_path_factory.mktemp("kafka")) as running_server:
        yield running_server
