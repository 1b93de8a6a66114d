"""The sets of filters and datasets."""

from datetime import datetime

from headwater_client.model import Model


class FilterPage(Model, frozen=True, kw_only=True):
    """One page of the values of a filter."""

    values: list[str]
    cursor: int | None
    total_count: int


class FilterMembership(Model, frozen=True, kw_only=True):
    """Whether a value is in a filter."""

    value: str
    is_member: bool


class FilterCount(Model, frozen=True, kw_only=True):
    """The number of values in a filter.

    Attributes:
        version: The version of the set.
    """

    count: int
    version: int = 0


class FilterSummary(FilterCount, frozen=True, kw_only=True):
    """The number of values in a filter, and their digest.

    Attributes:
        digest: Equal for equal sets; None when the server does not compute it.
    """

    digest: str | None = None


class ValuesAdded(Model, frozen=True, kw_only=True):
    """How many values a request has added."""

    added: int
    version: int = 0


class ValuesRemoved(Model, frozen=True, kw_only=True):
    """How many values a request has removed."""

    removed: int
    version: int = 0


class AppliedWorker(Model, frozen=True, kw_only=True):
    """A worker, and the version of the set that it has read last."""

    name: str
    version: int | None


class Applied(Model, frozen=True, kw_only=True):
    """Whether every worker has read a version of a set.

    Attributes:
        workers: Empty while the pipeline has no workers, for example while it is paused.
    """

    version: int
    applied: bool
    workers: list[AppliedWorker]


class DatasetInfo(Model, frozen=True, kw_only=True):
    """A dataset, without its values."""

    id: str
    name: str
    created_at: datetime
    updated_at: datetime
    type: str = "redis"


class EntriesPage(Model, frozen=True, kw_only=True):
    """One page of the values of a dataset."""

    values: list[str]
    cursor: str | None
    total_count: int


class EntriesWritten(Model, frozen=True, kw_only=True):
    """How many values a write has changed."""

    count: int
    version: int = 0


class DatasetMembership(Model, frozen=True, kw_only=True):
    """Whether a value is in a dataset."""

    exists: bool
