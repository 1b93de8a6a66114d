"""Stores quoted ticks, and settles them some minutes after their arrival.

The price of a quoted tick is in units of another token, its quote token. All keys in this module are keys of a token's
quoted ticks (`model.price.tick.key_of_quoted_ticks`); each of these ticks names its quote token. To settle a quoted
tick is to convert its price to USD with the USD price of the quote token.
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
from headwater.model.price.state import TokenState
from headwater.model.price.tick import key_of_quote_token, time_of
from headwater.stores.protocols.prices import PriceStore
from headwater.stores.quote_history_reader import read_histories

log = structlog.get_logger(__name__)

LATE_USD_TICKS_MS = 10 * MINUTE_MS
"""How long after a quoted tick a USD tick of the quote token may arrive and still change its price.

The event time of the USD tick must also not be later than the event time of the quoted tick.
"""
SETTLE_AFTER_MS = LATE_USD_TICKS_MS + MINUTE_MS
"""A quoted tick is settled this long after its arrival or later. The USD ticks of its time are stored by then."""
SETTLE_EVERY_MS = MINUTE_MS
"""The minimum time between two settlements of the ticks of a token."""
CHECK_EVERY_MS = 10_000
"""How often to check which tokens are due, unless more tokens were due at the last check than one write settles."""
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
        unpriced: How many ticks were left out, because they are too old, have no quote price, or have a price in USD
            that is 0 or infinite.
    """

    tails: dict[bytes, bytes] = field(default_factory=dict)
    settled: dict[bytes, SettleResult] = field(default_factory=dict)
    unpriced: int = 0

    @property
    def settled_states(self) -> dict[bytes, TokenState]:
        """By key, the state of the settled ticks."""
        return {key: result.state for key, result in self.settled.items()}

    @property
    def encoded_states(self) -> dict[bytes, bytes]:
        """By key, the stored form of the settled ticks and of the ticks that remain unsettled."""
        return {key: result.stored.encode() for key, result in self.settled.items()}

    @property
    def unsettled_keys(self) -> Collection[bytes]:
        """The keys to add to the store's list of keys with unsettled ticks.

        A key of which only a part of the ticks is settled is in that list already.
        """
        return self.tails.keys()

    @property
    def settled_keys(self) -> Collection[bytes]:
        """The keys to remove from that list, because the write settles all of their ticks."""
        return [key for key, result in self.settled.items() if not result.stored.unsettled]


class QuotedTicks:
    """The quoted ticks of one partition. Times are in ms since the epoch.

    The store knows which keys have unsettled ticks; this object knows when the oldest of these ticks arrived.
    """

    def __init__(self, store: PriceStore, partition: int) -> None:
        """Read from the store which keys have unsettled ticks. Raises RedisUnavailable."""
        self._store = store
        self._partition = partition
        self._oldest_arrivals = dict.fromkeys(store.unsettled(partition), 0)
        """By key: when its oldest unsettled tick arrived; 0 when that is unknown or the key must be settled at once."""
        self._next_check = 0

    def check_due(self, now_ms: int) -> list[bytes]:
        """Return the keys to settle with the next write, and schedule the next check."""
        if now_ms < self._next_check:
            return []
        # The oldest tick waits SETTLE_EVERY_MS longer than it must, so that later ticks are settled together with it.
        limit = now_ms - SETTLE_AFTER_MS - SETTLE_EVERY_MS
        due_keys = (key for key, arrival in self._oldest_arrivals.items() if arrival <= limit)
        due = [*islice(due_keys, MAX_SETTLED_AT_ONCE)]
        self._next_check = now_ms + CHECK_EVERY_MS if len(due) < MAX_SETTLED_AT_ONCE else 0
        return due

    def prepare(self, ticks: Mapping[bytes, Sequence[bytes]], due: Sequence[bytes], now_ms: int) -> QuotedWrite:
        """Return the write that adds new ticks and settles the keys that are due.

        Raises RedisUnavailable.
        """
        write, new_ticks = QuotedWrite(), dict[bytes, bytes]()
        for key, values in ticks.items():
            recent = [value for value in values if time_of(value) >= now_ms - MAX_AGE_MS]
            write.unpriced += len(values) - len(recent)
            if recent:
                new_ticks[key] = encode_entries(recent, now_ms)
        if due:
            self._settle(due, new_ticks, write, now_ms)
        write.tails = {key: encoded for key, encoded in new_ticks.items() if key not in write.settled}
        return write

    def on_written(self, write: QuotedWrite, tail_sizes: Mapping[bytes, int], now_ms: int) -> None:
        """Update the schedule after a successful write.

        `tail_sizes` has the size of each tail that was appended to.
        """
        for key in write.tails:
            self._oldest_arrivals.setdefault(key, now_ms)
            if tail_sizes[key] > MAX_UNSETTLED_BYTES:
                self._oldest_arrivals[key] = self._next_check = 0
        for key, result in write.settled.items():
            arrival = oldest_arrival(result.stored.unsettled)
            if arrival is None:
                self._oldest_arrivals.pop(key, None)
            else:
                self._oldest_arrivals[key] = arrival

    def _settle(self, due: Sequence[bytes], new_ticks: Mapping[bytes, bytes], write: QuotedWrite, now_ms: int) -> None:
        """Settle the stored ticks of keys together with their new ticks."""
        stored = self._store.read(self._partition, due)
        states = {
            key: QuotedState.decode(state, (tail or b"") + new_ticks.get(key, b""))
            for key, (state, tail) in zip(due, stored, strict=True)
        }
        unsettled = {key: read_unsettled(state.unsettled) for key, state in states.items()}
        histories = read_histories(self._store, unsettled, now_ms)
        for key, state in states.items():
            until = now_ms if len(state.unsettled) > MAX_UNSETTLED_BYTES else now_ms - SETTLE_AFTER_MS
            histories_by_quote = {
                group.quote: histories[key_of_quote_token(key, group.quote)] for group in unsettled[key]
            }
            write.settled[key] = result = settle(state, histories_by_quote, until, now_ms)
            write.unpriced += result.unpriced
            if result.unpriced:
                log.info("quoted ticks have no price in USD", token=key.decode(), count=result.unpriced)
