"""The streams that pipelines can read."""

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import TypeAlias

from headwater_client.call import path
from headwater_client.models.catalog import Stream
from headwater_client.models.records import Record, Records
from headwater_client.operations import Asynchronous, Synchronous, iteration, operation
from headwater_client.resources.base_resource import Resource
from headwater_client.tail import OnOpen, OnSkipped, TailHooks, tail

RecordList: TypeAlias = list[Record]


class StreamsOperations(Resource):
    """The streams of the catalog."""

    @operation
    async def list(self, *, timeout: float | None = None) -> list[Stream]:
        """Return all streams, each with its schema and an example record.

        >>> [(stream.chain, stream.entity) for stream in hw.streams.list()]
        [('base', 'log')]
        """
        return await self._get(path("flow", "streams"), list[Stream], timeout)

    @operation
    async def records(
        self,
        chain: str,
        entity: str,
        *,
        limit: int = 10,
        start: datetime | str | None = None,
        zerolag: bool = False,
        timeout: float | None = None,
    ) -> RecordList:
        """Return the newest records of a stream, oldest first.

        With `start`, return the first ones from that time on.

        >>> [item.record["address"] for item in hw.streams.records("base", "log", limit=1)]
        ['0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1']
        """
        query = {"limit": limit, "from": start, "zerolag": zerolag}
        return (await self._get(path("flow", "streams", chain, entity, "records"), Records, timeout, **query)).items

    @iteration
    async def tail(
        self,
        chain: str,
        entity: str,
        *,
        zerolag: bool = False,
        on_open: OnOpen | None = None,
        on_skipped: OnSkipped | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Record, None]:
        """Yield the records that are appended to a stream from now on, at most 200 per second.

        >>> with hw.streams.tail("base", "log") as items:
        ...     next(items).offset
        4711
        """
        address = path("flow", "streams", chain, entity, "records", "tail")
        async for record in tail(self._session, address, {"zerolag": zerolag}, TailHooks(on_open, on_skipped), timeout):
            yield record


class Streams(StreamsOperations, Synchronous):
    """The streams of the catalog."""


class AsyncStreams(StreamsOperations, Asynchronous):
    """The streams of the catalog, for asyncio."""
