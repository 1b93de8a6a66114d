"""Stores quoted ticks, and settles them some minutes after their arrival.

The price of a quoted tick is in units of another token. To settle a quoted tick is to convert its price to USD with the
USD price of the quote token.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import structlog

from headwater.model.price.band import HOUR_MS, MINUTE_MS
from headwater.model.price.quoted_state import (
    QuotedState,
    SettleResult,
    encode_entries,
    oldest_arrival,
    read_unsettled,
    settle,
)
from headwater.model.price.tick import quote_key, time_of
from headwater.stores.protocols.prices import PriceStore
from headwater.stores.quote_history_reader import read_histories

log = structlog.get_logger(__name__)

QUOTE_WINDOW_MS = 10 * MINUTE_MS
"""A USD tick of a quote token counts for the quoted ticks that arrived up to this long before it."""
SETTLE_AFTER_MS = QUOTE_WINDOW_MS + MINUTE_MS
"""A quoted tick is settled this long after its arrival, so that the USD ticks of its time are stored by then."""
SETTLE_EVERY_MS = MINUTE_MS
"""The minimum time between two settlements of the ticks of a token."""
CHECK_EVERY_MS = 10_000
"""How often to check which tokens are due, when no due token is left over from the last check."""
MAX_AGE_MS = 24 * HOUR_MS
"""A quoted tick that is older at its arrival is left out: the history of a quote token is only a little longer."""
MAX_UNSETTLED_BYTES = 4 << 20
"""When the unsettled ticks of a token take more than this (about 50,000 ticks), they are settled immediately."""
MAX_SETTLED_AT_ONCE = 500
"""How many tokens are settled with one write."""


@dataclass(slots=True)
class QuotedWrite:
    """The quoted ticks of one write.

    Attributes:
        tails: By key, the bytes to append to the tail.
        settled: By key, the result of the settlement.
        unpriced: How many ticks were left out because they are too old or have no quote price.
    """

    tails: dict[bytes, bytes] = field(default_factory=dict)
    settled: dict[bytes, SettleResult] = field(default_factory=dict)
    unpriced: int = 0

    @property
    def unsettled_keys(self) -> Collection[bytes]:
        """The keys that have unsettled ticks after the write."""
        return self.tails.keys()

    @property
    def settled_keys(self) -> Collection[bytes]:
        """The keys that have no unsettled ticks after the write."""
        return [key for key, settled in self.settled.items() if not settled.stored.unsettled]


class QuotedTicks:
    """The quoted ticks of one partition. Times are in ms since the epoch.

    The store knows which keys have unsettled ticks; this object knows since when.
    """

    def __init__(self, store: PriceStore, partition: int) -> None:
        """Read from the store which keys have unsettled ticks. Raises RedisUnavailable."""
        self._store = store
        self._partition = partition
        self._since = dict.fromkeys(store.unsettled(partition), 0)
        self._check_at = 0

    def due(self, now: int) -> list[bytes]:
        """Return the keys whose ticks must be settled with the next write."""
        if now < self._check_at:
            return []
        limit = now - SETTLE_AFTER_MS - SETTLE_EVERY_MS
        due = [*islice((key for key, since in self._since.items() if since <= limit), MAX_SETTLED_AT_ONCE)]
        self._check_at = now + CHECK_EVERY_MS if len(due) < MAX_SETTLED_AT_ONCE else 0
        return due

    def prepare(self, ticks: Mapping[bytes, Sequence[bytes]], due: Sequence[bytes], now: int) -> QuotedWrite:
        """Return the write that adds new ticks and settles the keys that are due.

        Raises RedisUnavailable.
        """
        write = QuotedWrite()
        for key, values in ticks.items():
            recent = [value for value in values if time_of(value) >= now - MAX_AGE_MS]
            write.unpriced += len(values) - len(recent)
            if recent:
                write.tails[key] = encode_entries(recent, now)
        if due:
            self._settle(due, write, now)
        return write

    def written(self, write: QuotedWrite, sizes: Mapping[bytes, int], now: int) -> None:
        """Update the schedule after a successful write.

        `sizes` has the size of each tail that was appended to.
        """
        for key in write.tails:
            self._since.setdefault(key, now)
            if sizes[key] > MAX_UNSETTLED_BYTES:
                self._since[key] = self._check_at = 0
        for key, settled in write.settled.items():
            since = oldest_arrival(settled.stored.unsettled)
            if since is None:
                self._since.pop(key, None)
            else:
                self._since[key] = since

    def _settle(self, due: Sequence[bytes], write: QuotedWrite, now: int) -> None:
        found = self._store.read(self._partition, due)
        states = {
            key: QuotedState.decode(state, (tail or b"") + write.tails.pop(key, b""))
            for key, (state, tail) in zip(due, found, strict=True)
        }
        unsettled = {key: read_unsettled(state.unsettled) for key, state in states.items()}
        histories = read_histories(self._store, unsettled, now)
        for key, state in states.items():
            until = now if len(state.unsettled) > MAX_UNSETTLED_BYTES else now - SETTLE_AFTER_MS
            of_key = {group.quote: histories[quote_key(key, group.quote)] for group in unsettled[key]}
            write.settled[key] = settled = settle(state, of_key, until, now)
            write.unpriced += settled.unpriced
            if settled.unpriced:
                log.info("quoted ticks without a quote price", token=key.decode(), count=settled.unpriced)
