"""Ticks that are quoted in another token, and their prices in USD.

The USD price of a quoted tick is its price times the quote token's last USD price at or before the tick's time. USD
ticks of the quote token may arrive late, so a quoted tick is unsettled for a while: each reader computes its USD price
again. Then the tick is settled: it is folded, at its price in USD, into a second state of the token. The first state
holds the token's USD ticks.

An unsettled tick is stored as an entry: the length of the value, the time of arrival, and the value as on the ticks
topic. The stored form of a QuotedState is a head, the settled ticks with a stale quote price, the entries of unsettled
ticks padded to words, and the settled state as codec.py encodes it.
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
from headwater.model.price.arrays import BoolArray, FloatArray, Int64Array
from headwater.model.price.band import band_of
from headwater.model.price.codec import decode, encode
from headwater.model.price.quote_history import NO_HISTORY, QuoteHistory
from headwater.model.price.series import Tick
from headwater.model.price.state import PricedTick, TokenState
from headwater.model.price.tail import ENTRY_BYTES, ENTRY_DTYPE
from headwater.model.price.tick import SEPARATOR, VALUE_BYTES

FORMAT = 1
_HEAD = struct.Struct("<BxHI")
_STALE = struct.Struct("<qQd")
_ENTRY_HEAD = struct.Struct("<Hq")
_FIELDS = [
    ("length", "<u2"), ("arrival", "<i8"), ("time", "<i8"), ("order", "<u8"), ("price", "<f8"), ("decimals", "u1")
]  # fmt: skip


class UnsettledTicks(NamedTuple):
    """Unsettled ticks of one token in one quote token.

    Attributes:
        quote: The address of the quote token, in lower case.
        address: The address of the token as in its ticks; b"" when it is in lower case.
        rows: The ticks, as a structured array with the fields `_FIELDS`.
    """

    quote: bytes
    address: bytes
    rows: NDArray[Any]

    @property
    def times(self) -> Int64Array:
        """The times of the ticks, in ms since the epoch."""
        times: Int64Array = np.ascontiguousarray(self.rows["time"])
        return times

    def priced(self, history: QuoteHistory, now: int) -> "PricedTicks":
        """Return the ticks until `now` for which the history has a price, at their prices in USD."""
        quote = history.at(self.times)
        with np.errstate(over="ignore", under="ignore"):
            usd = self.rows["price"] * quote.usd
        is_priced = quote.is_known & (self.times <= now) & (usd > 0) & np.isfinite(usd)
        return PricedTicks(self.address, self.rows[is_priced], usd[is_priced], quote.is_stale[is_priced])

    def split_by_arrival(self, until: int, now: int) -> "tuple[UnsettledTicks, UnsettledTicks]":
        """Split the ticks into those that arrived until a time and are not ahead, and the others."""
        is_old: BoolArray = (self.rows["arrival"] <= until) & (self.rows["time"] <= now)
        return self._replace(rows=self.rows[is_old]), self._replace(rows=self.rows[~is_old])


class PricedTicks(NamedTuple):
    """Quoted ticks of one token in one quote token, with their prices in USD."""

    address: bytes
    rows: NDArray[Any]
    usd: FloatArray
    is_stale: BoolArray

    def ticks(self) -> Iterable[PricedTick]:
        """Return the ticks at their prices in USD."""
        times, orders, decimals = (self.rows[name].tolist() for name in ("time", "order", "decimals"))
        return zip(times, orders, self.usd.tolist(), decimals, repeat(self.address))

    def tail(self) -> bytes:
        """Return the ticks as entries of a tail (tail.py). `address` must be empty."""
        entries = np.zeros(len(self.rows), ENTRY_DTYPE)
        entries["length"] = ENTRY_BYTES - 1
        for name in ("time", "order", "decimals"):
            entries[name] = self.rows[name]
        entries["price"] = self.usd
        return entries.tobytes()

    def stale(self) -> Iterable[Tick]:
        """Return the ticks whose quote price was stale."""
        rows = self.rows[self.is_stale]
        return zip(rows["time"].tolist(), rows["order"].tolist(), self.usd[self.is_stale].tolist(), strict=True)


class QuotedState(NamedTuple):
    """The stored quoted ticks of a token.

    Attributes:
        settled: The state of the settled ticks, encoded by codec.py; b"" before the first settled tick.
        stale: The settled ticks with a stale quote price. Only a tick that is the last one of its band is kept here.
        unsettled: Entries of unsettled ticks.
    """

    settled: bytes = b""
    stale: Sequence[Tick] = ()
    unsettled: bytes = b""

    def encode(self) -> bytes:
        """Return the stored form."""
        head = _HEAD.pack(FORMAT, len(self.stale), len(self.unsettled))
        return b"".join([head, *(_STALE.pack(*tick) for tick in self.stale), self._padded_unsettled(), self.settled])

    def _padded_unsettled(self) -> bytes:
        return self.unsettled + bytes(-len(self.unsettled) % 8)

    @classmethod
    def decode(cls, data: bytes | None, tail: bytes | None) -> "QuotedState":
        """Decode a stored state, and append the entries of `tail`, which were written later.

        Raises PriceStateUnreadable.
        """
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


class SettleResult(NamedTuple):
    """The result of `settle`.

    Attributes:
        state: The new state, with the ticks to archive.
        stored: The stored form of the state.
        unpriced: The number of ticks that were dropped because their quote token had no price.
    """

    state: TokenState
    stored: QuotedState
    unpriced: int


def encode_entries(values: Sequence[bytes], arrival: int) -> bytes:
    """Encode values of the ticks topic as entries with their time of arrival."""
    return b"".join([_ENTRY_HEAD.pack(len(value), arrival) + value for value in values])


def read_unsettled(entries: bytes) -> list[UnsettledTicks]:
    """Decode entries, grouped by quote token and address.

    A tick that was written twice is returned twice. Raises PriceStateUnreadable when the entries are truncated.
    """
    if not entries:
        return []
    step = _ENTRY_HEAD.size + int.from_bytes(entries[:2], "little")
    if len(entries) % step == 0:
        rows = np.frombuffer(entries, _row_type(step))
        if (rows["length"] == rows["length"][0]).all() and (rows["names"] == rows["names"][0]).all():
            return [_group(rows)]
    groups: defaultdict[bytes, list[bytes]] = defaultdict(list)
    at = 0
    while at < len(entries):
        end = at + _ENTRY_HEAD.size + int.from_bytes(entries[at : at + 2], "little")
        groups[entries[at + _ENTRY_HEAD.size + VALUE_BYTES : end]].append(entries[at:end])
        at = end
    if at > len(entries):
        raise PriceStateUnreadable
    return [_group(np.frombuffer(b"".join(some), _row_type(len(some[0])))) for some in groups.values()]


def settle(known: QuotedState, histories: Mapping[bytes, QuoteHistory], until: int, now: int) -> SettleResult:
    """Settle the ticks that arrived until a time.

    Ticks without a quote price are dropped and counted.

    `histories` has the price histories of all quote tokens of these ticks, by address.
    """
    state = decode(known.settled) if known.settled else TokenState()
    stale, ticks, rest, unpriced = {*known.stale}, list[PricedTick](), list[bytes](), 0
    for group in read_unsettled(known.unsettled):
        old, new = group.split_by_arrival(until, now)
        priced = old.priced(histories.get(group.quote, NO_HISTORY), now)
        unpriced += len(old.rows) - len(priced.rows)
        ticks += priced.ticks()
        stale.update(priced.stale())
        rest.append(new.rows.tobytes())
    state.fold_all(ticks, now)
    state.bound_size()
    last = {number: band.last for number, band in state.bands.items()}
    stale_last = sorted(tick for tick in stale if last.get(band_of(tick[2])) == tick)
    encoded = b"" if state.newest is None else encode(state)
    return SettleResult(state, QuotedState(encoded, stale_last, b"".join(rest)), unpriced)


def oldest_arrival(entries: bytes) -> int | None:
    """Return the time of arrival of the oldest unsettled tick; None without one."""
    return min((int(group.rows["arrival"].min()) for group in read_unsettled(entries)), default=None)


@cache
def _row_type(step: int) -> np.dtype[Any]:
    """Return the dtype of entries of `step` bytes."""
    return np.dtype([*_FIELDS, ("names", f"S{step - _ENTRY_HEAD.size - VALUE_BYTES}")])


def _group(rows: NDArray[Any]) -> UnsettledTicks:
    quote, _, address = rows["names"][0].partition(SEPARATOR)
    return UnsettledTicks(bytes(quote), bytes(address), rows)
