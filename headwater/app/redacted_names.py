"""Collects the operator's names that services/redaction.py redacts in messages for users."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from headwater.app.endpoints import Endpoints
from headwater.model.access import KafkaAccess, PubSubAccess
from headwater.model.binding import Binding, Bindings, KafkaTopic, PubSubTopic
from headwater.model.kafka_security import FILE_FIELDS


def names_to_redact(endpoints: Endpoints, bindings: Bindings) -> frozenset[str]:
    """Return the addresses, users, folders, files, topics and subscriptions to redact.

    They come from the settings and from the stream bindings.
    """
    data_directory = endpoints.data_directory
    own = _kafka_names(endpoints.admin_kafka_access())
    urls = (name for url in (endpoints.redis_url(), endpoints.database_url()) for name in _url_names(url))
    bound = (name for binding in bindings.by_stream.values() for name in _binding_names(binding))
    return frozenset(filter(None, (str(data_directory.path), *own, *urls, *bound)))


def _kafka_names(access: KafkaAccess) -> Iterator[str]:
    yield access.bootstrap_servers
    for server in access.bootstrap_servers.split(","):
        yield server
        yield server.rpartition(":")[0]
    yield access.username
    yield access.oauth_client_id
    yield access.oauth_token_endpoint_url
    yield from _url_names(access.oauth_token_endpoint_url)
    yield from (getattr(access, file) for file in FILE_FIELDS)


def _url_names(url: str) -> Iterator[str]:
    """Yield the hosts of a URL, with and without ports; there may be several.

    For a URL without a host, such as the URL of a socket or of a SQLite file, yield its path. User names of the stores
    are not redacted. No message contains them, and many are product names such as `postgres`.
    """
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    for host in hosts.split(","):
        yield host
        yield host.rpartition(":")[0]
    if not hosts:
        yield parts.path


def _binding_names(binding: Binding) -> Iterator[str]:
    if isinstance(binding, KafkaTopic):
        yield binding.topic
        yield from () if binding.access is None else _kafka_names(binding.access)
        return
    yield binding.topic if isinstance(binding, PubSubTopic) else binding.subscription
    yield from _pubsub_names(binding.access)


def _pubsub_names(access: PubSubAccess) -> Iterator[str]:
    yield access.project
    yield access.credentials_file
    yield access.endpoint
