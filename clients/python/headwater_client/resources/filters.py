"""The sets of `redis_set_filter` transforms."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from headwater_client.call import Call, path
from headwater_client.models.flow_config import FlowConfig, Transform
from headwater_client.models.value_sets import FilterCount, FilterMembership, FilterPage, FilterSummary
from headwater_client.operations import Asynchronous, Synchronous, operation
from headwater_client.resources.value_set import ValueSet
from headwater_client.session import Session
from headwater_client.upload import ValuesInput, is_reiterable, streamed_body

FilterT = TypeVar("FilterT", bound="FilterOperations")


class FilterOperations(ValueSet):
    """The set of one filter. Changes take effect at once, without a deploy.

    Attributes:
        uid: The uid of the transform.
    """

    def __init__(self, session: Session, config_id: str, transform_uid: str) -> None:
        super().__init__(session, path("flow", config_id, "transforms", transform_uid, "filter-values"))
        self.uid = transform_uid

    @operation
    async def replace(self, values: ValuesInput, *, timeout: float | None = None) -> FilterCount:
        """Replace all values at once with any number of values, in one streamed request.

        The request is sent again after a failure only when the values can be iterated over twice, like a list.

        >>> token.replace(["0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1"]).count
        1
        """
        return await self._send(
            Call(
                "PUT",
                self._path,
                FilterCount,
                content=streamed_body(values),
                timeout=timeout,
                retriable=is_reiterable(values),
            )
        )

    @operation
    async def check(self, value: str, *, timeout: float | None = None) -> bool:
        """Return whether a value is in the set.

        >>> token.check("0x9F47C0DE13B5A8264E7FD09C31B6A5E80D24F7C1")
        True
        """
        return (await self._get(f"{self._path}/check", FilterMembership, timeout, value=value)).is_member

    @operation
    async def count(self, *, timeout: float | None = None) -> FilterSummary:
        """Return the number of values, the version of the set, and a digest of the values.

        >>> token.count().count
        1
        """
        return await self._get(f"{self._path}/count", FilterSummary, timeout)

    @operation
    async def page(
        self, *, cursor: int | None = None, count: int | None = None, timeout: float | None = None
    ) -> FilterPage:
        """Return one page of values; `values()` yields all of them.

        >>> token.page(count=100).total_count
        1
        """
        return await self._get(self._path, FilterPage, timeout, cursor=cursor, count=count)


class Filter(FilterOperations, Synchronous):
    """The set of one filter."""


class AsyncFilter(FilterOperations, Asynchronous):
    """The set of one filter, for asyncio."""


class Filters(Generic[FilterT]):
    """The filters of a configuration, by the name or the uid of the transform."""

    def __init__(self, session: Session, config: FlowConfig, kind: type[FilterT]) -> None:
        self._session = session
        self._config = config
        self._kind = kind

    def __getitem__(self, name: str) -> FilterT:
        for transform in self._transforms():
            if name in (transform.name, transform.uid):
                return self._kind(self._session, self._config.id, transform.uid)
        known = ", ".join(transform.name or transform.uid for transform in self._transforms()) or "none"
        raise KeyError(f"{self._config.name!r} has no filter with the name or uid {name!r}. It has: {known}.")

    def __iter__(self) -> Iterator[FilterT]:
        return (self._kind(self._session, self._config.id, transform.uid) for transform in self._transforms())

    def _transforms(self) -> list[Transform]:
        return [each for each in self._config.pipeline.transforms if each.type == "redis_set_filter"]
