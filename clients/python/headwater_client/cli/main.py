"""The root of the command line."""

import gc
import os
import sys
from collections.abc import Sequence
from typing import Any, cast

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from headwater_client.cli import (
    DEFAULT_THRESHOLDS,
    datasets,
    dead_letters,
    files,
    filters,
    flows,
    prices,
    status,
    streams,
)
from headwater_client.cli.exit_codes import USAGE
from headwater_client.cli.plugins import plugins


class _Root(TyperGroup):
    """The root, whose help has the commands of plugins too."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        own = [(name, self.commands[name].get_short_help_str(90)) for name in self.list_commands(ctx)]
        others = [each for plugin in plugins() for each in plugin.help_texts.items() if each[0] not in self.commands]
        for title, rows in (("Pipelines", own), ("This machine and the server", others)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


app = typer.Typer(
    cls=_Root,
    name="headwater",
    help="Filters streams of blockchain records into Kafka topics of your own.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(flows.app, name="flows")
app.add_typer(filters.app, name="filters")
app.add_typer(datasets.app, name="datasets")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(streams.app, name="streams")
app.add_typer(prices.app, name="prices")
status.register(app)
files.register(app)


def main() -> None:
    """Run the command line of this process."""
    arguments = sys.argv[1:]
    if plugin := _plugin_for(arguments):
        gc.set_threshold(*DEFAULT_THRESHOLDS)
        plugin.run(arguments)
    else:
        sys.exit(run(arguments))


def run(arguments: Sequence[str]) -> int:
    """Run a command of this distribution, and return its exit status."""
    return run_application(app, arguments, "headwater")


def run_application(application: typer.Typer, arguments: Sequence[str], name: str) -> int:
    """Run an application of commands, and return its exit status."""
    try:
        code = application(arguments, prog_name=name, standalone_mode=False)
    except TyperException as error:
        cast("Any", error).show()  # all that are raised have it, but typer does not declare it
        return USAGE
    except typer.Abort:
        return 1
    return code if isinstance(code, int) else 0


def _plugin_for(arguments: Sequence[str]) -> Any:
    """Return the plugin that the arguments are for; None for a command of this distribution."""
    # `prices` has commands in both distributions, so the plugin decides.
    own = ({group.name for group in app.registered_groups} - {"prices"}) | {
        each.name for each in app.registered_commands
    }
    if not arguments or arguments[0].startswith("-") or arguments[0] in own or "_HEADWATER_COMPLETE" in os.environ:
        return None
    return next((plugin for plugin in plugins() if plugin.takes(arguments)), None)
