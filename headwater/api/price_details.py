"""Routes that list tokens, explain the price of a token, and return its history."""

import re
import sys
import time
from collections.abc import Iterable
from math import ldexp
from typing import Annotated, Literal

from fastapi import Query
from pydantic import AfterValidator, BaseModel, Field

from headwater.api.dependencies import ServicesDep
from headwater.api.examples import CONTRACT
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import problem_responses
from headwater.api.query_parameters import NULL_TO_NONE, STRICT_INTEGER
from headwater.api.schemas import Timestamp
from headwater.model.price.band import band_of
from headwater.model.price.explanation import BandSummary, Explanation, Window
from headwater.model.price.series import Tick
from headwater.model.price.tick import MAX_NAME_CHARS
from headwater.model.timestamps import from_epoch_ms
from headwater.services.price_details import MAX_EXPLAINED, ExplainedPrice
from headwater.services.prices import MAX_TOKENS, Token, TokenStatus

router = authenticated_router("/api/v1/developer/prices", "Prices")

TokenAddress = Annotated[
    str,
    Query(
        min_length=1,
        max_length=MAX_NAME_CHARS,
        description="Contract address or mint; upper and lower case are the same.",
        examples=[CONTRACT],
    ),
]
Chain = Annotated[
    str, Query(min_length=1, max_length=MAX_NAME_CHARS, description="Lowercase chain name.", examples=["base"])
]


MAX_CURSOR_CHARS = 2 * MAX_NAME_CHARS + 1
DEFAULT_TOKENS = 50
CURSOR_PATTERN = "^[^:]+:.+$"


def _require_cursor(cursor: str | None) -> str | None:
    """Raise ValueError for a cursor that does not have the form `<chain>:<address>`."""
    if cursor is not None and not re.search(CURSOR_PATTERN, cursor):
        raise ValueError("must be the `cursor` of a page")
    return cursor


class PricePoint(BaseModel):
    """The price of one trade, in USD."""

    timestamp: Timestamp
    price: float

    @classmethod
    def of(cls, tick: Tick) -> "PricePoint":
        """Return the point of a tick."""
        return cls(timestamp=from_epoch_ms(tick[0]), price=tick[2])


class PriceHistory(BaseModel):
    """The prices of a token in the 25 to 26 hours before its newest trade."""

    token_address: str
    chain: str
    points: list[PricePoint] = Field(
        description="The last accepted trade of each hour, and of each 5 minutes of the last one to two hours (for a "
        "token with many trades only of the last minutes); oldest first. An interval without a trade has no point."
    )


class PriceWindow(BaseModel):
    """The lowest and the highest accepted price of a window, and when they were traded last."""

    window: Literal["1h", "24h"]
    start: Timestamp = Field(description="Trades after this time count.")
    low: PricePoint | None = Field(
        description="Null when the window has no trade; the statistics then show the latest price as low and high."
    )
    high: PricePoint | None

    @classmethod
    def of(cls, name: Literal["1h", "24h"], window: Window) -> "PriceWindow":
        """Return the body for a window."""
        low, high = (None if tick is None else PricePoint.of(tick) for tick in (window.low, window.high))
        return cls(window=name, start=from_epoch_ms(window.start_ms), low=low, high=high)


class PriceBand(BaseModel):
    """Prices between two successive powers of two. Whether a price counts depends on its band."""

    min_price: float = Field(description="The lowest price of the band.")
    max_price: float = Field(description="Prices below this one are in the band.")
    active_minutes: int = Field(description="The number of minutes since `counted_since` with a trade in this band.")
    established: bool = Field(description="Whether `active_minutes` are at least `required_minutes`.")
    accepted: bool = Field(
        description="Whether the band is established or next to an established band. All bands are accepted while "
        "none is established, and when the operator has switched the filter of outliers off."
    )
    last: PricePoint

    @classmethod
    def of(cls, band: BandSummary) -> "PriceBand":
        """Return the body for a band."""
        return cls(
            min_price=_power_of_two(band.number - 1),
            max_price=_power_of_two(band.number),
            active_minutes=band.active_minutes,
            established=band.is_established,
            accepted=band.is_accepted,
            last=PricePoint.of(band.last),
        )


