"""Folds ticks into price states: the worker's transform and delivery when its source is the ticks topic.

A position is written behind the states that reach it, and ticks that come twice change nothing: so whatever is killed,
reading on from the stored position leads to the same states. Kafka is told the positions too, for its lag.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import cast

import structlog

from headwater.engine.chain import Flight
from headwater.engine.delivery import ANY_NUMBER
from headwater.errors import WorkerError
from headwater.model.price import left
from headwater.model.price.codec import decode, encode
from headwater.model.price.left import Leaving
from headwater.model.price.series import Tick
from headwater.model.price.state import TokenState
from headwater.model.price.stats import accepted
from headwater.model.price.tick import from_topic, is_tick, partition_of
from headwater.model.record import Failure, Outcome, RecordBatch
from headwater.sources.base import Positions, Source
from headwater.stores.base import PriceStore, PriceWrite
from headwater.transforms.base import Pending

log = structlog.get_logger(__name__)

CHECKPOINT_S = 0.5
"""What a reader's answer lags behind, about; longer when writing takes long."""
SHARE_OF_WRITING = 2
"""After a write the next one waits so many times as long as it took."""
IDLE_POLL_S = 0.1
"""A write that is due waits so long for records at most."""
MAX_STATES = 200_000
"""Kept in memory; when they are more, those that are stored are given up, and read again when they are needed."""


class PriceFold:
    """The states of the partitions that this worker has. owner: a name that no other worker has or had.

    ticks, outside: how many were folded, and how many of them have a price that does not count (stats.accepted).
    now: seconds since the epoch.
    """

    def __init__(self, store: PriceStore, owner: str, now: Callable[[], float] = time.time) -> None:
        self.ticks = self.outside = 0
        self._store = store
        self._owner = owner
        self._now = now
        self._states: dict[bytes, TokenState] = {}
        self._dirty: defaultdict[int, set[bytes]] = defaultdict(set)
        self._unstored: dict[int, int] = {}
        self._chains: set[bytes] = set()

    def take(self, partitions: Sequence[int], topic_id: str = "") -> Positions:
        """These partitions are ours from now on. Where to read on; a partition that is missing: at its beginning.

        Raises SetStoreUnavailable.
        """
        self.forget(partitions)
        return dict(self._store.take(self._owner, topic_id, partitions))

    def forget(self, partitions: Iterable[int]) -> None:
        """These partitions are another worker's."""
        gone = set(partitions)
        self._states = {token: state for token, state in self._states.items() if partition_of(token) not in gone}
        for partition in gone:
            self._dirty.pop(partition, None)
            self._unstored.pop(partition, None)

    def fold(self, batch: RecordBatch) -> None:
        """Take the ticks of a batch. Raises SetStoreUnavailable: nothing was taken then."""
        batch = _ticks_of(batch)
        tokens, values = cast("list[bytes]", batch.keys), cast("list[bytes]", batch.values)
        self._load({*tokens} - self._states.keys())
        now, states, dirty = int(self._now() * 1000), self._states, self._dirty
        for token, partition, tick in zip(tokens, batch.partitions, from_topic(values), strict=True):
            states[token].fold(tick, now)
            dirty[partition].add(token)
        self.ticks += len(tokens)

    def _load(self, tokens: Iterable[bytes]) -> None:
        missing: defaultdict[int, list[bytes]] = defaultdict(list)
        for token in tokens:
            missing[partition_of(token)].append(token)
        self._note_chains({token.partition(b":")[0] for some in missing.values() for token in some})
        for partition, some in missing.items():
            for token, state in zip(some, self._store.read(partition, some), strict=True):
                self._states[token] = TokenState() if state is None else decode(state)

    def _note_chains(self, chains: set[bytes]) -> None:
        if new := chains - self._chains:
            self._store.note_chains([chain.decode() for chain in new])
            self._chains |= new

    def store(self, positions: Positions) -> None:
        """Write what changed, up to these positions. Raises SetStoreUnavailable: call it again; WorkerError."""
        self._unstored.update(positions)
        for partition, end in [*self._unstored.items()]:
            self._write(partition, end)
            del self._unstored[partition]
        if len(self._states) > MAX_STATES:
            self._states = {token: self._states[token] for token in chain.from_iterable(self._dirty.values())}

    def _write(self, partition: int, end: int) -> None:
        now, dirty = int(self._now() * 1000), self._dirty.get(partition, set())
        states = {token: self._states[token] for token in dirty}
        leaving: dict[Leaving, list[Tick]] = {}
        for token, state in states.items():
            state.settle(now)
            state.thin()
            leaving |= {(token, chunk): ticks for chunk, ticks in state.left.items()}
        encoded = {token: encode(state) for token, state in states.items()}
        if not self._store.write(partition, self._owner, PriceWrite(end, encoded, self._merged(leaving))):
            raise WorkerError(
                f"Partition {partition} of the prices is another worker's now, or the store lost its last write."
            )
        for token, state in states.items():
            state.left.clear()
            self._count(token, state)
        dirty.clear()

    def _merged(self, leaving: dict[Leaving, list[Tick]]) -> dict[Leaving, bytes]:
        """The ticks that leave states, with those of their chunks that are stored already."""
        found = zip(leaving.items(), self._store.read_left([*leaving]), strict=True)
        return {
            (token, chunk): left.encode(chunk, [*left.Left(chunk, stored or b"").ticks(), *ticks])
            for ((token, chunk), ticks), stored in found
        }

    def _count(self, token: bytes, state: TokenState) -> None:
        counted = accepted(state)
        for number, band in state.bands.items():
            if band.fresh and number not in counted:
                self.outside += band.fresh
                time_ms, _, price = band.last
                log.info("price outside the accepted ones", token=token.decode(), price=price, time_ms=time_ms)
            band.fresh = 0


