"""The protocol by which the API follows topics, to show new records to users."""

from collections.abc import Sequence
from typing import Literal, Protocol

from headwater.model.topic_record import TopicRecord

EndReason = Literal["broker_unavailable", "topic_removed"]
"""Why a TailReader stops delivering the records of a topic."""


class TailListener(Protocol):
    """Receives the new records of a topic.

    A thread of the TailReader calls the methods, which must not block.
    """

    def deliver(self, records: Sequence[TopicRecord], skipped: int) -> None:
        """Receive new records.

        Args:
            records: The records, of each partition in the order of their offsets.
            skipped: The number of further new records, which were read and left out because they are too many.
        """

    def end(self, reason: EndReason) -> None:
        """Be notified that no more records will be delivered."""


class TailReader(Protocol):
    """Delivers the new records of topics of one Kafka cluster to listeners. Thread-safe.

    All subscriptions share one connection to the cluster, and each record is read once for all of them.
    """

    def subscribe(self, topic: str, listener: TailListener) -> None:
        """Deliver to a listener the new committed records of a topic.

        No record that is appended after this call has returned is left out, unless `deliver` counts it as skipped.
        A listener has one subscription at most. The call blocks for some seconds at most. It raises TopicMissing when
        the topic does not exist, and BrokerUnavailable.
        """

    def unsubscribe(self, listener: TailListener) -> None:
        """Deliver nothing more to a listener. Does not block.

        A listener without a subscription is ignored.
        """

    def close(self) -> None:
        """Deliver nothing more, and disconnect. Further subscriptions raise BrokerUnavailable."""
