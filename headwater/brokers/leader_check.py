"""Checks whether topics have leaders, with a separate admin client.

The client works even when the connections of a producer hang.
"""

from collections.abc import Collection
from concurrent.futures import Future
from typing import Final

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, TopicDescription

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings
from headwater.brokers.topic_monitor import topic_state
from headwater.model.access import KafkaAccess

TIMEOUT_S: Final = 2.0
"""A cluster that takes longer than this to describe the topics counts as unavailable."""


class LeaderCheck:
    """Checks whether all partitions of some topics have a leader.

    The admin client exists from `start` to `close`.
    """

    def __init__(self, access: KafkaAccess, topics: Collection[str]) -> None:
        self._access = access
        self._topics = list(topics)
        self._admin: AdminClient | None = None
        self._futures: Collection[Future[TopicDescription]] = []

    def start(self) -> None:
        """Send the request. Never waits."""
        if self._admin is None:
            self._admin = AdminClient(admin_settings(self._access, ClientErrors(self._access)))
        self._admin.poll(0)  # serves the client's log queue, which otherwise grows
        topics = TopicCollection(self._topics)
        self._futures = self._admin.describe_topics(topics, request_timeout=TIMEOUT_S).values()

    def take_result(self) -> bool | None:
        """Return whether all partitions have leaders, and forget the request.

        Returns None while the request is pending, and False when it has failed.
        """
        if not self._futures or not all(future.done() for future in self._futures):
            return None
        futures, self._futures = self._futures, []
        return all(future.exception() is None and not topic_state(future.result()).leaderless for future in futures)

    def close(self) -> None:
        """Free the client on this thread, for the reason given in `TopicMonitor.close`."""
        self._admin, self._futures = None, []
