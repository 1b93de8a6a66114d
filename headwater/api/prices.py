"""Route of token prices."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from fastapi import Body, Response
from pydantic import BaseModel, ConfigDict, Field

from headwater.api import examples
from headwater.api.dependencies import ServicesDep
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import body_problem_responses
from headwater.api.schemas import Timestamp
from headwater.model.price.stats import Stats
from headwater.model.price.tick import MAX_NAME_CHARS
from headwater.services.prices import MAX_TOKENS, PriceResult, Token, TokenStatus

router = authenticated_router("/api/v1/developer/prices", "Prices")

Name = Annotated[str, Field(max_length=MAX_NAME_CHARS)]


class RequestedToken(BaseModel):
    """A token of the request."""

    model_config = ConfigDict(extra="forbid", strict=True)

    token_address: Name = Field(description="Contract address or mint; upper and lower case are the same.")
    chain: Name = Field(description="Lowercase chain name.")


class PriceItem(BaseModel):
    """Prices of a token in USD, and changes in percent. docs/prices.md defines each of them."""

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
    """Whether a token of the request has a price, and if not, why."""

    token_address: str
    chain: str
    status: TokenStatus = Field(
        description="Tokens with the status `ok` or `held` have an item. `held` means that newer trades exist whose "
        "prices are not accepted yet."
    )
    held_since: Timestamp | None = Field(
        None, description="The time of the first trade that is not accepted yet; omitted unless the status is `held`."
    )
    quote_stale: bool | None = Field(
        None,
        description="True when the latest price was computed from a price of the quote token that was more than an "
        "hour old; otherwise omitted.",
    )


class PriceStats(BaseModel):
    """The price statistics of the requested tokens."""

    items: list[PriceItem] = Field(
        description="The tokens that have a price, in the order of the request, with its duplicates."
    )
    cursor: str | None = Field(description="Always null, since there is only one page.")
    message: str = Field(description="How many tokens have no price, and why.")
    statuses: list[PriceStatus] = Field(description="One status per token, in the order of the request.")


@router.post(
    "/stats",
    operation_id="getPriceStats",
    summary="Rolling price statistics of tokens",
    response_model=PriceStats,
    responses=body_problem_responses(),
    openapi_extra=required_scopes("prices:read"),
)
def stats(
    body: Annotated[
        list[RequestedToken],
        Body(min_length=1, max_length=MAX_TOKENS, openapi_examples={"two tokens": {"value": examples.TOKENS}}),
    ],
    services: ServicesDep,
) -> Response:
    """Returns for each token the latest price, and low, high and change over 24 h and 1 h.
    The time of the request is the end of these 24 h and 1 h.
    """
    result = services.prices.read([Token(token.chain, token.token_address) for token in body])
    return Response(msgspec.json.encode(_body(result)), media_type="application/json")


def _body(result: PriceResult) -> dict[str, Any]:
    """Return the members of PriceStats as plain dicts.

    Creating models for 200 tokens would take too long.
    """
    priced = [(token, stats) for token, stats in zip(result.tokens, result.stats, strict=True) if stats is not None]
    times = _timestamps([stats.time_ms for _, stats in priced])
    return {
        "items": [_item(token, stats, time) for (token, stats), time in zip(priced, times, strict=True)],
        "cursor": None,
        "message": result.message,
        "statuses": [*map(_status, result.tokens, result.statuses, result.stats, result.quote_stale)],
    }


def _timestamps(times_ms: Sequence[int]) -> list[str]:
    texts: list[str] = np.datetime_as_string(np.array(times_ms, "datetime64[ms]"), timezone="UTC").tolist()
    return texts


def _status(token: Token, status: TokenStatus, stats: Stats | None, is_quote_stale: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"token_address": token.address, "chain": token.chain, "status": status}
    if stats is not None and stats.unaccepted_since is not None:
        entry["held_since"] = _timestamps([stats.unaccepted_since])[0]
    if stats is not None and is_quote_stale:
        entry["quote_stale"] = True
    return entry


def _item(token: Token, stats: Stats, time: str) -> dict[str, Any]:
    address, _, latest, low_24h, high_24h, low_1h, high_1h, change_24h, change_1h, decimals, *_ = stats
    return {
        "mint": address or token.address.lower(),
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
