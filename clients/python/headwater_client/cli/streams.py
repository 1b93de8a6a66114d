"""Commands for the streams that pipelines read."""

from typing import Annotated

import typer

from headwater_client.cli.command import Run, command, group
from headwater_client.cli.exit_codes import USAGE, CommandError
from headwater_client.cli.flows import print_records
from headwater_client.cli.output import Column

app = group("Streams that pipelines read.")


@command(app, "list")
def list_(run: Run, chain: Annotated[str | None, typer.Argument(help="Only this chain.")] = None) -> None:
    """List the streams."""
    streams = [stream for stream in run.hw.streams.list() if chain in (None, stream.chain)]
    if run.out.as_json:
        run.out.json(streams)
        return
    columns = [Column("STREAM"), Column("TYPE"), Column("ZEROLAG"), Column("DESCRIPTION")]
    rows = [
        [f"{each.chain}.{each.entity}", each.type, "yes" if each.has_zerolag else "no", each.description]
        for each in streams
    ]
    run.out.table(columns, rows)


@command(app)
def peek(
    run: Run,
    stream: Annotated[str, typer.Argument(help="A stream, such as base.erc20_token_transfer.")],
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="The number of newest records.")] = 5,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new records until Ctrl-C.")] = False,
    whole: Annotated[bool, typer.Option("--whole", help="Print offset, key and headers too.")] = False,
) -> None:
    """Print the newest records of a stream, one JSON object in each line."""
    chain, _, entity = stream.replace("/", ".").partition(".")
    if not entity:
        raise CommandError(f"{stream!r} is no stream. `headwater streams list` shows them.", USAGE)
    if follow:
        print_records(run, run.hw.streams.tail(chain, entity), None, whole=whole)
    else:
        print_records(run, run.hw.streams.records(chain, entity, limit=limit), limit, whole=whole)
