"""The common part of filters and datasets: a set of values that changes without a deploy."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from headwater_client.call import Call
from headwater_client.models.value_sets import Applied
from headwater_client.operations import iteration, operation
from headwater_client.resources.base_resource import Resource
from headwater_client.session import Session
from headwater_client.upload import Progress, Upload, ValuesInput, upload


class Written(msgspec.Struct, frozen=True):
    """The response to a write, whose count has another name in each resource."""

    count: int = 0
    added: int = 0
    removed: int = 0
    version: int = 0

    @property
    def changed(self) -> int:
        return self.count + self.added + self.removed


class ValueSet(Resource):
    """A set of values behind one path."""

    page_parameter = "count"
    """The name of the query parameter with the size of a page."""

    def __init__(self, session: Session, path: str) -> None:
        super().__init__(session)
        self._path = path

    @operation
    async def add(self, values: ValuesInput, *, progress: Progress = False, timeout: float | None = None) -> Upload:
        """Add any number of values, in batches of 250,000, five requests at once.

        Duplicates are ignored.

        >>> token.add(["0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1"])
        Upload(sent=1, changed=1, version=2, complete=1)
        """
        return await self._write("POST", values, progress, timeout)

    @operation
    async def remove(self, values: ValuesInput, *, progress: Progress = False, timeout: float | None = None) -> Upload:
        """Remove any number of values, in batches of 250,000, five requests at once.

        Unknown values are ignored.

        >>> token.remove(["0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1"]).changed
        1
        """
        return await self._write("DELETE", values, progress, timeout)

    @iteration
    async def values(self, *, page_size: int = 10_000, timeout: float | None = None) -> AsyncGenerator[str, None]:
        """Yield all values.

        A value that is in the set during the whole listing is yielded exactly once.

        >>> list(token.values())
        ['0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1']
        """
        cursor: int | str | None = None
        while True:
            query = {"cursor": cursor, self.page_parameter: page_size}
            page = await self._get(self._path, _Page, timeout, **query)
            for value in page.values:
                yield value
            if page.cursor is None:
                return
            cursor = page.cursor

    @operation
    async def applied(self, version: int | None = None, *, wait_s: int = 0, timeout: float | None = None) -> Applied:
        """Return whether every worker has read a version of the set, by default the newest one.

        Waits for that for `wait_s` seconds, at most 30.

        >>> token.applied(2, wait_s=5).applied
        True
        """
        return await self._get(f"{self._path}/applied", Applied, timeout, version=version, wait=wait_s)

    async def _write(self, method: str, values: ValuesInput, progress: Progress, timeout: float | None) -> Upload:
        async def send(batch: list[str]) -> tuple[int, int]:
            body: dict[str, Any] = {"values": batch}
            written = await self._send(Call(method, self._path, Written, body=body, timeout=timeout))
            return written.changed, written.version

        return await upload(self._session.io, values, send, progress)


class _Page(msgspec.Struct, frozen=True):
    values: list[str]
    cursor: int | str | None
