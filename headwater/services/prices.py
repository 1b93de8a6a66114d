"""Computes the price statistics of tokens. docs/prices.md defines each of them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headwater.errors import PriceStateUnreadable
from headwater.model.price.archive import ArchivedTicks, ArchiveKey, TimeBucket
from headwater.model.price.band import hour_of
from headwater.model.price.single_band import NO_ENCODED_TICKS, evaluate_single_band
from headwater.model.price.stats import DAY, STALE_MS, Stats, evaluate, needed_buckets
from headwater.model.price.tick import SEPARATOR, key_of_quoted_ticks, token_key
from headwater.model.price.view import merge_states, view_with_tail
from headwater.model.stream import find_chain
from headwater.services.ids import Now
from headwater.services.quoted_prices import QuotedToken, read_quoted
from headwater.stores.protocols.prices import PriceStore, StoredToken

MAX_TOKENS = 200

TokenStatus = Literal["ok", "held", "stale", "unknown_token", "unknown_chain"]
"""A price is held while newer trades have prices that are not accepted yet (`Stats.unaccepted_since`)."""
PRICED: Collection[TokenStatus] = ("ok", "held")
_REASONS: Mapping[TokenStatus, str] = {
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
    """The statistics of the requested tokens.

    Each attribute has one entry per token, in the order of the request.

    Attributes:
        stats: The statistics; None when the token has no price.
        quote_stale: Whether the latest price was computed from a price of the quote token that was more than an hour
            old (QUOTE_STALE_MS).
        is_readable: False when the stored state of the token or of its quote token can't be read.
    """

    tokens: Sequence[Token]
    stats: Sequence[Stats | None]
    statuses: Sequence[TokenStatus]
    quote_stale: Sequence[bool]
    is_readable: Sequence[bool]

    @property
    def message(self) -> str:
        """A sentence that says how many tokens have no price, and why."""
        counts = Counter(status for status, readable in zip(self.statuses, self.is_readable, strict=True) if readable)
        reasons = [f"{counts[status]} {reason}" for status, reason in _REASONS.items() if counts[status]]
        if unreadable := [token for token, readable in zip(self.tokens, self.is_readable, strict=True) if not readable]:
            first = f"{unreadable[0].address} on {unreadable[0].chain}"
            reasons.append(f"{len(unreadable)} whose stored prices can't be read (the first: {first})")
        if not reasons:
            return "All tokens have a price."
        unpriced = sum(status not in PRICED for status in self.statuses)
        return f"{unpriced} of {len(self.tokens)} tokens have no price: {', '.join(reasons)}."


class _Evaluation(NamedTuple):
    """The statistics of a token.

    `is_quote_stale` says whether the latest price comes from a stale price of the quote token.
    """

    stats: Stats | None
    is_quote_stale: bool
    is_readable: bool = True


UNREADABLE = _Evaluation(None, is_quote_stale=False, is_readable=False)


class Prices:
    """Computes the statistics of tokens from the price store.

    Args:
        filter_outliers: Whether prices that are far from all other prices are ignored, see `accepted_bands` in
            model/price/stats.py.
    """

    def __init__(self, store: PriceStore, now: Now, *, filter_outliers: bool) -> None:
        self._store = store
        self._now = now
        self._filter_outliers = filter_outliers

    def read(self, tokens: Sequence[Token]) -> PriceResult:
        """Return the current statistics of tokens. Raises RedisUnavailable."""
        now = int(self._now().timestamp() * 1000)
        keys = [key_of_token(token) for token in tokens]
        evaluation_by_key = self._evaluate_readable([*dict.fromkeys(keys)], now)
        evaluations = [evaluation_by_key[key] for key in keys]
        unknown_chains = self._unknown_chains(
            {token.chain.lower() for token, evaluation in zip(tokens, evaluations, strict=True) if not evaluation.stats}
        )
        statuses = [
            _status(token, evaluation.stats, unknown_chains, now)
            for token, evaluation in zip(tokens, evaluations, strict=True)
        ]
        return PriceResult(
            tokens=tokens,
            stats=[
                evaluation.stats if status in PRICED else None
                for evaluation, status in zip(evaluations, statuses, strict=True)
            ],
            statuses=statuses,
            quote_stale=[evaluation.is_quote_stale for evaluation in evaluations],
            is_readable=[evaluation.is_readable for evaluation in evaluations],
        )

    def _unknown_chains(self, chains: Collection[str]) -> Collection[str]:
        """Return the chains that are neither in the catalog nor in the price store."""
        unlisted = {chain for chain in chains if find_chain(chain) is None}
        return unlisted.difference(self._store.chains()) if unlisted else unlisted

    def _evaluate_readable(self, keys: Sequence[bytes], now: int) -> dict[bytes, _Evaluation]:
        """Evaluate all tokens.

        When the state of a token or of its quote token can't be read, halving the list isolates this token.
        """
        try:
            return self._evaluate(keys, now)
        except PriceStateUnreadable:
            if len(keys) == 1:
                return {keys[0]: UNREADABLE}
            half = len(keys) // 2
            return self._evaluate_readable(keys[:half], now) | self._evaluate_readable(keys[half:], now)

    def _evaluate(self, keys: Sequence[bytes], now: int) -> dict[bytes, _Evaluation]:
        """Evaluate tokens.

        The prices of most tokens are in a single band, between two successive powers of two (model/price/band.py).
        These tokens are evaluated together, by columns.
        """
        day_ago = TimeBucket(hour_of(now - DAY))
        stored = dict(zip(keys, self._store.look_up(keys, day_ago.hour), strict=True))
        quoted = read_quoted(self._store, stored, day_ago, now)
        stats = dict(zip(keys, _single_band_stats(stored, quoted, day_ago, now), strict=True))
        separate_tokens = [
            _SeparatelyEvaluatedToken(key, stored[key], quoted.get(key), day_ago=day_ago, now=now)
            for key in keys
            if stats[key] is None and any(stored[key])
        ]
        stats |= self._evaluate_separately(separate_tokens, now)
        return {key: _Evaluation(stats[key], _is_quote_stale(stats[key], quoted.get(key))) for key in keys}

    def _evaluate_separately(
        self, tokens: Sequence["_SeparatelyEvaluatedToken"], now: int
    ) -> dict[bytes, Stats | None]:
        """Evaluate tokens one by one.

        The archived ticks that all these tokens need are read with one request.
        """
        needed = {token.key: token.needed_archive_keys(filter_outliers=self._filter_outliers) for token in tokens}
        archived: dict[ArchiveKey, bytes | None] = {}
        for token in tokens:
            archived |= token.archived
        unread = [
            *dict.fromkeys(
                archive_key
                for archive_keys in needed.values()
                for archive_key in archive_keys
                if archive_key not in archived
            )
        ]
        if unread:
            archived |= zip(unread, self._store.read_archived(unread), strict=True)
        stats: dict[bytes, Stats | None] = {}
        for token in tokens:
            ticks = [ArchivedTicks(bucket, archived[key, bucket] or b"") for key, bucket in needed[token.key]]
            stats[token.key] = evaluate(token.merged, now, ticks, filter_outliers=self._filter_outliers)
        return stats


class _SeparatelyEvaluatedToken:
    """The states of the USD ticks and of the quoted ticks of one token.

    Attributes:
        archived: The archived ticks that have been read already, by archive key.
        merged: Both states as one.
    """

    def __init__(
        self, key: bytes, stored: StoredToken, quoted: QuotedToken | None, *, day_ago: TimeBucket, now: int
    ) -> None:
        self.key, self._now = key, now
        self._states = {key: view_with_tail(stored.state, stored.tail, now)}
        self.archived: dict[ArchiveKey, bytes | None] = {(key, day_ago): stored.ticks}
        if quoted:
            self._states[key_of_quoted_ticks(key)] = quoted.view(now)
            self.archived[key_of_quoted_ticks(key), day_ago] = quoted.archived
        self.merged = merge_states([*self._states.values()])

    def needed_archive_keys(self, *, filter_outliers: bool) -> list[ArchiveKey]:
        """Return the keys of the archived ticks that the evaluation of the token needs."""
        return [
            (key, bucket)
            for key, state in self._states.items()
            for bucket in needed_buckets(self.merged, self._now, filter_outliers=filter_outliers, buckets_of=state)
        ]


def key_of_token(token: Token) -> bytes:
    """Return the key of a token in the price store.

    Returns b"", which no stored token has, when the chain contains ":" or the key would contain SEPARATOR. The key
    would then belong to no token, and could be the key of another token's quoted ticks.
    """
    key = token_key(*token).encode()
    return b"" if ":" in token.chain or SEPARATOR in key else key


def _single_band_stats(
    stored: Mapping[bytes, StoredToken], quoted: Mapping[bytes, QuotedToken], day_ago: TimeBucket, now: int
) -> list[Stats | None]:
    """Return the statistics of tokens with a single price band; None for other tokens.

    A token whose unsettled ticks contain its address, because it has upper-case letters, is evaluated separately.
    """
    usd_ticks = [token.encoded_ticks for token in stored.values()]
    if not quoted:
        return evaluate_single_band(usd_ticks, day_ago.hour, now)
    quoted_ticks = [NO_ENCODED_TICKS] * len(usd_ticks)
    for row, key in enumerate(stored):
        if quoted_token := quoted.get(key):
            if quoted_token.unsettled_ticks_have_address:
                usd_ticks[row] = NO_ENCODED_TICKS
            else:
                quoted_ticks[row] = quoted_token.encoded_ticks
    return evaluate_single_band(usd_ticks, day_ago.hour, now, quoted_ticks)


def _is_quote_stale(stats: Stats | None, quoted: QuotedToken | None) -> bool:
    return stats is not None and quoted is not None and (stats.time_ms, stats.order, stats.latest) in quoted.stale


def _status(token: Token, stats: Stats | None, unknown_chains: Collection[str], now: int) -> TokenStatus:
    if stats is not None:
        if now - stats.time_ms >= STALE_MS:
            return "stale"
        return "ok" if stats.unaccepted_since is None else "held"
    return "unknown_chain" if token.chain.lower() in unknown_chains else "unknown_token"