def _ticks_of(batch: RecordBatch) -> RecordBatch:
    """Without what no sink wrote: others may write to the topic too."""
    good = [*map(is_tick, batch.keys, batch.values)]
    if all(good):
        return batch
    kept = batch.select(good)
    log.warning("records that are no ticks are left out", topic=batch.topic, count=len(batch) - len(kept))
    return kept


class FoldTransform:
    """Implements Transform: folds a batch, and lets nothing of it pass."""

    uid = "prices"

    def __init__(self, fold: PriceFold) -> None:
        self._fold = fold

    def start(self, batch: RecordBatch) -> Pending:
        """See Transform."""
        return _Folding(self._fold, batch)

    def close(self) -> None:
        """See Transform."""


class _Folding:
    """A batch whose ticks are folded when its result is taken."""

    def __init__(self, fold: PriceFold, batch: RecordBatch) -> None:
        self._fold = fold
        self._batch = batch

    def done(self) -> bool:
        """What is left is computing, and at most a round trip."""
        return True

    def wait(self, timeout_s: float) -> None:
        """See Pending."""

    def result(self) -> Outcome:
        """See Pending."""
        self._fold.fold(self._batch)
        return Outcome(RecordBatch.empty(self._batch.topic))


class PriceDelivery:
    """Implements Delivery: positions go to the price store, with the states that they belong to."""

    def __init__(self, fold: PriceFold, clock: Callable[[], float] = time.monotonic) -> None:
        self.checkpoint_s = CHECKPOINT_S
        self._fold = fold
        self._clock = clock

    def connect(self, timeout_s: float) -> None:
        """Nothing to connect to: Kafka is the source's, and the store is asked when there are ticks."""

    def begin(self, timeout_s: float) -> None:
        """Nothing to take over: partitions are taken one by one."""

    def deliver(self, flight: Flight) -> tuple[int, list[Failure]]:
        """It is folded already."""
        flight.settle()
        return 0, []

    def push(self) -> None:
        """Nothing waits."""

    def room(self) -> int:
        return ANY_NUMBER

    def saturated(self) -> bool:
        return False

    def unacknowledged(self, timeout_s: float) -> int:  # noqa: ARG002 - nothing is on its way between two commits
        return 0

    def outstanding(self) -> int:
        return 0

    def failures(self) -> list[str]:
        return []

    def commit(self, source: Source, positions: Positions, *, wait: bool) -> None:
        """See Delivery."""
        began = self._clock()
        self._fold.store(positions)
        if positions:
            source.commit(positions, wait=wait)
        self.checkpoint_s = max(CHECKPOINT_S, SHARE_OF_WRITING * (self._clock() - began))

    def recover(self, source: Source) -> Positions:  # noqa: ARG002 - Kafka refuses nothing
        return {}

    def forget(self, partitions: Iterable[int]) -> None:
        self._fold.forget(partitions)

    def close(self) -> None:
        """Nothing to free."""
