"""The base of all resources."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol, TypeVar

from headwater_client.call import Call
from headwater_client.session import Session

T = TypeVar("T")


class PageOf(Protocol[T]):
    """One page of a list."""

    @property
    def items(self) -> list[T]: ...

    @property
    def cursor(self) -> str | None: ...


class Resource:
    """Sends calls through the session that all objects of a client share."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def _send(self, call: Call[T], deploy_wait_s: float | None = None) -> T:
        return await self._session.send(call, deploy_wait_s)

    async def _get(self, path: str, result: type[T], timeout: float | None = None, **query: Any) -> T:
        return await self._send(Call("GET", path, result, query, timeout=timeout))

    async def _post(
        self,
        path: str,
        result: type[T],
        body: Any = None,
        timeout: float | None = None,
        deploy_wait_s: float | None = None,
    ) -> T:
        return await self._send(Call("POST", path, result, body=body, timeout=timeout), deploy_wait_s)

    async def _items(
        self, path: str, page_type: type[PageOf[T]], query: Mapping[str, Any], timeout: float | None
    ) -> AsyncGenerator[T, None]:
        """Yield the items of all pages."""
        cursor: str | None = None
        while True:
            page = await self._get(path, page_type, timeout, **query, cursor=cursor)
            for item in page.items:
                yield item
            if page.cursor is None:
                return
            cursor = page.cursor
