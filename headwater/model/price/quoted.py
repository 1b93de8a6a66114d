"""Ticks that are quoted in another token, and their prices in USD.

A quoted tick is worth its price times the quote token's last USD price at or before its own time. USD ticks of the
quote token may still come late, so a quoted tick stays unsettled for a while: readers price it anew with each question.
Then it is settled: folded, at its price in USD, into a state that the token has beside the one of its USD ticks.

Unsettled ticks are stored as entries: the length of the value, the time of arrival, and the value as on the ticks
topic. The stored form is a head, the settled ticks with a stale quote price, unsettled ticks padded to words, and the
settled state (codec.py).
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.errors import PriceStateUnreadable
from headwater.model.price.band import band_of
from headwater.model.price.codec import decode, encode
from headwater.model.price.quotes import NO_HISTORY, Flags, QuoteHistory
from headwater.model.price.series import Tick
from headwater.model.price.state import PricedTick, TokenState
from headwater.model.price.tail import ENTRY, UNNAMED_ENTRY
from headwater.model.price.tick import SEPARATOR, VALUE_BYTES

FORMAT = 1
_HEAD = struct.Struct("<BxHI")
_STALE = struct.Struct("<qQd")
_STAMP = struct.Struct("<Hq")
_FIELDS = [
    ("length", "<u2"), ("arrival", "<i8"), ("time", "<i8"), ("order", "<u8"), ("price", "<f8"), ("decimals", "u1")
]  # fmt: skip


class UnsettledTicks(NamedTuple):
    """Unsettled ticks of a token with one quote, as rows of `_FIELDS`.

    Attributes:
        quote: The address of the quote token, in lower case.
        mint: The address of the token as in its ticks; b"" where that is in lower case.
    """

    quote: bytes
    mint: bytes
    rows: NDArray[Any]

    @property
    def times(self) -> NDArray[np.int64]:
        """The times of the ticks, in ms since the epoch."""
        times: NDArray[np.int64] = np.ascontiguousarray(self.rows["time"])
        return times

    def priced(self, history: QuoteHistory, now: int) -> "PricedTicks":
        """The ticks until `now` that the history has a price for, at their prices in USD."""
        quote = history.at(self.times)
        with np.errstate(over="ignore", under="ignore"):
            usd = self.rows["price"] * quote.usd
        is_priced = quote.is_known & (self.times <= now) & (usd > 0) & np.isfinite(usd)
        return PricedTicks(self.mint, self.rows[is_priced], usd[is_priced], quote.is_stale[is_priced])

    def arrived(self, until: int, now: int) -> "tuple[UnsettledTicks, UnsettledTicks]":
        """The ticks that arrived until a time and are not ahead of the clock, and the others."""
        is_old: Flags = (self.rows["arrival"] <= until) & (self.rows["time"] <= now)
        return self._replace(rows=self.rows[is_old]), self._replace(rows=self.rows[~is_old])


class PricedTicks(NamedTuple):
    """Quoted ticks of one token and quote that have a price in USD."""

    mint: bytes
    rows: NDArray[Any]
    usd: NDArray[np.float64]
    is_stale: Flags

    def ticks(self) -> Iterable[PricedTick]:
        """The ticks, priced in USD."""
        times, orders, decimals = (self.rows[name].tolist() for name in ("time", "order", "decimals"))
        return zip(times, orders, self.usd.tolist(), decimals, repeat(self.mint))

    def tail(self) -> bytes:
        """The ticks as entries of a tail (tail.py); they have to have no mint."""
        entries = np.zeros(len(self.rows), UNNAMED_ENTRY)
        entries["length"] = ENTRY - 1
        for name in ("time", "order", "decimals"):
            entries[name] = self.rows[name]
        entries["price"] = self.usd
        return entries.tobytes()

    def stale(self) -> Iterable[Tick]:
        """Those whose quote price was stale."""
        rows = self.rows[self.is_stale]
        return zip(rows["time"].tolist(), rows["order"].tolist(), self.usd[self.is_stale].tolist(), strict=True)


class QuotedState(NamedTuple):
    """What is stored of a token's quoted ticks.

    Attributes:
        settled: The state of the settled ticks, as codec.encode made it; b"" before the first one.
        stale: Those of the settled ticks whose quote price was stale, as far as they are the last of their bands.
        unsettled: Entries of unsettled ticks.
    """

    settled: bytes = b""
    stale: Sequence[Tick] = ()
    unsettled: bytes = b""

    def encode(self) -> bytes:
        """The stored form."""
        head = _HEAD.pack(FORMAT, len(self.stale), len(self.unsettled))
        return b"".join([head, *(_STALE.pack(*tick) for tick in self.stale), self._filled(), self.settled])

    def _filled(self) -> bytes:
        return self.unsettled + bytes(-len(self.unsettled) % 8)

    @classmethod
    def decode(cls, data: bytes | None, tail: bytes | None) -> "QuotedState":
        """What `encode` made, with the entries that came since. Raises PriceStateUnreadable."""
        if not data:
            return cls(unsettled=tail or b"")
        if data[:1] != bytes([FORMAT]) or len(data) < _HEAD.size:
            raise PriceStateUnreadable
        _, stale, length = _HEAD.unpack_from(data)
        start = _HEAD.size + stale * _STALE.size
        end = start + length
        if end + -length % 8 > len(data):
            raise PriceStateUnreadable
        ticks = [*_STALE.iter_unpack(data[_HEAD.size : start])]
        return cls(data[end + -length % 8 :], ticks, data[start:end] + (tail or b""))


class Settled(NamedTuple):
    """The result of settling: the state with its `left` ticks, its stored form, and how many ticks had no price."""

    state: TokenState
    stored: QuotedState
    unpriced: int


def stamp(values: Sequence[bytes], arrival: int) -> bytes:
    """Entries of quoted ticks, as the ticks topic has them, that arrived at a time."""
    return b"".join([_STAMP.pack(len(value), arrival) + value for value in values])


def read_unsettled(entries: bytes) -> list[UnsettledTicks]:
    """The ticks of entries, by quote and mint; a tick that came twice is there twice.

    Raises PriceStateUnreadable when the entries are cut off.
    """
    if not entries:
        return []
    step = _STAMP.size + int.from_bytes(entries[:2], "little")
    if len(entries) % step == 0:
        rows = np.frombuffer(entries, _row_type(step))
        if (rows["length"] == rows["length"][0]).all() and (rows["names"] == rows["names"][0]).all():
            return [_group(rows)]
    groups: defaultdict[bytes, list[bytes]] = defaultdict(list)
    at = 0
    while at < len(entries):
        end = at + _STAMP.size + int.from_bytes(entries[at : at + 2], "little")
        groups[entries[at + _STAMP.size + VALUE_BYTES : end]].append(entries[at:end])
        at = end
    if at > len(entries):
        raise PriceStateUnreadable
    return [_group(np.frombuffer(b"".join(some), _row_type(len(some[0])))) for some in groups.values()]


def settle(known: QuotedState, histories: Mapping[bytes, QuoteHistory], until: int, now: int) -> Settled:
    """Settle the ticks that arrived until a time; those without a quote price are left out.

    histories: By quote; all that the ticks need.
    """
    state = decode(known.settled) if known.settled else TokenState()
    stale, ticks, rest, unpriced = {*known.stale}, list[PricedTick](), list[bytes](), 0
    for group in read_unsettled(known.unsettled):
        old, new = group.arrived(until, now)
        priced = old.priced(histories.get(group.quote, NO_HISTORY), now)
        unpriced += len(old.rows) - len(priced.rows)
        ticks += priced.ticks()
        stale.update(priced.stale())
        rest.append(new.rows.tobytes())
    state.fold_all(ticks, now)
    state.thin()
    last = {number: band.last for number, band in state.bands.items()}
    stale_last = sorted(tick for tick in stale if last.get(band_of(tick[2])) == tick)
    encoded = b"" if state.newest is None else encode(state)
    return Settled(state, QuotedState(encoded, stale_last, b"".join(rest)), unpriced)


def oldest_arrival(entries: bytes) -> int | None:
    """When the first of the unsettled ticks arrived."""
    return min((int(group.rows["arrival"].min()) for group in read_unsettled(entries)), default=None)


@cache
def _row_type(step: int) -> np.dtype[Any]:
    """A row of an entry that takes so many bytes."""
    return np.dtype([*_FIELDS, ("names", f"S{step - _STAMP.size - VALUE_BYTES}")])


def _group(rows: NDArray[Any]) -> UnsettledTicks:
    quote, _, mint = rows["names"][0].partition(SEPARATOR)
    return UnsettledTicks(bytes(quote), bytes(mint), rows)
