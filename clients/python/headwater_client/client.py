"""The clients, from which all resources are reached."""

from collections.abc import AsyncGenerator, Sequence
from types import TracebackType
from typing import Self

import httpx2

from headwater_client.call import Call, path
from headwater_client.connection import find_connection, verification
from headwater_client.input_output import AsyncioInputOutput, BlockingInputOutput
from headwater_client.models.account import ApiKey, NewApiKey, Quota, Quotas, Readiness
from headwater_client.models.records import Record
from headwater_client.operations import Asynchronous, Synchronous, iteration, operation, run
from headwater_client.resources.base_resource import Resource
from headwater_client.resources.datasets import AsyncDatasets, Datasets
from headwater_client.resources.flows import AsyncFlows, Flows
from headwater_client.resources.prices import AsyncPrices, Prices
from headwater_client.resources.streams import AsyncStreams, Streams
from headwater_client.session import DEFAULT_RETRIES, DEFAULT_TIMEOUT_S, RequestPolicy, Session
from headwater_client.tail import OnOpen, OnSkipped, TailHooks, tail


class HeadwaterOperations(Resource):
    """The operations of both clients."""

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._session.connection.url

    @operation
    async def me(self, *, timeout: float | None = None) -> ApiKey:
        """Return the owner, the id, the scopes and the expiry of the API key.

        >>> hw.me().owner
        'ann'
        """
        return await self._get(path("flow", "me"), ApiKey, timeout)

    @operation
    async def sign_in(self, code: str, *, timeout: float | None = None) -> NewApiKey:
        """Exchange a one-time code for a new API key that is valid for 12 hours.

        The code is in a link that `headwater up` and `headwater keys sign-in-link` print. This client keeps its own
        key. Raises Unauthenticated when the code is not valid.

        >>> hw.sign_in("hZ3l0sX1c5oQy8RkPq2vTn7bWm4Dg6Fj9JtEuKxAiLs").owner
        'local'
        """
        return await self._send(
            Call("POST", path("flow", "sign-in"), NewApiKey, body={"code": code}, timeout=timeout, retriable=False)
        )

    @operation
    async def sign_out(self, *, timeout: float | None = None) -> None:
        """Revoke the API key of this client, if `sign_in` has returned this key.

        Raises Conflict for any other key.

        >>> hw.sign_out()
        """
        await self._send(Call("DELETE", path("flow", "sign-in"), dict[str, str], timeout=timeout))

    @operation
    async def limits(self, *, timeout: float | None = None) -> Sequence[Quota]:
        """Return the usage and the limit of each quota.

        >>> [(quota.name, quota.used, quota.allowed) for quota in hw.limits()]
        [('configurations', 12, 100)]
        """
        return (await self._get(path("flow", "limits"), Quotas, timeout)).limits

    @operation
    async def readiness(self, *, timeout: float | None = None) -> Readiness:
        """Return whether the server is ready, and the state of each service that it needs.

        Raises Unavailable when it is not ready; the problem's detail names the services.

        >>> hw.readiness().dependencies["broker"]
        'ok'
        """
        return await self._send(Call("GET", "/readyz", Readiness, timeout=timeout, retriable=False))

    @iteration
    async def tail(
        self,
        *of: str,
        on_open: OnOpen | None = None,
        on_skipped: OnSkipped | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Record, None]:
        """Yield the new records of up to 10 streams and sinks.

        `Record.of` names the stream or sink of a record.

        Args:
            of: `<chain>/<entity>`, `<chain>/<entity>.zerolag`, `<config id>/<sink>` or `<config id>/dlq`.
            on_open: Called when a connection is open: records that are appended from then on are shown.
            on_skipped: Called with a Skipped, whose `count` is the number of records that are not shown, because they
                are too many.
            timeout: The seconds to wait for each connection.

        >>> with hw.tail("base/log") as items:
        ...     next(items).record["address"]
        '0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1'
        """
        hooks = TailHooks(on_open, on_skipped)
        async for record in tail(self._session, path("flow", "tail"), {"of": list(of)}, hooks, timeout):
            yield record


class Headwater(HeadwaterOperations, Synchronous):
    """The client.

    Attributes:
        flows: The pipelines.
        datasets: The datasets.
        streams: The streams that pipelines read.
        prices: Statistics of token prices.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        profile: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        http: httpx2.Client | None = None,
    ) -> None:
        """Find the server and the API key. Raises ConfigurationError.

        Args:
            url: The address of the server; by default `HEADWATER_URL`, or else the profile's, or else this machine's.
            key: The API key; by default `HEADWATER_KEY`, or else the profile's, or else the one of the installation in
                the current folder.
            profile: A profile of `~/.config/headwater/config.toml`, which takes precedence over both variables.
            timeout: The seconds to wait for a response.
            retries: How often a request is sent again after 429, 503 and broken connections.
            http: The HTTP client that sends the requests, for a proxy or certificates of your own.
        """
        connection = find_connection(url, key, profile)
        io = BlockingInputOutput(http or httpx2.Client(verify=verification(connection.url)))
        super().__init__(Session(connection, io, RequestPolicy(timeout, retries)))
        self.flows = Flows(self._session)
        self.datasets = Datasets(self._session)
        self.streams = Streams(self._session)
        self.prices = Prices(self._session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        run(self._session.io.close())


class AsyncHeadwater(HeadwaterOperations, Asynchronous):
    """The client for asyncio. Its methods have the names of Headwater's, and are coroutines.

    Attributes:
        flows: The pipelines.
        datasets: The datasets.
        streams: The streams that pipelines read.
        prices: Statistics of token prices.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        profile: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        """Find the server and the API key. The arguments have the meanings of Headwater's."""
        connection = find_connection(url, key, profile)
        io = AsyncioInputOutput(http or httpx2.AsyncClient(verify=verification(connection.url)))
        super().__init__(Session(connection, io, RequestPolicy(timeout, retries)))
        self.flows = AsyncFlows(self._session)
        self.datasets = AsyncDatasets(self._session)
        self.streams = AsyncStreams(self._session)
        self.prices = AsyncPrices(self._session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._session.io.close()
