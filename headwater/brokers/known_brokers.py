"""Notices when librdkafka has removed all brokers of a client, which then never connects again.

A broker that its controller has fenced describes the cluster as one without brokers. This happens for example after the
process of the only broker was suspended for longer than `broker.session.timeout.ms`. librdkafka then removes all
brokers of the client, also those of `bootstrap.servers`, and does not add them again (librdkafka issue 5301). Such a
client must be replaced.
"""

from typing import Final

import msgspec

from headwater.brokers.client_settings import ClientSettings

STATISTICS_INTERVAL_MS: Final = 2_000
_SOURCES: Final = frozenset({"configured", "learned"})
"""The values of `source` of real brokers. The others are librdkafka's own objects, such as the group coordinator."""


class _Broker(msgspec.Struct):
    source: str


class _Statistics(msgspec.Struct):
    """The part of librdkafka's statistics that is used. See STATISTICS.md of librdkafka."""

    brokers: dict[str, _Broker]


class KnownBrokers:
    """Reads from the statistics of a client whether it has brokers. The object is the client's `stats_cb`.

    librdkafka calls it inside `poll` or `consume` of the client.

    Attributes:
        are_lost: Whether the client has no brokers any more.
    """

    def __init__(self) -> None:
        self.are_lost = False

    def __call__(self, statistics: str) -> None:
        found = msgspec.json.decode(statistics, type=_Statistics)
        self.are_lost = not any(broker.source in _SOURCES for broker in found.brokers.values())

    def settings(self) -> ClientSettings:
        """Return the settings with which a client sends its statistics to this object."""
        return {"statistics.interval.ms": STATISTICS_INTERVAL_MS, "stats_cb": self}
