"""Subscriptions of Google Pub/Sub, as the controller needs them."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Final

from google.api_core import exceptions
from google.protobuf.duration_pb2 import Duration  # type: ignore[import-untyped]
from google.protobuf.timestamp_pb2 import Timestamp  # type: ignore[import-untyped]

from headwater.brokers.base import SUBSCRIPTION_LEASE_S, start_time_ms
from headwater.brokers.pubsub_client import connect, options, publisher, subscriber, talking
from headwater.errors import DeployFailed
from headwater.model.worker import PubSubAccess

RETENTION: Final = timedelta(days=7)
UNUSED_FOR: Final = timedelta(days=31)
"""After so long without a reader Pub/Sub removes a subscription by itself."""
LABEL: Final = "headwater"


class PubSubSubscriptions:
    """Implements brokers.base.Subscriptions in the project of `access`."""

    def __init__(self, access: PubSubAccess) -> None:
        self._project = f"projects/{access.project}"
        channel = connect(access)
        self._subscriber = subscriber(channel)
        self._publisher = publisher(channel)

    def path(self, name: str) -> str:
        """See Subscriptions."""
        return f"{self._project}/subscriptions/{name}"

    def ensure(self, name: str, topic: str, start_at: str) -> None:
        """See Subscriptions."""
        wanted = {
            "name": self.path(name),
            "topic": topic,
            "ack_deadline_seconds": SUBSCRIPTION_LEASE_S,
            "enable_message_ordering": True,
            "message_retention_duration": _duration(RETENTION),
            "expiration_policy": {"ttl": _duration(UNUSED_FOR)},
            "labels": {LABEL: "deployment"},
        }
        start = self._start(topic, start_at)
        with talking(topic):
            try:
                self._subscriber.create_subscription(request=wanted, **options())
            except exceptions.AlreadyExists:
                self._require_topic(self.path(name), topic)
        if start is not None:
            with talking(self.path(name)):
                self._subscriber.seek(request={"subscription": self.path(name), "time": start}, **options())

    def _require_topic(self, path: str, topic: str) -> None:
        found = self._subscriber.get_subscription(subscription=path, **options()).topic
        if found != topic:
            raise DeployFailed(
                f"The subscription {path} is to the topic {found}, and the stream is bound to {topic} now: tear the "
                "pipeline down and deploy it again."
            )

    def _start(self, topic: str, start_at: str) -> Timestamp | None:
        """The time to go back to, if any; no further than the topic keeps messages."""
        now = datetime.now(UTC)
        if start_at == "latest" or (start_at != "earliest" and start_time_ms(start_at) >= now.timestamp() * 1000):
            return None
        with talking(topic):
            kept = self._publisher.get_topic(topic=topic, **options()).message_retention_duration
        if not kept:
            raise DeployFailed(
                f"The topic {topic} keeps no messages from before a subscription, so start_at can only be latest. "
                "Turn message retention on for the topic, or change start_at, and deploy again."
            )
        first = now - kept
        asked = first if start_at == "earliest" else max(first, datetime.fromisoformat(start_at))
        stamp = Timestamp()
        stamp.FromDatetime(asked.astimezone(UTC).replace(tzinfo=None))
        return stamp

    def require(self, path: str) -> None:
        """See Subscriptions."""
        with talking(path):
            self._subscriber.get_subscription(subscription=path, **options())

    def drop(self, names: Collection[str]) -> None:
        """See Subscriptions."""
        for name in names:
            try:
                with talking(self.path(name)):
                    self._subscriber.delete_subscription(subscription=self.path(name), **options())
            except DeployFailed as error:
                if not isinstance(error.__cause__, exceptions.NotFound):
                    raise

    def names(self) -> frozenset[str]:
        """See Subscriptions."""
        with talking(self._project):
            found = self._subscriber.list_subscriptions(project=self._project, **options())
            return frozenset(each.name.rpartition("/")[2] for each in found)


def _duration(span: timedelta) -> Duration:
    return Duration(seconds=int(span.total_seconds()))
