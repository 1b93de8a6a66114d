"""The names of the operator's that no user is told, from the settings and the bindings of streams."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from headwater.app.addresses import Addresses
from headwater.model.binding import Binding, Bindings, KafkaTopic, PubSubTopic
from headwater.model.kafka_security import FILES
from headwater.model.worker import KafkaAccess, PubSubAccess


def operator_names(addresses: Addresses, bindings: Bindings) -> frozenset[str]:
    """Addresses, users, folders and files, and the topics and subscriptions that a binding names."""
    home = addresses.home
    own = _of_kafka(addresses.kafka())
    urls = (name for url in (addresses.redis_url(), addresses.database_url()) for name in _of_url(url))
    bound = (name for binding in bindings.named.values() for name in _of_binding(binding))
    return frozenset(filter(None, (str(home.path), *own, *urls, *bound)))


def _of_kafka(access: KafkaAccess) -> Iterator[str]:
    yield access.bootstrap_servers
    for server in access.bootstrap_servers.split(","):
        yield server
        yield server.rpartition(":")[0]
    yield access.username
    yield access.oauth_client_id
    yield access.oauth_token_endpoint_url
    yield from _of_url(access.oauth_token_endpoint_url)
    yield from (getattr(access, file) for file in FILES)


def _of_url(url: str) -> Iterator[str]:
    """The hosts, with and without their ports, of a URL that may name several; a socket's path.

    Users of stores stay: no sentence has them, and many are called as the product is.
    """
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    for host in hosts.split(","):
        yield host
        yield host.rpartition(":")[0]
    if not hosts:
        yield parts.path


def _of_binding(binding: Binding) -> Iterator[str]:
    if isinstance(binding, KafkaTopic):
        yield binding.topic
        yield from () if binding.access is None else _of_kafka(binding.access)
        return
    yield binding.topic if isinstance(binding, PubSubTopic) else binding.subscription
    yield from _of_pubsub(binding.access)


def _of_pubsub(access: PubSubAccess) -> Iterator[str]:
    yield access.project
    yield access.credentials_file
    yield access.endpoint
