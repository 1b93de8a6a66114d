"""Reads a folder of pipelines."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET

from headwater_client import decoding
from headwater_client.files.desired import DeployMode, DesiredPipeline, ProjectFiles
from headwater_client.files.errors import FolderError
from headwater_client.files.schema import (
    NAME_PATTERN,
    Environment,
    FileModel,
    Pipeline,
    Project,
    Script,
    SetFilter,
    Transform,
    Values,
)
from headwater_client.files.values import DesiredValues
from headwater_client.files.yaml_file import load, substitute

PROJECT_FILE: Final = "headwater.yaml"
ENDINGS: Final = frozenset({".yaml", ".yml"})
CASE_ENDINGS: Final = (".test.yaml", ".test.yml")
"""The ends of the names of files with cases, which are no pipelines."""

M = TypeVar("M", bound=FileModel)


def find_folder(path: Path | None) -> Path:
    """Return the folder of a command: the given one, the current one, or `pipelines` in it.

    Raises FolderError.
    """
    candidates = [path] if path else [Path(), Path("pipelines")]
    for candidate in candidates:
        if (candidate / PROJECT_FILE).is_file():
            return candidate
    places = " and ".join(str(candidate.absolute()) for candidate in candidates)
    raise FolderError(
        f"There is no {PROJECT_FILE} in {places}. Create it with a line such as `project: wallets`, or name the folder."
    )


def read_folder(path: Path, environment: str = "", variables: Mapping[str, str] | None = None) -> ProjectFiles:
    """Read all pipelines of a folder.

    Args:
        path: The folder, which has a headwater.yaml.
        environment: The environment of headwater.yaml that is meant; empty for none.
        variables: The variables of the process; by default the environment of this process.

    Raises FolderError for the first file with a wrong name, or else with one line for each pipeline that is wrong.
    """
    variables = os.environ if variables is None else variables
    document = load(path / PROJECT_FILE)
    project, chosen = _project(document, environment)
    variables = {**variables, **project.variables, **chosen.variables}
    url = chosen.url if chosen.url is not UNSET else project.url
    name = project.project if chosen.project is UNSET else chosen.project
    defaults = _merged(_members(chosen.defaults), _members(project.defaults))
    pipelines, faults = [], []
    for file in _pipeline_files(path):
        try:
            pipelines.append(_PipelineReader(path, file, defaults, variables).read())
        except FolderError as error:
            faults.append(str(error))
    if faults:
        raise FolderError("\n".join(faults))
    address = "" if url is UNSET else str(substitute(url, variables, PROJECT_FILE))
    return ProjectFiles(name, address, pipelines)


def _project(document: dict[str, Any], environment: str) -> tuple[Project, Environment]:
    project = convert(document, Project, PROJECT_FILE)
    if environment and environment not in project.environments:
        known = ", ".join(sorted(project.environments)) or "none"
        raise FolderError(f"{PROJECT_FILE} has no environment {environment!r}; it has: {known}.")
    return project, project.environments.get(environment, Environment())


def _pipeline_files(path: Path) -> Iterator[Path]:
    """Yield the files of pipelines. Each must have a valid name of its own."""
    keys = set()
    for file in sorted(path.iterdir()):
        if file.suffix.lower() not in ENDINGS or file.name.endswith(CASE_ENDINGS) or file.name == PROJECT_FILE:
            continue
        if not file.is_file():
            continue
        if not re.match(NAME_PATTERN, file.stem):
            raise FolderError(f"{file.name}: rename the file; letters, digits and . _ - are allowed, at most 100.")
        if file.stem in keys:
            raise FolderError(f"{file.name}: another file of the folder has the same name with another ending.")
        keys.add(file.stem)
        yield file


def convert(document: Any, model: type[M], file_name: str) -> M:
    """Return a document as a model. Raises FolderError."""
    try:
        return decoding.convert(document, model)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        where = place.rstrip("`").lstrip(".")
        hint = ""
        if "Expected `str`, got" in message:
            hint = "; put the text into quotes"
        raise FolderError(f"{file_name}{', ' + where if where else ''}: {message}{hint}.") from error


def _members(model: FileModel) -> dict[str, Any]:
    """Return the members that a file has."""
    members: dict[str, Any] = msgspec.to_builtins(model)
    return members


def _merged(members: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Add the defaults that are missing. Members of `source` are merged one by one."""
    merged = {**defaults, **members}
    if isinstance(members.get("source"), dict) and isinstance(defaults.get("source"), dict):
        merged["source"] = {**defaults["source"], **members["source"]}
    return merged


