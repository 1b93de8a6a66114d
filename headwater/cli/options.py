"""Command-line flags for settings, one to one with the HEADWATER_* variables. Secrets have a variable and no flag."""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pydantic import SecretStr, ValidationError
from rich.console import Console

from headwater.errors import HeadwaterError
from headwater.model.kafka_security import KafkaSecurity
from headwater.settings import SECRETS, Settings, file_variable, secret_file, variable

PIPE_WIDTH = 250
DATABASE = ("data_dir", "database_url", "secret_key")
"""The settings that say where the database is."""
KAFKA = ("data_dir", "kafka_bootstrap_servers", *(f"kafka_{member}" for member in KafkaSecurity.model_fields))
"""The settings that say where Kafka is, and how Headwater itself logs in there."""

_MECHANISMS = ("kafka_sasl_mechanism", "kafka_reader_sasl_mechanism")
_FLAG_TYPES: dict[object, type] = {SecretStr: str, Path | None: Path} | {
    Settings.model_fields[name].annotation: str for name in _MECHANISMS
}
"""Mechanisms are checked by the settings, whose refusal of Kerberos says what to use instead."""


def _flag(name: str) -> inspect.Parameter:
    """The flag of a setting; that of a secret is hidden, and `takes_settings` refuses it."""
    field = Settings.model_fields[name]
    kind: Any = _FLAG_TYPES.get(field.annotation, field.annotation)
    shown = "" if field.default in ("", None) else f" Default: {field.default}."
    option = typer.Option(
        help=f"{field.description}{shown} [{variable(name)}]",
        show_default=False,
        case_sensitive=False,
        hidden=name in SECRETS,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def takes_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one flag per named setting (all, when none is named); it receives `settings`.

    Errors of Headwater's own end the command with their sentence and status 2.
    """
    flags = [_flag(name) for name in names or Settings.model_fields]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            given = {flag.name: arguments.pop(flag.name) for flag in flags}
            _refuse_secrets(given)
            try:
                command(settings=load({n: value for n, value in given.items() if value is not None}), **arguments)
            except HeadwaterError as error:
                fail(error.detail)

        own = [p for p in inspect.signature(command).parameters.values() if p.name != "settings"]
        parameters = [*own, *flags]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _refuse_secrets(given: Mapping[str, Any]) -> None:
    """End the command when a secret is given by a flag: all users of this machine can read command lines."""
    for name in sorted(SECRETS.intersection(name for name, value in given.items() if value is not None)):
        fail(
            f"--{name.replace('_', '-')} is not accepted, because other users of this machine can read command lines. "
            f"Set the variable {variable(name)}, or {file_variable(name)} to the path of a file that holds the value."
        )


def load(flags: dict[str, Any]) -> Settings:
    """Settings from flags, then variables, then defaults. Ends the command with a sentence when one is not valid."""
    try:
        return Settings(**flags)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        flag = "" if name in SECRETS else f" or --{name.replace('_', '-')}"
        fail(f"The setting {name} ({variable(name)}{flag}) is not valid: {first['msg']}.")


def origin(name: str, settings: Settings, flags: Mapping[str, Any]) -> str:
    """Where a setting's value came from. flags: by setting, None where none was given."""
    if flags[name] is not None:
        return "flag"
    if name in SECRETS and secret_file(name) is not None:
        return file_variable(name)
    return variable(name) if name in settings.model_fields_set else "default"


def as_utc(time: datetime | None) -> datetime | None:
    """A time of the command line, which has no zone."""
    return None if time is None else time.replace(tzinfo=UTC)


def wide_console() -> Console:
    """A console for tables; in a pipe it is as wide as they need, so that nothing is cut."""
    return Console() if Console().is_terminal else Console(width=PIPE_WIDTH)


def fail(sentence: str) -> NoReturn:
    """Print a sentence on standard error and end with status 2."""
    print(f"headwater: {sentence}", file=sys.stderr)
    raise typer.Exit(2)
