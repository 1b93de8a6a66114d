"""Writes pipelines of a server into the files of a folder."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from headwater_client import Flow, Headwater, NotFound
from headwater_client.files.desired import external_id, key_of
from headwater_client.files.errors import FolderError
from headwater_client.files.folder import PROJECT_FILE, convert
from headwater_client.files.live import canonical
from headwater_client.files.read_live import project_ids
from headwater_client.files.schema import Pipeline, Project
from headwater_client.files.yaml_file import dump, load

LINES_PER_WRITE: Final = 10_000
_TYPESCRIPT: Final = re.compile(
    r"^\s*(?:import type|interface|type \w+ =)|\)\s*:\s*\w|\w:\s*(?:string|number|any|Record)\b", re.MULTILINE
)
_DEFAULTS: Final = {"is_zerolag": False, "start_at": "latest", "parallelism": 1, "delivery": "at_least_once"}


@dataclass(frozen=True, slots=True)
class Exported:
    """A pipeline that was written.

    Attributes:
        file: Its file.
        is_bound: Whether `apply` finds the pipeline again.
    """

    file: Path
    is_bound: bool


def project_of(folder: Path) -> str:
    """Return the project of a folder; empty when it has no headwater.yaml."""
    file = folder / PROJECT_FILE
    return convert(load(file), Project, PROJECT_FILE).project if file.is_file() else ""


class Exporter:
    """Writes pipelines into a folder, with their scripts, and with the values of their filters."""

    def __init__(self, hw: Headwater, folder: Path, project: str, *, with_values: bool, force: bool) -> None:
        """Create an exporter. `force`: replace files that exist."""
        self._hw = hw
        self._folder = folder
        self._project = project
        self._with_values = with_values
        self._force = force

    def flows_of_project(self) -> list[Flow]:
        """Return the pipelines of the project."""
        return [self._hw.flows.get(config_id) for config_id in project_ids(self._hw, self._project).values()]

    def write(self, flow: Flow, *, adopt: bool = False) -> Exported:
        """Write a pipeline.

        With `adopt`, a pipeline without an external id gets the external id of its file, and its transforms get names;
        what runs is not changed. Raises FolderError when a file exists with other content, or a file with values
        exists; an export with `force` replaces them.
        """
        if flow.config.unreadable:
            raise FolderError(
                f"{flow.name} can't be written, because the server can't read it: {flow.config.unreadable}"
            )
        known = key_of(self._project, flow.config.external_id)
        key = known or _slug(flow.name)
        document = self._document(flow, key)
        convert(document, Pipeline, f"{key}.yaml")
        if not (self._folder / PROJECT_FILE).exists():
            self._write_text(PROJECT_FILE, dump({"project": self._project}))
        self._write_text(f"{key}.yaml", dump(document))
        if known is None and adopt and flow.config.external_id is None:
            flow.replace(self._adopted(flow, key), if_revision=flow.revision)
            return Exported(self._folder / f"{key}.yaml", is_bound=True)
        return Exported(self._folder / f"{key}.yaml", is_bound=known is not None)

    def _document(self, flow: Flow, key: str) -> dict[str, Any]:
        config = canonical(flow.config.pipeline_config, with_source_type=False)
        names = _names(flow)
        transforms = [
            {"name": name, **self._transform(flow, key, name, transform)}
            for name, transform in zip(names, flow.config.pipeline.transforms, strict=True)
        ]
        document = {
            "name": flow.name,
            "description": flow.config.description,
            "tags": list(flow.config.tags),
            "source": _without_defaults(config["source"]),
            "transforms": transforms,
            "sinks": config["sinks"],
            "parallelism": config["parallelism"],
            "delivery": config["delivery"],
            "deploy": _deploy(flow),
        }
        return {name: value for name, value in _without_defaults(document).items() if value not in ("", [])}

    def _transform(self, flow: Flow, key: str, name: str, transform: Any) -> dict[str, Any]:
        if transform.type == "v8":
            script = transform.script or ""
            path = f"scripts/{key}.{name}.{'ts' if _TYPESCRIPT.search(script) else 'js'}"
            self._write_text(path, script)
            return {"v8": {"file": path}}
        filter_: dict[str, Any] = {"expr": transform.filter_expr}
        if self._with_values:
            path = f"values/{key}.{name}.txt"
            self._write_lines(path, flow.filters[transform.uid].values())
            filter_["values"] = {"file": path}
        return {"redis_set_filter": filter_}

    def _adopted(self, flow: Flow, key: str) -> dict[str, Any]:
        config = dict(flow.config.pipeline_config)
        config["transforms"] = [
            {**transform, "name": name} for name, transform in zip(_names(flow), config["transforms"], strict=True)
        ]
        return {
            "name": flow.name,
            "description": flow.config.description,
            "tags": list(flow.config.tags),
            "external_id": external_id(self._project, key),
            "pipeline_config": config,
        }

    def _write_text(self, name: str, text: str) -> None:
        path = self._folder / name
        if path.exists() and not self._force and path.read_bytes() != text.encode():
            raise FolderError(f"{path} exists and has other content. Add --force to replace it.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())

    def _write_lines(self, name: str, values: Iterable[str]) -> None:
        path = self._folder / name
        if path.exists() and not self._force:
            raise FolderError(f"{path} exists already: --force overwrites it, --no-values writes no values.")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.part")
        rest = iter(values)
        with temporary.open("w", encoding="utf-8") as file:
            # Sorted, so that the file of a small set has no differences after a repeated export.
            while lines := sorted(islice(rest, LINES_PER_WRITE)):
                file.write("\n".join(lines) + "\n")
        temporary.replace(path)


def _names(flow: Flow) -> list[str]:
    """Return the names of the transforms, made of type and position where there is none."""
    short = {"redis_set_filter": "filter", "v8": "script"}
    return [
        transform.name or f"{short.get(transform.type, transform.type)}-{number}"
        for number, transform in enumerate(flow.config.pipeline.transforms, 1)
    ]


def _deploy(flow: Flow) -> bool | str:
    try:
        status = flow.deployment().status
    except NotFound:
        return False
    return "paused" if status in {"paused", "pausing"} else status != "terminating"


def _without_defaults(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if _DEFAULTS.get(name, ...) != value}


def _slug(name: str) -> str:
    """Return the name of a file for a pipeline.

    >>> _slug("USDC: whales & more")
    'usdc-whales-more'
    """
    return re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-.")[:100] or "pipeline"
