"""Folds ticks into price states: the worker's transform and delivery when its source is the ticks topic.

A position is written behind the states that reach it, and ticks that come twice change nothing: so whatever is killed,
reading on from the stored position leads to the same states. Kafka is told the positions too, for its lag.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import cast

import structlog

from headwater.engine.chain import InFlightBatch
from headwater.engine.delivery import ANY_NUMBER
from headwater.engine.quoted_ticks import QuotedTicks
from headwater.errors import SetStoreUnavailable, WorkerError
from headwater.model.price import left
from headwater.model.price.band import band_of
from headwater.model.price.codec import decode, encode
from headwater.model.price.left import Leaving
from headwater.model.price.series import Tick
from headwater.model.price.state import TokenState
from headwater.model.price.stats import accepted
from headwater.model.price.tail import TAIL_BYTES, fits, pack, unpack
from headwater.model.price.tick import from_topic, is_quoted, price_of, ticks_of
from headwater.model.record import Failure, Outcome, RecordBatch
from headwater.sources.base import Positions, Source
from headwater.stores.prices import PriceStore, PriceWrite
from headwater.transforms.base import Pending

log = structlog.get_logger(__name__)

CHECKPOINT_S = 0.5
"""What a reader's answer lags behind, about; longer when writing takes long."""
SHARE_OF_WRITING = 2
"""After a write the next one waits so many times as long as it took, unless many ticks come sooner: the more ticks of a
token are written together, the less each costs."""
IDLE_POLL_S = 0.1
"""A write that is due waits so long for records at most."""
MANY_HELD = 250_000
"""With so many ticks in memory it is time to write them."""
MAX_HELD = 500_000
"""With more ticks in memory than these no more are taken until they are stored."""
MAX_KNOWN = 1_000_000
"""Tokens whose bands are remembered."""


