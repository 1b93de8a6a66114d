"""Ticks that are quoted in another token, and their prices in USD.

The USD price of a quoted tick is its price times the quote price, which is the last USD price of the quote token at or
before the time of the tick. USD ticks of the quote token may arrive late. Therefore a quoted tick is unsettled for a
while, and each reader computes its USD price again. Then the tick is settled: it is folded, at its USD price, into a
second state of the token. The first state of the token has its USD ticks.

An unsettled tick is stored as an entry: the length of its value on the ticks topic, the time of its arrival, and the
value. The stored form of a QuotedState is a head, the settled ticks with a stale quote price, the entries of the
unsettled ticks padded to words of eight bytes, and the settled state as codec.py encodes it.
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
from headwater.model.price.codec import decode_state, encode_state
from headwater.model.price.quote_history import NO_HISTORY, QuoteHistory
from headwater.model.price.series import Tick
from headwater.model.price.state import TokenState, TokenTick
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
        rows: The ticks, as a structured array with the fields in _FIELDS.
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
        """Return the ticks until `now` that can be priced, with their prices in USD.

        Ticks without a quote price are left out, and ticks whose price in USD is 0 or infinite.
        """
        quote_prices = history.at(self.times)
        with np.errstate(over="ignore", under="ignore"):
            usd = self.rows["price"] * quote_prices.usd
        is_priced = quote_prices.is_known & (self.times <= now) & (usd > 0) & np.isfinite(usd)
        return PricedTicks(self.address, self.rows[is_priced], usd[is_priced], quote_prices.is_stale[is_priced])

    def split_by_arrival(self, until: int, now: int) -> "tuple[UnsettledTicks, UnsettledTicks]":
        """Return the ticks that can be settled, and all other ticks.

        A tick can be settled when it arrived at or before `until`, and its time is not after `now`.
        """
        can_settle: BoolArray = (self.rows["arrival"] <= until) & (self.rows["time"] <= now)
        return self._replace(rows=self.rows[can_settle]), self._replace(rows=self.rows[~can_settle])


class PricedTicks(NamedTuple):
    """Quoted ticks of one token in one quote token, with their prices in USD.

    Attributes:
        address: The address of the token as in its ticks; b"" when it is in lower case.
        rows: The ticks, as a structured array with the fields in _FIELDS.
        usd: The prices in USD.
        is_stale: Whether the quote price of each tick was stale.
    """

    address: bytes
    rows: NDArray[Any]
    usd: FloatArray
    is_stale: BoolArray

    def ticks(self) -> Iterable[TokenTick]:
        """Return the ticks with their prices in USD."""
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
        settled: The state of the settled ticks, encoded by codec.py; b"" before the first tick is settled.
        stale: The settled ticks that had a stale quote price and are the last tick of their band. A response marks the
            latest price of a token as `quote_stale` when it is one of these ticks.
        unsettled: The entries of the unsettled ticks.
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
        """Decode a stored state, and append the ticks of `tail`, which were written later.

        The tail of quoted ticks is a sequence of `unsettled` entries, not of the entries of tail.py. Raises
        PriceStateUnreadable.
        """
        if not data:
            return cls(unsettled=tail or b"")
        if data[:1] != bytes([FORMAT]) or len(data) < _HEAD.size:
            raise PriceStateUnreadable
        _, stale_count, unsettled_size = _HEAD.unpack_from(data)
        unsettled_at = _HEAD.size + stale_count * _STALE.size
        unsettled_end = unsettled_at + unsettled_size
        settled_at = unsettled_end + -unsettled_size % 8
        if settled_at > len(data):
            raise PriceStateUnreadable
        stale = [*_STALE.iter_unpack(data[_HEAD.size : unsettled_at])]
        return cls(data[settled_at:], stale, data[unsettled_at:unsettled_end] + (tail or b""))


class SettleResult(NamedTuple):
    """The result of `settle`.

    Attributes:
        state: The state of the settled ticks, with the ticks to archive.
        stored: The new QuotedState to store.
        unpriced: The number of ticks that were dropped because their quote token had no price, or because their price
            in USD was 0 or infinite.
    """

    state: TokenState
    stored: QuotedState
    unpriced: int


def encode_entries(values: Sequence[bytes], arrival: int) -> bytes:
    """Encode values of the ticks topic as entries with a time of arrival."""
    return b"".join([_ENTRY_HEAD.pack(len(value), arrival) + value for value in values])


def read_unsettled(entries: bytes) -> list[UnsettledTicks]:
    """Decode entries, grouped by quote token and address.

    A tick that was written twice is returned twice. Raises PriceStateUnreadable when the entries are damaged.
    """
    if not entries:
        return []
    entry_size = _entry_size(entries, 0)
    if len(entries) % entry_size == 0:
        rows = np.frombuffer(entries, _row_type(entry_size))
        if (rows["length"] == rows["length"][0]).all() and (rows["addresses"] == rows["addresses"][0]).all():
            return [_group(rows)]
    entries_by_addresses: defaultdict[bytes, list[bytes]] = defaultdict(list)
    offset = 0
    while offset < len(entries):
        end = offset + _entry_size(entries, offset)
        entries_by_addresses[entries[offset + _ENTRY_HEAD.size + VALUE_BYTES : end]].append(entries[offset:end])
        offset = end
    if offset > len(entries):
        raise PriceStateUnreadable
    groups = entries_by_addresses.values()
    return [_group(np.frombuffer(b"".join(group), _row_type(len(group[0])))) for group in groups]


def _entry_size(entries: bytes, offset: int) -> int:
    """Return the size of the entry at an offset.

    Raises PriceStateUnreadable when it is too small for a tick.
    """
    length = int.from_bytes(entries[offset : offset + 2], "little")
    if length < VALUE_BYTES:
        raise PriceStateUnreadable
    return _ENTRY_HEAD.size + length


def settle(stored: QuotedState, histories: Mapping[bytes, QuoteHistory], until: int, now: int) -> SettleResult:
    """Settle the ticks that arrived at or before `until`.

    Ticks that can't be priced are dropped and counted.

    `histories` has the price histories of the quote tokens of these ticks, by address.
    """
    state = decode_state(stored.settled) if stored.settled else TokenState()
    stale, ticks, unsettled, unpriced = {*stored.stale}, list[TokenTick](), list[bytes](), 0
    for group in read_unsettled(stored.unsettled):
        to_settle, to_keep = group.split_by_arrival(until, now)
        priced = to_settle.priced(histories.get(group.quote, NO_HISTORY), now)
        unpriced += len(to_settle.rows) - len(priced.rows)
        ticks += priced.ticks()
        stale.update(priced.stale())
        unsettled.append(to_keep.rows.tobytes())
    state.fold_all(ticks, now)
    state.archive_excess_ticks()
    last_ticks = {number: band.last for number, band in state.bands.items()}
    stale_last_ticks = sorted(tick for tick in stale if last_ticks.get(band_of(tick[2])) == tick)
    encoded = b"" if state.newest is None else encode_state(state)
    return SettleResult(state, QuotedState(encoded, stale_last_ticks, b"".join(unsettled)), unpriced)


def oldest_arrival(entries: bytes) -> int | None:
    """Return the earliest time of arrival of the ticks in some entries; None without entries."""
    return min((int(group.rows["arrival"].min()) for group in read_unsettled(entries)), default=None)


@cache
def _row_type(entry_size: int) -> np.dtype[Any]:
    """Return the dtype of entries of this size."""
    return np.dtype([*_FIELDS, ("addresses", f"S{entry_size - _ENTRY_HEAD.size - VALUE_BYTES}")])


def _group(rows: NDArray[Any]) -> UnsettledTicks:
    quote, _, address = rows["addresses"][0].partition(SEPARATOR)
    return UnsettledTicks(bytes(quote), bytes(address), rows)
