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
    """Whether a token has a price.

    Attributes:
        status: `ok`; `held` when the newest trades differ so much from the usual prices that they do not count yet;
            `stale` when the last trade is older than 7 days; `unknown_token` or `unknown_chain`.
        held_since: The time of the first trade after the last accepted one; None unless the status is `held`.
        quote_stale: Whether the latest price comes from a price of the quote token that was too old.
    """

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


class PricePoint(Model, frozen=True, kw_only=True):
    """The price of one trade, in USD."""

    timestamp: datetime
    price: float


class PriceHistory(Model, frozen=True, kw_only=True):
    """The prices of a token in the 25 to 26 hours before its newest trade, oldest first."""

    token_address: str
    chain: str
    points: list[PricePoint]


class PriceWindow(Model, frozen=True, kw_only=True):
    """The lowest and the highest price of a window, `1h` or `24h`.

    Both are None without a trade.
    """

    window: str
    start: datetime
    low: PricePoint | None
    high: PricePoint | None


class PriceBand(Model, frozen=True, kw_only=True):
    """Prices between two successive powers of two. Whether a price counts depends on its band.

    Attributes:
        active_minutes: The number of minutes with a trade in this band.
        established: Whether these are at least `PriceExplanation.required_minutes`.
        accepted: Whether the prices of the band count.
    """

    min_price: float
    max_price: float
    active_minutes: int
    established: bool
    accepted: bool
    last: PricePoint


class UnacceptedPrice(PricePoint, frozen=True, kw_only=True):
    """A trade that does not count.

    Attributes:
        status: `held` for a trade that is newer than the latest accepted one and may count later, else `rejected`.
        reason: Why the trade does not count.
    """

    status: str
    reason: str


class PriceExplanation(Model, frozen=True, kw_only=True):
    """How the statistics of a token are computed. Lists are empty for an unknown token.

    Attributes:
        counted_since: Only minutes after this time count for the bands.
        required_minutes: The minutes with trades that make a band established.
        accepted: The newest trades that count, newest first.
        unaccepted: The newest trades that do not count, newest first.
    """

    token_address: str
    chain: str
    status: str
    quote_stale: bool
    latest: PricePoint | None
    percent_change_1h: float | None
    percent_change_24h: float | None
    windows: list[PriceWindow]
    counted_since: datetime | None
    required_minutes: int | None
    bands: list[PriceBand]
    accepted: list[PricePoint]
    unaccepted: list[UnacceptedPrice]


class PricedToken(Model, frozen=True, kw_only=True):
    """A token with its statistics, which are None when it has no price.

    Attributes:
        status: `ok`, `held` or `stale`, as in `PriceStatus`.
        held_since: None unless the status is `held`.
        timestamp: The time of the last accepted trade.
        age_s: The seconds since then.
    """

    token_address: str
    chain: str
    status: str
    held_since: datetime | None
    quote_stale: bool
    timestamp: datetime | None
    age_s: float | None
    latest_price: float | None
    percent_change_1h: float | None
    percent_change_24h: float | None


class TokenList(Model, frozen=True, kw_only=True):
    """A page of tokens, sorted by chain and address.

    Attributes:
        worker_runs: Whether a prices worker runs, which stores the trades; None when it is not known.
    """

    items: list[PricedToken]
    cursor: str | None
    worker_runs: bool | None = None
