"""Answers requests for token prices. docs/prices.md defines every figure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headwater.errors import PriceStateUnreadable
from headwater.model.price.archive import ArchivedTicks, ArchiveKey, TimeBucket
from headwater.model.price.band import hour_of
from headwater.model.price.single_band import NO_PARTS, evaluate_single_band
from headwater.model.price.stats import DAY, STALE_MS, Stats, evaluate, needed_buckets
from headwater.model.price.tick import SEPARATOR, quoted_key, token_key
from headwater.model.price.view import merged, read_at
from headwater.model.stream import find_chain
from headwater.services.ids import Clock
from headwater.services.quoted_prices import QuotedToken, read_quoted
from headwater.stores.protocols.prices import PriceStore, StoredToken

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
    """A token as a request names it."""

    chain: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceResult:
    """The prices of the requested tokens, in the order of the request.

    Attributes:
        stats: None where there is no price.
        quote_stale: Whether the latest price comes from a price of the quote token that was older than its limit.
        is_readable: False where the stored state of the token or of its quote token can't be read.
    """

    tokens: Sequence[Token]
    stats: Sequence[Stats | None]
    statuses: Sequence[Status]
    quote_stale: Sequence[bool]
    is_readable: Sequence[bool]

    @property
    def message(self) -> str:
        """A sentence that says how many tokens have no price, and why."""
        missing = Counter(s for s, readable in zip(self.statuses, self.is_readable, strict=True) if readable)
        why = [f"{missing[status]} {reason}" for status, reason in _REASONS.items() if missing[status]]
        if unreadable := [t for t, readable in zip(self.tokens, self.is_readable, strict=True) if not readable]:
            first = f"{unreadable[0].address} on {unreadable[0].chain}"
            why.append(f"{len(unreadable)} whose stored prices can't be read (the first: {first})")
        if not why:
            return "All tokens have a price."
        without = sum(status not in PRICED for status in self.statuses)
        return f"{without} of {len(self.tokens)} tokens have no price: {', '.join(why)}."


class _Evaluated(NamedTuple):
    """The statistics of a token, and whether its latest price used a stale quote price."""

    stats: Stats | None
    is_quote_stale: bool
    is_readable: bool = True


UNREADABLE = _Evaluated(None, is_quote_stale=False, is_readable=False)


class Prices:
    """Computes statistics of tokens from the price store.

    filter_outliers: Whether prices that are far from all others are ignored (stats.accepted_bands).
    """

    def __init__(self, store: PriceStore, now: Clock, *, filter_outliers: bool) -> None:
        self._store = store
        self._now = now
        self._filter_outliers = filter_outliers

    def answer(self, tokens: Sequence[Token]) -> PriceResult:
        """Return the current statistics of tokens. Raises RedisUnavailable."""
        now = int(self._now().timestamp() * 1000)
        keys = [_key(token) for token in tokens]
        by_key = self._evaluate_readable([*dict.fromkeys(keys)], now)
        evaluated = [by_key[key] for key in keys]
        stats = [token.stats for token in evaluated]
        chains = {token.chain.lower() for token, found in zip(tokens, stats, strict=True) if found is None}
        unknown = {chain for chain in chains if find_chain(chain) is None}
        unknown -= set(self._store.chains()) if unknown else set()
        statuses = [_status(token, found, unknown, now) for token, found in zip(tokens, stats, strict=True)]
        return PriceResult(
            tokens=tokens,
            stats=[found if status in PRICED else None for found, status in zip(stats, statuses, strict=True)],
            statuses=statuses,
            quote_stale=[token.is_quote_stale for token in evaluated],
            is_readable=[token.is_readable for token in evaluated],
        )

    def _evaluate_readable(self, keys: Sequence[bytes], now: int) -> dict[bytes, _Evaluated]:
        """Evaluate all tokens.

        Tokens whose state, or whose quote token's state, can't be read are isolated by halving the list.
        """
        try:
            return self._evaluate(keys, now)
        except PriceStateUnreadable:
            if len(keys) == 1:
                return {keys[0]: UNREADABLE}
            half = len(keys) // 2
            return self._evaluate_readable(keys[:half], now) | self._evaluate_readable(keys[half:], now)

    def _evaluate(self, keys: Sequence[bytes], now: int) -> dict[bytes, _Evaluated]:
        """Evaluate tokens.

        Most have a single price band and are evaluated together by columns; for the others, the missing archived ticks
        are read with one request.
        """
        day_ago = TimeBucket(hour_of(now - DAY))
        stored = dict(zip(keys, self._store.look_up(keys, day_ago.hour), strict=True))
        quoted = read_quoted(self._store, stored, day_ago, now)
        stats = dict(zip(keys, _single_band_stats(stored, quoted, day_ago, now), strict=True))
        other_keys = [key for key in keys if stats[key] is None and any(stored[key])]
        others = [
            _SeparatelyEvaluatedToken(key, stored[key], quoted.get(key), day_ago=day_ago, now=now) for key in other_keys
        ]
        needed = [token.needed_archive_keys(filter_outliers=self._filter_outliers) for token in others]
        unread = [*dict.fromkeys(key for keys_of_token in needed for key in keys_of_token if key[1] != day_ago)]
        archived = dict(zip(unread, self._store.read_archived(unread), strict=True)) if unread else {}
        for token, keys_of_token in zip(others, needed, strict=True):
            ticks = [ArchivedTicks(key[1], (token.archived | archived)[key] or b"") for key in keys_of_token]
            stats[token.key] = evaluate(token.merged, now, ticks, filter_outliers=self._filter_outliers)
        return {key: _Evaluated(found, _is_quote_stale(found, quoted.get(key))) for key, found in stats.items()}


class _SeparatelyEvaluatedToken:
    """A separately evaluated token: the states of its USD ticks and of its quoted ticks.

    Attributes:
        archived: The archived ticks that have been read already, by archive key.
        merged: Both states as one.
    """

    def __init__(
        self, key: bytes, found: StoredToken, quoted: QuotedToken | None, *, day_ago: TimeBucket, now: int
    ) -> None:
        self.key, self._now = key, now
        self._states = {key: read_at(found.state, found.tail, now)}
        self.archived: dict[ArchiveKey, bytes | None] = {(key, day_ago): found.ticks}
        if quoted:
            self._states[quoted_key(key)] = quoted.view(now)
            self.archived[quoted_key(key), day_ago] = quoted.archived
        self.merged = merged([*self._states.values()])

    def needed_archive_keys(self, *, filter_outliers: bool) -> list[ArchiveKey]:
        """Return the archive keys that must be read to evaluate the token."""
        return [
            (key, bucket)
            for key, state in self._states.items()
            for bucket in needed_buckets(self.merged, self._now, filter_outliers=filter_outliers, part=state)
        ]


def _key(token: Token) -> bytes:
    """Return the key of a token.

    It is b"" for a name that no token can have, which would otherwise address the quoted ticks of another token.
    """
    key = token_key(*token).encode()
    return b"" if ":" in token.chain or SEPARATOR in key else key


def _single_band_stats(
    stored: Mapping[bytes, StoredToken], quoted: Mapping[bytes, QuotedToken], day_ago: TimeBucket, now: int
) -> list[Stats | None]:
    """Return the statistics of tokens with a single price band; None for the others.

    A token whose quoted ticks carry its address is evaluated separately.
    """
    usd_parts = [found[:3] for found in stored.values()]
    if not quoted:
        return evaluate_single_band(usd_parts, day_ago.hour, now)
    quoted_parts = [NO_PARTS] * len(usd_parts)
    for row, key in enumerate(stored):
        if token := quoted.get(key):
            if token.has_explicit_address:
                usd_parts[row] = NO_PARTS
            else:
                quoted_parts[row] = token.parts
    return evaluate_single_band(usd_parts, day_ago.hour, now, quoted_parts)


def _is_quote_stale(stats: Stats | None, quoted: QuotedToken | None) -> bool:
    return stats is not None and quoted is not None and (stats.time_ms, stats.order, stats.latest) in quoted.stale


def _status(token: Token, stats: Stats | None, unknown_chains: Collection[str], now: int) -> Status:
    if stats is not None:
        if now - stats.time_ms >= STALE_MS:
            return "stale"
        return "ok" if stats.unaccepted_since is None else "held"
    return "unknown_chain" if token.chain.lower() in unknown_chains else "unknown_token"
