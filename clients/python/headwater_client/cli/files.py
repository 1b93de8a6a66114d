"""Commands for pipelines as files."""

import os
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater_client.cli import formatting
from headwater_client.cli.command import Run, command
from headwater_client.cli.exit_codes import (
    FAILED,
    INTERRUPTED,
    SERVICE_UNAVAILABLE,
    WOULD_CHANGE,
    CommandError,
    exit_code_of,
)
from headwater_client.cli.flows import YesOption
from headwater_client.cli.output import COLORS, Column

if TYPE_CHECKING:
    from headwater_client import Headwater
    from headwater_client.files.apply import Outcome
    from headwater_client.files.desired import ProjectFiles
    from headwater_client.files.plan import Plan

FolderArgument = Annotated[
    Path | None, typer.Argument(help="The folder; by default this one, or `pipelines` in it.", file_okay=False)
]
EnvOption = Annotated[str, typer.Option("--env", "-e", help="An environment of headwater.yaml.")]
PruneOption = Annotated[
    bool, typer.Option("--prune", help="Delete pipelines of this project that are not in the folder.")
]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    command(app)(plan)
    command(app)(apply)
    command(app)(export)
    command(app)(schema)
    command(app)(new)


def plan(
    run: Run,
    folder: FolderArgument = None,
    env: EnvOption = "",
    prune: PruneOption = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 2 when something would change.")] = False,
) -> None:
    """Show what `apply` would change."""
    files, hw = _open(run, folder, env)
    project_plan = _read_plan(hw, files)
    if run.out.as_json:
        run.out.json(_document(project_plan, hw.url))
    else:
        _print_plan(run, project_plan, hw.url, prune=prune)
    if exit_code and not project_plan.is_empty(prune=prune):
        raise typer.Exit(WOULD_CHANGE)


def apply(
    run: Run,
    folder: FolderArgument = None,
    env: EnvOption = "",
    prune: PruneOption = False,
    yes: YesOption = False,
) -> None:
    """Make the server have what the folder describes.

    An interrupted run is completed by another one.
    """
    from headwater_client.files.apply import Applier
    from headwater_client.files.plan_text import summary

    files, hw = _open(run, folder, env)
    project_plan = _read_plan(hw, files)
    _confirm(run, project_plan, hw.url, prune=prune, yes=yes)
    outcomes: list[Outcome] = []
    try:
        for outcome in Applier(hw, files, prune=prune).apply(project_plan):
            outcomes.append(outcome)
            if not run.out.as_json:
                _print_outcome(run, outcome)
    except KeyboardInterrupt:
        done = sum(outcome.error is None for outcome in outcomes)
        run.out.note(f"Interrupted: {done} pipelines are done. Continue with: headwater {' '.join(sys.argv[1:])}")
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # the requests in progress end with the process
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if run.out.as_json:
        run.out.json([_outcome_document(outcome) for outcome in outcomes])
    elif not outcomes:
        print(summary(project_plan, prune=prune))
    if failed:
        raise CommandError(
            f"{len(failed)} of {len(outcomes)} pipelines could not be changed.",
            SERVICE_UNAVAILABLE
            if all(exit_code_of(each.error) == SERVICE_UNAVAILABLE for each in failed if each.error)
            else FAILED,
            "Correct what is said above, and run the command again: it completes what is missing.",
        )


