"""The command line: `app` is all of it; each module holds the commands of one kind.

Commands import what they compose when they run: `headwater --help` and a worker's start stay fast.
"""

import typer

from headwater.cli import docs, keys, parts, tools

app = typer.Typer(
    name="headwater",
    help="Firehoses of blockchain records in, just the records a user wants out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
parts.register(app)
tools.register(app)
docs.register(app)
app.add_typer(keys.app, name="keys")
