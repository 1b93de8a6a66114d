"""Token prices: what readers ask for. docs/prices.md defines every figure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headwater.errors import PriceStateUnreadable
from headwater.model.price.band import hour_of
from headwater.model.price.left import Chunk, Leaving, Left
from headwater.model.price.plain import NOTHING, evaluate_plain
from headwater.model.price.stats import DAY, STALE_MS, Stats, evaluate, missing
from headwater.model.price.tick import SEPARATOR, quoted_key, token_key
from headwater.model.price.view import merged, read_at
from headwater.model.stream import find_chain
from headwater.services.ids import Clock
from headwater.services.quoted_prices import QuotedToken, read_quoted
from headwater.stores.prices import StoredToken, PriceStore

MAX_TOKENS = 200

Status = Literal["ok", "held", "stale", "unknown_token", "unknown_chain"]
PRICED: Collection[Status] = ("ok", "held")
_REASONS: Mapping[Status, str] = {
    "stale": "stale (no trade for 7 days)",
    "unknown_token": "unknown token",
    "unknown_chain": "unknown chain",
}
"""Why a token has no price, by its status."""


class Token(NamedTuple):
    """A token as a caller names it."""

    chain: str
    address: str


@dataclass(frozen=True, slots=True)
class PriceAnswer:
    """The answer for some tokens, in their order.

    Attributes:
        stats: None where there is no price.
        quote_stale: Whether the latest price comes from a price of the quote token that was older than its limit.
        is_readable: False where what is stored of the token, or of its quote token, can't be read.
    """

    tokens: Sequence[Token]
    stats: Sequence[Stats | None]
    statuses: Sequence[Status]
    quote_stale: Sequence[bool]
    is_readable: Sequence[bool]

    @property
    def message(self) -> str:
        """How many have no price, and why."""
        gaps = Counter(s for s, readable in zip(self.statuses, self.is_readable, strict=True) if readable)
        why = [f"{gaps[status]} {reason}" for status, reason in _REASONS.items() if gaps[status]]
        if damaged := [t for t, readable in zip(self.tokens, self.is_readable, strict=True) if not readable]:
            first = f"{damaged[0].address} on {damaged[0].chain}"
            why.append(f"{len(damaged)} whose stored prices can't be read (the first: {first})")
        if not why:
            return "All tokens have a price."
        without = sum(status not in PRICED for status in self.statuses)
        return f"{without} of {len(self.tokens)} tokens have no price: {', '.join(why)}."


class _Evaluated(NamedTuple):
    """The statistics of a token, and whether its latest price comes from a stale price of a quote token."""

    stats: Stats | None
    is_quote_stale: bool
    is_readable: bool = True


UNREADABLE = _Evaluated(None, is_quote_stale=False, is_readable=False)


class Prices:
    """filter_outliers: leave out prices that are far from all others (stats.accepted). Raises SetStoreUnavailable."""

    def __init__(self, store: PriceStore, now: Clock, *, filter_outliers: bool) -> None:
        self._store = store
        self._now = now
        self._filter_outliers = filter_outliers

    def answer(self, tokens: Sequence[Token]) -> PriceAnswer:
        """The statistics of tokens at this moment."""
        now = int(self._now().timestamp() * 1000)
        keys = [_key(token) for token in tokens]
        by_key = self._readable([*dict.fromkeys(keys)], now)
        found = [by_key[key] for key in keys]
        stats = [one.stats for one in found]
        chains = {token.chain.lower() for token, one in zip(tokens, stats, strict=True) if one is None}
        unknown = {chain for chain in chains if find_chain(chain) is None}
        unknown -= set(self._store.chains()) if unknown else set()
        statuses = [_status(token, one, unknown, now) for token, one in zip(tokens, stats, strict=True)]
        fresh = [one if status in PRICED else None for one, status in zip(stats, statuses, strict=True)]
        quote_stale, is_readable = [one.is_quote_stale for one in found], [one.is_readable for one in found]
        return PriceAnswer(tokens, fresh, statuses, quote_stale, is_readable)

    def _readable(self, keys: Sequence[bytes], now: int) -> dict[bytes, _Evaluated]:
        """Evaluate all tokens but those whose state, or whose quote token's, can't be read."""
        try:
            return self._evaluate(keys, now)
        except PriceStateUnreadable:
            if len(keys) == 1:
                return {keys[0]: UNREADABLE}
            half = len(keys) // 2
            return self._readable(keys[:half], now) | self._readable(keys[half:], now)

    def _evaluate(self, keys: Sequence[bytes], now: int) -> dict[bytes, _Evaluated]:
        """Most tokens are plain; of the others, what some need besides is asked for together."""
        usual = Chunk(hour_of(now - DAY))
        stored = dict(zip(keys, self._store.look_up(keys, usual.hour), strict=True))
        quoted = read_quoted(self._store, stored, usual, now)
        stats = dict(zip(keys, _plain(stored, quoted, usual, now), strict=True))
        by_themselves = [key for key in keys if stats[key] is None and any(stored[key])]
        others = [_Parts(key, stored[key], quoted.get(key), usual, now) for key in by_themselves]
        wanted = [parts.missing(self._filter_outliers) for parts in others]
        lacking = [*dict.fromkeys(key for some in wanted for key in some if key[1] != usual)]
        archived = dict(zip(lacking, self._store.read_archived(lacking), strict=True)) if lacking else {}
        for parts, some in zip(others, wanted, strict=True):
            found = [Left(key[1], (parts.usual | archived)[key] or b"") for key in some]
            stats[parts.key] = evaluate(parts.whole, now, found, filter_outliers=self._filter_outliers)
        return {key: _Evaluated(one, _is_quote_stale(one, quoted.get(key))) for key, one in stats.items()}


class _Parts:
    """A token that is evaluated by itself: the states of its USD ticks and of its quoted ticks, and both as one.

    usual: What was read of the archive already, by its key.
    """

    def __init__(self, key: bytes, found: StoredToken, quoted: QuotedToken | None, hour: Chunk, now: int) -> None:
        self.key, self._now = key, now
        self._views = {key: read_at(found.state, found.tail, now)}
        self.usual: dict[Leaving, bytes | None] = {(key, hour): found.ticks}
        if quoted:
            self._views[quoted_key(key)] = quoted.view(now)
            self.usual[quoted_key(key), hour] = quoted.archived
        self.whole = merged([*self._views.values()])

    def missing(self, filter_outliers: bool) -> list[Leaving]:
        """What has to be read of the archive."""
        return [
            (key, chunk)
            for key, view in self._views.items()
            for chunk in missing(self.whole, self._now, filter_outliers=filter_outliers, part=view)
        ]


def _key(token: Token) -> bytes:
    """The key of a token; b"" for what no token can be called, such as the key of another one's quoted ticks."""
    key = token_key(*token).encode()
    return b"" if ":" in token.chain or SEPARATOR in key else key


def _plain(
    stored: Mapping[bytes, StoredToken], quoted: Mapping[bytes, QuotedToken], hour: Chunk, now: int
) -> list[Stats | None]:
    """The statistics of plain tokens. A token whose quoted ticks are named is none."""
    own = [found[:3] for found in stored.values()]
    if not quoted:
        return evaluate_plain(own, hour.hour, now)
    beside = [NOTHING] * len(own)
    for row, key in enumerate(stored):
        if token := quoted.get(key):
            if token.is_named:
                own[row] = NOTHING
            else:
                beside[row] = token.stored
    return evaluate_plain(own, hour.hour, now, beside)


def _is_quote_stale(stats: Stats | None, quoted: QuotedToken | None) -> bool:
    return stats is not None and quoted is not None and (stats.time_ms, stats.order, stats.latest) in quoted.stale


def _status(token: Token, stats: Stats | None, unknown_chains: Collection[str], now: int) -> Status:
    if stats is not None:
        if now - stats.time_ms >= STALE_MS:
            return "stale"
        return "ok" if stats.held_since is None else "held"
    return "unknown_chain" if token.chain.lower() in unknown_chains else "unknown_token"
