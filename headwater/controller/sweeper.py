"""Removes what ended deployments may leave behind: their consumer groups, once these are empty.

Topics, users and rules go before a teardown answers; groups can only go when no member is left, and a user's
consumer stays a member until its session times out. Only groups of deployments that this installation's database
knows to be ended are touched: a shared cluster may hold other people's.
"""

import re

import structlog

from headwater.brokers.base import Broker
from headwater.errors import BrokerUnavailable
from headwater.stores.base import DeploymentStore

log = structlog.get_logger(__name__)

_GROUP = re.compile(r"^(?:dep|wrk)-([0-9a-z]{26})\.")


class Sweeper:
    """Called by the controller's leader from time to time."""

    def __init__(self, broker: Broker, deployments: DeploymentStore) -> None:
        self._broker = broker
        self._deployments = deployments

    def sweep(self) -> None:
        """Delete the groups of ended deployments; those that still have members wait for the next round."""
        try:
            groups = self._broker.inventory().groups
            ids = {match[1] for group in groups if (match := _GROUP.match(group))}
            prefixes = [f"{kind}-{ended}." for ended in self._deployments.ended(sorted(ids)) for kind in ("dep", "wrk")]
            if prefixes:
                self._broker.drop_groups(prefixes)
        except BrokerUnavailable as error:
            log.warning("consumer groups are swept later", reason=error.detail)
