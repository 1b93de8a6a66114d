"""Carries what a worker measures to the metric store: each source position once, and without ever holding up records.

A write comes after the acknowledgements of the sinks and before the commit of the offsets, and moves the marks in the
same step. Who is killed in between leaves marks above its commits: the next owner of the partition reads those records
again and does not count them again. An owner that has lost its partition without knowing it is refused by the store.

When the store is away, what was measured is kept, by the minute, and the store is asked again now and then. A write
whose answer was lost is sent again as it was: the store knows by the marks whether it was done.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable

import structlog

from headwater.engine.metrics.counting import Tally
from headwater.errors import SetStoreUnavailable
from headwater.model.metric import Measured
from headwater.model.record import occurrences
from headwater.sources.base import Positions
from headwater.stores.base import MetricStore

log = structlog.get_logger(__name__)

FIRST_RETRY_S, RETRY_S = 1.0, 10.0
"""How long a store that was away is left alone, at first and at most: a try may cost its whole time limit."""
MAX_WRITES_AT_ONCE = 100
MAX_UNDECIDED = 200_000
"""Records of a partition that are kept one by one until its mark is known; more than a crash can have left above its
commit. Each takes 16 to 32 bytes."""


class Recorder:
    """Used by the engine's thread. owner: a name that no other worker has or had. clock: monotonic seconds.

    Inside: partitions whose marks are not known yet (`_untaken`), those whose records may lie below their marks
    (`_below`), how far this worker has counted (`_reached`), and how many undecided records are kept (`_kept`).
    """

    def __init__(
        self,
        store: MetricStore,
        deployment_id: str,
        group: str,
        owner: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._of = (deployment_id, group, owner)
        self._clock = clock
        self._waiting: deque[tuple[int, Tally]] = deque()
        self._sent: Measured | None = None
        self._untaken: set[int] = set()
        self._marks: Positions = {}
        self._below: set[int] = set()
        self._reached: Positions = {}
        self._kept = Counter[int]()
        self._retry_at = float("-inf")
        self._pause_s = FIRST_RETRY_S

    def all_new(self, partitions: Iterable[int]) -> bool:
        """True when no record that is read now from these partitions can have been counted before."""
        return self._untaken.isdisjoint(partitions) and self._below.isdisjoint(partitions)

    def assigned(self, partitions: Iterable[int]) -> None:
        """Take over the counting of these partitions."""
        new = set(partitions)
        self._marks.update({p: self._reached.get(p, 0) for p in new})
        self._untaken |= new
        self.flush()

    def rewound(self, positions: Positions) -> None:
        """Records are read again from these positions on."""
        full = self._full()  # what is kept of them stays, and is not counted when it is read again
        positions = {p: position for p, position in positions.items() if p not in full}
        self._drop_undecided(positions)
        self._marks.update({p: max(self._marks.get(p, 0), self._reached.get(p, 0)) for p in positions})
        self._below |= {p for p, position in positions.items() if position < self._marks[p]}

    def _drop_undecided(self, positions: Positions) -> None:
        self._kept.clear()
        for _, tally in self._waiting:
            tally.drop_undecided(positions)
            self._note_kept(tally)

    def released(self, partitions: Iterable[int]) -> None:
        """These partitions are not ours any more. What was counted and committed of them is still written."""
        gone = set(partitions)
        self._drop_undecided(dict.fromkeys(gone, 0))
        self._untaken -= gone
        self._below -= gone

    def add(self, minute: int, tally: Tally) -> None:
        """Take what was measured of records that are acknowledged, before their positions are committed."""
        self._reach(tally.ends)
        self._decide_known(tally)
        if self._waiting and self._waiting[-1][0] == minute:
            self._waiting[-1][1].add(tally)
        else:
            self._waiting.append((minute, tally))

    def _reach(self, ends: Positions) -> None:
        self._reached |= {p: max(end, self._reached.get(p, 0)) for p, end in ends.items()}

    def _decide(self, tally: Tally, marks: Positions) -> None:
        read = tally.decide(marks)
        self._reach(tally.ends)
        self._below -= {p for p, end in read.items() if end >= self._marks.get(p, 0)}

    def _decide_known(self, tally: Tally) -> None:
        """Decide all but the first records of each untaken partition: only those can be counted already."""
        full = self._full()
        waits = self._untaken - full
        known = Tally(undecided=[counted.only(lambda p, _: p not in waits) for counted in tally.undecided])
        kept = [counted.only(lambda p, _: p in waits) for counted in tally.undecided]
        tally.undecided = [counted for counted in kept if counted]
        self._note_kept(tally)
        self._decide(known, self._marks | {p: self._reached[p] for p in full})
        tally.add(known)

    def _note_kept(self, tally: Tally) -> None:
        """A full partition counts as reached up to there: what is read of it from now on needs no mark."""
        for counted in tally.undecided:
            self._kept.update(occurrences(counted.partitions))
            full = self._full()
            self._reach({p: end for p, end in counted.ends().items() if p in full})

    def _full(self) -> set[int]:
        return {p for p, records in self._kept.items() if records >= MAX_UNDECIDED}

    def flush(self, *, at_once: bool = False) -> None:
        """Write what waits. After a failure only when it is time for another try, or at_once."""
        if not at_once and self._clock() < self._retry_at:
            return
        try:
            self._take()
            for _ in range(MAX_WRITES_AT_ONCE):
                if not self._write():
                    break
        except SetStoreUnavailable as error:
            if self._retry_at == float("-inf"):
                log.warning("metrics are kept until the set store is back", reason=error.detail)
            self._retry_at = self._clock() + self._pause_s
            self._pause_s = min(RETRY_S, 2 * self._pause_s)
        else:
            self._retry_at = float("-inf")
            self._pause_s = FIRST_RETRY_S

    def _take(self) -> None:
        if self._untaken:
            marks = self._store.take(*self._of, sorted(self._untaken))
            self._marks.update({p: max(mark, self._marks[p]) for p, mark in marks.items()})
            self._below |= {p for p in self._untaken if self._marks[p]}
            self._untaken.clear()
        for _, tally in self._waiting:
            if tally.undecided:
                self._decide(tally, self._marks)
        full = self._full()
        self._marks.update({p: max(self._marks[p], self._reached[p]) for p in full})
        self._below |= full
        self._kept.clear()

    def _write(self) -> bool:
        """One write; False when nothing waits."""
        if self._sent is None:
            if not self._waiting:
                return False
            minute, tally = self._waiting.popleft()
            self._sent = tally.measured(minute)
        refused = self._store.write(*self._of, self._sent)
        if refused:
            log.warning("another worker counts these partitions now", partitions=sorted(refused))
            for partition in refused:
                self._reached.pop(partition, None)
        self._sent = None
        return True
