"""Trades from fills: each trade of two users is a fill of both."""

from collections.abc import Iterable
from typing import Literal

import msgspec

Side = Literal["A", "B"]
"""Ask or bid."""


class Trade(msgspec.Struct):
    """A record of the stream `trade`. side: the taker's. time in ms. users: buyer, seller."""

    coin: str
    side: Side
    px: str
    sz: str
    time: int
    hash: str
    tid: int | None
    users: tuple[str, str]
    block_number: int | None = None


class Half(msgspec.Struct, array_like=True):
    """One user's side of a trade."""

    user: str
    side: Side
    crossed: bool
    trade: tuple[int, str, int]
    px: str
    sz: str
    hash: str
    block: int | None

    def meet(self, other: "Half") -> Trade:
        """The trade of both."""
        taker = self if self.crossed else other
        buyer, seller = (self, other) if self.side == "B" else (other, self)
        time, coin, tid = self.trade
        users = (buyer.user, seller.user)
        return Trade(coin, taker.side, taker.px, taker.sz, time, taker.hash, tid, users, taker.block)


class Pairs:
    """Halves that wait for the other one. A trade is named by (time, coin, tid): tid is a 50-bit hash of two orders."""

    def __init__(self, halves: Iterable[Half] = ()) -> None:
        self._halves = {half.trade: half for half in halves}

    @property
    def halves(self) -> list[Half]:
        return list(self._halves.values())

    def add(self, half: Half) -> Trade | None:
        """The trade, when this is the second half. A tid of 0 is no trade: a conversion of dust, for example."""
        if half.trade[2] == 0:
            return None
        other = self._halves.get(half.trade)
        if other is None or other.side == half.side:
            self._halves[half.trade] = half
            return None
        del self._halves[half.trade]
        return half.meet(other)

    def give_up_before(self, time_ms: int) -> int:
        """Forget older halves; both halves of a trade are in one block. Returns how many there were."""
        old = [trade for trade in self._halves if trade[0] < time_ms]
        for trade in old:
            del self._halves[trade]
        return len(old)
