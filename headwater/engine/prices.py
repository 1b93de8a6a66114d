"""Folds ticks into price states: the worker's transform and delivery when its source is the ticks topic.

A state and the position that it reaches are written together, and ticks that come twice change nothing: so whatever is
killed, reading on from the stored position leads to the same states. Kafka is told the positions too, for its lag.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import compress

import structlog

from headwater.engine.chain import Flight
from headwater.engine.delivery import ANY_NUMBER
from headwater.errors import WorkerError
from headwater.model.price.band import band_of
from headwater.model.price.codec import decode, decode_hour, encode, encode_hour
from headwater.model.price.series import Tick
from headwater.model.price.state import Newest, TokenState
from headwater.model.price.stats import accepted
from headwater.model.price.tick import from_topic
from headwater.model.record import Failure, Outcome, RecordBatch
from headwater.sources.base import Positions, Source
from headwater.stores.base import PriceStore, PriceWrite
from headwater.transforms.base import Pending

log = structlog.get_logger(__name__)

CHECKPOINT_S = 0.5
"""What a reader's answer lags behind, about; longer when writing takes long."""
SHARE_OF_WRITING = 4
"""After a write the next one waits so many times as long as it took."""
MAX_TOKENS = 200_000
"""States that are kept in memory: those of a partition are read again when they are more."""


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
        self._states: dict[int, dict[bytes, TokenState]] = {}
        self._dirty: dict[int, dict[bytes, list[Newest]]] = {}
        self._unstored: dict[int, int] = {}
        self._chains: set[bytes] = set()

    def take(self, partitions: Sequence[int]) -> Positions:
        """These partitions are ours from now on. Where to read on; a partition that is missing: at its beginning."""
        self.forget(partitions)
        return dict(self._store.take(self._owner, partitions))

    def forget(self, partitions: Iterable[int]) -> None:
        """These partitions are another worker's."""
        for partition in partitions:
            for known in (self._states, self._dirty, self._unstored):
                known.pop(partition, None)

    def fold(self, batch: RecordBatch) -> None:
        """Take the ticks of a batch. Raises SetStoreUnavailable: nothing was taken then."""
        by_partition = {p: from_topic(*_columns(batch, p)) for p in set(batch.partitions)}
        for partition, ticks in by_partition.items():
            self._load(partition, {token for token, _ in ticks})
        self._note_chains({token.partition(b":")[0] for ticks in by_partition.values() for token, _ in ticks})
        now = int(self._now() * 1000)
        for partition, ticks in by_partition.items():
            states, dirty = self._states[partition], self._dirty.setdefault(partition, {})
            for token, tick in ticks:
                states[token].fold(tick, now)
                dirty.setdefault(token, []).append(tick)

    def _load(self, partition: int, tokens: Iterable[bytes]) -> None:
        states = self._states.setdefault(partition, {})
        missing = [token for token in tokens if token not in states]
        for token, state in zip(missing, self._store.read(partition, missing), strict=True):
            states[token] = TokenState() if state is None else decode(state)

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
        if sum(map(len, self._states.values())) > MAX_TOKENS:
            for partition, states in self._states.items():
                self._states[partition] = {token: states[token] for token in self._dirty.get(partition, ())}

    def _write(self, partition: int, end: int) -> None:
        now = int(self._now() * 1000)
        states, dirty = self._states.get(partition, {}), self._dirty.get(partition, {})
        left: dict[tuple[int, bytes], list[Tick]] = {}
        for token in dirty:
            states[token].settle(now)
            left |= {(hour, token): ticks for hour, ticks in states[token].left.items()}
        written = PriceWrite(end, {token: encode(states[token]) for token in dirty}, self._merged(partition, left))
        if not self._store.write(partition, self._owner, written):
            raise WorkerError(f"Another prices worker has taken over partition {partition}.")
        for token in dirty:
            states[token].left.clear()
        self._count(partition, dirty)
        self._dirty.pop(partition, None)

    def _merged(self, partition: int, left: dict[tuple[int, bytes], list[Tick]]) -> dict[tuple[int, bytes], bytes]:
        """The ticks of past hours, with those that are stored already."""
        stored = self._store.read_hours(partition, [*left])
        return {
            at: encode_hour(at[0], [*decode_hour(at[0], ticks or b""), *left[at]])
            for at, ticks in zip(left, stored, strict=True)
        }

    def _count(self, partition: int, dirty: dict[bytes, list[Newest]]) -> None:
        for token, ticks in dirty.items():
            state = self._states[partition][token]
            self.ticks += len(ticks)
            if len(state.bands) > 1:
                counted = accepted(state)
                outside = [tick for tick in ticks if band_of(tick[2]) not in counted]
                self.outside += len(outside)
                for at, _, price, *_ in outside[:1]:
                    log.info("price outside the accepted ones", token=token.decode(), price=price, time_ms=at)


def _columns(batch: RecordBatch, partition: int) -> tuple[Sequence[bytes | None], Sequence[bytes | None]]:
    """Keys and values of one partition."""
    rows = [p == partition for p in batch.partitions]
    return [*compress(batch.keys, rows)], [*compress(batch.values, rows)]


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
