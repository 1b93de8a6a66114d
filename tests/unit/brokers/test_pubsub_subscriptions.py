"""The requests and error messages of PubSubSubscriptions."""

import pytest
from google.api_core import exceptions

from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions
from headwater.errors import BrokerUnsuitable
from headwater.model.access import PubSubAccess

TOPIC = "projects/project-1/topics/t"


class ForbiddenSubscription:
    """A client for a subscription that Headwater may not read."""

    def get_subscription(self, **_: object) -> None:
        raise exceptions.Forbidden("denied")  # type: ignore[no-untyped-call]


def test_an_error_of_an_existing_subscription_names_the_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    subscriptions = PubSubSubscriptions(PubSubAccess(project="project-1", endpoint="127.0.0.1:9"))
    monkeypatch.setattr(subscriptions, "_subscriber", ForbiddenSubscription())
    with pytest.raises(BrokerUnsuitable, match=r"denies access to projects/project-1/subscriptions/wrk-1\.1"):
        subscriptions.ensure("wrk-1.1", TOPIC, "latest")
