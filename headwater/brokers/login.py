"""The login test: a new user's credentials and rules reach the brokers some time after they were accepted."""

import time
from collections.abc import Set
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headwater.brokers.base import User
from headwater.brokers.client import ClientErrors, admin_settings
from headwater.errors import BrokerUnavailable
from headwater.model.worker import KafkaAccess

_ATTEMPT_S: Final = 2.0
_PAUSE_S: Final = 0.02


def wait(users: KafkaAccess, user: User, topics: Set[str], deadline: float) -> None:
    """Return once the user can log in and sees all these topics, each partition with a leader.

    users: how users log in, whatever name and password it has. deadline: of the monotonic clock. Raises
    BrokerUnavailable when it passes.
    """
    access = users.model_copy(update={"username": user.name, "password": user.password})
    errors = ClientErrors(access)
    client = AdminClient(admin_settings(access, errors))
    while not _sees(client, topics):
        if time.monotonic() > deadline:
            client.poll(0)
            errors.check()
            raise BrokerUnavailable(f"Kafka does not show the user {user.name} its topics yet: try again.")
        time.sleep(_PAUSE_S)


def _sees(client: AdminClient, topics: Set[str]) -> bool:
    try:
        found = client.list_topics(timeout=_ATTEMPT_S).topics
    except KafkaException:
        return False  # refused, so far: the client logs in again by itself, and the deadline decides
    return all(
        name in found
        and found[name].error is None
        and all(partition.leader >= 0 for partition in found[name].partitions.values())
        for name in topics
    )
