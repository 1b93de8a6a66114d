"""What all parts that talk to Google Pub/Sub share: connections, and what is wrong in words.

Imported only where a stream comes from Pub/Sub: the client is an extra of the package, and takes long to import.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc  # type: ignore[import-untyped]
from google.api_core import exceptions
from google.auth.exceptions import GoogleAuthError
from google.oauth2.service_account import Credentials
from google.pubsub_v1 import PublisherClient, SubscriberClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from headwater.errors import BrokerUnavailable, DeployFailed
from headwater.model.worker import PubSubAccess

REQUEST_S: Final = 5.0
"""How long one request may take."""

_OPTIONS: Final = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 20_000),  # a connection that died without a word is noticed
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),  # the default, two minutes, would be most of a recovery
]
_REFUSALS: Final = (
    exceptions.Forbidden,
    exceptions.Unauthorized,
    exceptions.NotFound,
    exceptions.BadRequest,
    GoogleAuthError,
)
"""What does not mend itself."""


def connect(access: PubSubAccess) -> grpc.Channel:
    """A channel; it connects when it is used first. Raises BrokerUnavailable when there are no credentials.

    The variable PUBSUB_EMULATOR_HOST of Google's own clients names an endpoint too.
    """
    endpoint = access.endpoint or os.environ.get("PUBSUB_EMULATOR_HOST", "")
    if endpoint:
        return grpc.insecure_channel(endpoint, _OPTIONS)
    try:
        return SubscriberGrpcTransport.create_channel(
            credentials=_service_account(access.credentials_file) if access.credentials_file else None,
            scopes=SubscriberGrpcTransport.AUTH_SCOPES,
            options=_OPTIONS,
        )
    except (GoogleAuthError, exceptions.GoogleAPIError, OSError, ValueError) as error:
        raise BrokerUnavailable(f"There are no usable credentials for Google Pub/Sub: {error}") from error


def _service_account(file: str) -> Credentials:
    """Of no other kind: Google advises against files that say themselves what they are."""
    found: Credentials = Credentials.from_service_account_file(file)  # type: ignore[no-untyped-call]
    return found


def subscriber(channel: grpc.Channel) -> SubscriberClient:
    """The client of subscriptions on a channel."""
    return SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))


def publisher(channel: grpc.Channel) -> PublisherClient:
    """The client of topics on a channel."""
    return PublisherClient(transport=PublisherGrpcTransport(channel=channel))


@contextmanager
def talking(resource: str) -> Iterator[None]:
    """Raises DeployFailed for what does not mend itself, and BrokerUnavailable for all else."""
    try:
        yield
    except _REFUSALS as error:
        raise DeployFailed(sentence(error, resource)) from error
    except exceptions.GoogleAPIError as error:
        raise BrokerUnavailable(sentence(error, resource)) from error


def sentence(error: Exception, resource: str) -> str:
    """What is wrong, and what to do. resource: the name of what was asked for."""
    match error:
        case exceptions.NotFound():
            return f"Google Pub/Sub has no {resource}. Create it, or bind the stream to another one, and deploy again."
        case exceptions.Forbidden():
            return (
                f"Google Pub/Sub refuses access to {resource}: the binding's service account needs the role Pub/Sub "
                "Editor in its project, or for a subscription that is there already Pub/Sub Subscriber and Viewer."
            )
        case exceptions.Unauthorized() | GoogleAuthError():
            return f"Google Pub/Sub refuses the credentials of the binding of {resource}: check its credentials_file."
        case exceptions.ServiceUnavailable() | exceptions.DeadlineExceeded() | exceptions.RetryError():
            return f"Google Pub/Sub does not answer ({resource}): check the network and the binding's endpoint."
        case exceptions.GoogleAPICallError():
            return f"Google Pub/Sub refused a request about {resource}: {error.message}"
        case _:
            return f"Google Pub/Sub can't be used for {resource}: {error}"


def options(timeout_s: float = REQUEST_S) -> dict[str, Any]:
    """Arguments of every call: one try, whose failure the caller handles."""
    return {"retry": None, "timeout": timeout_s}
