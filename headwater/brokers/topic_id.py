"""Which topic a group's positions count: one that is deleted and made again keeps its name, not its id (KIP-516).

The id is kept with the positions, as the metadata of their commits.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, TopicDescription

from headwater.brokers.client import ClientErrors, admin_settings, unavailable
from headwater.model.worker import KafkaAccess

REQUEST_S: Final = 5.0
LOOK_EVERY_S: Final = 1.0

_LABEL: Final = "topic-id="
_NONE: Final = "A" * 22
"""What clusters answer that know no ids: sixteen zero bytes in base64."""


def id_of(described: TopicDescription) -> str:
    """The topic's id; empty when it has none."""
    topic_id = str(described.topic_id)
    return "" if topic_id == _NONE else topic_id


def label(topic_id: str) -> str:
    """The metadata of a commit of positions on a topic."""
    return _LABEL + topic_id if topic_id else ""


def labelled(metadata: str | None) -> str:
    """The topic's id in the metadata of a commit; empty: not known."""
    return metadata.removeprefix(_LABEL) if metadata and metadata.startswith(_LABEL) else ""


class TopicWatch:
    """Asks for one topic's id. Connects at once, so that the first answer comes soon. clock: monotonic seconds."""

    def __init__(self, access: KafkaAccess, topic: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._topic = topic
        self._clock = clock
        self._admin: AdminClient | None = AdminClient(admin_settings(access, ClientErrors(access)))
        self._asked = self._ask()
        self._ask_at = float("-inf")

    def _ask(self) -> Future[TopicDescription]:
        assert self._admin is not None, "the watch is closed"
        self._admin.poll(0)  # frees what the client has logged
        answers = self._admin.describe_topics(TopicCollection([self._topic]), request_timeout=REQUEST_S)
        return answers[self._topic]

    def read(self) -> str:
        """The id now; empty when the topic has none. Waits. Raises BrokerUnavailable, also when there is no topic."""
        try:
            return id_of(self._ask().result())
        except KafkaException as error:
            raise unavailable(error, self._access) from error

    def close(self) -> None:
        """End the client here. It has always a question under way: freed as garbage, that could be on its own thread,
        which librdkafka answers with the end of the process.
        """
        self._admin = None

    def look(self) -> str:
        """The id as of the last answer; empty when that told none. Asks every LOOK_EVERY_S, and never waits."""
        if self._clock() < self._ask_at or not self._asked.done():
            return ""
        told = "" if self._asked.exception() else id_of(self._asked.result())
        self._asked, self._ask_at = self._ask(), self._clock() + LOOK_EVERY_S
        return told
