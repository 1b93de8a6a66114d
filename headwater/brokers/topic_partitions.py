"""Describes topics, to find their partitions. A description never creates a topic."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, TopicDescription

from headwater.errors import TopicMissing

_MISSING: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})


def request_descriptions(
    admin: AdminClient, topics: Collection[str], timeout_s: float
) -> Mapping[str, Future[TopicDescription]]:
    """Request the descriptions of at least one topic."""
    futures: Mapping[str, Future[TopicDescription]] = admin.describe_topics(
        TopicCollection(list(topics)), request_timeout=timeout_s
    )
    return futures


def is_missing(error: BaseException | None) -> bool:
    """Return whether the error of a description means that the topic does not exist."""
    return isinstance(error, KafkaException) and error.args[0].code() in _MISSING


def partition_numbers(admin: AdminClient, topic: str, timeout_s: float) -> list[int]:
    """Return the numbers of the partitions of a topic. Raises TopicMissing and KafkaException."""
    future = request_descriptions(admin, [topic], timeout_s)[topic]
    error = future.exception()
    if is_missing(error):
        raise TopicMissing(topic) from error
    return [partition.id for partition in future.result().partitions]
