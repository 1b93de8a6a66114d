"""Commands for pipelines."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headwater_client.cli import formatting
from headwater_client.cli.command import Run, command, group
from headwater_client.cli.exit_codes import USAGE, CommandError
from headwater_client.cli.output import Cell, Column

if TYPE_CHECKING:
    from headwater_client.models.account import OverviewItem
    from headwater_client.models.deployment import Deployment
    from headwater_client.models.records import Skipped

app = group("Pipelines: what they are, and what they do.")

FlowArgument = Annotated[str, typer.Argument(metavar="FLOW", help="Name, external id or id of a pipeline.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

STATES: Final = {
    "deployed": ("● runs", "green"),
    "rolling": ("◐ rolling", "yellow"),
    "paused": ("‖ paused", "cyan"),
    "failing": ("✗ failing", "red"),
    "unreadable": ("! unreadable", "red"),
    "draft": ("○ draft", "bright_black"),
}


class State(StrEnum):
    """The states of the overview."""

    DRAFT = "draft"
    DEPLOYED = "deployed"
    PAUSED = "paused"
    FAILING = "failing"
    UNREADABLE = "unreadable"


class TimeRange(StrEnum):
    """The time ranges of metrics."""

    HOUR = "1h"
    DAY = "1d"
    WEEK = "1w"


@command(app, "list")
def list_(
    run: Run,
    text: Annotated[
        str | None, typer.Argument(help="Only pipelines whose name, external id or id contains this text.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only pipelines with this tag.")] = None,
    state: Annotated[State | None, typer.Option(help="Only pipelines in this state.")] = None,
) -> None:
    """List pipelines with their state and their rates of the last hour."""
    items = list(run.hw.flows.overview(q=text, tag=tag, state=state and state.value, page_size=200))
    if run.out.as_json:
        run.out.json(items)
        return
    if not items:
        run.out.note("There are no such pipelines. `headwater apply` or `headwater flows create` creates one.")
        return
    titles = ["STATE", "NAME", "SOURCE", "IN", "", "OUT", "", "ERR/H", "AGE", "LAG"]
    right = {"IN", "OUT", "ERR/H", "AGE", "LAG"}
    columns = [Column(title, is_right=title in right) for title in titles]
    run.out.table(columns, [_row(item) for item in items])


def _row(item: "OverviewItem") -> list[str | Cell]:
    state = "rolling" if item.condition == "RollingOut" else item.state
    text, color = STATES.get(state, (state, ""))
    source = "" if item.source is None else f"{item.source.chain}.{item.source.entity}"
    errors = "" if item.errors is None else formatting.short_number(sum(item.errors))
    lag = "" if item.lag is None else f"{item.lag:,}"
    return [
        Cell(text, color),
        item.name,
        source,
        formatting.rate(item.messages_received),
        formatting.sparkline(item.messages_received),
        formatting.rate(item.messages_sent),
        formatting.sparkline(item.messages_sent),
        Cell(errors, "red" if errors not in ("", "0") else ""),
        formatting.milliseconds(item.avg_data_age_ms),
        lag,
    ]


@command(app)
def get(run: Run, flow: FlowArgument) -> None:
    """Print a configuration as JSON, which `flows create` takes."""
    run.out.json(run.flow(flow).config)


@command(app)
def create(
    run: Run,
    file: Annotated[Path, typer.Argument(help="A configuration in JSON; - reads standard input.")],
    deploy_: Annotated[bool, typer.Option("--deploy", help="Deploy it too.")] = False,
) -> None:
    """Create a configuration from JSON. `headwater apply` creates pipelines from files in YAML."""
    flow = run.hw.flows.create_from(_read_json(file))
    for warning in flow.warnings:
        run.out.note(f"{warning.pointer}: {warning.detail}")
    if deploy_:
        _print_deployment(run, flow.deploy())
    elif run.out.as_json:
        run.out.json(flow.config)
    else:
        print(flow.id)


def _read_json(file: Path) -> Any:
    import sys

    import msgspec

    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return msgspec.json.decode(data)
    except OSError as error:
        raise CommandError(f"{file} can't be read: {error}.", USAGE) from error
    except msgspec.DecodeError as error:
        raise CommandError(f"{file} is not JSON: {error}.", USAGE) from error


@command(app)
def deploy(run: Run, flow: FlowArgument) -> None:
    """Deploy the newest revision, and wait until its workers are ready."""
    _print_deployment(run, run.flow(flow).deploy())


def _print_deployment(run: Run, deployment: "Deployment") -> None:
    if run.out.as_json:
        run.out.json(deployment)
        return
    run.out.line(f"✓ revision {deployment.revision} runs with {deployment.workers} workers", "green")
    for sink in deployment.sinks:
        if sink.topic:
            print(f"  {sink.name}: topic {sink.topic} at {sink.bootstrap_servers}")
    for gap in deployment.gaps:
        print(f"  partition {gap.partition}: retention removed the records {gap.start:,} to {gap.end - 1:,}")


@command(app)
def pause(run: Run, flow: FlowArgument) -> None:
    """Stop the workers; positions, topics, credentials and values stay."""
    run.flow(flow).pause()
    _done(run, "paused")


@command(app)
def resume(run: Run, flow: FlowArgument) -> None:
    """Continue where the pipeline was paused."""
    _print_deployment(run, run.flow(flow).resume())


@command(app)
def rollback(run: Run, flow: FlowArgument, revision: Annotated[int, typer.Argument(min=1)]) -> None:
    """Save an earlier revision as the newest one, and deploy it if the pipeline runs."""
    found = run.flow(flow)
    deployment = found.rollback(revision)
    if deployment is not None:
        _print_deployment(run, deployment)
    else:
        _done(run, f"revision {revision} is saved as revision {found.revision}")


@command(app)
def teardown(run: Run, flow: FlowArgument, yes: YesOption = False) -> None:
    """Remove workers, topics with their records, and credentials; the configuration stays."""
    found = run.flow(flow)
    run.confirm(f"Tear down {found.name}, and remove its topics with all records?", yes=yes)
    found.teardown()
    _done(run, "torn down")


@command(app)
def delete(run: Run, flow: FlowArgument, yes: YesOption = False) -> None:
    """Delete a configuration, its deployment, and the values of its filters."""
    found = run.flow(flow)
    run.confirm(f"Delete {found.name}, its topics with all records, and the values of its filters?", yes=yes)
    found.delete()
    _done(run, "deleted")


def _done(run: Run, what: str) -> None:
    if run.out.as_json:
        run.out.json({"message": what})
    else:
        run.out.line(f"✓ {what}", "green")


@command(app)
def stats(run: Run, flow: FlowArgument) -> None:
    """Show the workers of a pipeline, and its lag."""
    found = run.flow(flow).stats()
    if run.out.as_json:
        run.out.json(found)
        return
    health = found.workers_health
    lag = "unknown" if found.lag is None else f"{found.lag:,} records"
    print(f"{health.healthy_workers} of {health.total_workers} workers are healthy; lag {lag}")
    columns = [
        Column("WORKER"),
        Column("STATUS"),
        Column("READY"),
        Column("RESTARTS", True),
        Column("UP"),
        Column("REASON"),
    ]
    rows = [
        [
            each.name,
            each.status,
            "yes" if each.is_ready else "no",
            str(each.restart_count),
            formatting.ago(each.start_time),
            each.reason,
        ]
        for each in health.workers
    ]
    if rows:
        run.out.table(columns, rows)


@command(app)
def metrics(
    run: Run,
    flow: FlowArgument,
    time_range: Annotated[TimeRange, typer.Option("--range", help="Time range.")] = TimeRange.HOUR,
) -> None:
    """Show rates, latencies and errors of a time range."""
    found = run.flow(flow).metrics_summary(time_range.value)
    if run.out.as_json:
        run.out.json(found)
        return
    rows = [
        ["received", f"{formatting.short_number(found.messages_received_per_min)} /min"],
        ["sent", f"{formatting.short_number(found.messages_sent_per_min)} /min"],
        ["processor errors", f"{found.processor_error_rate:.2%}"],
        ["output errors", f"{found.output_error_rate:.2%}"],
        ["age of the data", formatting.milliseconds(found.avg_data_age_ms)],
    ]
    for name, times in (("total latency", found.total_latency), ("processing latency", found.processing_latency)):
        if times is not None:
            values = ", ".join(
                f"{label} {formatting.milliseconds(value)}"
                for label, value in (("p50", times.p50), ("p90", times.p90), ("p99", times.p99))
                if value is not None
            )
            rows.append([name, values])
    run.out.table([Column("METRIC"), Column("VALUE")], rows)


@command(app)
def logs(
    run: Run,
    flow: FlowArgument,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="The number of newest lines.")] = 100,
) -> None:
    """Print log lines of the workers, and `console.log` lines of the scripts, oldest first."""
    lines = run.flow(flow).logs(limit=limit)[::-1]
    if run.out.as_json:
        run.out.json(lines)
        return
    for line in lines:
        color = {"error": "red", "warning": "yellow"}.get(line.level, "")
        run.out.line(f"{line.time:%Y-%m-%dT%H:%M:%SZ} {line.source} {line.level}: {line.message}", color)


@command(app)
def tail(
    run: Run,
    flow: FlowArgument,
    sink: Annotated[str | None, typer.Option(help="A sink, or `dlq`; by default the first sink.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="End after this many records.")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Print offset, key and headers too.")] = False,
) -> None:
    """Print the records that are written to a sink from now on, one JSON object in each line."""
    found = run.flow(flow)

    def opened() -> None:
        if run.out.is_terminal:
            run.out.note(f"Waiting for records of {found.name}; Ctrl-C ends this.")

    def skipped(records: "Skipped") -> None:
        run.out.note(f"{records.count:,} records are not shown, because they are more than 200 a second.")

    print_records(run, found.tail(sink, on_open=opened, on_skipped=skipped), limit, whole=whole)


def print_records(run: Run, records: Any, limit: int | None, *, whole: bool) -> None:
    """Print records, one JSON value in each line."""
    from itertools import islice

    try:
        for item in islice(records, limit):
            value = item.record if item.record_base64 is None else {"record_base64": item.record_base64}
            run.out.json_line({k: v for k, v in item.to_dict().items() if v is not None} if whole else value)
    except KeyboardInterrupt:
        return
    finally:
        if hasattr(records, "close"):
            records.close()


@command(app, "open")
def open_(run: Run, flow: FlowArgument) -> None:
    """Open the description of the API in a browser, and print the URL of the pipeline."""
    url = f"{run.hw.url}/api/v1/flow/{run.flow(flow).id}"
    if run.out.is_terminal:
        typer.launch(f"{run.hw.url}/docs")
    print(url)
