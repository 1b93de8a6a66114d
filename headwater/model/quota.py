"""Quotas: limits on the usage of an owner, and of all owners together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from headwater.model.stored_config import read_pipeline_config, stored_object
from headwater.model.transforms import SCRIPT_TYPES, SET_TYPES
from headwater.model.value_sets import SetId

QuotaName = Literal[
    "configurations", "stored_bytes", "script_bytes", "deployments", "workers", "datasets", "set_values"
]
QUOTA_NAMES: tuple[QuotaName, ...] = get_args(QuotaName)

QUOTA_MEANINGS: Mapping[QuotaName, str] = {
    "configurations": "configurations that are not deleted",
    "stored_bytes": "bytes of configurations, each counted with its largest stored revision",
    "script_bytes": "bytes of the scripts in the newest revisions of configurations",
    "deployments": "deployments (each counts until its teardown has ended)",
    "workers": "workers of deployments (`parallelism` of what is deployed, or its `max`)",
    "datasets": "datasets",
    "set_values": "values of filters and datasets, including the values that are kept after a filter was removed",
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
        """Return the quotas of an owner, given the quotas `own` that were set for this owner."""
        return {name: own[name] if name in own else self.per_owner.get(name) for name in QUOTA_NAMES}


NO_QUOTAS = QuotaDefaults()


@dataclass(frozen=True, slots=True)
class RevisionUsage:
    """The amounts that a stored revision adds to the usage of quotas.

    Attributes:
        stored_bytes: The bytes of the stored texts.
        script_bytes: The bytes of the scripts.
        workers: The maximum number of workers.
        filter_uids: The uids of the filters.
    """

    stored_bytes: int
    script_bytes: int
    workers: int
    filter_uids: tuple[str, ...]


def revision_usage(config_json: str, *texts: str) -> RevisionUsage:
    """Return the usage of a revision, even when this version can't read the revision.

    Args:
        config_json: The stored pipeline_config, as JSON.
        texts: The other stored texts.
    """
    identities = read_pipeline_config(config_json).transform_identities
    return RevisionUsage(
        stored_bytes=sum(_size(text) for text in (config_json, *texts)),
        script_bytes=sum(_size(identity.content) for identity in identities if identity.type in SCRIPT_TYPES),
        workers=_max_workers(config_json),
        filter_uids=tuple(identity.uid for identity in identities if identity.type in SET_TYPES),
    )


def _max_workers(config_json: str) -> int:
    parallelism = stored_object(config_json).get("parallelism", 1)
    workers = parallelism.get("max") if isinstance(parallelism, dict) else parallelism
    return workers if isinstance(workers, int) else 1


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Reservation:
    """Values that a write may add to a set, and that are not yet counted as usage of the set.

    They count towards the quota of the owner.

    Attributes:
        id: The id of the reservation.
        owner: The owner of the set.
        target: The set.
        values: The number of values.
        until: When the reservation expires, in seconds since the epoch.
        written: Whether the values are in the set already. The reservation is kept until the database has stored who
            owns the set. Only then do the values of the set count as usage.
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

    Attributes:
        name: The name of the quota.
        used: The usage before the change.
        wanted: The usage after the change.
        limit: The quota.
        is_total: Whether the quota is the quota of all owners together.
    """

    name: QuotaName
    used: int
    wanted: int
    limit: int
    is_total: bool = False


def find_excess(
    before: Usage, after: Usage, limits: Mapping[QuotaName, int | None], *, is_total: bool = False
) -> Excess | None:
    """Return the first quota that a change would exceed; None when it would exceed none.

    Only a change that raises the usage can exceed a quota.
    """
    for name, wanted in after.items():
        limit = limits.get(name)
        if limit is not None and wanted > limit and wanted > before[name]:
            return Excess(name, before[name], wanted, limit, is_total)
    return None
