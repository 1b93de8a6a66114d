"""Quotas: limits on the usage of an owner, and of all owners together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from headwater.model.stored_config import read_config, stored_object
from headwater.model.transforms import SCRIPT_TYPES, SET_TYPES
from headwater.model.value_sets import SetId

QuotaName = Literal[
    "configurations", "stored_bytes", "script_bytes", "deployments", "workers", "datasets", "set_values"
]
QUOTA_NAMES: tuple[QuotaName, ...] = get_args(QuotaName)

MEANINGS: Mapping[QuotaName, str] = {
    "configurations": "configurations that are not deleted",
    "stored_bytes": "bytes of all stored revisions of configurations",
    "script_bytes": "bytes of the scripts in the newest revisions of configurations",
    "deployments": "deployments, until their teardown has ended",
    "workers": "workers of deployments (`parallelism` of what is deployed)",
    "datasets": "datasets",
    "set_values": "values of filters and datasets, those of filters that are kept after their removal included",
}

Usage = Mapping[QuotaName, int]
Limits = Mapping[QuotaName, int | None]
"""The quotas of an owner; None means no limit."""


@dataclass(frozen=True, slots=True)
class QuotaDefaults:
    """The quotas in the settings. A missing name means no limit.

    Attributes:
        per_owner: The quotas of each owner, unless the owner has a quota of its own.
        total: The quotas of all owners together.
    """

    per_owner: Mapping[QuotaName, int] = field(default_factory=dict)
    total: Mapping[QuotaName, int] = field(default_factory=dict)

    def limits(self, own: Limits) -> dict[QuotaName, int | None]:
        """Return the quotas of an owner. `own` has the quotas that were set for this owner."""
        return {name: own[name] if name in own else self.per_owner.get(name) for name in QUOTA_NAMES}


NO_QUOTAS = QuotaDefaults()


@dataclass(frozen=True, slots=True)
class RevisionUsage:
    """The usage of a stored revision. `workers` is the maximum number of its workers."""

    stored_bytes: int
    script_bytes: int
    workers: int
    filter_uids: tuple[str, ...]


def revision_usage(config: str, *texts: str) -> RevisionUsage:
    """Return the usage of a revision, even if this version can't read it.

    `config` is the stored pipeline_config, as JSON; `texts` are the other stored texts.
    """
    read = stored_object(config)
    transforms = read_config(config).transform_identities
    parallelism = read.get("parallelism", 1)
    workers = parallelism.get("max") if isinstance(parallelism, dict) else parallelism
    return RevisionUsage(
        stored_bytes=sum(_size(text) for text in (config, *texts)),
        script_bytes=sum(_size(one.content) for one in transforms if one.type in SCRIPT_TYPES),
        workers=workers if isinstance(workers, int) else 1,
        filter_uids=tuple(one.uid for one in transforms if one.type in SET_TYPES),
    )


def quotas_of_save(saved: RevisionUsage, replaced_bytes: int) -> tuple[QuotaName, ...]:
    """Return the quotas that a save is subject to.

    `replaced_bytes` are the stored bytes of the replaced revision. A revision that is not larger than the replaced one
    is not subject to the quota of stored bytes. Both are stored for a while, so otherwise an owner at the quota could
    not even save a smaller revision.
    """
    return ("stored_bytes", "script_bytes") if saved.stored_bytes > replaced_bytes else ("script_bytes",)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Reservation:
    """Values that a write in progress may still add to a set.

    They count towards the quota of the owner.

    Attributes:
        target: The set.
        until: The reservation expires at this time, in epoch seconds.
        written: Whether the values are already in the set, while the set is not recorded for its owner yet. The
            reservation counts until it is recorded.
    """

    id: str
    owner: str
    target: SetId
    values: int
    until: float
    written: bool = False


@dataclass(frozen=True, slots=True)
class Excess:
    """A quota that a change would exceed.

    `of_all` says whether it is the quota of all owners together.
    """

    name: QuotaName
    used: int
    wanted: int
    limit: int
    of_all: bool = False


def excess(
    before: Usage, after: Usage, limits: Mapping[QuotaName, int | None], *, of_all: bool = False
) -> Excess | None:
    """Return the first quota that a change exceeds, or None.

    A change that lowers the usage never exceeds a quota.
    """
    for name, wanted in after.items():
        limit = limits.get(name)
        if limit is not None and wanted > limit and wanted > before[name]:
            return Excess(name, before[name], wanted, limit, of_all)
    return None