class UnacceptedPrice(PricePoint):
    """A trade that does not count."""

    status: Literal["held", "rejected"] = Field(
        description="`held`: it is newer than the latest accepted trade, and counts when its band is accepted."
    )
    reason: str


class PriceExplanation(BaseModel):
    """How the statistics of a token are computed; empty for an unknown token."""

    token_address: str
    chain: str
    status: TokenStatus
    quote_stale: bool = Field(
        description="Whether the latest price was computed from a price of the quote token that was more than an hour "
        "old."
    )
    latest: PricePoint | None = Field(description="The latest accepted trade; null when the token has no price.")
    percent_change_1h: float | None
    percent_change_24h: float | None
    windows: list[PriceWindow]
    counted_since: Timestamp | None = Field(description="Only minutes after this time count for the bands.")
    required_minutes: int | None = Field(description="The minutes with trades that make a band established.")
    bands: list[PriceBand] = Field(
        description=f"At most {MAX_EXPLAINED} bands, the one with the most minutes first.",
    )
    accepted: list[PricePoint] = Field(
        description=f"At most {MAX_EXPLAINED} accepted trades, newest first. The list has the last trade of each "
        "millisecond of the newest 1 to 2 hours (2 minutes for a token with many trades), and the last trade of each "
        "earlier hour.",
    )
    unaccepted: list[UnacceptedPrice] = Field(
        description=f"Likewise at most {MAX_EXPLAINED} trades that do not count.",
    )


class ListedToken(BaseModel):
    """A token with its statistics."""

    token_address: str = Field(description="As on chain; EVM addresses in lower case.")
    chain: str
    status: TokenStatus
    held_since: Timestamp | None = Field(description="Null unless the status is `held`.")
    quote_stale: bool
    timestamp: Timestamp | None = Field(description="The time of the last accepted trade; null without a price.")
    age_s: float | None = Field(description="The seconds since then.")
    latest_price: float | None
    percent_change_1h: float | None
    percent_change_24h: float | None


class TokenList(BaseModel):
    """A page of tokens."""

    items: list[ListedToken] = Field(description="Sorted by chain and address.")
    cursor: str | None = Field(description="The cursor of the next page; null on the last page.")
    worker_runs: bool | None = Field(
        description="Whether a prices worker runs, which stores the trades. It is read in the background, so it is "
        "null in the first answers, and when Kafka has been unavailable for a minute."
    )


@router.get(
    "/tokens",
    operation_id="listTokens",
    summary="List tokens with their prices",
    responses=problem_responses(422),
    openapi_extra=required_scopes("prices:read"),
)
def list_tokens(
    services: ServicesDep,
    q: Annotated[
        str,
        Query(
            max_length=MAX_CURSOR_CHARS,
            description="Only tokens whose address, or whose `<chain>:<address>`, begins with this text.",
        ),
    ] = "",
    limit: Annotated[
        int, Query(ge=1, le=MAX_TOKENS, description="The number of tokens on a page."), STRICT_INTEGER
    ] = DEFAULT_TOKENS,
    cursor: Annotated[
        str | None,
        Query(
            max_length=MAX_CURSOR_CHARS,
            description="The `cursor` of the previous page.",
            json_schema_extra={"pattern": CURSOR_PATTERN},
        ),
        AfterValidator(_require_cursor),
        NULL_TO_NONE,
    ] = None,
) -> TokenList:
    """Returns the tokens that had trades in the last 30 to 60 days."""
    result, last = services.price_details.tokens(q, cursor or "", limit)
    now_s = time.time()
    items = [
        ListedToken(
            token_address=(stats.address if stats is not None else "") or token.address,
            chain=token.chain,
            status=status,
            held_since=None
            if stats is None or stats.unaccepted_since is None
            else from_epoch_ms(stats.unaccepted_since),
            quote_stale=quote_stale,
            timestamp=None if stats is None else from_epoch_ms(stats.time_ms),
            age_s=None if stats is None else max(0.0, round(now_s - stats.time_ms / 1000, 3)),
            latest_price=None if stats is None else stats.latest,
            percent_change_1h=None if stats is None else stats.change_1h,
            percent_change_24h=None if stats is None else stats.change_24h,
        )
        for token, stats, status, quote_stale in zip(
            result.tokens, result.stats, result.statuses, result.quote_stale, strict=True
        )
    ]
    return TokenList(items=items, cursor=last, worker_runs=services.prices_workers.any_runs())


