"""Reads the pipelines of a project from a server."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, TypeVar

from headwater_client import Flow, Headwater, NotFound
from headwater_client.files.desired import DesiredPipeline, ProjectFiles, key_of
from headwater_client.files.live import LiveFilter, LivePipeline, LiveState
from headwater_client.files.plan import Plan, make_plan
from headwater_client.models.deployment import Deployment
from headwater_client.models.flow_config import FlowConfig

T = TypeVar("T")
R = TypeVar("R")

PARALLEL_READS: Final = 12
MAX_SINGLE_READS: Final = 10
"""Above this number of pipelines, all configurations of the owner are listed."""
MAX_COMPARED_VALUES: Final = 100_000
"""Larger sets are not read, because their values are needed only for counting differences."""
_STATES: Final[Mapping[str, LiveState]] = {"paused": "paused", "pausing": "paused", "terminating": "none"}


def read_plan(hw: Headwater, files: ProjectFiles) -> Plan:
    """Return what is to be done so that the server has what the folder describes.

    Raises HeadwaterError and FolderError.
    """
    return make_plan(files, read_live(hw, files))


def read_live(hw: Headwater, files: ProjectFiles) -> dict[str, LivePipeline]:
    """Return the pipelines of the project, by the names of their files.

    Raises HeadwaterError.
    """
    ids = project_ids(hw, files.project)
    desired = {pipeline.key: pipeline for pipeline in files.pipelines}
    flows = _read_flows(hw, ids)
    found = in_parallel(lambda key: _read_pipeline(flows[key], key, desired.get(key)), flows, PARALLEL_READS)
    return {pipeline.key: pipeline for pipeline in found}


def project_ids(hw: Headwater, project: str) -> dict[str, str]:
    """Return the id of each configuration of a project, by the name of its file."""
    keys = ((key_of(project, item.external_id), item.id) for item in hw.flows.overview(q=f"{project}/", page_size=200))
    return {key: config_id for key, config_id in keys if key is not None}


def _read_flows(hw: Headwater, ids: Mapping[str, str]) -> dict[str, Flow]:
    """Return the configurations with these ids, by the names of their files.

    Configurations that were deleted meanwhile are left out. Many of them are read from the list of all configurations.
    """
    if len(ids) <= MAX_SINGLE_READS:
        found = in_parallel(lambda config_id: _get(hw, config_id), ids.values(), PARALLEL_READS)
        return {key: flow for key, flow in zip(ids, found, strict=True) if flow is not None}
    keys = {config_id: key for key, config_id in ids.items()}
    return {keys[flow.id]: flow for flow in hw.flows.list(page_size=100) if flow.id in keys}


def _get(hw: Headwater, config_id: str) -> Flow | None:
    try:
        return hw.flows.get(config_id)
    except NotFound:
        return None


def in_parallel(function: Callable[[T], R], items: Iterable[T], limit: int) -> list[R]:
    """Return the result of the function for each item, in order."""
    with ThreadPoolExecutor(limit) as pool:
        return list(pool.map(function, items))


def _read_pipeline(flow: Flow, key: str, desired: DesiredPipeline | None) -> LivePipeline:
    deployment = _deployment(flow)
    state: LiveState = "none" if deployment is None else _STATES.get(deployment.status, "running")
    config = flow.config
    has_failed = (
        deployment is not None
        and deployment.condition in {"RolledBack", "Failed"}
        and deployment.desired_revision == config.revision
    )
    return LivePipeline(
        id=config.id,
        key=key,
        name=config.name,
        description=config.description,
        tags=tuple(config.tags),
        config=config.pipeline_config,
        revision=config.revision,
        state=state,
        running_config=None if deployment is None or config.unreadable else _running_config(flow, deployment),
        failure=deployment.reason if deployment is not None and has_failed else "",
        filters={} if config.unreadable else _filters(flow, desired),
        unreadable=config.unreadable or "",
    )


def _deployment(flow: Flow) -> Deployment | None:
    try:
        return flow.deployment()
    except NotFound:
        return None


def _running_config(flow: Flow, deployment: Deployment) -> Mapping[str, Any] | None:
    """Return the `pipeline_config` of the revision that runs; None when it is not known."""
    if deployment.revision is None:
        return None
    if deployment.revision == flow.revision:
        return _document(flow.config)
    try:
        return _document(flow.read_revision(deployment.revision))
    except NotFound:
        return None


def _document(config: FlowConfig) -> Mapping[str, Any] | None:
    document: Mapping[str, Any] = config.pipeline_config
    return None if config.unreadable else document


def _filters(flow: Flow, desired: DesiredPipeline | None) -> dict[str, LiveFilter]:
    """Return the sets that a plan compares or removes.

    They are the sets of filters whose values the folder states, and of filters that the folder does not have.
    """
    if desired is None:
        return {}
    without_values = {transform["name"] for transform in desired.config["transforms"]} - desired.values.keys()
    named = [(each.name or f"#{number}", each) for number, each in enumerate(flow.config.pipeline.transforms, 1)]
    return {
        name: _read_filter(flow, name, transform.uid, desired)
        for name, transform in named
        if transform.type == "redis_set_filter" and name not in without_values
    }


def _read_filter(flow: Flow, name: str, uid: str, desired: DesiredPipeline) -> LiveFilter:
    filter_ = flow.filters[uid]
    counted = filter_.count()
    found = LiveFilter(uid, counted.count, counted.version, counted.digest or "")
    wanted = desired.values.get(name)
    if wanted is None or wanted.mode == "initial" or not counted.version:
        return found
    summary = wanted.summary()
    differs = (summary.count, summary.digest) != (found.count, found.digest)
    if differs and max(summary.count, found.count) <= MAX_COMPARED_VALUES:
        return replace(found, values=frozenset(filter_.values()))
    return found
