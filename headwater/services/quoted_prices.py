"""Reads the quoted ticks of tokens: the settled state, and unsettled ticks in USD.

A quoted tick has its price in another token, the quote token. It is settled when its price in USD is final. The price
in USD of an unsettled tick is computed at each read, from the current history of its quote token.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from headwater.model.price.archive import TimeBucket
from headwater.model.price.quote_history import NO_HISTORY, QuoteHistory
from headwater.model.price.quoted_state import PricedTicks, QuotedState, UnsettledTicks, read_unsettled
from headwater.model.price.series import Tick
from headwater.model.price.single_band import EncodedTicks
from headwater.model.price.stats import EvaluableState
from headwater.model.price.tick import key_of_quote_token, key_of_quoted_ticks
from headwater.model.price.view import view_with_ticks
from headwater.stores.protocols.prices import PriceStore, StoredToken
from headwater.stores.quote_history_reader import QuoteHistoryReader


@dataclass(frozen=True, slots=True)
class QuotedToken:
    """The quoted ticks of one token.

    Attributes:
        settled: The encoded state of the settled ticks; b"" when there are no settled ticks.
        priced: The unsettled ticks that have a price in USD.
        archived: The ticks of the hour one day ago that were moved from the settled state to the archive; None when
            there are none.
        stale: The ticks that were priced with a stale price of the quote token.
    """

    settled: bytes
    priced: Sequence[PricedTicks]
    archived: bytes | None
    stale: Collection[Tick]

    def view(self, now: int) -> EvaluableState:
        """Return the state at a time, in ms since the epoch."""
        return view_with_ticks(self.settled, [tick for group in self.priced for tick in group.ticks()], now)

    @property
    def unsettled_ticks_have_address(self) -> bool:
        """Whether unsettled ticks contain the token's address.

        Ticks contain an address that has upper-case letters, as on Solana.
        """
        return any(group.address for group in self.priced)

    @property
    def encoded_ticks(self) -> EncodedTicks:
        """The arguments of `evaluate_single_band`: encoded state, tail and archived ticks.

        The tail has the ticks that arrived after the state was encoded. The unsettled ticks must not contain an
        address.
        """
        return self.settled, b"".join([group.tail() for group in self.priced]), self.archived


def read_quoted(
    store: PriceStore, stored: Mapping[bytes, StoredToken], day_ago: TimeBucket, now: int
) -> dict[bytes, QuotedToken]:
    """Return the quoted ticks of the tokens that have any, by token key.

    Args:
        day_ago: The hour one day before `now`, whose archived ticks are read too.

    Raises RedisUnavailable, PriceStateUnreadable.
    """
    states = {
        key: QuotedState.decode(token.quoted_state, token.quoted_tail)
        for key, token in stored.items()
        if token.quoted_state or token.quoted_tail
    }
    if not states:
        return {}
    unsettled = {key: read_unsettled(state.unsettled) for key, state in states.items()}
    reader = QuoteHistoryReader(store, unsettled, now)
    archive_keys = [*reader.archive_keys, *((key_of_quoted_ticks(key), day_ago) for key in states)]
    archived = dict(zip(archive_keys, store.read_archived(archive_keys), strict=True))
    histories = reader.histories(archived)
    return {
        key: _quoted_token(key, state, unsettled[key], histories, archived[key_of_quoted_ticks(key), day_ago], now)
        for key, state in states.items()
    }


def _quoted_token(
    key: bytes,
    state: QuotedState,
    groups: Sequence[UnsettledTicks],
    histories: Mapping[bytes, QuoteHistory],
    archived: bytes | None,
    now: int,
) -> QuotedToken:
    priced = [group.priced(histories.get(key_of_quote_token(key, group.quote), NO_HISTORY), now) for group in groups]
    stale = {*state.stale, *(tick for group in priced for tick in group.stale())}
    return QuotedToken(state.settled, priced, archived, stale)
