"""Statistics of token prices."""

from collections.abc import Iterable

from headwater_client.call import path
from headwater_client.models.token_prices import PriceItem, PriceStats
from headwater_client.operations import Asynchronous, Synchronous, operation
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


def _body(tokens: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"token_address": address, "chain": chain} for address, chain in tokens]


class Prices(PricesOperations, Synchronous):
    """Statistics of token prices."""


class AsyncPrices(PricesOperations, Asynchronous):
    """Statistics of token prices, for asyncio."""