def export(
    run: Run,
    folder: Annotated[Path, typer.Argument(help="The folder to write into.", file_okay=False)] = Path("pipelines"),
    flows: Annotated[
        list[str] | None, typer.Option("--flow", help="A pipeline to write (repeatable); by default the project's.")
    ] = None,
    project: Annotated[str, typer.Option(help="The project; by default that of headwater.yaml.")] = "",
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt",
            help="On the server, give pipelines without an external id the one that binds them to their files.",
        ),
    ] = False,
    values: Annotated[bool, typer.Option("--values/--no-values", help="Write the values of filters too.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
) -> None:
    """Write pipelines of the server into files."""
    from headwater_client.files.export import Exporter, project_of

    name = project or project_of(folder)
    if not name:
        raise CommandError("Name the project with --project.", 64)
    exporter = Exporter(run.hw, folder, name, with_values=values, force=force)
    found = [run.flow(flow) for flow in flows] if flows else exporter.flows_of_project()
    written = [exporter.write(flow, adopt=adopt) for flow in found]
    if run.out.as_json:
        run.out.json([{"file": str(each.file), "bound": each.is_bound} for each in written])
        return
    for each in written:
        print(f"✓ {each.file}")
    if not written:
        run.out.note(f"The project {name} has no pipelines. Name pipelines with --flow.")
    if any(not each.is_bound for each in written):
        run.out.note(
            "Some pipelines have no external id of this project: `apply` would create them anew. --adopt sets it where "
            "there is none; another external id stays."
        )


class FileKind(StrEnum):
    """The kinds of files that have a JSON Schema."""

    PIPELINE = "pipeline"
    PROJECT = "project"
    CASES = "cases"


def schema(
    run: Run,  # noqa: ARG001 - all commands get it
    file: Annotated[FileKind, typer.Argument(help="The kind of file.")] = FileKind.PIPELINE,
) -> None:
    """Print the JSON Schema of a file, for editors."""
    import json

    from headwater_client.files.cases import CaseFile
    from headwater_client.files.schema import FileModel, Pipeline, Project, json_schema

    models: dict[FileKind, type[FileModel]] = {
        FileKind.PIPELINE: Pipeline,
        FileKind.PROJECT: Project,
        FileKind.CASES: CaseFile,
    }
    print(json.dumps(json_schema(models[file]), indent=2))


def new(
    run: Run,
    template: Annotated[str | None, typer.Argument(help="A template; all are listed when it is omitted.")] = None,
    folder: Annotated[
        Path | None, typer.Argument(help="The folder to write into; by default one with the template's name.")
    ] = None,
) -> None:
    """Begin a pipeline from a template."""
    from headwater_client.files.templates import begin, templates

    if template is None:
        if run.out.as_json:
            run.out.json(templates())
        else:
            run.out.table([Column("TEMPLATE"), Column("DESCRIPTION")], [[*each] for each in templates().items()])
        return
    place = folder or Path(template)
    written = begin(template, place)
    if run.out.as_json:
        run.out.json([str(path) for path in written])
        return
    for path in written:
        print(f"✓ {path}")
    run.out.note(f"Next: `headwater test {place}`, `headwater plan {place}`, then `headwater apply {place}`.")


def _open(run: Run, folder: Path | None, env: str) -> "tuple[ProjectFiles, Headwater]":
    from headwater_client.files.folder import find_folder, read_folder

    files = read_folder(find_folder(folder), env)
    return files, run.connect(files.url)


def _read_plan(hw: "Headwater", files: "ProjectFiles") -> "Plan":
    from headwater_client.files.read_live import read_plan

    return read_plan(hw, files)


def _print_plan(run: Run, project_plan: "Plan", url: str, *, prune: bool) -> None:
    from headwater_client.files.plan_text import plan_lines

    for sign, line in plan_lines(project_plan, url, prune=prune):
        run.out.line(line, COLORS[sign])


def _confirm(run: Run, project_plan: "Plan", url: str, *, prune: bool, yes: bool) -> None:
    """Show the plan and ask before something is removed with its data."""
    removed = [f"{each.key} with all of its data" for each in project_plan.not_in_folder if prune]
    removed += [f"{what} of {each.key}" for each in project_plan.to_change for what in each.destroys]
    if removed and not yes:
        if not run.out.as_json:
            _print_plan(run, project_plan, url, prune=prune)
        run.confirm(f"Remove {'; '.join(removed)}?", yes=False)


def _print_outcome(run: Run, outcome: "Outcome") -> None:
    if outcome.error is None:
        run.out.line(f"✓ {outcome.key}   {outcome.text} ({formatting.duration(outcome.seconds)})", "green")
    else:
        run.out.note(f"✗ {outcome.key}   {outcome.error}")


def _outcome_document(outcome: "Outcome") -> dict[str, Any]:
    error = None if outcome.error is None else str(outcome.error)
    return {"pipeline": outcome.key, "done": outcome.text, "error": error, "seconds": round(outcome.seconds, 3)}


def _document(project_plan: "Plan", url: str) -> dict[str, Any]:
    return {"project": project_plan.project, "url": url, "pipelines": list(_pipeline_documents(project_plan.pipelines))}


def _pipeline_documents(plans: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for each in plans:
        if each.is_create:
            action = "create"
        elif not each.is_in_folder:
            action = "not_in_folder"
        else:
            action = "none" if each.is_empty else "change"
        yield {
            "pipeline": each.key,
            "action": action,
            "redeploys": each.redeploys,
            "steps": list(each.steps),
            "changes": [
                {"where": change.where, "sign": change.sign, "detail": change.detail} for change in each.changes
            ],
            "values": [
                {"transform": write.transform, "count": write.count, "added": write.added, "removed": write.removed}
                for write in each.values
            ],
        }
