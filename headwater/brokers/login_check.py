"""Waits until a new user can log in.

Brokers apply credentials and ACLs some time after they accept them.
"""

import time
from collections.abc import Set
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headwater.brokers.base import User
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess

_ATTEMPT_TIMEOUT_S: Final = 2.0
_RETRY_DELAY_S: Final = 0.02


def wait_until_usable(user_access: KafkaAccess, user: User, topics: Set[str], deadline: float) -> None:
    """Return when the user can log in and sees all these topics, each partition with a leader.

    Raises BrokerUnavailable at the deadline.

    Args:
        user_access: How users log in; its user name and password are ignored.
        user: The user to log in as.
        topics: The topics that the user must see.
        deadline: A time of `time.monotonic()`.
    """
    access = user_access.model_copy(update={"username": user.name, "password": user.password})
    errors = ClientErrors(access)
    client = AdminClient(admin_settings(access, errors))
    while not _sees(client, topics):
        if time.monotonic() > deadline:
            client.poll(0)
            errors.check()
            raise BrokerUnavailable(f"The Kafka user {user.name} can't see its topics yet. Try again in a few seconds.")
        time.sleep(_RETRY_DELAY_S)


def _sees(client: AdminClient, topics: Set[str]) -> bool:
    try:
        described = client.list_topics(timeout=_ATTEMPT_TIMEOUT_S).topics
    except KafkaException:
        # The user is not usable yet. The client retries the login by itself, and the caller stops at its deadline.
        return False
    return all(
        name in described
        and described[name].error is None
        and all(partition.leader >= 0 for partition in described[name].partitions.values())
        for name in topics
    )
