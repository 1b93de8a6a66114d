"""Quotas: how much an owner, and all owners together, may have."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from headwater.model.dataset import SetId
from headwater.model.stored import read_config, stored_object

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
Allowed = Mapping[QuotaName, int | None]
"""What an owner may have; None means any number."""


@dataclass(frozen=True, slots=True)
class QuotaDefaults:
    """Quotas of the settings: of each owner without one of its own, and of all owners together. Missing: no quota."""

    per_owner: Mapping[QuotaName, int] = field(default_factory=dict)
    total: Mapping[QuotaName, int] = field(default_factory=dict)

    def allowed(self, own: Allowed) -> dict[QuotaName, int | None]:
        """What an owner may have, who has these quotas of its own."""
        return {name: own[name] if name in own else self.per_owner.get(name) for name in QUOTA_NAMES}


NO_QUOTAS = QuotaDefaults()


@dataclass(frozen=True, slots=True)
class Content:
    """What a stored revision counts for. workers: the largest number of workers that it may run."""

    stored_bytes: int
    script_bytes: int
    workers: int
    filter_uids: tuple[str, ...]


def content_of(config: str, *texts: str) -> Content:
    """What a revision counts for. config: its pipeline_config as it is stored, in JSON; texts: what is stored beside.

    The text is read leniently: a configuration that this version cannot read counts too.
    """
    read = stored_object(config)
    transforms = read_config(config).known_transforms
    parallelism = read.get("parallelism", 1)
    workers = parallelism.get("max") if isinstance(parallelism, dict) else parallelism
    return Content(
        stored_bytes=sum(_size(text) for text in (config, *texts)),
        script_bytes=sum(_size(one.content) for one in transforms if one.type == "v8"),
        workers=workers if isinstance(workers, int) else 1,
        filter_uids=tuple(one.uid for one in transforms if one.type == "redis_set_filter"),
    )


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Reservation:
    """Values that a write under way may still add to a set.

    until: epoch seconds; later it counts no more, since its writer is gone. written: the values are in the set
    already, which is not known yet to be the owner's: the reservation counts until it is.
    """

    id: str
    owner: str
    target: SetId
    values: int
    until: float
    written: bool = False


@dataclass(frozen=True, slots=True)
class Excess:
    """A quota that a change would exceed. of_all: the quota of all owners together."""

    name: QuotaName
    used: int
    wanted: int
    allowed: int
    of_all: bool = False


def excess(
    before: Usage, after: Usage, allowed: Mapping[QuotaName, int | None], *, of_all: bool = False
) -> Excess | None:
    """The first quota that a change exceeds. What does not grow is never refused, also where a quota was lowered."""
    for name, wanted in after.items():
        limit = allowed.get(name)
        if limit is not None and wanted > limit and wanted > before[name]:
            return Excess(name, before[name], wanted, limit, of_all)
    return None
