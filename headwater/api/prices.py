"""Token prices."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from fastapi import Body, Response
from pydantic import BaseModel, ConfigDict, Field

from headwater.api import examples
from headwater.api.guard import guarded_router, needs
from headwater.api.openapi import body_failures
from headwater.api.schemas import Timestamp
from headwater.api.services import Given
from headwater.model.price.stats import Stats
from headwater.model.price.tick import MAX_NAME_CHARS
from headwater.services.prices import MAX_TOKENS, PriceAnswer, Status, Token

router = guarded_router("/api/v1/developer/prices", "Prices")

Name = Annotated[str, Field(max_length=MAX_NAME_CHARS)]


class PricedToken(BaseModel):
    """A token by its address, in any case, and its chain."""

    model_config = ConfigDict(extra="forbid", strict=True)

    token_address: Name = Field(description="Contract address or mint.")
    chain: Name = Field(description="Lowercase chain name.")


class PriceItem(BaseModel):
    """Prices in USD, changes in percent. docs/prices.md defines each figure."""

    mint: str = Field(description="The token's address as on chain; EVM addresses in lower case.")
    chain: str
    timestamp: Timestamp = Field(description="Time of the last trade.")
    latest_price: float
    low_24h: float
    high_24h: float
    low_1h: float
    high_1h: float
    percent_change_24h: float | None = Field(description="Null when there was no price 24 h ago.")
    percent_change_1h: float | None = Field(description="Null when there was no price 1 h ago.")
    decimals: int


class PriceStatus(BaseModel):
    """What became of one token of the request."""

    token_address: str
    chain: str
    status: Status = Field(
        description="`ok` and `held` tokens have an item. `held`: newer trades at other prices do not count yet."
    )
    held_since: Timestamp | None = Field(
        None, description="The time of the first trade that does not count yet; left out unless the status is `held`."
    )
    quote_stale: bool | None = Field(
        None,
        description="True where the latest price comes from a price of the quote token that was more than an hour old; "
        "else left out.",
    )


class PriceStats(BaseModel):
    """The tokens that have a price, in the order of the request, duplicates kept."""

    items: list[PriceItem]
    cursor: str | None = Field(description="Always null: one page holds all.")
    message: str = Field(description="How many tokens have no price, and why.")
    statuses: list[PriceStatus] = Field(description="One for each token of the request, in its order.")


@router.post(
    "/stats",
    operation_id="getPriceStats",
    summary="Rolling price statistics of tokens",
    response_model=PriceStats,
    responses=body_failures(),
    openapi_extra=needs("prices:read"),
)
def stats(
    body: Annotated[
        list[PricedToken],
        Body(min_length=1, max_length=MAX_TOKENS, openapi_examples={"two tokens": {"value": examples.TOKENS}}),
    ],
    given: Given,
) -> Response:
    """Of each token: the latest price, and low, high and change over 24 hours and 1 hour, as of this moment."""
    answer = given.prices.answer([Token(one.chain, one.token_address) for one in body])
    return Response(msgspec.json.encode(_body(answer)), media_type="application/json")


def _body(answer: PriceAnswer) -> dict[str, Any]:
    """As PriceStats has it; made by hand, since 200 tokens are to cost little."""
    priced = [(token, one) for token, one in zip(answer.tokens, answer.stats, strict=True) if one is not None]
    times = _timestamps([one.time_ms for _, one in priced])
    return {
        "items": [_item(token, one, time) for (token, one), time in zip(priced, times, strict=True)],
        "cursor": None,
        "message": answer.message,
        "statuses": [*map(_status, answer.tokens, answer.statuses, answer.stats, answer.quote_stale)],
    }


def _timestamps(times_ms: Sequence[int]) -> list[str]:
    texts: list[str] = np.datetime_as_string(np.array(times_ms, "datetime64[ms]"), timezone="UTC").tolist()
    return texts


def _status(token: Token, status: Status, stats: Stats | None, is_quote_stale: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"token_address": token.address, "chain": token.chain, "status": status}
    if stats is not None and stats.held_since is not None:
        [entry["held_since"]] = _timestamps([stats.held_since])
    if stats is not None and is_quote_stale:
        entry["quote_stale"] = True
    return entry


def _item(token: Token, stats: Stats, time: str) -> dict[str, Any]:
    mint, _, latest, low_24h, high_24h, low_1h, high_1h, change_24h, change_1h, decimals, *_ = stats
    return {
        "mint": mint or token.address.lower(),
        "chain": token.chain.lower(),
        "timestamp": time,
        "latest_price": latest,
        "low_24h": low_24h,
        "high_24h": high_24h,
        "low_1h": low_1h,
        "high_1h": high_1h,
        "percent_change_24h": change_24h,
        "percent_change_1h": change_1h,
        "decimals": decimals,
    }
