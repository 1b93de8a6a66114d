"""A server in memory, whose filters keep their values as on a real server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater_client.files.desired import ProjectFiles
from headwater_client.files.live import LiveFilter, LivePipeline, LiveState
from headwater_client.files.plan import PipelinePlan, Plan, make_plan, renamed_transforms
from headwater_client.files.values import summarise


@dataclass
class _Set:
    values: set[str] = field(default_factory=set)
    version: int = 0


@dataclass
class _Stored:
    id: str
    body: dict[str, Any]
    revision: int = 1
    state: LiveState = "none"
    running: Mapping[str, Any] | None = None
    sets: dict[str, _Set] = field(default_factory=dict)


class Server:
    """The pipelines of one project."""

    def __init__(self) -> None:
        self._stored: dict[str, _Stored] = {}
        self._next_id = 0

    def live(self) -> dict[str, LivePipeline]:
        """Return what a client reads."""
        return {key: self._live_pipeline(key, stored) for key, stored in self._stored.items()}

    def plan(self, files: ProjectFiles) -> Plan:
        return make_plan(files, self.live())

    def apply(self, plan: Plan, *, prune: bool = False, steps: int | None = None) -> None:
        """Make the changes of a plan; with `steps`, only this number of requests is sent."""
        requests = [request for each in plan.pipelines for request in self._requests(each, prune=prune)]
        for request in requests[:steps]:
            request()

    def state(self) -> dict[str, tuple[Any, ...]]:
        """Return what the pipelines are."""
        return {
            key: (stored.body, stored.state, stored.running, {name: set_.values for name, set_ in stored.sets.items()})
            for key, stored in self._stored.items()
        }

    def write(self, key: str, transform: str, values: set[str]) -> None:
        """Replace the values of a filter, as another client does."""
        set_ = self._stored[key].sets[transform]
        set_.values, set_.version = set(values), set_.version + 1

    def _live_pipeline(self, key: str, stored: _Stored) -> LivePipeline:
        body = stored.body
        filters = {name: _live_filter(name, set_) for name, set_ in stored.sets.items()}
        return LivePipeline(
            stored.id,
            key,
            body["name"],
            body["description"],
            tuple(body["tags"]),
            body["pipeline_config"],
            stored.revision,
            stored.state,
            stored.running,
            filters=filters,
        )

    def _requests(self, plan: PipelinePlan, *, prune: bool) -> list[Any]:
        key, desired = plan.key, plan.desired
        if desired is None:
            return [lambda: self._stored.pop(key)] if prune else []
        requests: list[Any] = [lambda: self._save(key, desired.body(key))] if plan.saves else []
        for write in plan.values:
            values = set(write.values.normalised())
            requests.append(lambda name=write.transform, values=values: self.write(key, name, values))
        return requests + [lambda step=step: self._step(key, step) for step in plan.steps]

    def _save(self, key: str, body: dict[str, Any]) -> None:
        stored = self._stored.get(key)
        before = stored.body["pipeline_config"]["transforms"] if stored else []
        if stored is None:
            self._next_id += 1
            stored = self._stored[key] = _Stored(str(self._next_id), body)
        else:
            stored.body, stored.revision = body, stored.revision + 1
        transforms = body["pipeline_config"]["transforms"]
        renamed = renamed_transforms(before, transforms)
        filters = [transform["name"] for transform in transforms if transform["type"] == "redis_set_filter"]
        stored.sets = {name: stored.sets.get(renamed.get(name, name), _Set()) for name in filters}

    def _step(self, key: str, step: str) -> None:
        stored = self._stored[key]
        if step == "deploy":
            stored.state, stored.running = "running", stored.body["pipeline_config"]
        elif step == "pause":
            stored.state = "paused"
        else:
            stored.state, stored.running = "none", None


def _live_filter(name: str, set_: _Set) -> LiveFilter:
    summary = summarise(set_.values)
    return LiveFilter(name, summary.count, set_.version, summary.digest, frozenset(set_.values))
