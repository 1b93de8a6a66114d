"""Where partitions begin and end, asked of their leaders."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_random

# The binding has no types for these.
LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]
EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

Place = tuple[str, int]
"""A topic and the number of a partition."""

_MOVED: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
"""What is heard of a partition that is new, or that another broker leads by now. Java's client asks again by itself."""


def list_offsets(
    admin: AdminClient,
    asked: Mapping[TopicPartition, OffsetSpec],
    isolation: IsolationLevel,
    timeout_s: float,
    absent: frozenset[int] = frozenset(),
) -> dict[Place, int]:
    """The offset asked for of each partition, below 0 where there is none; partitions with an error of `absent` are
    left out.

    timeout_s: of one request, and how long partitions are asked about that have no leader. Raises KafkaException.
    """

    def learn_leaders(_: RetryCallState) -> None:  # else the client goes on to ask the one it knows, for minutes
        admin.list_topics(timeout=timeout_s)

    again = Retrying(
        retry=retry_if_exception(_has_moved),
        stop=stop_after_delay(timeout_s),
        wait=wait_random(0.02, 0.2),
        after=learn_leaders,
        reraise=True,
    )
    return again(_asked_once, admin, asked, isolation, timeout_s, absent)


def _asked_once(
    admin: AdminClient,
    asked: Mapping[TopicPartition, OffsetSpec],
    isolation: IsolationLevel,
    timeout_s: float,
    absent: frozenset[int],
) -> dict[Place, int]:
    if not asked:  # librdkafka refuses requests about none
        return {}
    answers = admin.list_offsets(dict(asked), isolation_level=isolation, request_timeout=timeout_s)
    offsets = {(each.topic, each.partition): _offset(answer, absent) for each, answer in answers.items()}
    return {place: offset for place, offset in offsets.items() if offset is not None}


def _offset(answer: Future[ListOffsetsResultInfo], absent: frozenset[int]) -> int | None:
    try:
        return answer.result().offset
    except KafkaException as error:
        if error.args[0].code() in absent:
            return None
        raise


def _has_moved(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in _MOVED
