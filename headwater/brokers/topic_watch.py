"""What a cluster says of one topic, asked by a client of its own: it goes on when a consumer's connections hang."""

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Final, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, TopicDescription

from headwater.brokers.client import ClientErrors, admin_settings, unavailable
from headwater.brokers.offsets import LATEST
from headwater.brokers.topic_id import id_of
from headwater.model.worker import KafkaAccess

REQUEST_S: Final = 5.0
LOOK_EVERY_S: Final = 1.0
LEADERS_S: Final = 2.0
"""How long a cluster may take to tell the leaders of topics: one that takes longer does not answer."""

_NO_ANSWER: Final = frozenset(
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
    """A topic as a broker described it. leaderless: partitions that no broker leads at the moment."""

    topic_id: str
    partitions: list[int]
    leaderless: frozenset[int]


class Ends(NamedTuple):
    """Where a partition ends. stable: for readers of committed records; high: for all."""

    stable: int
    high: int


class EndsRequest:
    """A question for the ends of partitions that is under way."""

    def __init__(self, answers: Collection[Mapping[TopicPartition, Future[ListOffsetsResultInfo]]]) -> None:
        self._stable, self._high = answers

    def done(self) -> bool:
        """True when all brokers have answered, or have not in time."""
        return all(each.done() for answers in (self._stable, self._high) for each in answers.values())

    def ends(self) -> dict[int, Ends]:
        """By partition; those that no broker told of are left out."""
        stable, high = _offsets(self._stable), _offsets(self._high)
        return {partition: Ends(stable[partition], high[partition]) for partition in stable.keys() & high.keys()}


def _offsets(answers: Mapping[TopicPartition, Future[ListOffsetsResultInfo]]) -> dict[int, int]:
    return {each.partition: answer.result().offset for each, answer in answers.items() if answer.exception() is None}


class TopicWatch:
    """Asks about one topic. Connects at once, so that the first answer comes soon. clock: monotonic seconds."""

    def __init__(self, access: KafkaAccess, topic: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._topic = topic
        self._clock = clock
        self._admin: AdminClient | None = AdminClient(admin_settings(access, ClientErrors(access)))
        self._asked_at = clock()
        self._asked = self._ask()
        self._silent_since: float | None = None
        self._answers_since: float | None = None
        self.state: TopicState | None = None

    @property
    def _client(self) -> AdminClient:
        assert self._admin is not None, "the watch is closed"
        self._admin.poll(0)  # frees what the client has logged
        return self._admin

    def _ask(self) -> Future[TopicDescription]:
        answers = self._client.describe_topics(TopicCollection([self._topic]), request_timeout=REQUEST_S)
        return answers[self._topic]

    def read(self) -> TopicState:
        """The topic now. Waits. Raises BrokerUnavailable, also when there is no topic."""
        try:
            return _state(self._ask().result())
        except KafkaException as error:
            raise unavailable(error, self._access) from error

    def look(self) -> TopicState | None:
        """The last answer, when it is a new one. Asks every LOOK_EVERY_S, and never waits."""
        now = self._clock()
        if not self._asked.done() or now < self._asked_at + LOOK_EVERY_S:
            return None
        error, asked_at = self._asked.exception(), self._asked_at
        told = None if error is not None else _state(self._asked.result())
        self._note(answered=not _is_silence(error), asked_at=asked_at)
        self._asked, self._asked_at = self._ask(), now
        self.state = told or self.state
        return told

    def _note(self, *, answered: bool, asked_at: float) -> None:
        if answered:
            self._silent_since, self._answers_since = None, self._answers_since or asked_at
        else:
            self._silent_since, self._answers_since = self._silent_since or asked_at, None

    def silent_s(self) -> float:
        """For how long the cluster has not answered; 0 when it does."""
        now = self._clock()
        if self._silent_since is not None:
            return now - self._silent_since
        return max(0.0, now - self._asked_at - LOOK_EVERY_S) if not self._asked.done() else 0.0

    def answers_s(self) -> float:
        """For how long the cluster has answered every question; 0 when it does not."""
        return 0.0 if self._answers_since is None else self._clock() - self._answers_since

    def ask_ends(self, partitions: Collection[int]) -> EndsRequest:
        """Ask where partitions end; at least one."""
        asked = {TopicPartition(self._topic, partition): LATEST for partition in partitions}
        levels = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
        return EndsRequest(
            [self._client.list_offsets(dict(asked), isolation_level=each, request_timeout=REQUEST_S) for each in levels]
        )

    def close(self) -> None:
        """End the client here. It has always a question under way: freed as garbage, that could be on its own thread,
        which librdkafka answers with the end of the process.
        """
        self._admin = None


class LeaderQuestion:
    """Asks whether all partitions of some topics have a leader, by a client that lives from `ask` to `close`."""

    def __init__(self, access: KafkaAccess, topics: Collection[str]) -> None:
        self._access = access
        self._topics = list(topics)
        self._admin: AdminClient | None = None
        self._answers: Collection[Future[TopicDescription]] = []

    def ask(self) -> None:
        """Send the question. Never waits."""
        if self._admin is None:
            self._admin = AdminClient(admin_settings(self._access, ClientErrors(self._access)))
        self._admin.poll(0)  # frees what the client has logged
        asked = self._admin.describe_topics(TopicCollection(self._topics), request_timeout=LEADERS_S)
        self._answers = asked.values()

    def answer(self) -> bool | None:
        """Whether a broker has answered that all partitions have leaders; None before the outcome is known."""
        if not self._answers or not all(answer.done() for answer in self._answers):
            return None
        answers, self._answers = self._answers, []
        return all(answer.exception() is None and not _state(answer.result()).leaderless for answer in answers)

    def close(self) -> None:
        """Free the client, on the caller's thread as `TopicWatch.close` does."""
        self._admin, self._answers = None, []


def _state(described: TopicDescription) -> TopicState:
    leaderless = frozenset(each.id for each in described.partitions if each.leader is None or each.leader.id < 0)
    return TopicState(id_of(described), [each.id for each in described.partitions], leaderless)


def _is_silence(error: BaseException | None) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in _NO_ANSWER
