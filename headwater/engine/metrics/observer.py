"""Counts and times, per batch. They become final with the commit that covers their records."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from headwater.engine.chain import InFlightBatch
from headwater.engine.metrics.counting import Counted, Tally
from headwater.engine.metrics.event_time import EventTime
from headwater.engine.metrics.recorder import Recorder
from headwater.model.dataset import SetId
from headwater.model.metric import CountType, Histogram, TimeType
from headwater.model.record import Failure, occurrences
from headwater.sources.base import Positions
from headwater.stores.base import SetLookup

MINUTE_S = 60
AGES_PER_BATCH = 8
"""Records of a batch whose age is measured: reading all of them would cost more than copying them."""


class TimedLookup:
    """A SetLookup that notes how long each question takes, in ms. Thread-safe."""

    def __init__(self, sets: SetLookup, times: deque[float], clock: Callable[[], float] = time.monotonic) -> None:
        self._sets = sets
        self._times = times
        self._clock = clock

    def contains_many(self, target: SetId, values: Sequence[str]) -> list[bool]:
        """See SetLookup."""
        began = self._clock()
        members = self._sets.contains_many(target, values)
        self._times.append(1000 * (self._clock() - began))
        return members


class _Sent(NamedTuple):
    """A batch on its way to the sinks.

    end: records produced up to its last one. timestamps: of the source records, ms → how often. event_times: of some,
    and for how many each of them stands.
    """

    end: int
    timestamps: Counter[int]
    event_times: list[tuple[float, int]]


class Observer:
    """totals, times: counts and times of this worker's committed records, also of those that an earlier one counted.

    Records that are read again after a refused delivery are counted once. lookup_times: filled by TimedLookup, emptied
    here. now: seconds since the epoch.
    """

    def __init__(
        self,
        recorder: Recorder,
        event_time: EventTime | None = None,
        lookup_times: deque[float] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.totals: Counter[CountType] = Counter()
        self.times: dict[TimeType, Histogram] = {}
        self.batches = 0
        self.rewinds = 0
        self._recorder = recorder
        self._event_time = event_time or EventTime(None)
        self._lookup_times = deque[float]() if lookup_times is None else lookup_times
        self._now = now
        self._tally = Tally()
        self._arrived: list[tuple[float, _Sent]] = []
        self._forget()

    def figures(self) -> dict[str, Any]:
        """What a heartbeat tells of the committed records."""
        times = {name: dict(histogram) for name, histogram in self.times.items()}
        return {"committed_batches": self.batches, "counters": dict(self.totals), "times": times}

    def assigned(self, partitions: Iterable[int]) -> None:
        """These partitions are ours from now on."""
        self._recorder.assigned(partitions)

    def dropped(self, partitions: Sequence[int]) -> None:
        """These partitions are not ours any more: what is not committed of them is another worker's to count."""
        self._tally.drop(partitions)
        self._recorder.released(partitions)
        for partition in partitions:
            self._totals.pop(partition, None)

    def delivered(
        self, in_flight: InFlightBatch, positions: Positions, sent: int, refused: list[Failure], took_s: float
    ) -> None:
        """Note a batch that was handed to the producer `took_s` after it was read."""
        counted = Counted.of(in_flight, sent, refused)
        counts = counted.counts()
        for partition, of_partition in counts.items():
            self._totals.setdefault(partition, Counter()).update(of_partition)
        self._batches += 1
        if self._recorder.all_new(positions):
            self._tally.count(counts, positions)
        else:
            self._tally.undecided.append(counted)
        if counted:
            self._tally.time("processing_latency").add(1000 * took_s, len(counted))
        self._produced += sent + len(in_flight.rejected)
        if in_flight.kept:
            self._sent.append(
                _Sent(self._produced, occurrences(in_flight.kept.timestamps), self._event_times(in_flight))
            )

    def _event_times(self, in_flight: InFlightBatch) -> list[tuple[float, int]]:
        """The own times of some delivered records, in ms, and for how many delivered records each stands.

        The broker's time where a record does not tell.
        """
        kept, source, row, times = in_flight.kept, in_flight.source, 0, []
        step = -(-len(kept) // AGES_PER_BATCH)
        for sample in range(0, len(kept), step):
            partition, offset = kept.partitions[sample], kept.offsets[sample]
            row = source.offsets.index(offset, row)  # what is kept stands in the order of the source
            while source.partitions[row] != partition:
                row = source.offsets.index(offset, row + 1)
            told = self._event_time.read(source.values[row])
            time_ms = float(source.timestamps[row]) if told is None else told
            times.append((time_ms, min(step, len(kept) - sample)))
        return times

    @property
    def awaits(self) -> bool:
        """True while delivered records may be unacknowledged."""
        return bool(self._sent)

    def acknowledged(self, outstanding: int) -> None:
        """Of all that was delivered, so many records have no acknowledgement yet. Batches end in their order."""
        now_ms = 1000 * self._now()
        while self._sent and self._sent[0].end <= self._produced - outstanding:
            self._arrived.append((now_ms, self._sent.popleft()))

    def _time_arrived(self) -> None:
        """Measure the acknowledged batches, all at once: that costs little more than one."""
        if not self._arrived:
            return
        latencies, weights, ages, stands_for = [], [], [], []
        for now_ms, sent in self._arrived:
            latencies.append(now_ms - np.fromiter(sent.timestamps.keys(), np.int64, len(sent.timestamps)))
            weights.append(np.fromiter(sent.timestamps.values(), np.int64, len(sent.timestamps)))
            ages += [now_ms - at for at, _ in sent.event_times]
            stands_for += [count for _, count in sent.event_times]
        self._tally.time("total_latency").add_many(np.concatenate(latencies), np.concatenate(weights))
        self._tally.time("data_age").add_many(np.array(ages), np.array(stands_for))
        self._arrived.clear()

    def record(self, *, at_once: bool) -> None:
        """The positions of all that was delivered are about to be committed.

        at_once: write also when the store was away a moment ago.
        """
        while self._lookup_times:
            self._tally.time("lookup_latency").add(self._lookup_times.popleft())
        self._hand_over()
        self._recorder.flush(at_once=at_once)

    def _hand_over(self) -> None:
        """Give the recorder what was measured."""
        self._time_arrived()
        tally, self._tally = self._tally, Tally()
        for name, histogram in tally.times.items():
            self.times.setdefault(name, Histogram()).update(histogram)
        tally.times.pop("lookup_latency", None)
        if tally.counts or tally.undecided or tally.times:
            self._recorder.add(int(self._now()) // MINUTE_S * MINUTE_S, tally)

    def committed(self, *, at_once: bool) -> None:
        """They are committed. at_once: nothing may come after it with which their times would be written."""
        self.acknowledged(0)
        for counts in self._totals.values():
            self.totals.update(counts)
        self.batches += self._batches
        self._forget()
        if at_once:
            self.flush()

    def flush(self) -> None:
        """Write what could not be written before."""
        self._hand_over()
        self._recorder.flush()

    def rewound(self, positions: Positions) -> None:
        """What was delivered since the last commit is read again, from these positions on."""
        self.rewinds += 1
        self._tally = Tally()
        self._arrived.clear()
        self._recorder.rewound(positions)
        self._forget()

    def _forget(self) -> None:
        self._totals: dict[int, Counter[CountType]] = {}
        self._batches = 0
        self._sent: deque[_Sent] = deque()
        self._produced = 0
