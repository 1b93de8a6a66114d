"""Caches the lags of deployments, and reads them in the background."""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from headwater.brokers.base import TopicOffsets
from headwater.model.access import KafkaAccess
from headwater.model.positions import GroupPositions
from headwater.services.optional_reads import OptionalReads

FRESH_S = 5.0
"""A lag is not read again before this time has passed."""
KEPT_S = 60.0
"""A lag that could not be read again for this long is no longer known."""

ReadLags = Callable[[KafkaAccess | None, Collection[str]], Mapping[str, int]]
"""Reads the lags of consumer groups on a cluster; None is the installation's own cluster.

It may block and raises BrokerUnavailable.
"""
ReadEnds = Callable[[KafkaAccess | None, str], TopicOffsets | None]
"""Reads the end offsets of a topic on a cluster, like ReadLags."""


@dataclass(frozen=True, slots=True)
class LagSource:
    """Names the offsets from which the lag of a deployment is computed.

    Attributes:
        cluster: The cluster of the source; None is the installation's own cluster.
        topic: The topic of the source.
        group: The consumer group of the workers.
        stored: The stored positions of a paused deployment; None when the lag is computed from committed offsets.
    """

    cluster: KafkaAccess | None
    topic: str
    group: str
    stored: GroupPositions | None = None


@dataclass(frozen=True, slots=True)
class _Lag:
    """A lag, and when it was read.

    Attributes:
        records: The lag; None for a group without committed offsets.
        read_at: When the lag was read, in monotonic seconds.
    """

    records: int | None
    read_at: float


class LagCache:
    """Returns lags without waiting for Kafka. Thread-safe.

    Args:
        read_lags: Reads the lags of consumer groups.
        read_ends: Reads the end offsets of a topic.
        clusters: The clusters from which lags are read.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        read_lags: ReadLags,
        read_ends: ReadEnds,
        clusters: Collection[KafkaAccess | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read_lags = read_lags
        self._read_ends = read_ends
        self._clock = clock
        self._lock = threading.Lock()
        self._lags: dict[str, _Lag] = {}
        self._wanted: dict[KafkaAccess | None, dict[str, LagSource]] = {cluster: {} for cluster in clusters}
        self._being_read: dict[KafkaAccess | None, Mapping[str, LagSource]] = {cluster: {} for cluster in clusters}
        self._reads = {cluster: OptionalReads[None]("lags") for cluster in clusters}

    def get(self, sources: Mapping[str, LagSource]) -> Mapping[str, int]:
        """Return the known lags of deployments, and start to read the lags that are not fresh.

        Does not block.

        Args:
            sources: The source of each lag, by the id of the deployment.
        """
        now = self._clock()
        with self._lock:
            known = {id_: lag for id_ in sources if (lag := self._lags.get(id_)) and now - lag.read_at < KEPT_S}
            stale = [id_ for id_ in sources if id_ not in known or now - known[id_].read_at >= FRESH_S]
            stale = [id_ for id_ in stale if id_ not in self._being_read[sources[id_].cluster]]
            for id_ in stale:
                self._wanted[sources[id_].cluster][id_] = sources[id_]
        for cluster in {sources[id_].cluster for id_ in stale}:
            self._start_refresh(cluster)
        return {id_: lag.records for id_, lag in known.items() if lag.records is not None}

    def close(self) -> None:
        """End the threads of the reads."""
        for reads in self._reads.values():
            reads.close()

    def _start_refresh(self, cluster: KafkaAccess | None) -> None:
        self._reads[cluster].submit("", lambda: self._refresh(cluster))

    def _refresh(self, cluster: KafkaAccess | None) -> None:
        """Read all wanted lags of a cluster, also the lags that become wanted meanwhile."""
        try:
            while sources := self._take_wanted(cluster):
                lags = self._read(cluster, sources)
                now = self._clock()
                with self._lock:
                    kept = {id_: lag for id_, lag in self._lags.items() if now - lag.read_at < KEPT_S}
                    self._lags = kept | {id_: _Lag(lags.get(id_), now) for id_ in sources}
        finally:
            with self._lock:
                self._being_read[cluster] = {}

    def _take_wanted(self, cluster: KafkaAccess | None) -> Mapping[str, LagSource]:
        with self._lock:
            self._being_read[cluster], self._wanted[cluster] = self._wanted[cluster], {}
            return self._being_read[cluster]

    def _read(self, cluster: KafkaAccess | None, sources: Mapping[str, LagSource]) -> Mapping[str, int | None]:
        groups = {source.group: id_ for id_, source in sources.items() if source.stored is None}
        lags = self._read_lags(cluster, groups.keys()) if groups else {}
        topics = {source.topic for source in sources.values() if source.stored is not None}
        ends = {topic: self._read_ends(cluster, topic) for topic in topics}
        stored = {id_: (source.topic, source.stored) for id_, source in sources.items() if source.stored is not None}
        return {groups[group]: lag for group, lag in lags.items()} | {
            id_: stored_lag(topic, positions, ends[topic]) for id_, (topic, positions) in stored.items()
        }


def stored_lag(topic: str, stored: GroupPositions, ends: TopicOffsets | None) -> int | None:
    """Return how many offsets of a topic are after stored positions.

    Returns None when the topic does not exist, or the positions belong to another topic.
    """
    if ends is None or (stored.topic, stored.topic_id) != (topic, ends.topic_id):
        return None
    return sum(max(0, end - stored.offsets.get(partition, 0)) for partition, end in ends.offsets.items())
