"""Compares the pipelines of a folder with those that a server has."""

import difflib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal

from headwater_client.files.desired import DesiredPipeline, ProjectFiles
from headwater_client.files.live import LiveFilter, LivePipeline, canonical
from headwater_client.files.values import DesiredValues

Sign = Literal["+", "-", "~"]
Step = Literal["deploy", "pause", "teardown"]

CONTENT = {"v8": "script", "redis_set_filter": "filter_expr"}
"""The member that decides what a transform does, by its type."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a text that is removed or added.

    Attributes:
        number: The number of the line in the text that has it.
    """

    number: int
    sign: Literal["+", "-"]
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between a file and what is saved.

    Attributes:
        where: The member, such as `transforms.enrich`.
        detail: What changes, in a few words.
        lines: The lines that differ.
    """

    sign: Sign
    where: str
    detail: str = ""
    lines: tuple[DiffLine, ...] = ()


@dataclass(frozen=True, slots=True)
class ValuesWrite:
    """All values of a filter, which are to be written.

    Attributes:
        transform: The name of the transform.
        live: The set as it is; None for a new filter.
        added: How many values are added; None when it is not known.
        removed: How many values are removed; None when it is not known.
    """

    transform: str
    values: DesiredValues
    live: LiveFilter | None
    count: int
    added: int | None = None
    removed: int | None = None


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """The changes of one pipeline.

    Attributes:
        key: The name of its file.
        desired: The pipeline as the folder describes it; None when it is not in the folder.
        live: The pipeline as the server has it; None when it is to be created.
        changes: What differs in the saved configuration.
        saves: Whether the configuration is to be created or saved.
        values: The filters whose values are to be written.
        steps: What is done after the configuration and the values are saved.
        redeploys: Whether a running pipeline gets another configuration.
    """

    key: str
    desired: DesiredPipeline | None
    live: LivePipeline | None
    changes: tuple[Change, ...] = ()
    saves: bool = False
    values: tuple[ValuesWrite, ...] = ()
    steps: tuple[Step, ...] = ()
    redeploys: bool = False

    @property
    def is_create(self) -> bool:
        """Whether the server does not have the pipeline."""
        return self.live is None

    @property
    def is_in_folder(self) -> bool:
        """Whether the folder has the pipeline."""
        return self.desired is not None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do without --prune."""
        return not (self.saves or self.values or self.steps)

    @property
    def destroys(self) -> tuple[str, ...]:
        """The parts of a deployed pipeline that are removed with their data, in a few words."""
        if self.live is None or self.live.state == "none" or self.desired is None:
            return ()
        if "teardown" in self.steps:
            return ("its topics and the records in them",)
        if self.live.unreadable or not (self.saves or self.steps):
            return ()
        running = self.live.running_config or self.live.config
        removed = _sinks_with_topics(running) - _sinks_with_topics(self.desired.config)
        return tuple(f"the topic of the sink {name} and the records in it" for name in sorted(removed))


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes of all pipelines of a project."""

    project: str
    pipelines: Sequence[PipelinePlan] = field(default_factory=tuple)

    @property
    def to_create(self) -> list[PipelinePlan]:
        """The pipelines that the server does not have."""
        return [plan for plan in self.pipelines if plan.is_create]

    @property
    def to_change(self) -> list[PipelinePlan]:
        """The pipelines that the server has, and that are to be changed."""
        return [plan for plan in self.pipelines if not plan.is_create and plan.is_in_folder and not plan.is_empty]

    @property
    def not_in_folder(self) -> list[PipelinePlan]:
        """The pipelines that the folder does not have."""
        return [plan for plan in self.pipelines if not plan.is_in_folder]

    def is_empty(self, *, prune: bool) -> bool:
        """Whether there is nothing to do."""
        return not (self.to_create or self.to_change or (prune and self.not_in_folder))


def make_plan(files: ProjectFiles, live: Mapping[str, LivePipeline]) -> Plan:
    """Return what is to be done so that the server has what the folder describes.

    Args:
        files: The files of the folder.
        live: The pipelines of the project, by the names of their files.
    """
    desired = {pipeline.key: pipeline for pipeline in files.pipelines}
    plans = [plan_pipeline(pipeline, live.get(key)) for key, pipeline in desired.items()]
    not_in_folder = [PipelinePlan(key, None, pipeline) for key, pipeline in live.items() if key not in desired]
    return Plan(files.project, (*plans, *not_in_folder))


def plan_pipeline(desired: DesiredPipeline, live: LivePipeline | None) -> PipelinePlan:
    """Return what is to be done with one pipeline of the folder."""
    values = tuple(_values_writes(desired, live))
    if live is None:
        steps: dict[str, tuple[Step, ...]] = {"running": ("deploy",), "paused": ("deploy", "pause"), "none": ()}
        return PipelinePlan(desired.key, desired, None, saves=True, values=values, steps=steps[desired.deploy])
    changes = tuple(_changes(desired, live))
    redeploys = _runs_something_else(desired, live)
    return PipelinePlan(
        desired.key,
        desired,
        live,
        changes=changes,
        saves=bool(changes),
        values=values,
        steps=_steps(desired, live, redeploys=redeploys),
        redeploys=redeploys and live.state == "running" and desired.deploy == "running",
    )


def _steps(desired: DesiredPipeline, live: LivePipeline, *, redeploys: bool) -> tuple[Step, ...]:
    if desired.deploy == "none":
        return () if live.state == "none" else ("teardown",)
    if desired.deploy == "paused":
        return {"none": ("deploy", "pause"), "running": ("pause",), "paused": ()}[live.state]  # type: ignore[return-value]
    return () if live.state == "running" and not redeploys else ("deploy",)


def _runs_something_else(desired: DesiredPipeline, live: LivePipeline) -> bool:
    """Whether what is deployed differs from the file. Names of transforms do not matter to it."""
    if live.state == "none":
        return False
    if live.failure or live.running_config is None:
        return True
    return _without_names(_canonical(desired, desired.config)) != _without_names(
        _canonical(desired, live.running_config)
    )


def _canonical(desired: DesiredPipeline, config: Mapping[str, Any]) -> dict[str, Any]:
    return canonical(config, with_source_type="type" in desired.config["source"])


def _without_names(config: dict[str, Any]) -> dict[str, Any]:
    transforms = [{**transform, "name": None} for transform in config["transforms"]]
    return {**config, "transforms": transforms}


def _changes(desired: DesiredPipeline, live: LivePipeline) -> Iterator[Change]:
    if live.unreadable:
        yield Change("~", "configuration", f"replaced, because the server can't read it: {live.unreadable}")
        return
    for where, old, new in (
        ("name", live.name, desired.name),
        ("description", live.description, desired.description),
        ("tags", list(live.tags), list(desired.tags)),
    ):
        if old != new:
            yield Change("~", where, _arrow(old, new))
    before, after = _canonical(desired, live.config), _canonical(desired, desired.config)
    yield from _source_changes(before["source"], after["source"])
    yield from _transform_changes(before["transforms"], after["transforms"], desired, live)
    yield from _sink_changes(before["sinks"], after["sinks"])
    for where in ("parallelism", "delivery"):
        if before[where] != after[where]:
            yield Change("~", where, _arrow(before[where], after[where]))


def _source_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    differing = [name for name in after if before.get(name) != after[name]]
    if differing:
        other_stream = {"chain", "entity", "is_zerolag"}.intersection(differing)
        detail = ", ".join(f"{name} {_arrow(before.get(name), after[name])}" for name in differing)
        begins = f"; begins at {after['start_at']} of the new stream" if other_stream else ""
        yield Change("~", "source", detail + begins)


def _transform_changes(
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    desired: DesiredPipeline,
    live: LivePipeline,
) -> Iterator[Change]:
    renamed = renamed_transforms(before, after)
    old = _by_name(before)
    new = {renamed.get(transform["name"], transform["name"]): transform for transform in after}
    kept = [name for name in old if name in new and old[name]["type"] == new[name]["type"]]
    for name, transform in new.items():
        if name not in kept:
            yield Change("+", f"transforms.{name}", transform["type"])
        elif transform["name"] != name:
            yield Change("~", f"transforms.{transform['name']}", f"has a new name; it was {name}")
        elif old[name] != transform:
            yield _content_change(name, old[name], transform, desired.script_labels.get(name, "script"))
    for name, transform in old.items():
        if name not in kept:
            set_ = live.filters.get(name)
            values = f", with its {set_.count:,} values" if set_ is not None and set_.count else ""
            yield Change("-", f"transforms.{name}", transform["type"] + values)
    order = [name for name in new if name in kept]
    if order != kept:
        yield Change("~", "transforms", f"order {_arrow(', '.join(kept), ', '.join(order))}")


def _by_name(transforms: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return stored transforms by their names; those without one by their position."""
    return {transform.get("name") or f"#{index}": transform for index, transform in enumerate(transforms, 1)}


