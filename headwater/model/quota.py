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
    """The quotas in the settings, for each owner without its own quota and for all owners together; missing: none."""

    per_owner: Mapping[QuotaName, int] = field(default_factory=dict)
    total: Mapping[QuotaName, int] = field(default_factory=dict)

    def allowed(self, own: Allowed) -> dict[QuotaName, int | None]:
        """The quotas of an owner. own: the quotas that were set for this owner alone."""
        return {name: own[name] if name in own else self.per_owner.get(name) for name in QUOTA_NAMES}


NO_QUOTAS = QuotaDefaults()


@dataclass(frozen=True, slots=True)
class Content:
    """The usage of a stored revision. workers: the largest number of workers that it may run."""

    stored_bytes: int
    script_bytes: int
    workers: int
    filter_uids: tuple[str, ...]


def content_of(config: str, *texts: str) -> Content:
    """The usage of a revision. config: The stored pipeline_config, in JSON. texts: The other stored texts.

    A configuration that this version can't read counts too.
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


def quotas_of_save(saved: Content, replaced_bytes: int) -> tuple[QuotaName, ...]:
    """The quotas that a save is subject to. replaced_bytes: The stored bytes of the revision that it replaces.

    A revision that is not larger passes the quota of stored bytes, although the replaced one is kept for a while: an
    owner at the quota could not save anything smaller otherwise.
    """
    return ("stored_bytes", "script_bytes") if saved.stored_bytes > replaced_bytes else ("script_bytes",)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Reservation:
    """Values that a running write may still add to a set.

    until: Epoch seconds after which the reservation has expired. written: The values are in the set, whose owner is not
    recorded yet; the reservation counts until then.
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
    """The first quota that a change exceeds. A change that lowers the usage never exceeds a quota."""
    for name, wanted in after.items():
        limit = allowed.get(name)
        if limit is not None and wanted > limit and wanted > before[name]:
            return Excess(name, before[name], wanted, limit, of_all)
    return None