class PriceFold:
    """Ticks on their way into the store. owner: a name that no other worker has or had.

    Few ticks of a token are appended to its tail. They are folded into its state when the tail is long or they are
    many, and when their prices lie in other bands than those of the last ones: what does not count is noticed soon.
    Ticks that are quoted in another token take a way of their own (quoted_ticks.py).

    Attributes:
        ticks: How many came.
        outside: How many of those that were folded have a price that does not count (stats.accepted).
        unpriced: How many quoted ticks were left out because there is no price of their quote token.
        held: How many came since the last write.
    """

    def __init__(self, store: PriceStore, owner: str, now: Callable[[], float] = time.time) -> None:
        """now: seconds since the epoch."""
        self.ticks = self.outside = self.unpriced = self.held = 0
        self._store = store
        self._owner = owner
        self._now = now
        self._waiting: dict[int, defaultdict[bytes, list[bytes]]] = {}
        self._long: defaultdict[int, set[bytes]] = defaultdict(set)
        self._quoted: dict[int, QuotedTicks] = {}
        self._unstored: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._bands: dict[bytes, frozenset[int]] = {}
        self._chains: set[bytes] = set()

    def take(self, partitions: Sequence[int], topic_id: str = "") -> Positions:
        """These partitions are ours from now on. Where to read on; a partition that is missing: at its beginning.

        Raises SetStoreUnavailable.
        """
        self.forget(partitions)
        ends = dict(self._store.take(self._owner, topic_id, partitions))
        for partition in partitions:
            self._quoted_of(partition)
        self._ends.update(ends)
        return ends

    def forget(self, partitions: Iterable[int]) -> None:
        """These partitions are another worker's."""
        for partition in partitions:
            self._waiting.pop(partition, None)
            self._long.pop(partition, None)
            self._quoted.pop(partition, None)
            self._unstored.pop(partition, None)
            self._ends.pop(partition, None)

    def fold(self, batch: RecordBatch) -> None:
        """Take the ticks of a batch. Raises SetStoreUnavailable: nothing was taken then."""
        if self.held > MAX_HELD:
            raise SetStoreUnavailable("The set store takes no prices; ticks wait until it does.")
        batch = _ticks_of(batch)
        tokens, values = cast("list[bytes]", batch.keys), cast("list[bytes]", batch.values)
        waiting = self._waiting
        for partition in {*batch.partitions} - waiting.keys():
            waiting[partition] = defaultdict(list)
        for token, partition, value in zip(tokens, batch.partitions, values, strict=True):
            waiting[partition][token].append(value)
        self.held += len(tokens)
        self.ticks += len(tokens)

    def store(self, positions: Positions) -> None:
        """Write what came, up to these positions, and settle quoted ticks that are due.

        Raises SetStoreUnavailable: call it again; WorkerError.
        """
        self._unstored.update(positions)
        now = int(self._now() * 1000)
        for partition, end in (self._ends | self._unstored).items():
            due = self._quoted_of(partition).due(now)
            if due or partition in self._unstored:
                self._write(partition, end, due, now)
                self._ends[partition] = end
                self._unstored.pop(partition, None)
        self.held = 0
        if len(self._bands) > MAX_KNOWN:
            self._bands.clear()

    def _write(self, partition: int, end: int, due: Sequence[bytes], now: int) -> None:
        waiting: dict[bytes, list[bytes]] = self._waiting.get(partition, {})
        self._note_chains({token.partition(b":")[0] for token in waiting if token not in self._bands})
        quoted = self._quoted_of(partition).prepare({key: waiting[key] for key in waiting if is_quoted(key)}, due, now)
        tails, together = dict[bytes, bytes](), {token: waiting.get(token, []) for token in self._long[partition]}
        for token, values in waiting.items():
            if token not in together and not is_quoted(token):
                if self._is_usual(token, values):
                    tails[token] = pack(values)
                else:
                    together[token] = values
        states = self._folded(partition, together, now)
        encoded = {token: encode(state) for token, state in states.items()}
        encoded |= {key: settled.stored.encode() for key, settled in quoted.settled.items()}
        states |= {key: settled.state for key, settled in quoted.settled.items()}
        leaving = {(token, chunk): ticks for token, state in states.items() for chunk, ticks in state.left.items()}
        written = PriceWrite(
            end, encoded, self._merged(leaving), tails | quoted.tails, quoted.unsettled_keys, quoted.settled_keys
        )
        grown = self._store.write(partition, self._owner, written)
        if grown is None:
            raise WorkerError(
                f"Partition {partition} of the prices is another worker's now, or the store lost its last write."
            )
        for token, state in states.items():
            self._count(token, state)
        self._quoted_of(partition).done(quoted, grown, now)
        self.unpriced += quoted.unpriced
        self._long[partition] = {token for token in tails if grown[token] > TAIL_BYTES}
        waiting.clear()

    def _quoted_of(self, partition: int) -> QuotedTicks:
        if partition not in self._quoted:
            self._quoted[partition] = QuotedTicks(self._store, partition)
        return self._quoted[partition]

    def _is_usual(self, token: bytes, values: Sequence[bytes]) -> bool:
        """Whether ticks are few, and like those that came before as far as this worker knows."""
        if not fits(values):
            return False
        bands = {band_of(price_of(value)) for value in values}
        if token in self._bands or len(bands) > 1:
            return bands <= self._bands.get(token, _same())
        self._bands[token] = _same(*bands)
        return True

    def _folded(self, partition: int, ticks: Mapping[bytes, Sequence[bytes]], now: int) -> dict[bytes, TokenState]:
        """The states of tokens with their tails and these ticks."""
        states = dict[bytes, TokenState]()
        for token, (data, tail) in zip(ticks, self._store.read(partition, [*ticks]), strict=True):
            states[token] = state = TokenState() if data is None else decode(data)
            state.settle(now)
            state.fold_all([*(unpack(tail) if tail else ()), *from_topic(ticks[token])], now)
            state.thin()
        return states

    def _note_chains(self, chains: set[bytes]) -> None:
        if new := chains - self._chains:
            self._store.note_chains([chain.decode() for chain in new])
            self._chains |= new

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
        self._bands[token] = _same(*counted)


@cache
def _same(*bands: int) -> frozenset[int]:
    """One object for all tokens of the same bands."""
    return frozenset(bands)


def _ticks_of(batch: RecordBatch) -> RecordBatch:
    """Without what no sink wrote: others may write to the topic too."""
    kept = ticks_of(batch)
    if kept is batch:
        return batch
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
        self._is_away = False

    def connect(self, timeout_s: float) -> None:
        """Nothing to connect to: Kafka is the source's, and the store is asked when there are ticks."""

    def begin(self, timeout_s: float) -> None:
        """Nothing to take over: partitions are taken one by one."""

    def deliver(self, in_flight: InFlightBatch) -> tuple[int, list[Failure]]:
        """It is folded already."""
        in_flight.settle()
        return 0, []

    def push(self) -> None:
        """Nothing waits."""

    def room(self) -> int:
        """A store that did not take the last write is asked again when that is due by time."""
        return ANY_NUMBER if self._is_away else max(0, MANY_HELD - self._fold.held)

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
        began, self._is_away = self._clock(), True
        self._fold.store(positions)
        self._is_away = False
        if positions:
            source.commit(positions, wait=wait)
        self.checkpoint_s = max(CHECKPOINT_S, SHARE_OF_WRITING * (self._clock() - began))

    def end_commit(self, *, wait: bool) -> bool:  # noqa: ARG002 - nothing goes on beside the worker
        """See Delivery."""
        return True

    def recover(self, source: Source) -> Positions:  # noqa: ARG002 - Kafka refuses nothing
        return {}

    def forget(self, partitions: Iterable[int]) -> None:
        self._fold.forget(partitions)

    def close(self) -> None:
        """Nothing to free."""