def renamed_transforms(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the stored name of each transform that has another name and the same content.

    The server matches these transforms too, so that a filter keeps its values.
    """
    names = {transform["name"] for transform in after}
    free = {name: _content(transform) for name, transform in _by_name(before).items() if name not in names}
    known = _by_name(before)
    renamed = {}
    for transform in after:
        if transform["name"] not in known or known[transform["name"]]["type"] != transform["type"]:
            same = next((name for name, content in free.items() if content == _content(transform)), None)
            if same is not None:
                renamed[transform["name"]] = same
                del free[same]
    return renamed


def _content(transform: Mapping[str, Any]) -> tuple[str, str]:
    return transform["type"], transform[CONTENT[transform["type"]]]


def _content_change(name: str, before: Mapping[str, Any], after: Mapping[str, Any], label: str) -> Change:
    where = f"transforms.{name}"
    member = CONTENT[after["type"]]
    if after["type"] == "v8":
        return Change("~", where, label, diff_lines(before[member], after[member]))
    return Change("~", where, f"expr {_arrow(before[member], after[member])}")


def _sinks_with_topics(config: Mapping[str, Any]) -> Set[str]:
    """Return the names of the sinks of a `pipeline_config` that have a topic of their own."""
    return {sink["name"] for sink in config["sinks"] if sink["type"] == "kafka"}


def _sink_changes(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Iterator[Change]:
    old = {sink["name"]: sink for sink in before}
    new = {sink["name"]: sink for sink in after}
    for name, sink in new.items():
        if name not in old:
            yield Change("+", f"sinks.{name}", sink["type"])
        elif old[name] != sink:
            members = [member for member in {**old[name], **sink} if old[name].get(member) != sink.get(member)]
            detail = ", ".join(f"{member} {_arrow(old[name].get(member), sink.get(member))}" for member in members)
            yield Change("~", f"sinks.{name}", detail)
    for name, sink in old.items():
        if name not in new:
            yield Change("-", f"sinks.{name}", sink["type"])
    order = [name for name in new if name in old]
    if order != [name for name in old if name in new]:
        yield Change("~", "sinks", f"order: {', '.join(order)}")


def _values_writes(desired: DesiredPipeline, live: LivePipeline | None) -> Iterator[ValuesWrite]:
    """Yield the filters whose values are to be written.

    With the mode `initial`, these are the filters that were never written to. A filter whose name belonged to a
    transform of another type is a new filter.
    """
    renamed = (
        {}
        if live is None or live.unreadable
        else renamed_transforms(live.config["transforms"], desired.config["transforms"])
    )
    for name, values in desired.values.items():
        filter_ = live.filters.get(renamed.get(name, name)) if live is not None else None
        summary = values.summary()
        if filter_ is None or filter_.version == 0:
            if summary.count:
                yield ValuesWrite(name, values, filter_, summary.count, added=summary.count, removed=0)
        elif values.mode == "replace" and (summary.count, summary.digest) != (filter_.count, filter_.digest):
            added = removed = None
            if filter_.values is not None:
                wanted = frozenset(values.normalised())
                added, removed = len(wanted - filter_.values), len(filter_.values - wanted)
            yield ValuesWrite(name, values, filter_, summary.count, added, removed)


def diff_lines(before: str, after: str) -> tuple[DiffLine, ...]:
    """Return the lines that differ between two texts, in order.

    >>> diff_lines("a\\nb\\nc", "a\\nB\\nc")
    (DiffLine(number=2, sign='-', text='b'), DiffLine(number=2, sign='+', text='B'))
    """
    old, new = before.split("\n"), after.split("\n")
    lines = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(
        None, old, new, autojunk=len(old) + len(new) > 4_000
    ).get_opcodes():
        if tag != "equal":
            lines += [DiffLine(number + 1, "-", old[number]) for number in range(i1, i2)]
            lines += [DiffLine(number + 1, "+", new[number]) for number in range(j1, j2)]
    return tuple(lines)


def _arrow(before: object, after: object) -> str:
    return f"{_shown(before)} → {_shown(after)}"


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return "none" if value is None else str(value)
