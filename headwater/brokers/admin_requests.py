"""Sends requests of librdkafka's admin client, and waits for their results."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

REQUEST_TIMEOUT_S: Final = 5.0
"""Timeout of one request."""
HAS_MEMBERS: Final = frozenset(
    {KafkaError.NON_EMPTY_GROUP, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}
)
"""Errors of a request that needs a consumer group without members."""

T = TypeVar("T")


def send(request: Callable[..., dict[Any, Future[T]]], items: list[Any], **options: float) -> list[Future[T]]:
    """Send one request for all items, and return a future for each item.

    Sends nothing for an empty list, which librdkafka rejects.
    """
    return list(request(items, request_timeout=REQUEST_TIMEOUT_S, **options).values()) if items else []


def error_code(future: Future[Any]) -> int | None:
    """Wait for the future, and return its Kafka error code; None when it succeeded."""
    error = future.exception()
    return error.args[0].code() if isinstance(error, KafkaException) else None


def results(futures: Iterable[Future[T]], ignored_errors: frozenset[int] = frozenset()) -> list[T]:
    """Wait for the futures, and return their results.

    Leaves out futures that failed with one of the ignored errors, and raises any other error.
    """
    return [future.result() for future in futures if error_code(future) not in ignored_errors]
