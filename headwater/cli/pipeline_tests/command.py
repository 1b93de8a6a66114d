"""The command `headwater test`."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from headwater.cli.pipeline_tests.explanation import Explainer
from headwater.cli.pipeline_tests.pipeline_runs import InvalidPipeline, PipelineRunner
from headwater.cli.pipeline_tests.report import Result, document, pipeline_lines, summary_line, write_junit
from headwater.errors import HeadwaterError
from headwater_client.cli.exit_codes import USAGE, CommandError, exit_with
from headwater_client.cli.main import run_application
from headwater_client.cli.output import Output
from headwater_client.files.cases import ParsedCase, read_cases
from headwater_client.files.desired import DesiredPipeline, ProjectFiles
from headwater_client.files.errors import FolderError
from headwater_client.files.folder import find_folder, read_folder

PARALLEL_PIPELINES: Final = max(2, min(8, os.cpu_count() or 1))
WATCH_INTERVAL_S: Final = 0.3
EXAMPLE: Final = """

  # tests/usdc-whales.test.yaml
  pipeline: usdc-whales
  cases:
    - name: others are dropped
      records: [{token_address: "0x1"}]
      expect: {usdc: []}"""

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


def run(arguments: Sequence[str]) -> None:
    """Run the command, and end the process with its exit status."""
    raise SystemExit(run_application(app, arguments, "headwater test"))


@app.command()
def run_cases(
    folder: Annotated[
        Path | None, typer.Argument(help="The folder; by default this one, or `pipelines` in it.", file_okay=False)
    ] = None,
    only: Annotated[str, typer.Option("--only", "-k", help="Only pipelines or cases whose name has this text.")] = "",
    env: Annotated[str, typer.Option("--env", "-e", help="An environment of headwater.yaml.")] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Run again when a file changes, until Ctrl-C.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Write the results as JUnit XML.", dir_okay=False)] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Run the test cases of the pipelines in a folder, in the sandbox and without a server.

    A file such as tests/NAME.test.yaml has the cases of a pipeline. Exit 1 when a case fails.
    """
    session = _Session(folder, only, env, junit, Output(as_json=json_))
    try:
        if watch:
            session.watch()
        elif not session.run():
            raise typer.Exit(1)
    except (FolderError, CommandError) as error:
        exit_with(error, as_json=json_)


@dataclass(frozen=True, slots=True)
class _PipelineResults:
    """The results of the cases of a pipeline.

    Attributes:
        key: The name of the pipeline's file.
        results: The results of its cases.
        fault: Why the cases did not run; empty when they did.
    """

    key: str
    results: Sequence[Result]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class _Session:
    """Runs cases once, or whenever a file changes.

    The attributes are the options of the command.
    """

    folder: Path | None
    only: str
    env: str
    junit: Path | None
    out: Output

    def run(self) -> bool:
        """Run the cases once, and return whether all have passed.

        Raises FolderError and CommandError.
        """
        began = time.monotonic()
        path = find_folder(self.folder)
        files = read_folder(path, self.env)
        cases = self._chosen(read_cases(path, files))
        if not cases:
            chosen = f" with {self.only!r} in its name" if self.only else ""
            raise CommandError(
                f"There is no case{chosen} in {path} or {path}/tests.", USAGE, "A case looks like this: " + EXAMPLE
            )
        results: list[Result] = []
        for each in _run_pipelines(files, cases):
            results += each.results
            if not self.out.as_json:
                self._print(pipeline_lines(each.key, each.results, each.fault))
        seconds = time.monotonic() - began
        self._report(results, seconds, _without_cases(files, cases) if not self.only else [])
        return not any(each.failures for each in results)

    def watch(self) -> None:
        """Run the cases, and again whenever a file changes. Ctrl-C ends it."""
        with suppress(KeyboardInterrupt):
            while True:
                state = self._settled_state()
                try:
                    self.run()
                except (FolderError, CommandError) as error:
                    self.out.note(f"headwater: {error}")
                self.out.note("Waiting for changes; Ctrl-C ends.")
                while self._state() == state:
                    time.sleep(WATCH_INTERVAL_S)

    def _settled_state(self) -> Mapping[Path, tuple[int, int]]:
        """Return the state of the folder when it no longer changes.

        Editors write a file in several steps.
        """
        state: Mapping[Path, tuple[int, int]] = {}
        while (found := self._state()) != state:
            state = found
            time.sleep(WATCH_INTERVAL_S)
        return state

    def _state(self) -> Mapping[Path, tuple[int, int]]:
        """Return the time and the size of each file of the folder, without the report."""
        state = {}
        report = self.junit and self.junit.resolve()
        for path in find_folder(self.folder).rglob("*"):
            with suppress(OSError):
                if path.is_file() and path.resolve() != report:
                    status = path.stat()
                    state[path] = status.st_mtime_ns, status.st_size
        return state

    def _chosen(self, cases: Sequence[ParsedCase]) -> list[ParsedCase]:
        return [each for each in cases if self.only in each.name or self.only in each.pipeline]

    def _print(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.out.line(line, "red" if "✗" in line else "green" if "✓" in line else "")

    def _report(self, results: Sequence[Result], seconds: float, without_cases: Sequence[str]) -> None:
        if self.junit is not None:
            write_junit(self.junit, results, seconds)
        if self.out.as_json:
            self.out.json(document(results))
        else:
            self.out.line(summary_line(results, seconds, without_cases))


def _run_pipelines(files: ProjectFiles, cases: Sequence[ParsedCase]) -> Iterator[_PipelineResults]:
    """Yield the results of each pipeline that has cases. Several pipelines run at once."""
    pipelines = {each.key: each for each in files.pipelines}
    cases_of = {
        key: [each for each in cases if each.pipeline == key] for key in dict.fromkeys(c.pipeline for c in cases)
    }
    with ThreadPoolExecutor(PARALLEL_PIPELINES) as pool:
        yield from pool.map(lambda key: _run_pipeline(pipelines[key], cases_of[key]), cases_of)


def _run_pipeline(pipeline: DesiredPipeline, cases: Sequence[ParsedCase]) -> _PipelineResults:
    try:
        with PipelineRunner(pipeline) as runner:
            return _PipelineResults(pipeline.key, [_run_case(runner, case) for case in cases])
    except (InvalidPipeline, HeadwaterError, FolderError) as error:
        return _PipelineResults(pipeline.key, [Result(case, [str(error)], 0.0) for case in cases], str(error))


def _run_case(runner: PipelineRunner, case: ParsedCase) -> Result:
    done = runner.run(case)
    return Result(case, Explainer(done).failures(), done.seconds)


def _without_cases(files: ProjectFiles, cases: Sequence[ParsedCase]) -> list[str]:
    return sorted({each.key for each in files.pipelines} - {each.pipeline for each in cases})
