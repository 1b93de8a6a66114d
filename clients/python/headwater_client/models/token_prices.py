"""Statistics of token prices."""

from datetime import datetime

from headwater_client.model import Model


class PriceItem(Model, frozen=True, kw_only=True):
    """The prices of a token in USD, and their changes in percent.

    Attributes:
        mint: The address of the token.
        timestamp: The time of the last trade.
        percent_change_24h: None when there was no price 24 h ago.
        percent_change_1h: None when there was no price 1 h ago.
    """

    mint: str
    chain: str
    timestamp: datetime
    latest_price: float
    low_24h: float
    high_24h: float
    low_1h: float
    high_1h: float
    percent_change_24h: float | None
    percent_change_1h: float | None
    decimals: int


class PriceStatus(Model, frozen=True, kw_only=True):
    """Whether a token has a price: `ok`, `held`, `stale`, `unknown_token` or `unknown_chain`."""

    token_address: str
    chain: str
    status: str
    held_since: datetime | None = None
    quote_stale: bool | None = None


class PriceStats(Model, frozen=True, kw_only=True):
    """The price statistics of the requested tokens, in the order of the request."""

    items: list[PriceItem]
    message: str
    statuses: list[PriceStatus] = []
    cursor: str | None = None
