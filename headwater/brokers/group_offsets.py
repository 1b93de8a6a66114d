"""Reads and commits the offsets of consumer groups, and looks up offsets of topics.

The functions send requests of an admin client, and raise KafkaException.
"""

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

from headwater.brokers import base
from headwater.brokers.admin_requests import HAS_MEMBERS, REQUEST_TIMEOUT_S, results, send
from headwater.brokers.offsets import EARLIEST, LATEST, TopicPartitionKey, list_offsets
from headwater.errors import BrokerUnavailable


def committed(admin: AdminClient, group: str, topic: str, partitions: Collection[int]) -> dict[int, TopicPartition]:
    """Return the commits of a group by partition. Partitions without a commit are left out."""
    return _committed(admin, group, topic, partitions, require_stable=False)


def stable_committed(
    admin: AdminClient, group: str, topic: str, partitions: Collection[int]
) -> dict[int, TopicPartition]:
    """Return the commits of a group by partition, once no open transaction has any.

    Waits some seconds for the end of an open transaction. Raises BrokerUnavailable when it has not ended by then.
    """
    retrying = Retrying(
        retry=retry_if_exception(_is_unstable),
        stop=stop_after_delay(REQUEST_TIMEOUT_S),
        wait=wait_random(0.02, 0.2),
        reraise=True,
    )
    try:
        return retrying(_committed, admin, group, topic, partitions, require_stable=True)
    except KafkaException as error:
        if _is_unstable(error):
            raise BrokerUnavailable(
                f"An open transaction contains offsets of the consumer group {group}. They can be read when the "
                "transaction ends; Kafka ends the transaction of a killed worker after its timeout."
            ) from error
        raise


def _is_unstable(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() == KafkaError.UNSTABLE_OFFSET_COMMIT


def _committed(
    admin: AdminClient, group: str, topic: str, partitions: Collection[int], *, require_stable: bool
) -> dict[int, TopicPartition]:
    request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, number) for number in partitions])
    (response,) = results(send(admin.list_consumer_group_offsets, [request], require_stable=require_stable))
    commits = response.topic_partitions or []
    _raise_first_error(commits)
    return {each.partition: each for each in commits if each.offset >= 0}


def commit(admin: AdminClient, group: str, topic: str, offsets: Mapping[int, int], metadata: str) -> None:
    """Commit offsets with the same metadata.

    Raises BrokerUnavailable when the group has members.
    """
    partitions = [TopicPartition(topic, number, offset, metadata) for number, offset in offsets.items()]
    request = ConsumerGroupTopicPartitions(group, partitions)
    (response,) = results(send(admin.alter_consumer_group_offsets, [request]))
    errors = [partition.error for partition in response.topic_partitions if partition.error is not None]
    if errors and errors[0].code() in HAS_MEMBERS:
        raise BrokerUnavailable(base.group_has_members_message(group))
    _raise_first_error(response.topic_partitions)


def _raise_first_error(partitions: Collection[Any]) -> None:
    for partition in partitions:
        if partition.error is not None:
            raise KafkaException(partition.error)


def offsets_at(admin: AdminClient, topic: str, partitions: Collection[int], position: str) -> dict[int, int]:
    """Return the offset of each partition at a position.

    The position is "latest", "earliest" or an RFC 3339 time.
    """
    keys = [TopicPartition(topic, number) for number in partitions]
    # The end is for a partition without a record at or after the time. It is requested first, so that no record that
    # arrives between the two requests is skipped.
    ends = stable_offsets(admin, dict.fromkeys(keys, LATEST))
    starts = stable_offsets(admin, dict.fromkeys(keys, _offset_spec(position)))
    # A negative offset means that no record has a timestamp at or after the time.
    return {key[1]: ends[key] if offset < 0 else offset for key, offset in starts.items()}


def stable_offsets(
    admin: AdminClient,
    specs: Mapping[TopicPartition, OffsetSpec],
    timeout_s: float = REQUEST_TIMEOUT_S,
    ignored_errors: frozenset[int] = frozenset(),
) -> dict[TopicPartitionKey, int]:
    """Return the requested offset of each partition; "latest" is the last stable offset.

    A consumer that starts at the last stable offset also reads the records of transactions that are open now. It would
    skip them if it started at the high watermark.
    """
    return list_offsets(admin, specs, IsolationLevel.READ_COMMITTED, timeout_s, ignored_errors)


def _offset_spec(position: str) -> OffsetSpec:
    if position == "latest":
        return LATEST
    if position == "earliest":
        return EARLIEST
    spec: OffsetSpec = OffsetSpec.for_timestamp(base.start_at_ms(position))
    return spec
