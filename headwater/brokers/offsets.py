"""Reads start and end offsets of partitions from their leaders."""

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_random

# confluent-kafka has no type hints for these functions.
LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]
EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

TopicPartitionKey = tuple[str, int]
"""The name of a topic and the number of a partition."""

_STALE_LEADER: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors of a partition that is new or whose leader has changed. The Java client retries them by itself; librdkafka
does not."""


def list_offsets(
    admin: AdminClient,
    specs: Mapping[TopicPartition, OffsetSpec],
    isolation_level: IsolationLevel,
    timeout_s: float,
    ignored_errors: frozenset[int] = frozenset(),
) -> dict[TopicPartitionKey, int]:
    """Return the requested offset of each partition.

    The offset is a negative number when the partition has no such offset. Raises KafkaException.

    Args:
        admin: The client that sends the requests.
        specs: The partitions, and which offset of each is requested.
        isolation_level: READ_COMMITTED ends a partition at its last stable offset, READ_UNCOMMITTED at its high
            watermark.
        timeout_s: How long the requests may take, with their retries while a partition has no leader.
        ignored_errors: Partitions whose error has one of these codes are left out.
    """
    deadline = time.monotonic() + timeout_s

    def left_s() -> float:
        return max(0.01, deadline - time.monotonic())  # librdkafka needs at least a millisecond

    def refresh_metadata(_: RetryCallState) -> None:  # otherwise the client asks the old leader for minutes
        admin.list_topics(timeout=left_s())

    retrying = Retrying(
        retry=retry_if_exception(_is_stale_leader),
        stop=stop_after_delay(timeout_s),
        wait=wait_random(0.02, 0.2),
        after=refresh_metadata,
        reraise=True,
    )
    return retrying(lambda: _list_offsets_once(admin, specs, isolation_level, left_s(), ignored_errors))


def _list_offsets_once(
    admin: AdminClient,
    specs: Mapping[TopicPartition, OffsetSpec],
    isolation_level: IsolationLevel,
    timeout_s: float,
    ignored_errors: frozenset[int],
) -> dict[TopicPartitionKey, int]:
    if not specs:  # librdkafka rejects a request without partitions
        return {}
    futures = admin.list_offsets(dict(specs), isolation_level=isolation_level, request_timeout=timeout_s)
    offsets = {(key.topic, key.partition): _offset(future, ignored_errors) for key, future in futures.items()}
    return {key: offset for key, offset in offsets.items() if offset is not None}


def _offset(future: Future[ListOffsetsResultInfo], ignored_errors: frozenset[int]) -> int | None:
    try:
        return future.result().offset
    except KafkaException as error:
        if error.args[0].code() in ignored_errors:
            return None
        raise


def _is_stale_leader(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in _STALE_LEADER
