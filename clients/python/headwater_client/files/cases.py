"""Reads the cases that `headwater test` runs: records in, and what is expected of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta

from headwater_client.files.desired import ProjectFiles
from headwater_client.files.errors import FolderError
from headwater_client.files.folder import CASE_ENDINGS, convert
from headwater_client.files.schema import FileModel, Name
from headwater_client.files.yaml_file import load

CASES_FOLDER: Final = "tests"
DEAD_LETTERS: Final = "dlq"
"""The name under which a case expects dead letters. No sink can have it."""

Sets = Annotated[dict[str, list[str]], Meta(description="Values of sets, by name.")]
Expected = Annotated[
    dict[Name, list[Any]],
    Meta(
        description="The records of each sink, in order; `dlq`: the dead letters. Members that are not listed are not "
        "compared."
    ),
]


class RecordsFile(FileModel, kw_only=True):
    """Records in a file of the folder."""

    file: Annotated[str, Meta(description="JSON Lines: one record in each line.")]


class Case(FileModel, kw_only=True):
    """Records, and what the pipeline makes of them."""

    name: str
    records: list[Any] | RecordsFile
    expect: Expected
    values: Annotated[Sets, Meta(description="Values of filters, in place of the values of the pipeline.")] = {}
    datasets: Annotated[Sets, Meta(description="The datasets that scripts see.")] = {}
    exact: Annotated[bool, Meta(description="Whether records must have no other members than the expected ones.")] = (
        False
    )


class CaseFile(FileModel, kw_only=True):
    """Cases of one pipeline.

    `values` and `datasets` are the defaults of all cases, by filter and by dataset.
    """

    pipeline: Annotated[Name, Meta(description="The name of the pipeline's file, without its ending.")]
    values: Sets = {}
    datasets: Sets = {}
    cases: Annotated[list[Case], Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class ParsedCase:
    """A case with the records of its files, and with the defaults of its file.

    Attributes:
        file: The path of the file, from the folder.
        records: The records as JSON texts.
        expect: The expected records, by the name of the sink; the dead letters by `dlq`.
        values: The values of filters that the case has, by the name of the transform.
        datasets: The values of datasets, by the name of the dataset.
        exact: Whether records must have no other members.
    """

    name: str
    pipeline: str
    file: str
    records: Sequence[bytes]
    expect: Mapping[str, Sequence[Any]]
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    datasets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    exact: bool = False


def read_cases(folder: Path, project: ProjectFiles) -> list[ParsedCase]:
    """Read all cases of a folder, in the order of their files.

    Args:
        folder: The folder.
        project: The pipelines that were read from it.

    Raises FolderError with one line for each file that is wrong.
    """
    files = [file for place in (folder, folder / CASES_FOLDER) for file in sorted(place.glob("*")) if _has_cases(file)]
    cases, faults = [], []
    for file in files:
        try:
            cases += _read_file(folder, file, project)
        except FolderError as error:
            faults.append(str(error))
    if faults:
        raise FolderError("\n".join(faults))
    return cases


def _has_cases(file: Path) -> bool:
    return file.name.endswith(CASE_ENDINGS) and file.is_file()


def _read_file(folder: Path, file: Path, project: ProjectFiles) -> list[ParsedCase]:
    name = file.relative_to(folder).as_posix()
    document = convert(load(file), CaseFile, name)
    pipeline = next((each for each in project.pipelines if each.key == document.pipeline), None)
    if pipeline is None:
        known = ", ".join(each.key for each in project.pipelines) or "none"
        raise FolderError(f"{name}, pipeline: there is no pipeline {document.pipeline!r}; the folder has: {known}.")
    filters = {each["name"] for each in pipeline.config["transforms"] if each["type"] == "redis_set_filter"}
    outputs = {sink["name"] for sink in pipeline.config["sinks"]} | {DEAD_LETTERS}
    found = []
    for case in document.cases:
        where = f"{name}, case {case.name!r}"
        values = {**document.values, **case.values}
        _require_known(where, "filter", values, filters)
        _require_known(where, "sink", case.expect, outputs)
        records = _records(folder, case.records, where)
        datasets = {**document.datasets, **case.datasets}
        found.append(
            ParsedCase(case.name, pipeline.key, name, records, case.expect, values, datasets, exact=case.exact)
        )
    return found


def _require_known(where: str, what: str, names: Mapping[str, Any], known: set[str]) -> None:
    for name in names.keys() - known:
        raise FolderError(
            f"{where}: the pipeline has no {what} {name!r}; it has: {', '.join(sorted(known)) or 'none'}."
        )


def _records(folder: Path, records: list[Any] | RecordsFile, where: str) -> list[bytes]:
    if not isinstance(records, RecordsFile):
        return [json.dumps(record, separators=(",", ":")).encode() for record in records]
    file = folder / records.file
    if not file.resolve().is_relative_to(folder.resolve()):
        raise FolderError(f"{where}: {records.file} is outside of the folder.")
    try:
        return [line for line in file.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise FolderError(f"{where}: {records.file} can't be read: {error}.") from error
