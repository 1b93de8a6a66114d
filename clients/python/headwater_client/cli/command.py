"""The options of the connection and the handling of errors of all commands."""

import functools
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headwater_client.cli.exit_codes import NOT_FOUND, USAGE, CommandError, exit_with
from headwater_client.cli.output import Output
from headwater_client.errors import HeadwaterError
from headwater_client.files.errors import FolderError

if TYPE_CHECKING:
    from headwater_client import Flow, Headwater

UrlOption = Annotated[
    str | None, typer.Option("--url", help="URL of the server. [HEADWATER_URL]", rich_help_panel="Connection")
]
KeyOption = Annotated[str | None, typer.Option("--key", help="API key. [HEADWATER_KEY]", rich_help_panel="Connection")]
ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", help="Profile of ~/.config/headwater/config.toml.", rich_help_panel="Connection"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@dataclass(frozen=True)
class Run:
    """One run of a command: its connection and its output.

    Attributes:
        url: The value of --url.
        key: The value of --key.
        profile: The value of --profile.
        out: Prints results.
    """

    url: str | None
    key: str | None
    profile: str | None
    out: Output

    @cached_property
    def hw(self) -> "Headwater":
        """The client of the server that the options name."""
        return self.connect()

    def connect(self, url_of_files: str = "") -> "Headwater":
        """Return a client.

        The options take precedence over the URL that files name, and this URL over the environment.
        """
        from headwater_client import Headwater

        url = self.url or (None if self.profile else url_of_files) or None
        return Headwater(url, self.key, profile=self.profile)

    def flow(self, reference: str) -> "Flow":
        """Return the pipeline with this id, external id or name."""
        return self.hw.flows.find(reference)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something that can't be undone.

        Raises CommandError when the answer is no, or when standard input is not a terminal.
        """
        if yes:
            return
        if not sys.stdin.isatty():
            raise CommandError(
                f"{question} Standard input is not a terminal, so you can't answer.", USAGE, "Add --yes."
            )
        if not typer.confirm(question, err=True):
            raise CommandError("Nothing was changed.")


def ignore_closed_pipe() -> None:
    """Redirect standard output to /dev/null, because Python flushes its buffer at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_OPTIONS: Final = {"url": UrlOption, "key": KeyOption, "profile": ProfileOption, "json_": JsonOption}


def command(app: typer.Typer, name: str | None = None, **settings: Any) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator that adds a function as a command.

    The function gets a `Run` as its first argument. Errors of the client and of files end the command with a message
    and an exit status.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(**arguments: Any) -> None:
            given = {option: arguments.pop(option) for option in _OPTIONS}
            as_json = given.pop("json_")
            try:
                function(Run(**given, out=Output(as_json=as_json)), **arguments)
                sys.stdout.flush()
            except BrokenPipeError:
                ignore_closed_pipe()
                raise typer.Exit from None
            except (HeadwaterError, FolderError, CommandError) as error:
                exit_with(error, as_json=as_json)
            except KeyError as error:  # raised, with a message, for an unknown filter or sink
                exit_with(CommandError(str(error.args[0]), NOT_FOUND), as_json=as_json)

        parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "run"]
        parameters += [
            inspect.Parameter(
                option, inspect.Parameter.KEYWORD_ONLY, default=False if option == "json_" else None, annotation=type_
            )
            for option, type_ in _OPTIONS.items()
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(name, **settings)(run)
        return function

    return decorate


def group(help_text: str) -> typer.Typer:
    """Return an empty group of commands."""
    return typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
