"""Folds ticks into the price states of tokens, and writes the states to the price store.

The store keeps the offset of a partition together with the states that include all ticks before it, and a repeated tick
changes no state. So after any crash, reading on from the stored offset leads to the same states.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import cast

import structlog

from headwater.errors import SetStoreUnavailable, WorkerError
from headwater.model.price import left
from headwater.model.price.band import band_of
from headwater.model.price.codec import decode, encode
from headwater.model.price.left import Leaving
from headwater.model.price.series import Tick
from headwater.model.price.state import TokenState
from headwater.model.price.stats import accepted
from headwater.model.price.tail import TAIL_BYTES, fits, pack, unpack
from headwater.model.price.tick import from_topic, is_quoted, price_of
from headwater.model.record import RecordBatch
from headwater.prices.quoted_ticks import QuotedTicks
from headwater.prices.source import only_ticks
from headwater.sources.base import Positions
from headwater.stores.prices import PriceStore, PriceWrite

log = structlog.get_logger(__name__)

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
        batch = only_ticks(batch)
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
        found = zip(leaving.items(), self._store.read_archived([*leaving]), strict=True)
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
