"""Manages the subscriptions of Google Pub/Sub, as the controller needs them."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from google.api_core import exceptions
from google.protobuf.duration_pb2 import Duration  # type: ignore[import-untyped]
from google.protobuf.timestamp_pb2 import Timestamp  # type: ignore[import-untyped]
from google.pubsub_v1.types import ExpirationPolicy

from headwater.brokers.base import ACK_DEADLINE_S
from headwater.brokers.pubsub_client import call_options, connect, publisher, subscriber, translated_errors
from headwater.errors import BrokerUnsuitable
from headwater.model.access import PubSubAccess

RETENTION: Final = timedelta(days=7)
"""How long Pub/Sub keeps unacknowledged messages, for instance of a paused pipeline."""
LABELS: Final = {"headwater": "deployment"}
START_LABEL: Final = "headwater-start"
"""A subscription has this label from its creation until it was moved to its start."""


class PubSubSubscriptions:
    """Implements base.Subscriptions in the project of `access`."""

    def __init__(self, access: PubSubAccess) -> None:
        self._project = f"projects/{access.project}"
        channel = connect(access)
        self._subscriber = subscriber(channel)
        self._publisher = publisher(channel)

    def path(self, name: str) -> str:
        """See base.Subscriptions."""
        return f"{self._project}/subscriptions/{name}"

    def ensure(self, name: str, topic: str, start_at: str) -> None:
        """See base.Subscriptions."""
        path = self.path(name)
        if self._is_set_up(path, topic):
            return
        seek_time = self._seek_time(topic, start_at)
        if seek_time is None:
            self._create(path, topic, LABELS)
            return
        self._create(path, topic, {**LABELS, START_LABEL: "pending"})
        label_removal = {"subscription": {"name": path, "labels": LABELS}, "update_mask": {"paths": ["labels"]}}
        with translated_errors(path):
            self._subscriber.seek(request={"subscription": path, "time": seek_time}, **call_options())
            self._subscriber.update_subscription(request=label_removal, **call_options())

    def _is_set_up(self, path: str, topic: str) -> bool:
        """Whether a subscription exists and its start position is set.

        Raises BrokerUnsuitable when it belongs to another topic.
        """
        with translated_errors(path):
            try:
                present = self._subscriber.get_subscription(subscription=path, **call_options())
            except exceptions.NotFound:
                return False
        if present.topic != topic:
            raise BrokerUnsuitable(
                f"The subscription {path} belongs to the topic {present.topic}, and the stream is bound to {topic} "
                "now: tear the pipeline down and deploy it again."
            )
        return START_LABEL not in present.labels

    def _create(self, path: str, topic: str, labels: Mapping[str, str]) -> None:
        """Create a subscription, unless an interrupted call has created it."""
        request = {
            "name": path,
            "topic": topic,
            "ack_deadline_seconds": ACK_DEADLINE_S,
            "enable_message_ordering": True,
            "message_retention_duration": _duration(RETENTION),
            "expiration_policy": ExpirationPolicy(),  # without a time: Pub/Sub never deletes an unread subscription
            "labels": labels,
        }
        with translated_errors(topic), suppress(exceptions.AlreadyExists):
            self._subscriber.create_subscription(request=request, **call_options())

    def _seek_time(self, topic: str, start_at: str) -> Timestamp | None:
        """Return the time to seek to, which is at most the topic's retention ago.

        Returns None for "latest" and for a time in the future, since a subscription starts when it is created.
        """
        if _is_now(start_at):
            return None
        retention = self._topic_retention(topic)
        if not retention:
            raise BrokerUnsuitable(
                f"The topic {topic} keeps no messages that are older than a new subscription, so start_at can only be "
                "latest. Turn message retention on for the topic, or change start_at, and deploy again."
            )
        return _timestamp(_first_time(start_at, retention))

    def _topic_retention(self, topic: str) -> timedelta:
        """Return how long a topic keeps messages that every subscription has acknowledged.

        Returns zero when it keeps none.
        """
        with translated_errors(topic):
            kept: timedelta | None = self._publisher.get_topic(topic=topic, **call_options()).message_retention_duration
        return kept or timedelta()

    def seek(self, path: str, position: str) -> None:
        """See base.Subscriptions."""
        with translated_errors(path):
            subscription = self._subscriber.get_subscription(subscription=path, **call_options())
        seek_time = datetime.now(UTC)
        if not _is_now(position):
            own = subscription.message_retention_duration if subscription.retain_acked_messages else timedelta()
            retention = max(own, self._topic_retention(subscription.topic))
            if not retention:
                raise BrokerUnsuitable(
                    f"Neither the subscription {path} nor its topic {subscription.topic} keeps acknowledged messages, "
                    "so it can only be moved to latest. Turn message retention on for the topic."
                )
            seek_time = _first_time(position, retention)
        with translated_errors(path):
            self._subscriber.seek(request={"subscription": path, "time": _timestamp(seek_time)}, **call_options())

    def require_exists(self, path: str) -> None:
        """See base.Subscriptions."""
        with translated_errors(path):
            self._subscriber.get_subscription(subscription=path, **call_options())

    def delete(self, names: Collection[str]) -> None:
        """See base.Subscriptions."""
        for name in names:
            try:
                with translated_errors(self.path(name)):
                    self._subscriber.delete_subscription(subscription=self.path(name), **call_options())
            except BrokerUnsuitable as error:
                if not isinstance(error.__cause__, exceptions.NotFound):
                    raise

    def names(self) -> frozenset[str]:
        """See base.Subscriptions."""
        with translated_errors(self._project):
            listed = self._subscriber.list_subscriptions(project=self._project, **call_options())
            return frozenset(each.name.rpartition("/")[2] for each in listed)


def _duration(span: timedelta) -> Duration:
    return Duration(seconds=int(span.total_seconds()))


def _is_now(position: str) -> bool:
    """Whether a position is the present end of the messages.

    This is the case for "latest", and for a time that is not in the past.
    """
    return position == "latest" or (position != "earliest" and datetime.fromisoformat(position) >= datetime.now(UTC))


def _first_time(position: str, retention: timedelta) -> datetime:
    """Return the time of a position, but no time before the retention begins."""
    first = datetime.now(UTC) - retention
    return first if position == "earliest" else max(first, datetime.fromisoformat(position))


def _timestamp(time: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(time.astimezone(UTC).replace(tzinfo=None))
    return stamp
