"""Statistics of token prices."""

from collections.abc import AsyncGenerator, Iterable, Sequence

from headwater_client.call import path
from headwater_client.models.token_prices import (
    PricedToken,
    PriceExplanation,
    PriceHistory,
    PriceItem,
    PricePoint,
    PriceStats,
    TokenList,
)
from headwater_client.operations import Asynchronous, Synchronous, iteration, operation
from headwater_client.resources.base_resource import Resource

STATS_PATH = path("developer", "prices", "stats")


class PricesOperations(Resource):
    """Statistics of token prices."""

    @operation
    async def stats(self, tokens: Iterable[tuple[str, str]], *, timeout: float | None = None) -> PriceStats:
        """Return the statistics of 1 to 200 tokens, each given by its address and its chain.

        >>> stats = hw.prices.stats([("0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1", "base")])
        >>> stats.items[0].latest_price, stats.items[0].percent_change_24h
        (99.0, None)
        """
        return await self._post(STATS_PATH, PriceStats, _body(tokens), timeout)

    @operation
    async def get(self, token_address: str, chain: str, *, timeout: float | None = None) -> PriceItem | None:
        """Return the statistics of one token; None when it has no price.

        >>> hw.prices.get("0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1", "base").decimals
        18
        """
        stats = await self._post(STATS_PATH, PriceStats, _body([(token_address, chain)]), timeout)
        return stats.items[0] if stats.items else None

    @iteration
    async def tokens(
        self, query: str | None = None, *, page_size: int | None = None, timeout: float | None = None
    ) -> AsyncGenerator[PricedToken, None]:
        """Yield the tokens that had trades lately, with their statistics.

        They are sorted by chain and address.

        Args:
            query: The beginning of the addresses, or of `<chain>:<address>`.
            page_size: The number of tokens of each request, up to 200.

        >>> [token.latest_price for token in hw.prices.tokens("0x9f")]
        [99.0]
        """
        parameters = {"q": query, "limit": page_size}
        async for token in self._items(path("developer", "prices", "tokens"), TokenList, parameters, timeout):
            yield token

    @operation
    async def history(self, token_address: str, chain: str, *, timeout: float | None = None) -> Sequence[PricePoint]:
        """Return the prices of a token in the 25 to 26 hours before its newest trade.

        There are at most 60, oldest first.

        >>> hw.prices.history("0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1", "base")[-1].price
        99.0
        """
        query = {"token_address": token_address, "chain": chain}
        return (await self._get(path("developer", "prices", "history"), PriceHistory, timeout, **query)).points

    @operation
    async def explain(self, token_address: str, chain: str, *, timeout: float | None = None) -> PriceExplanation:
        """Return how the statistics of a token are computed: its windows, bands and newest trades.

        >>> hw.prices.explain("0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1", "base").unaccepted[0].status
        'held'
        """
        query = {"token_address": token_address, "chain": chain}
        return await self._get(path("developer", "prices", "explain"), PriceExplanation, timeout, **query)


def _body(tokens: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"token_address": address, "chain": chain} for address, chain in tokens]


class Prices(PricesOperations, Synchronous):
    """Statistics of token prices."""


class AsyncPrices(PricesOperations, Asynchronous):
    """Statistics of token prices, for asyncio."""
