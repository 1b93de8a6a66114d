"""The events of clients that nobody uses are handled, and an unused client can be freed."""

import gc
import weakref
from contextlib import closing

import pytest

from headwater.brokers import admin_connection
from headwater.brokers.admin_connection import AdminConnection
from headwater.brokers.client_settings import LibraryLog
from headwater.brokers.kafka_tail_reader import KafkaTailReader
from headwater.brokers.kafka_topic_history import KafkaTopicHistory, _PooledConsumer
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess
from tests.support.ports import free_port
from tests.support.waiting import until

WAIT_S = 10.0


@pytest.fixture
def nowhere() -> KafkaAccess:
    """A cluster that does not exist: its clients log several lines a second."""
    return KafkaAccess(bootstrap_servers=f"127.0.0.1:{free_port()}", security_protocol="PLAINTEXT")


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that clients have logged."""
    lines: list[str] = []
    monkeypatch.setattr(admin_connection, "POLL_INTERVAL_S", 0.05)
    monkeypatch.setattr(LibraryLog, "log", lambda _, _level, text, *arguments: lines.append(text % arguments))
    return lines


def wait_for_lines(lines: list[str], client: str, count: int = 3) -> None:
    until(lambda: len([line for line in lines if client in line]) >= count, WAIT_S, f"{client} has logged")


def test_idle_readers_of_records(nowhere: KafkaAccess, lines: list[str]) -> None:
    with closing(KafkaTopicHistory(nowhere)) as history:
        wait_for_lines(lines, "#producer-")  # the kind of client that an AdminClient is
        history._idle.append(_PooledConsumer(nowhere))
        wait_for_lines(lines, "#consumer-")


def test_idle_readers_of_tails(nowhere: KafkaAccess, lines: list[str]) -> None:
    with closing(KafkaTailReader(nowhere)):
        wait_for_lines(lines, "#producer-")


def test_the_poller_keeps_no_client_alive(nowhere: KafkaAccess) -> None:
    client = weakref.ref(AdminConnection(nowhere))
    until(lambda: gc.collect() >= 0 and client() is None, WAIT_S, "the client is freed")


def test_settings_that_cannot_be_used(nowhere: KafkaAccess) -> None:
    access = nowhere.model_copy(update={"security_protocol": "SSL", "ca_file": "/no/such/file"})
    with pytest.raises(BrokerUnavailable, match=r"ca\.location"):
        AdminConnection(access)
