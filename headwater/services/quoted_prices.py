"""The quoted ticks of tokens at the moment of a question: settled ones, and others at their prices in USD."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from headwater.model.price.left import Chunk
from headwater.model.price.plain import Stored
from headwater.model.price.quoted import PricedTicks, QuotedState, UnsettledTicks, read_unsettled
from headwater.model.price.quotes import NO_HISTORY, QuoteHistory
from headwater.model.price.series import Tick
from headwater.model.price.stats import Evaluable
from headwater.model.price.tick import quote_key, quoted_key
from headwater.model.price.view import view_of
from headwater.stores.prices import StoredToken, PriceStore
from headwater.stores.quote_history_reader import QuoteReader


@dataclass(frozen=True, slots=True)
class QuotedToken:
    """The quoted ticks of one token.

    Attributes:
        settled: Their settled state; b"" where there is none.
        priced: The unsettled ones that have a price.
        archived: Those of the hour of a day ago that have left the settled state.
        stale: Ticks whose quote price was stale.
    """

    settled: bytes
    priced: Sequence[PricedTicks]
    archived: bytes | None
    stale: Collection[Tick]

    def view(self, now: int) -> Evaluable:
        """The state at a moment."""
        return view_of(self.settled, [tick for some in self.priced for tick in some.ticks()], now)

    @property
    def is_named(self) -> bool:
        """Whether ticks tell an address of the token that its key does not tell."""
        return any(some.mint for some in self.priced)

    @property
    def stored(self) -> Stored:
        """The same in the form of a state with its tail; nothing is named."""
        return self.settled, b"".join([some.tail() for some in self.priced]), self.archived


def read_quoted(store: PriceStore, found: Mapping[bytes, StoredToken], hour: Chunk, now: int) -> dict[bytes, QuotedToken]:
    """The quoted ticks of those tokens that have some, by token. Raises SetStoreUnavailable, PriceStateUnreadable."""
    states = {
        key: QuotedState.decode(one.quoted_state, one.quoted_tail)
        for key, one in found.items()
        if one.quoted_state or one.quoted_tail
    }
    if not states:
        return {}
    unsettled = {key: read_unsettled(state.unsettled) for key, state in states.items()}
    reader = QuoteReader(store, unsettled, now)
    archive_keys = [*reader.archive_keys, *((quoted_key(key), hour) for key in states)]
    archived = dict(zip(archive_keys, store.read_archived(archive_keys), strict=True))
    histories = reader.histories(archived)
    return {
        key: _token(key, state, unsettled[key], histories, archived[quoted_key(key), hour], now)
        for key, state in states.items()
    }


def _token(
    key: bytes,
    state: QuotedState,
    groups: Sequence[UnsettledTicks],
    histories: Mapping[bytes, QuoteHistory],
    archived: bytes | None,
    now: int,
) -> QuotedToken:
    priced = [group.priced(histories.get(quote_key(key, group.quote), NO_HISTORY), now) for group in groups]
    stale = {*state.stale, *(tick for some in priced for tick in some.stale())}
    return QuotedToken(state.settled, priced, archived, stale)
