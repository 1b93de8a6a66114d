"""Notices when librdkafka has lost all brokers of a client.

A broker that its controller has fenced describes the cluster as one without brokers. This happens for example after the
process of the only broker was suspended for longer than `broker.session.timeout.ms`. librdkafka then removes all
brokers of the client, also the brokers in `bootstrap.servers`, and adds none again (librdkafka issue 5301). Or it keeps
a removed broker forever and does not connect to it, because something still refers to it. Such a client never connects
again, so it must be replaced.
"""

from typing import Final

import msgspec

from headwater.brokers.client_settings import ClientSettings

STATISTICS_INTERVAL_MS: Final = 2_000
IDLE_FOR_S: Final = 5.0
"""A broker that remains in the state INIT for this long is lost.

A client without any connection tries every second to open one.
"""
STUCK_FOR_S: Final = 60.0
"""An attempt to connect takes less than this, also in an outage: `socket.connection.setup.timeout.ms` is 30 s."""
_SOURCES: Final = frozenset({"configured", "learned"})
"""The values of `source` of real brokers. The others are librdkafka's own objects, such as the group coordinator."""
_CONNECTED: Final = "UP"
_NOT_CONNECTING: Final = "INIT"


class _Broker(msgspec.Struct):
    """A broker in librdkafka's statistics.

    Attributes:
        stateage: The time since the last change of the state, in µs.
    """

    source: str
    state: str
    stateage: int

    @property
    def is_usable(self) -> bool:
        """Whether the client is connected to this broker, tries to connect to it, or may still try."""
        limit_s = IDLE_FOR_S if self.state == _NOT_CONNECTING else STUCK_FOR_S
        return self.source in _SOURCES and (self.state == _CONNECTED or self.stateage < limit_s * 1_000_000)


class _Statistics(msgspec.Struct):
    """The part of librdkafka's statistics that is used (STATISTICS.md of librdkafka)."""

    brokers: dict[str, _Broker]


class KnownBrokers:
    """Reads from the statistics of a client whether it has usable brokers.

    The object is the client's `stats_cb`. librdkafka calls it inside `poll` or `consume` of the client.

    Attributes:
        are_lost: Whether the client has no usable broker any more.
    """

    def __init__(self) -> None:
        self.are_lost = False

    def __call__(self, statistics: str) -> None:
        found = msgspec.json.decode(statistics, type=_Statistics)
        self.are_lost = not any(broker.is_usable for broker in found.brokers.values())

    def settings(self) -> ClientSettings:
        """Return the settings with which a client sends its statistics to this object."""
        return {"statistics.interval.ms": STATISTICS_INTERVAL_MS, "stats_cb": self}