class _PipelineReader:
    """Reads the file of a pipeline, and the files that it names."""

    def __init__(self, folder: Path, file: Path, defaults: Mapping[str, Any], variables: Mapping[str, str]) -> None:
        self._folder = folder
        self._file = file
        self._defaults = defaults
        self._variables = variables

    def read(self) -> DesiredPipeline:
        document = _merged(load(self._file), self._defaults)
        pipeline = convert(substitute(document, self._variables, self._file.name), Pipeline, self._file.name)
        self._require_unique([transform.name for transform in pipeline.transforms], "transforms")
        self._require_unique([sink.name for sink in pipeline.sinks], "sinks")
        values, labels, transforms = {}, {}, []
        for transform in pipeline.transforms:
            document, label, desired = self._transform(transform)
            transforms.append(document)
            if label:
                labels[transform.name] = label
            if desired is not None:
                values[transform.name] = desired
        config = {
            "source": _members(pipeline.source),
            "transforms": transforms,
            "sinks": [_members(sink) for sink in pipeline.sinks],
            "parallelism": msgspec.to_builtins(pipeline.parallelism),
            "delivery": pipeline.delivery,
        }
        name = self._file.stem if pipeline.name is UNSET else pipeline.name
        return DesiredPipeline(
            key=self._file.stem,
            name=name,
            description=pipeline.description,
            tags=tuple(pipeline.tags),
            config=config,
            deploy=_deploy_mode(pipeline.deploy),
            values=values,
            script_labels=labels,
        )

    def _require_unique(self, names: list[str], where: str) -> None:
        for name in names:
            if names.count(name) > 1:
                raise self._error(f"{where}: the name {name!r} is there twice.")

    def _transform(self, transform: Transform) -> tuple[dict[str, Any], str, DesiredValues | None]:
        """Return a transform of a request, the path of its script, and the values of a filter."""
        where = f"transforms.{transform.name}"
        if transform.redis_set_filter is not UNSET and transform.v8 is UNSET:
            filter_ = transform.redis_set_filter
            document = {"name": transform.name, "type": "redis_set_filter", "filter_expr": filter_.expr}
            return document, "", self._values(filter_, where)
        if transform.v8 is not UNSET and transform.redis_set_filter is UNSET:
            script, label = self._script(transform.v8, where)
            return {"name": transform.name, "type": "v8", "script": script}, label, None
        raise self._error(f"{where}: must have exactly one of `redis_set_filter` and `v8`.")

    def _script(self, script: Script, where: str) -> tuple[str, str]:
        if script.file is not UNSET and script.script is UNSET:
            path = self._beside(script.file, where)
            try:
                return path.read_text("utf-8"), script.file
            except (OSError, UnicodeDecodeError) as error:
                raise self._error(f"{where}: {script.file} can't be read: {error}.") from error
        if script.script is not UNSET and script.file is UNSET:
            return script.script, ""
        raise self._error(f"{where}.v8: must have exactly one of `file` and `script`.")

    def _values(self, filter_: SetFilter, where: str) -> DesiredValues | None:
        if filter_.values is UNSET:
            return None
        values = filter_.values if isinstance(filter_.values, Values) else Values(texts=filter_.values)
        if values.texts is not UNSET and values.file is UNSET:
            return DesiredValues(values.mode, "values", texts=tuple(values.texts))
        if values.file is not UNSET and values.texts is UNSET:
            path = self._beside(values.file, f"{where}.values")
            if not path.is_file():
                raise self._error(f"{where}.values: there is no file {values.file}.")
            column = "" if values.column is UNSET else values.column
            return DesiredValues(values.mode, values.file, path=path, column=column)
        raise self._error(f"{where}.values: must have exactly one of `file` and `list`.")

    def _beside(self, name: str, where: str) -> Path:
        """Return the path of a file that the pipeline names. It must be inside of the folder."""
        path = self._folder / name
        if not path.resolve().is_relative_to(self._folder.resolve()):
            raise self._error(f"{where}: {name} is outside of the folder.")
        return path

    def _error(self, message: str) -> FolderError:
        return FolderError(f"{self._file.name}, {message}")


def _deploy_mode(deploy: bool | str) -> DeployMode:
    if deploy == "paused":
        return "paused"
    return "running" if deploy else "none"
