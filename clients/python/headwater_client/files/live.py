"""The pipelines of a project as a server has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

LiveState = Literal["none", "running", "paused"]


@dataclass(frozen=True, slots=True)
class LiveFilter:
    """The set of a filter.

    Attributes:
        uid: The uid of the transform.
        count: The number of values.
        version: The version of the set; 0 when nothing was ever written to it.
        digest: See `values.summarise`; empty when the server does not state it.
        values: All values; None when they were not read.
    """

    uid: str
    count: int
    version: int
    digest: str = ""
    values: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class LivePipeline:
    """A pipeline of the project.

    Attributes:
        id: The id of the configuration.
        key: The name of its file.
        config: The saved `pipeline_config`.
        revision: The saved revision.
        state: Whether it is deployed, and whether it processes records.
        running_config: The `pipeline_config` that is deployed; None when nothing is deployed, or it is not known.
        failure: Why the rollout of the saved revision failed; empty when it did not fail, or was not requested.
        filters: The sets of the filters of the saved revision, by the name of the transform.
        unreadable: Why the server can't read what it has stored; empty when it can.
    """

    id: str
    key: str
    name: str
    description: str
    tags: tuple[str, ...]
    config: Mapping[str, Any]
    revision: int
    state: LiveState = "none"
    running_config: Mapping[str, Any] | None = None
    failure: str = ""
    filters: Mapping[str, LiveFilter] = field(default_factory=dict)
    unreadable: str = ""


def canonical(config: Mapping[str, Any], *, with_source_type: bool) -> dict[str, Any]:
    """Return a pipeline_config with all defaults and without members that only servers set.

    Two configurations mean the same when their canonical forms are equal.

    Args:
        with_source_type: Whether the type of the source is kept. Files may omit it, because the chain determines it.
    """
    source = {"is_zerolag": False, "start_at": "latest", **_without_none(config["source"])}
    if source["start_at"] not in ("latest", "earliest"):
        source["start_at"] = source["start_at"].upper()
    if not with_source_type:
        source.pop("type", None)
    return {
        "source": source,
        "transforms": [_without(transform, "set_values") for transform in config.get("transforms") or ()],
        "sinks": [_without_none(sink) for sink in config["sinks"]],
        "parallelism": config.get("parallelism") or 1,
        "delivery": config.get("delivery") or "at_least_once",
    }


def _without_none(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None and name not in ("uid", "warnings")}


def _without(members: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in _without_none(members).items() if name not in names}
