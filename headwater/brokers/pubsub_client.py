"""Opens connections to Google Pub/Sub and translates its errors.

This module is imported only where a stream comes from Pub/Sub: Google's client is an optional dependency, and its
import is slow.
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

from headwater.errors import BrokerUnavailable, BrokerUnsuitable
from headwater.model.access import PubSubAccess

REQUEST_TIMEOUT_S: Final = 5.0
"""Timeout of one request."""

_CHANNEL_OPTIONS: Final = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 20_000),  # detects a connection that was lost without a close
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),  # the default, two minutes, would be most of the time of a recovery
]
_NOT_RETRIABLE: Final = (
    exceptions.Forbidden,
    exceptions.Unauthorized,
    exceptions.NotFound,
    exceptions.BadRequest,
    GoogleAuthError,
)
"""Errors after which a retry can't succeed."""


def connect(access: PubSubAccess) -> grpc.Channel:
    """Return a channel, which connects when it is used first.

    Raises BrokerUnavailable when there are no credentials. Without an endpoint in `access`, the environment variable
    PUBSUB_EMULATOR_HOST of Google's clients may name one.
    """
    endpoint = access.endpoint or os.environ.get("PUBSUB_EMULATOR_HOST", "")
    if endpoint:
        return grpc.insecure_channel(endpoint, _CHANNEL_OPTIONS)
    try:
        return SubscriberGrpcTransport.create_channel(
            credentials=_service_account(access.credentials_file) if access.credentials_file else None,
            scopes=SubscriberGrpcTransport.AUTH_SCOPES,
            options=_CHANNEL_OPTIONS,
        )
    except (GoogleAuthError, exceptions.GoogleAPIError, OSError, ValueError) as error:
        raise BrokerUnavailable(f"There are no usable credentials for Google Pub/Sub: {error}") from error


def _service_account(file: str) -> Credentials:
    """Load a service account file.

    Other kinds of credential files are not accepted, because Google warns against files that choose their own type.
    """
    credentials: Credentials = Credentials.from_service_account_file(file)  # type: ignore[no-untyped-call]
    return credentials


def subscriber(channel: grpc.Channel) -> SubscriberClient:
    """Return the client for subscriptions on a channel."""
    return SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))


def publisher(channel: grpc.Channel) -> PublisherClient:
    """Return the client for topics on a channel."""
    return PublisherClient(transport=PublisherGrpcTransport(channel=channel))


@contextmanager
def translated_errors(resource: str) -> Iterator[None]:
    """Translate Google's errors into BrokerUnsuitable or BrokerUnavailable.

    The error is BrokerUnsuitable if a retry can't help.

    Args:
        resource: The name of the topic or subscription of the call.
    """
    try:
        yield
    except _NOT_RETRIABLE as error:
        raise BrokerUnsuitable(error_message(error, resource)) from error
    except exceptions.GoogleAPIError as error:
        raise BrokerUnavailable(error_message(error, resource)) from error


def error_message(error: Exception, resource: str) -> str:
    """Return a message that says what is wrong and what to do.

    `resource` is the name of the topic or subscription of the call.
    """
    match error:
        case exceptions.NotFound():
            return f"Google Pub/Sub has no {resource}. Create it, or bind the stream to another one, and deploy again."
        case exceptions.Forbidden():
            return (
                f"Google Pub/Sub denies access to {resource}: the binding's service account needs the role Pub/Sub "
                "Editor in its project, or for an existing subscription the roles Pub/Sub Subscriber and Viewer."
            )
        case exceptions.Unauthorized() | GoogleAuthError():
            return f"Google Pub/Sub rejects the credentials of the binding of {resource}: check its credentials_file."
        case exceptions.ServiceUnavailable() | exceptions.DeadlineExceeded() | exceptions.RetryError():
            return f"Google Pub/Sub does not answer ({resource}): check the network and the binding's endpoint."
        case exceptions.GoogleAPICallError():
            return f"Google Pub/Sub rejected a request about {resource}: {error.message}"
        case _:
            return f"Google Pub/Sub can't be used for {resource}: {error}"


def call_options(timeout_s: float = REQUEST_TIMEOUT_S) -> dict[str, Any]:
    """Return the keyword arguments of every call: no retry by Google's client, and a timeout."""
    return {"retry": None, "timeout": timeout_s}
