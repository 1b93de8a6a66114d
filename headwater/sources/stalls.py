"""Finds partitions that are not read although they have records, and those that an open transaction holds up.

librdkafka can lose track of a partition when a broker restarts (librdkafka issues 4492 and 5153). Another client asks
the brokers where the partitions end. A partition stands still when it has records behind the position, and the consumer
gives none of them although nothing else waits to be taken.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from headwater.brokers.topic_watch import EndsRequest, TopicWatch

LOOK_EVERY_S: Final = 2.0
STILL_LOOKS: Final = 2
"""So many looks in a row must find that a partition stands still, for the first time; twice as many each time after."""
MOST_LOOKS: Final = 32
HELD_S: Final = 15.0
"""How long a transaction of somebody else may hold up readers before it is told: as long as a worker's own may last."""


class Stalled(NamedTuple):
    """partitions: those that stand still. times: how often in a row something did, without a record in between."""

    partitions: list[int]
    times: int


class StallGuard:
    """positions are the next offsets to read. clock: monotonic seconds."""

    def __init__(self, watch: TopicWatch, clock: Callable[[], float] = time.monotonic) -> None:
        self._watch = watch
        self._clock = clock
        self._request: EndsRequest | None = None
        self._asked: dict[int, int] = {}
        self._was_drained = False
        self._look_at = float("-inf")
        self._looks: dict[int, int] = {}
        self._times = 0
        self._held: dict[int, tuple[int, float]] = {}

    def drained(self) -> None:
        """The client had nothing more to give."""
        self._was_drained = True

    def moved(self) -> None:
        """Records came."""
        self._times = 0

    def look(self, positions: Mapping[int, int]) -> Stalled | None:
        """What stands still, if anything. positions: of all partitions that are read now. Never waits."""
        if self._request is None:
            self._ask(positions)
            return None
        if not self._request.done():
            return None
        ends, self._request = self._request.ends(), None
        still = {p: ends[p] for p, at in self._asked.items() if p in ends and positions.get(p) == at}
        self._note_held({p: at.stable for p, at in still.items() if self._asked[p] == at.stable < at.high})
        return self._judge({p for p, at in still.items() if self._asked[p] < at.stable})

    def _ask(self, positions: Mapping[int, int]) -> None:
        now = self._clock()
        if positions and now >= self._look_at:
            self._asked, self._was_drained = dict(positions), False
            self._request, self._look_at = self._watch.ask_ends([*positions]), now + LOOK_EVERY_S

    def _judge(self, behind: set[int]) -> Stalled | None:
        if behind and not self._was_drained:
            return None
        self._looks = {partition: self._looks.get(partition, 0) + 1 for partition in behind}
        patience = min(MOST_LOOKS, STILL_LOOKS << self._times)
        found = [partition for partition, looks in self._looks.items() if looks >= patience]
        if not found:
            return None
        self._times += 1
        self._looks.clear()
        return Stalled(found, self._times)

    def _note_held(self, held: Mapping[int, int]) -> None:
        now, before = self._clock(), self._held
        self._held = {p: before[p] if before.get(p, (-1,))[0] == at else (at, now) for p, at in held.items()}

    def held(self) -> dict[int, int]:
        """By partition, the last stable offset that an open transaction has held up for HELD_S."""
        now = self._clock()
        return {partition: at for partition, (at, since) in self._held.items() if now - since >= HELD_S}

    def end(self, partitions: Collection[int]) -> None:
        """Forget these partitions."""
        for partition in partitions:
            self._asked.pop(partition, None)
            self._looks.pop(partition, None)
            self._held.pop(partition, None)
