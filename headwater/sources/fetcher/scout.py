"""Finds the brokers that lead partitions."""

import time
from collections.abc import Sequence
from typing import Final

from headwater.brokers.client import unread
from headwater.brokers.wire.cluster import Cluster, Layout
from headwater.brokers.wire.connection import ConnectionLost, LoginRefused
from headwater.brokers.wire.requests import Address
from headwater.model.worker import KafkaAccess
from headwater.sources.fetcher.lane import Lane
from headwater.sources.fetcher.shelf import Helper, Reading, Shelf

ASK_S: Final = 10.0


class Scout(Helper):
    """Gives readings their leaders, and every leader a lane. lanes: belong to this thread until it has ended."""

    def __init__(self, shelf: Shelf, access: KafkaAccess, topic: str) -> None:
        super().__init__(shelf, "fetcher-scout")
        self.lanes: dict[Address, Lane] = {}
        self._access = access
        self._topic = topic
        self._cluster = Cluster(access, ASK_S)

    def disconnect(self) -> None:
        self._cluster.close()

    def _turn(self) -> bool:
        with self._shelf.lock:
            while not (lost := self._lost()):
                if self._shelf.closed:
                    return False
                self._shelf.changed.wait(self._patience_s())
        layout, why = self._look()
        with self._shelf.lock:
            if self._shelf.closed:
                return False
            for reading in lost:
                self._place(reading, layout, why)
            self._shelf.changed.notify_all()
        return True

    def _lost(self) -> Sequence[Reading]:
        now = time.monotonic()
        return [] if self._shelf.closed else [each for each in self._leaderless() if each.retry_at <= now]

    def _leaderless(self) -> list[Reading]:
        return [each for each in self._shelf.readings.values() if each.leader is None and each.stop is None]

    def _patience_s(self) -> float | None:
        first = min((reading.retry_at for reading in self._leaderless()), default=None)
        return None if first is None else max(0.0, first - time.monotonic())

    def _look(self) -> tuple[Layout, str]:
        """Where the leaders are, and why one may be missing."""
        try:
            return self._cluster.layout([self._topic]), "it has no leader at the moment"
        except (ConnectionLost, LoginRefused) as error:
            return Layout({}, {}), str(error)
        finally:
            self._cluster.close()

    def _place(self, reading: Reading, layout: Layout, why: str) -> None:
        reading.leader = layout.leaders.get((self._topic, reading.partition))
        if reading.leader is None:
            reading.lose(unread(why, self._topic, reading.partition, self._access), lasts=False)
            return
        address = reading.leader.address
        if address not in self.lanes:
            self.lanes[address] = Lane(self._shelf, self._access, self._topic, address)
            self.lanes[address].start()
