"""Monitors a topic with a separate admin client.

The client works even when the connections of a consumer or producer hang.
"""

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Final, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo, TopicDescription

from headwater.brokers.admin_connection import AdminConnection
from headwater.brokers.offsets import LATEST
from headwater.brokers.topic_id import described_topic_id
from headwater.model.access import KafkaAccess

REQUEST_TIMEOUT_S: Final = 5.0
POLL_INTERVAL_S: Final = 1.0
"""The interval of requests for the description of the topic."""

_UNREACHABLE_ERRORS: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._DESTROY,
        KafkaError.REQUEST_TIMED_OUT,
    }
)


class TopicState(NamedTuple):
    """A topic as a broker described it.

    Attributes:
        topic_id: Empty when the cluster has no topic ids.
        partitions: All partitions.
        leaderless: The partitions without a leader.
    """

    topic_id: str
    partitions: list[int]
    leaderless: frozenset[int]


def topic_state(described: TopicDescription) -> TopicState:
    """Return the state of a described topic."""
    leaderless = frozenset(each.id for each in described.partitions if each.leader is None or each.leader.id < 0)
    return TopicState(described_topic_id(described), [each.id for each in described.partitions], leaderless)


class EndOffsets(NamedTuple):
    """The end offsets of a partition.

    Attributes:
        last_stable: The end for readers of committed records.
        high_watermark: The end for readers of all records.
    """

    last_stable: int
    high_watermark: int

    @property
    def has_open_transaction(self) -> bool:
        """Whether an open transaction keeps records from readers of committed records."""
        return self.last_stable < self.high_watermark


_OffsetFutures = Mapping[TopicPartition, Future[ListOffsetsResultInfo]]


class EndOffsetsRequest:
    """A pending request for the end offsets of partitions."""

    def __init__(self, *, last_stable: _OffsetFutures, high_watermark: _OffsetFutures) -> None:
        self._last_stable = last_stable
        self._high_watermark = high_watermark

    def done(self) -> bool:
        """Return whether each broker has answered or its request has timed out."""
        return all(future.done() for future in (*self._last_stable.values(), *self._high_watermark.values()))

    def result(self) -> dict[int, EndOffsets]:
        """Return the end offsets by partition. Partitions whose request failed are left out."""
        last_stable, high = _offsets(self._last_stable), _offsets(self._high_watermark)
        return {number: EndOffsets(last_stable[number], high[number]) for number in last_stable.keys() & high.keys()}


def _offsets(futures: _OffsetFutures) -> dict[int, int]:
    return {each.partition: future.result().offset for each, future in futures.items() if future.exception() is None}


class TopicMonitor:
    """Monitors a topic: polls its description, measures outages, and requests end offsets.

    The constructor sends the first request, so that its response arrives early.

    Args:
        access: How the admin client logs in.
        topic: The topic.
        clock: Returns monotonic seconds.

    Attributes:
        state: The last state of the topic that `poll` has returned, or None.
    """

    def __init__(self, access: KafkaAccess, topic: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._topic = topic
        self._clock = clock
        self._opened: AdminConnection | None = AdminConnection(access)
        self._requested_at = clock()
        self._request = self._send_request()
        self._unreachable_since: float | None = None
        self._reachable_since: float | None = None
        self.state: TopicState | None = None

    @property
    def _connection(self) -> AdminConnection:
        assert self._opened is not None, "the monitor is closed"
        return self._opened

    def _send_request(self) -> Future[TopicDescription]:
        topics = TopicCollection([self._topic])
        futures = self._connection.client.describe_topics(topics, request_timeout=REQUEST_TIMEOUT_S)
        return futures[self._topic]

    def describe(self) -> TopicState:
        """Request the description of the topic now, and wait for the response.

        Raises BrokerUnavailable, also when the topic does not exist.
        """
        with self._connection.translated_errors():
            return topic_state(self._send_request().result())

    def poll(self) -> TopicState | None:
        """Return a new state of the topic, or None.

        A state is returned at most once every POLL_INTERVAL_S.

        Sends the next request when the interval is over and the response to the last request has arrived. Never waits.
        """
        now = self._clock()
        if not self._request.done() or now < self._requested_at + POLL_INTERVAL_S:
            return None
        error, requested_at = self._request.exception(), self._requested_at
        new_state = None if error is not None else topic_state(self._request.result())
        self._record_reachability(is_reachable=not _is_unreachable(error), requested_at=requested_at)
        self._request, self._requested_at = self._send_request(), now
        self.state = new_state or self.state
        return new_state

    def _record_reachability(self, *, is_reachable: bool, requested_at: float) -> None:
        if is_reachable:
            self._unreachable_since, self._reachable_since = None, self._reachable_since or requested_at
        else:
            self._unreachable_since, self._reachable_since = self._unreachable_since or requested_at, None

    def unreachable_for_s(self) -> float:
        """Return for how long the cluster has not answered; 0 while it answers.

        In an outage that `poll` has recorded, the time counts from when the first request without an answer was sent.
        Otherwise, if the current request is pending or has ended without an answer, the time counts from
        POLL_INTERVAL_S after this request was sent.
        """
        now = self._clock()
        if self._unreachable_since is not None:
            return now - self._unreachable_since
        is_answered = self._request.done() and not _is_unreachable(self._request.exception())
        return 0.0 if is_answered else max(0.0, now - self._requested_at - POLL_INTERVAL_S)

    def reachable_for_s(self) -> float:
        """Return for how long the cluster has answered every request that `poll` has recorded.

        The result is 0 when the last recorded request has no answer. A pending request does not change the result, so
        `unreachable_for_s` may be positive at the same time.
        """
        return 0.0 if self._reachable_since is None else self._clock() - self._reachable_since

    def request_end_offsets(self, partitions: Collection[int]) -> EndOffsetsRequest:
        """Request the end offsets of at least one partition."""
        return EndOffsetsRequest(
            last_stable=self._request_latest(partitions, IsolationLevel.READ_COMMITTED),
            high_watermark=self._request_latest(partitions, IsolationLevel.READ_UNCOMMITTED),
        )

    def _request_latest(self, partitions: Collection[int], level: IsolationLevel) -> _OffsetFutures:
        specs = {TopicPartition(self._topic, partition): LATEST for partition in partitions}
        client = self._connection.client
        return client.list_offsets(specs, isolation_level=level, request_timeout=REQUEST_TIMEOUT_S)

    def close(self) -> None:
        """Free the admin client now.

        A request is always pending, and librdkafka's own thread completes it. If the garbage collector freed the client
        on that thread, librdkafka would abort the process.
        """
        self._opened = None


def _is_unreachable(error: BaseException | None) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in _UNREACHABLE_ERRORS
