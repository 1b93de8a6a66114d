"""Datasets: named sets in which scripts look values up."""

from collections.abc import AsyncGenerator, Sequence
from typing import Generic, TypeVar

from headwater_client.call import Call, path
from headwater_client.links import next_cursor
from headwater_client.models.value_sets import DatasetInfo, DatasetMembership, EntriesPage, EntriesWritten
from headwater_client.operations import Asynchronous, Synchronous, iteration, operation
from headwater_client.resources.base_resource import Resource
from headwater_client.resources.value_set import ValueSet
from headwater_client.session import Session, typed
from headwater_client.upload import Progress, Upload, ValuesInput, upload

DatasetT = TypeVar("DatasetT", bound="DatasetOperations")


class DatasetOperations(ValueSet):
    """A dataset. Changes take effect at once in all scripts.

    Attributes:
        info: Its id, name and times.
    """

    page_parameter = "limit"

    def __init__(self, session: Session, info: DatasetInfo) -> None:
        super().__init__(session, path("flow", "datasets", info.id, "entries"))
        self.info = info

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def name(self) -> str:
        return self.info.name

    @operation
    async def check(self, value: str, *, timeout: float | None = None) -> bool:
        """Return whether a value is in the dataset.

        >>> watched.check("0x5c1a7f03d2b84e6990aa41c7d3f0b6e2918c4d57")
        True
        """
        return (await self._get(f"{self._path}/check", DatasetMembership, timeout, value=value)).exists

    @operation
    async def page(
        self, *, cursor: str | None = None, limit: int | None = None, timeout: float | None = None
    ) -> EntriesPage:
        """Return one page of values; `values()` yields all of them.

        >>> watched.page(limit=100).total_count
        1
        """
        return await self._get(self._path, EntriesPage, timeout, cursor=cursor, limit=limit)

    @operation
    async def delete(self, *, timeout: float | None = None) -> None:
        """Delete the dataset. Scripts that use it fail from then on.

        >>> watched.delete()
        """
        await self._send(Call("DELETE", path("flow", "datasets", self.id), type(None), timeout=timeout))


class DatasetsOperations(Resource, Generic[DatasetT]):
    """The datasets of the API key's owner."""

    def __init__(self, session: Session, kind: type[DatasetT]) -> None:
        super().__init__(session)
        self._kind = kind

    @operation
    async def create(self, name: str, *, timeout: float | None = None) -> DatasetT:
        """Create an empty dataset.

        >>> hw.datasets.create("watched").name
        'watched'
        """
        return self._bind(await self._post(path("flow", "datasets"), DatasetInfo, {"name": name}, timeout))

    @operation
    async def get(self, dataset_id: str, *, timeout: float | None = None) -> DatasetT:
        """Return the dataset with this id. Raises NotFound.

        >>> hw.datasets.get("01ke0a4gt1n6b8y2kf5s7pm3xc").name
        'watched'
        """
        return self._bind(await self._get(path("flow", "datasets", dataset_id), DatasetInfo, timeout))

    @operation
    async def find(self, name: str, *, timeout: float | None = None) -> DatasetT | None:
        """Return the dataset with this name; None when there is none.

        >>> hw.datasets.find("watched").id
        '01ke0a4gt1n6b8y2kf5s7pm3xc'
        """
        found = await self._get(path("flow", "datasets"), list[DatasetInfo], timeout, names=[name])
        return self._bind(found[0]) if found else None

    @iteration
    async def list(
        self, names: Sequence[str] = (), *, page_size: int = 100, timeout: float | None = None
    ) -> AsyncGenerator[DatasetT, None]:
        """Yield the datasets, newest first.

        >>> [dataset.name for dataset in hw.datasets.list()]
        ['watched']
        """
        cursor: str | None = None
        while True:
            query = {"names": tuple(names), "limit": page_size, "cursor": cursor}
            call = Call("GET", path("flow", "datasets"), list[DatasetInfo], query, timeout=timeout)
            page = await self._session.send_raw(call)
            for info in typed(page.body, call):
                yield self._bind(info)
            cursor = next_cursor(page.headers)
            if cursor is None:
                return

    @operation
    async def add_entries(
        self, name: str, values: ValuesInput, *, progress: Progress = False, timeout: float | None = None
    ) -> Upload:
        """Add any number of values to the dataset with this name. Raises NotFound.

        >>> hw.datasets.add_entries("watched", ["0x5c1a7f03d2b84e6990aa41c7d3f0b6e2918c4d57"]).changed
        1
        """

        async def send(batch: ValuesInput) -> tuple[int, int]:
            body = {"name": name, "values": batch}
            written = await self._post(path("flow", "datasets", "entries"), EntriesWritten, body, timeout)
            return written.count, written.version

        return await upload(self._session.io, values, send, progress)

    def _bind(self, info: DatasetInfo) -> DatasetT:
        return self._kind(self._session, info)


class Dataset(DatasetOperations, Synchronous):
    """A dataset."""


class AsyncDataset(DatasetOperations, Asynchronous):
    """A dataset, for asyncio."""


class Datasets(DatasetsOperations[Dataset], Synchronous):
    """The datasets of the API key's owner."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, Dataset)


class AsyncDatasets(DatasetsOperations[AsyncDataset], Asynchronous):
    """The datasets of the API key's owner, for asyncio."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, AsyncDataset)
