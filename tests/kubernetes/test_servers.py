"""Pods reach the servers of the tests."""

from urllib.parse import urlsplit

import redis

from tests.kubernetes.cluster.network import HOST
from tests.kubernetes.cluster.servers import Servers


def test_the_servers_listen_on_the_address_that_pods_reach(servers: Servers) -> None:
    assert servers.postgres.execute("SELECT 1") == [(1,)]
    assert urlsplit(servers.postgres.url()).hostname == HOST
    with redis.Redis.from_url(servers.redis_url) as client:
        assert client.ping()
    assert urlsplit(servers.redis_url).hostname == HOST
    assert servers.kafka_access.bootstrap_servers.startswith(f"{HOST}:")
    topic = servers.kafka.create_topic(servers.kafka.unique("reached"))
    servers.kafka.produce(topic, [b"value"], access=servers.kafka_access)
    assert [message.value() for message in servers.kafka.consume(topic, 1)] == [b"value"]
