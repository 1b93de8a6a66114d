"""Quoted ticks on their way into the store: stamped as they come, and settled some minutes later."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import structlog

from headwater.model.price.band import HOUR_MS, MINUTE_MS
from headwater.model.price.quoted import (
    QuotedState,
    Settled,
    oldest_arrival,
    read_unsettled,
    settle,
    stamp,
)
from headwater.model.price.tick import quote_key, time_of
from headwater.stores.prices import PriceStore
from headwater.stores.quote_history_reader import read_histories

log = structlog.get_logger(__name__)

QUOTE_WINDOW_MS = 10 * MINUTE_MS
"""A USD tick of a quote token counts for the quoted ticks that arrived up to this long before it."""
SETTLE_AFTER_MS = QUOTE_WINDOW_MS + MINUTE_MS
"""A quoted tick is settled this long after its arrival: USD ticks that are being written meanwhile are read by then."""
SETTLE_EVERY_MS = MINUTE_MS
"""The unsettled ticks of a token are settled so often at most."""
CHECK_EVERY_MS = 10_000
"""How often it is looked which tokens are due, when all that were due are settled."""
OLDEST_MS = 24 * HOUR_MS
"""A quoted tick that is older at its arrival is left out: the history of a quote token reaches back little further."""
MAX_UNSETTLED_BYTES = 4 << 20
"""With more unsettled ticks than these (about 50,000), those of a token are settled at once."""
MAX_SETTLED_AT_ONCE = 500
"""Tokens whose ticks are settled with one write."""


@dataclass(slots=True)
class QuotedWrite:
    """What is written of quoted ticks, by key: what tails grow by, and the states that are settled.

    unpriced: How many ticks were left out.
    """

    tails: dict[bytes, bytes] = field(default_factory=dict)
    settled: dict[bytes, Settled] = field(default_factory=dict)
    unpriced: int = 0

    @property
    def unsettled_keys(self) -> Collection[bytes]:
        """The keys that have unsettled ticks from now on."""
        return self.tails.keys()

    @property
    def settled_keys(self) -> Collection[bytes]:
        """The keys that have no unsettled ticks any more."""
        return [key for key, settled in self.settled.items() if not settled.stored.unsettled]


class QuotedTicks:
    """The quoted ticks of one partition. Times are in ms since the epoch.

    Which keys have unsettled ticks is in the store; since when they have them is noted here.
    """

    def __init__(self, store: PriceStore, partition: int) -> None:
        """Raises SetStoreUnavailable."""
        self._store = store
        self._partition = partition
        self._since = dict.fromkeys(store.unsettled(partition), 0)
        self._check_at = 0

    def due(self, now: int) -> list[bytes]:
        """The keys whose ticks are to be settled with the next write."""
        if now < self._check_at:
            return []
        limit = now - SETTLE_AFTER_MS - SETTLE_EVERY_MS
        due = [*islice((key for key, since in self._since.items() if since <= limit), MAX_SETTLED_AT_ONCE)]
        self._check_at = now + CHECK_EVERY_MS if len(due) < MAX_SETTLED_AT_ONCE else 0
        return due

    def prepare(self, waiting: Mapping[bytes, Sequence[bytes]], due: Sequence[bytes], now: int) -> QuotedWrite:
        """What is to be written when these ticks have come, and some keys are due. Raises SetStoreUnavailable."""
        written = QuotedWrite()
        for key, values in waiting.items():
            recent = [value for value in values if time_of(value) >= now - OLDEST_MS]
            written.unpriced += len(values) - len(recent)
            if recent:
                written.tails[key] = stamp(recent, now)
        if due:
            self._settle(due, written, now)
        return written

    def done(self, written: QuotedWrite, sizes: Mapping[bytes, int], now: int) -> None:
        """Note what was written. sizes: of the tails that grew."""
        for key in written.tails:
            self._since.setdefault(key, now)
            if sizes[key] > MAX_UNSETTLED_BYTES:
                self._since[key] = self._check_at = 0
        for key, settled in written.settled.items():
            since = oldest_arrival(settled.stored.unsettled)
            if since is None:
                self._since.pop(key, None)
            else:
                self._since[key] = since

    def _settle(self, due: Sequence[bytes], written: QuotedWrite, now: int) -> None:
        found = self._store.read(self._partition, due)
        states = {
            key: QuotedState.decode(state, (tail or b"") + written.tails.pop(key, b""))
            for key, (state, tail) in zip(due, found, strict=True)
        }
        unsettled = {key: read_unsettled(state.unsettled) for key, state in states.items()}
        histories = read_histories(self._store, unsettled, now)
        for key, state in states.items():
            until = now if len(state.unsettled) > MAX_UNSETTLED_BYTES else now - SETTLE_AFTER_MS
            of_key = {group.quote: histories[quote_key(key, group.quote)] for group in unsettled[key]}
            written.settled[key] = settled = settle(state, of_key, until, now)
            written.unpriced += settled.unpriced
            if settled.unpriced:
                log.info("quoted ticks without a quote price", token=key.decode(), count=settled.unpriced)
