"""Token prices: what readers ask for. docs/prices.md defines every figure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headwater.model.price.band import hour_of
from headwater.model.price.left import Chunk, Leaving, Left
from headwater.model.price.plain import evaluate_plain
from headwater.model.price.stats import DAY, STALE_MS, Evaluable, Stats, evaluate, missing
from headwater.model.price.tick import token_key
from headwater.model.price.view import read_at
from headwater.model.stream import find_chain
from headwater.services.ids import Clock
from headwater.stores.prices import PriceStore

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
    """The answer for some tokens. stats: in their order, None where there is no price."""

    tokens: Sequence[Token]
    stats: Sequence[Stats | None]
    statuses: Sequence[Status]

    @property
    def message(self) -> str:
        """How many have no price, and why."""
        gaps: Counter[Status] = Counter(status for status in self.statuses if status not in PRICED)
        if not gaps:
            return "All tokens have a price."
        why = ", ".join(f"{gaps[status]} {reason}" for status, reason in _REASONS.items() if gaps[status])
        return f"{gaps.total()} of {len(self.tokens)} tokens have no price: {why}."


class Prices:
    """filter_outliers: leave out prices that are far from all others (stats.accepted). Raises SetStoreUnavailable."""

    def __init__(self, store: PriceStore, now: Clock, *, filter_outliers: bool) -> None:
        self._store = store
        self._now = now
        self._filter_outliers = filter_outliers

    def answer(self, tokens: Sequence[Token]) -> PriceAnswer:
        """The statistics of tokens at this moment."""
        now = int(self._now().timestamp() * 1000)
        keys = [b"" if ":" in token.chain else token_key(*token).encode() for token in tokens]
        found = self._evaluate([*dict.fromkeys(keys)], now)
        stats = [found[key] for key in keys]
        chains = {token.chain.lower() for token, one in zip(tokens, stats, strict=True) if one is None}
        unknown = {chain for chain in chains if find_chain(chain) is None}
        unknown -= set(self._store.chains()) if unknown else set()
        statuses = [_status(token, one, unknown, now) for token, one in zip(tokens, stats, strict=True)]
        fresh = [one if status in PRICED else None for one, status in zip(stats, statuses, strict=True)]
        return PriceAnswer(tokens, fresh, statuses)

    def _evaluate(self, keys: Sequence[bytes], now: int) -> dict[bytes, Stats | None]:
        """Most tokens are plain; of the others, what some need besides is asked for together."""
        usual = Chunk(hour_of(now - DAY))
        stored = self._store.look_up(keys, usual.hour)
        found = dict(zip(keys, evaluate_plain(stored, usual.hour, now), strict=True))
        states: dict[bytes, Evaluable] = {}
        chunks: dict[Leaving, bytes | None] = {}
        wanted: dict[bytes, list[Chunk]] = {}
        for key, (state, tail, ticks) in zip(keys, stored, strict=True):
            if found[key] is None and (state or tail):
                states[key] = known = read_at(state, tail, now)
                if lacking := missing(known, now, filter_outliers=self._filter_outliers):
                    wanted[key] = lacking
                    chunks[key, usual] = ticks
        others = [(key, chunk) for key, some in wanted.items() for chunk in some if chunk != usual]
        if others:
            chunks |= dict(zip(others, self._store.read_left(others), strict=True))
        for key, known in states.items():
            left = [Left(chunk, chunks[key, chunk] or b"") for chunk in wanted.get(key, ())]
            found[key] = evaluate(known, now, left, filter_outliers=self._filter_outliers)
        return found


def _status(token: Token, stats: Stats | None, unknown_chains: Collection[str], now: int) -> Status:
    if stats is not None:
        if now - stats.time_ms >= STALE_MS:
            return "stale"
        return "ok" if stats.held_since is None else "held"
    return "unknown_chain" if token.chain.lower() in unknown_chains else "unknown_token"
