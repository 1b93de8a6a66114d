"""Explains the statistics of single tokens, and returns their histories."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.model.price.archive import TimeBucket
from headwater.model.price.band import hour_of
from headwater.model.price.codec import decode_state
from headwater.model.price.explanation import Explanation, explain, history
from headwater.model.price.series import Tick
from headwater.model.price.state import TokenState, TokenTick
from headwater.model.price.stats import DAY, Stats
from headwater.model.price.tail import decode_tail
from headwater.model.price.view import merge_states
from headwater.services.ids import Now
from headwater.services.prices import PriceResult, Prices, Token, TokenStatus, key_of_token
from headwater.services.quoted_prices import read_quoted
from headwater.stores.protocols.prices import LIST_PERIOD_S, PriceStore

MAX_EXPLAINED = 50
"""The maximum length of each list of an explanation: accepted ticks, unaccepted ticks, and bands."""


@dataclass(frozen=True, slots=True)
class ExplainedPrice:
    """The statistics of a token, and how they were computed.

    Attributes:
        stats: The statistics; None when the token has no price.
        explanation: None when the store has no ticks of the token.
    """

    status: TokenStatus
    stats: Stats | None
    quote_stale: bool
    explanation: Explanation | None


class PriceDetails:
    """Reads the details of single tokens from the price store.

    Args:
        filter_outliers: Whether prices that are far from all other prices are ignored.
    """

    def __init__(self, store: PriceStore, prices: Prices, now: Now, *, filter_outliers: bool) -> None:
        self._store = store
        self._prices = prices
        self._now = now
        self._filter_outliers = filter_outliers

    def tokens(self, query: str, after: str, limit: int) -> tuple[PriceResult, str | None]:
        """Return the next listed tokens with their statistics.

        Also returns the last of these tokens when there are more; None otherwise.

        Args:
            query: The beginning of addresses, of `<chain>:<address>`, or of the name of a chain.
            after: The last token of the page before, as `<chain>:<address>`; empty for the first page.

        Raises RedisUnavailable.
        """
        period = int(self._now().timestamp()) // LIST_PERIOD_S
        query = query.lower()
        prefixes = {query, *(f"{chain}:{query}" for chain in self._store.chains())} if query else {""}
        found = set[bytes]()  # the query may also be the beginning of a chain's name, so tokens may be found twice
        for prefix in sorted(prefixes):
            if len(found) <= limit:
                found |= {*self._store.tokens_after(after.encode(), prefix.encode(), limit + 1, period)}
        names = sorted(found)
        page = [Token(*name.decode().split(":", 1)) for name in names[:limit]]
        last = names[limit - 1].decode() if len(names) > limit else None
        return self._prices.read(page), last

    def explain(self, token: Token) -> ExplainedPrice:
        """Explain the current statistics of a token. Raises RedisUnavailable, PriceStateUnreadable."""
        result = self._prices.read([token])
        now = self._now_ms()
        explanation = explain(self._states(token, now), now, MAX_EXPLAINED, filter_outliers=self._filter_outliers)
        return ExplainedPrice(result.statuses[0], result.stats[0], result.quote_stale[0], explanation)

    def history(self, token: Token) -> Sequence[Tick]:
        """Return the prices of a token in the 25 to 26 hours before its newest trade, oldest first.

        Raises RedisUnavailable, PriceStateUnreadable.
        """
        now = self._now_ms()
        return history(merge_states(self._states(token, now)), now, filter_outliers=self._filter_outliers)

    def _now_ms(self) -> int:
        return int(self._now().timestamp() * 1000)

    def _states(self, token: Token, now: int) -> list[TokenState]:
        """Return the state of the USD ticks, and the state of the quoted ticks when there are any."""
        key, day_ago = key_of_token(token), TimeBucket(hour_of(now - DAY))
        [stored] = self._store.look_up([key], day_ago.hour)
        states = [_folded(stored.state, decode_tail(stored.tail) if stored.tail else [], now)]
        quoted = read_quoted(self._store, {key: stored}, day_ago, now).get(key)
        if quoted is not None:
            unsettled = [tick for group in quoted.priced for tick in group.ticks()]
            states.append(_folded(quoted.settled, unsettled, now))
        return states


def _folded(data: bytes | None, ticks: Sequence[TokenTick], now: int) -> TokenState:
    state = decode_state(data) if data else TokenState()
    state.fold_due(now)  # ticks whose time was in the future when they arrived
    state.fold_all(ticks, now)
    return state
