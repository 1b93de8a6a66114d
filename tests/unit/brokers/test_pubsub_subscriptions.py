"""The error messages of PubSubSubscriptions, with a client that fails."""

import pytest
from google.api_core import exceptions

from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions
from headwater.errors import BrokerUnsuitable
from headwater.model.access import PubSubAccess

TOPIC = "projects/project-1/topics/t"


class VanishingSubscription:
    """A client for a subscription that another program creates, and then deletes.

    The subscription exists when it is created again.
    """

    def create_subscription(self, **_: object) -> None:
        raise exceptions.AlreadyExists("it exists")  # type: ignore[no-untyped-call]

    def get_subscription(self, **_: object) -> None:
        raise exceptions.NotFound("it does not exist")  # type: ignore[no-untyped-call]


def test_an_error_of_an_existing_subscription_names_the_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    subscriptions = PubSubSubscriptions(PubSubAccess(project="project-1", endpoint="127.0.0.1:9"))
    monkeypatch.setattr(subscriptions, "_subscriber", VanishingSubscription())
    with pytest.raises(BrokerUnsuitable, match=r"has no projects/project-1/subscriptions/wrk-1\.1\. Create it"):
        subscriptions.ensure("wrk-1.1", TOPIC, "latest")
