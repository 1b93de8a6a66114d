"""Folds ticks into the price states of tokens, and writes the states to the price store.

The store keeps the position of each partition together with the states, which include all ticks before that position. A
repeated tick changes no state. So after a crash at any point, reading from the stored position leads to the same
states.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import cast

import structlog

from headwater.errors import RedisUnavailable, WorkerError
from headwater.model.price.archive import ArchivedTicks, ArchiveKey, encode_archived
from headwater.model.price.band import band_of
from headwater.model.price.codec import decode_state, encode_state
from headwater.model.price.state import TokenState
from headwater.model.price.stats import accepted_bands
from headwater.model.price.tail import TAIL_BYTES, decode_tail, encode_tail, fits_in_tail
from headwater.model.price.tick import QUOTED, decode_ticks, is_quoted, price_of
from headwater.model.record import RecordBatch
from headwater.prices.quoted_ticks import QuotedTicks
from headwater.prices.source import only_ticks
from headwater.sources.base import Positions
from headwater.stores.protocols.prices import LIST_PERIOD_S, PriceStore, PriceWrite

log = structlog.get_logger(__name__)

MAX_TICKS_IN_MEMORY = 500_000
"""When more ticks than this are in memory, no more are accepted until a write succeeds."""
MAX_CACHED_TOKENS = 1_000_000
"""When the caches of accepted bands and of registered quoted ticks have more keys together, both are cleared."""


class PriceWriter:
    """Collects ticks in memory, and writes them to the price store.

    The store has for each token a state and a tail (model/price/tail.py): encoded ticks that are not folded into the
    state yet. A few new ticks of a token are only appended to its tail. The tail and the new ticks are folded into the
    state when the tail is long or the new ticks are many. They are also folded when one of the prices lies outside the
    accepted bands of the token, so that outliers are detected early. A band contains the prices between two powers of
    two (model/price/band.py). Quoted ticks, whose prices are in another token, are handled by quoted_ticks.py.

    Args:
        store: The price store.
        writer_id: A name that is unique to this worker process. The store rejects the writes of a partition's earlier
            writers.
        epoch_s: Returns the seconds since the epoch.

    Attributes:
        ticks: How many ticks were received.
        outliers: How many of the folded ticks have a price outside the accepted bands (stats.accepted_bands).
        unpriced: How many quoted ticks were left out because they are too old, because their price in USD would be 0 or
            infinite, or because their quote token (the token in whose units their price is) has no price.
        ticks_in_memory: How many ticks were received since the last write.
    """

    def __init__(self, store: PriceStore, writer_id: str, epoch_s: Callable[[], float] = time.time) -> None:
        self.ticks = self.outliers = self.unpriced = self.ticks_in_memory = 0
        self._store = store
        self._writer_id = writer_id
        self._epoch_s = epoch_s
        self._ticks: dict[int, defaultdict[bytes, list[bytes]]] = {}
        """By partition and key (of the ticks of a token, or of its quoted ticks): the ticks in memory."""
        self._long_tails: defaultdict[int, set[bytes]] = defaultdict(set)
        """By partition: the tokens whose tail must be folded with the next write."""
        self._quoted_ticks: dict[int, QuotedTicks] = {}
        """By partition: its quoted ticks."""
        self._pending_positions: Positions = {}
        """By partition: the position to write next. A partition without new ticks has none."""
        self._written_positions: Positions = {}
        """By partition: the position that the store has."""
        self._accepted_bands: dict[bytes, frozenset[int]] = {}
        """By token: its accepted bands, a cache."""
        self._stored_chains: set[bytes] = set()
        self._registered_quoted: set[bytes] = set()
        """The keys of quoted ticks whose token is registered for this period."""
        self._period = 0
        """The number of the present period (see PriceStore.add_tokens)."""

    def acquire_partitions(self, partitions: Sequence[int], topic_id: str = "") -> Positions:
        """Acquire partitions for this writer.

        Return the stored position of each partition that has one. A partition without a stored position starts at its
        first record. Raises RedisUnavailable.
        """
        self.forget(partitions)
        stored = dict(self._store.acquire_partitions(self._writer_id, topic_id, partitions))
        for partition in partitions:
            self._quoted_ticks_of(partition)  # a failure to read the unsettled keys ends the worker now
        self._written_positions.update(stored)
        return stored

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop the ticks of partitions that another worker owns now."""
        for partition in partitions:
            self._ticks.pop(partition, None)
            self._long_tails.pop(partition, None)
            self._quoted_ticks.pop(partition, None)
            self._pending_positions.pop(partition, None)
            self._written_positions.pop(partition, None)

    def add(self, batch: RecordBatch) -> None:
        """Add the ticks of a batch to memory. Raises RedisUnavailable when too many are in memory."""
        if self.ticks_in_memory > MAX_TICKS_IN_MEMORY:
            raise RedisUnavailable("The price store accepts no writes; ticks wait until it does.")
        batch = only_ticks(batch)
        tokens, values = cast("list[bytes]", batch.keys), cast("list[bytes]", batch.values)
        ticks = self._ticks
        for partition in {*batch.partitions} - ticks.keys():
            ticks[partition] = defaultdict(list)
        for token, partition, value in zip(tokens, batch.partitions, values, strict=True):
            ticks[partition][token].append(value)
        self.ticks_in_memory += len(tokens)
        self.ticks += len(tokens)

    def write(self, positions: Positions) -> None:
        """Write the ticks in memory with these positions, and settle quoted ticks that are due.

        quoted_ticks.py says what it means to settle them.

        Raises RedisUnavailable (call it again), and WorkerError when another worker owns a partition.
        """
        self._pending_positions.update(positions)
        now_ms = int(self._epoch_s() * 1000)
        for partition, position in (self._written_positions | self._pending_positions).items():
            due = self._quoted_ticks_of(partition).check_due(now_ms)
            if due or partition in self._pending_positions:
                self._write_partition(partition, position, due, now_ms)
                self._written_positions[partition] = position
                self._pending_positions.pop(partition, None)
        self.ticks_in_memory = 0
        if len(self._accepted_bands) + len(self._registered_quoted) > MAX_CACHED_TOKENS:
            self._accepted_bands.clear()
            self._registered_quoted.clear()

    def _write_partition(self, partition: int, position: int, due: Sequence[bytes], now_ms: int) -> None:
        ticks: dict[bytes, list[bytes]] = self._ticks.get(partition, {})
        self._register_new_tokens(ticks, now_ms)
        quoted_ticks = self._quoted_ticks_of(partition)
        quoted_write = quoted_ticks.prepare({key: ticks[key] for key in ticks if is_quoted(key)}, due, now_ms)
        tails, to_fold = self._split(partition, {key: ticks[key] for key in ticks if not is_quoted(key)})
        folded = self._fold(partition, to_fold, now_ms)
        states = folded | quoted_write.settled_states
        write = PriceWrite(
            position,
            {token: encode_state(state) for token, state in folded.items()} | quoted_write.encoded_states,
            self._read_and_extend_archive(states),
            tails | quoted_write.tails,
            unsettled=quoted_write.unsettled_keys,
            settled=quoted_write.settled_keys,
        )
        tail_sizes = self._store.write(partition, self._writer_id, write)
        if tail_sizes is None:
            raise WorkerError(
                f"Another prices worker owns partition {partition} now, or the store lost its last write. This worker "
                "ends; a new one reads from the stored positions."
            )
        for token, state in states.items():
            is_registered = token in ticks or token in self._accepted_bands
            self._count_outliers(token, state, is_registered=is_registered)
        quoted_ticks.on_written(quoted_write, tail_sizes, now_ms)
        self.unpriced += quoted_write.unpriced
        self._long_tails[partition] = {token for token in tails if tail_sizes[token] > TAIL_BYTES}
        ticks.clear()

    def _quoted_ticks_of(self, partition: int) -> QuotedTicks:
        if partition not in self._quoted_ticks:
            self._quoted_ticks[partition] = QuotedTicks(self._store, partition)
        return self._quoted_ticks[partition]

    def _register_new_tokens(self, keys: Iterable[bytes], now_ms: int) -> None:
        """Add the tokens of keys to the store's list of this period's tokens, and their chains.

        The list has the tokens with ticks in the period. A period lasts LIST_PERIOD_S: 30 days. A token in the cache of
        bands was added before in this period, because a new period clears the cache.
        """
        period = now_ms // 1000 // LIST_PERIOD_S
        if period != self._period:
            self._accepted_bands.clear()
            self._registered_quoted.clear()
            self._period = period
        new = [key for key in keys if key not in self._accepted_bands and key not in self._registered_quoted]
        if not new:
            return
        if chains := {key.partition(b":")[0] for key in new} - self._stored_chains:
            self._store.add_chains([chain.decode() for chain in chains])
            self._stored_chains |= chains
        self._store.add_tokens({key.removesuffix(QUOTED) for key in new}, period)
        self._registered_quoted.update(key for key in new if is_quoted(key))

    def _split(
        self, partition: int, ticks: Mapping[bytes, Sequence[bytes]]
    ) -> tuple[dict[bytes, bytes], dict[bytes, Sequence[bytes]]]:
        """Return the ticks to append to tails, and the ticks to fold into states.

        Both are by token. The ticks to append are encoded by `encode_tail`.
        """
        tails, to_fold = dict[bytes, bytes](), {token: ticks.get(token, []) for token in self._long_tails[partition]}
        for token, values in ticks.items():
            if token in to_fold:
                continue
            if fits_in_tail(values) and self._have_accepted_prices(token, values):
                tails[token] = encode_tail(values)
            else:
                to_fold[token] = values
        return tails, to_fold

    def _have_accepted_prices(self, token: bytes, values: Sequence[bytes]) -> bool:
        """Return whether the prices of ticks lie in the accepted bands of their token.

        If the cache does not have the token and all prices lie in one band, that band is cached as accepted. This
        spares a read of each token's state after a start. If the band is an outlier's, the next tick in another band
        shows it: the cache does not have that band, so the token's tail is folded, and the cache is corrected.
        """
        bands = {band_of(price_of(value)) for value in values}
        if len(bands) == 1:
            return bands <= self._accepted_bands.setdefault(token, _shared_bands(*bands))
        return bands <= self._accepted_bands.get(token, frozenset())

    def _fold(self, partition: int, ticks: Mapping[bytes, Sequence[bytes]], now_ms: int) -> dict[bytes, TokenState]:
        """Return the states of tokens after folding in their tails and these ticks."""
        states = dict[bytes, TokenState]()
        for token, (data, tail) in zip(ticks, self._store.read(partition, [*ticks]), strict=True):
            states[token] = state = TokenState() if data is None else decode_state(data)
            state.fold_due(now_ms)
            state.fold_all([*(decode_tail(tail) if tail else ()), *decode_ticks(ticks[token])], now_ms)
            state.archive_excess_ticks()
        return states

    def _read_and_extend_archive(self, states: Mapping[bytes, TokenState]) -> dict[ArchiveKey, bytes]:
        """Return the archive of each bucket of time to which the states add ticks.

        A state keeps only the recent ticks of its token. The store keeps earlier ticks in archives, one per bucket,
        which is an hour or a minute (see model/price/archive.py). The returned archive has the stored ticks of the
        bucket and the added ticks.
        """
        to_archive = {
            (token, bucket): ticks for token, state in states.items() for bucket, ticks in state.to_archive.items()
        }
        stored = self._store.read_archived([*to_archive])
        return {
            (token, bucket): encode_archived(bucket, [*ArchivedTicks(bucket, archived or b"").ticks(), *ticks])
            for ((token, bucket), ticks), archived in zip(to_archive.items(), stored, strict=True)
        }

    def _count_outliers(self, token: bytes, state: TokenState, *, is_registered: bool) -> None:
        """Count and log the new ticks outside the accepted bands.

        The accepted bands are cached if the token is registered in this period, as `_register_new_tokens` assumes.
        """
        accepted = accepted_bands(state)
        for number, band in state.bands.items():
            if band.added and number not in accepted:
                self.outliers += band.added
                time_ms, _, price = band.last
                log.info("a price is an outlier", token=token.decode(), price=price, time_ms=time_ms)
            band.added = 0
        if is_registered:
            self._accepted_bands[token] = _shared_bands(*accepted)


@cache
def _shared_bands(*bands: int) -> frozenset[int]:
    """Return one shared object for equal sets of bands, to save memory."""
    return frozenset(bands)