@router.get(
    "/history",
    operation_id="getPriceHistory",
    summary="The prices of a token in the 25 to 26 hours before its newest trade",
    responses=problem_responses(409, 422),
    openapi_extra=required_scopes("prices:read"),
)
def read_history(token_address: TokenAddress, chain: Chain, services: ServicesDep) -> PriceHistory:
    """Returns at most 60 prices, for a small plot.
    The list is empty for an unknown token.
    """
    ticks = services.price_details.history(Token(chain, token_address))
    return PriceHistory(token_address=token_address, chain=chain, points=_points(ticks))


@router.get(
    "/explain",
    operation_id="explainPrice",
    summary="How the price of a token comes about",
    responses=problem_responses(409, 422),
    openapi_extra=required_scopes("prices:read"),
)
def explain_price(token_address: TokenAddress, chain: Chain, services: ServicesDep) -> PriceExplanation:
    """Returns the windows with the times of their low and high, and the bands of prices.
    The newest trades follow: trades that count, and trades that do not count, with the reason.
    """
    price = services.price_details.explain(Token(chain, token_address))
    stats, explanation = price.stats, price.explanation
    return PriceExplanation(
        token_address=token_address,
        chain=chain,
        status=price.status,
        quote_stale=price.quote_stale,
        latest=None if stats is None else PricePoint(timestamp=from_epoch_ms(stats.time_ms), price=stats.latest),
        percent_change_1h=None if stats is None else stats.change_1h,
        percent_change_24h=None if stats is None else stats.change_24h,
        windows=[]
        if explanation is None
        else [PriceWindow.of("1h", explanation.hour), PriceWindow.of("24h", explanation.day)],
        counted_since=None if explanation is None else from_epoch_ms(explanation.horizon_ms),
        required_minutes=None if explanation is None else explanation.required_minutes,
        bands=[] if explanation is None else [PriceBand.of(band) for band in explanation.bands],
        accepted=[] if explanation is None else _points(explanation.accepted),
        unaccepted=[] if explanation is None else [*_unaccepted(price, explanation)],
    )


def _points(ticks: Iterable[Tick]) -> list[PricePoint]:
    return [PricePoint.of(tick) for tick in ticks]


def _unaccepted(price: ExplainedPrice, explanation: Explanation) -> Iterable[UnacceptedPrice]:
    latest_ms = 0 if price.stats is None else price.stats.time_ms
    minutes = {band.number: band.active_minutes for band in explanation.bands}
    for tick in explanation.unaccepted:
        number = band_of(tick[2])
        reason = (
            f"Prices from {_number(_power_of_two(number - 1))} to {_number(_power_of_two(number))} have trades in "
            f"{minutes.get(number, 0)} of the minutes that count, and {explanation.required_minutes} are needed."
        )
        point = PricePoint.of(tick)
        yield UnacceptedPrice(
            timestamp=point.timestamp,
            price=point.price,
            status="held" if tick[0] > latest_ms else "rejected",
            reason=reason,
        )


def _power_of_two(exponent: int) -> float:
    return min(ldexp(1.0, min(exponent, 1023)), sys.float_info.max)


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1 <= value < 1e15 else f"{value:g}"
