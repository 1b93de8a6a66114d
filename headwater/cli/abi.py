"""Commands of the event ABIs."""

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import takes_settings
from headwater.settings import Settings

app = typer.Typer(help="Event ABIs, by which EVM ingests decode logs.", no_args_is_help=True)


def import_(
    settings: Settings,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="JSON ABIs, build artifacts, explorers' answers, solc's output, or human-readable ABIs; "
            ".gz is unpacked.",
        ),
    ],
    address: Annotated[str, typer.Option(help="Contract whose ABI this is; without one, it is for all.")] = "",
    override_shipped: Annotated[
        bool,
        typer.Option("--override-shipped", help="Use these parameter names in place of those that Headwater ships."),
    ] = False,
) -> None:
    """Add the events of some ABIs to those that EVM ingests decode; they count from the ingest's next start."""
    from headwater.app.abis import import_abis, shipped_names

    done = import_abis(settings, files, address, override_shipped=override_shipped)
    print(f"{done.new} new events; {done.known} imported in all")
    for event in shipped_names(settings):
        print(f"{event} ships with Headwater and keeps these names; --override-shipped takes the imported ones")


app.command("import")(takes_settings("data_dir")(import_))


@app.callback()
def _abi() -> None:
    """Makes `import` a command of its own, although it is the only one."""
