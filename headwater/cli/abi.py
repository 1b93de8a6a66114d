"""Commands for event ABIs."""

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import takes_settings
from headwater.settings import Settings

app = typer.Typer(help="Event ABIs, with which EVM ingests decode logs.", no_args_is_help=True)


def import_(
    settings: Settings,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="JSON ABIs, build artifacts, explorers' responses, solc's output, or human-readable ABIs; "
            ".gz is unpacked.",
        ),
    ],
    address: Annotated[str, typer.Option(help="Contract of the ABI; by default, the ABI is for all contracts.")] = "",
    override_shipped: Annotated[
        bool,
        typer.Option(
            "--override-shipped", help="Replace the parameter names that Headwater ships by the imported names."
        ),
    ] = False,
) -> None:
    """Import the events of ABI files for EVM ingests.

    A running ingest uses them after a restart.
    """
    from headwater.app.abis import events_with_shipped_names, import_abis

    result = import_abis(settings, files, address, override_shipped=override_shipped)
    print(f"{result.new} new events; {result.total} imported in all")
    for event in events_with_shipped_names(settings):
        print(
            f"{event} ships with Headwater and keeps its parameter names; use --override-shipped to use the imported "
            "names instead"
        )


app.command("import")(takes_settings("data_dir")(import_))


@app.callback()
def _abi() -> None:
    """A callback makes typer keep the subcommand `import`, although it is the only one."""
