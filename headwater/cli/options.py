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
from headwater.settings import SECRETS, Settings, environment_variable, file_environment_variable, secret_file

PIPE_WIDTH = 250
DATABASE = ("data_dir", "database_url", "secret_key", "old_secret_key")
"""The settings with which a command connects to the database."""
KAFKA = ("data_dir", "kafka_bootstrap_servers", *(f"kafka_{member}" for member in KafkaSecurity.model_fields))
"""The settings with which a command connects to Kafka."""

_MECHANISMS = ("kafka_sasl_mechanism", "kafka_reader_sasl_mechanism")
_FLAG_TYPES: dict[object, type] = {SecretStr: str, Path | None: Path} | {
    Settings.model_fields[name].annotation: str for name in _MECHANISMS
}
"""Flags of SASL mechanisms are plain text. Settings validates them, and its error for Kerberos names alternatives."""


def _flag(name: str) -> inspect.Parameter:
    """Return the flag of a setting. The flag of a secret is hidden, and `takes_settings` rejects it."""
    field = Settings.model_fields[name]
    kind: Any = _FLAG_TYPES.get(field.annotation, field.annotation)
    shown = "" if field.default in ("", None) else f" Default: {field.default}."
    option = typer.Option(
        help=f"{field.description}{shown} [{environment_variable(name)}]",
        show_default=False,
        case_sensitive=False,
        hidden=name in SECRETS,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def takes_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one flag per named setting, or all flags when none is named.

    The command receives the parameter `settings`. A HeadwaterError ends the command with its message and exit status 2.
    """
    flags = [_flag(name) for name in names or Settings.model_fields]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            flag_values = {flag.name: arguments.pop(flag.name) for flag in flags}
            _refuse_secrets(flag_values)
            try:
                command(settings=load({n: value for n, value in flag_values.items() if value is not None}), **arguments)
            except HeadwaterError as error:
                exit_with_error(error.detail)

        own = [p for p in inspect.signature(command).parameters.values() if p.name != "settings"]
        parameters = [*own, *flags]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _refuse_secrets(flag_values: Mapping[str, Any]) -> None:
    """End the command when a secret is given by a flag: all users of this machine can read command lines."""
    for name in sorted(SECRETS.intersection(name for name, value in flag_values.items() if value is not None)):
        exit_with_error(
            f"--{name.replace('_', '-')} is not accepted, because other users of this machine can read command lines. "
            f"Set the variable {environment_variable(name)}, or {file_environment_variable(name)} to the path of a "
            "file that holds the value."
        )


def load(flags: dict[str, Any]) -> Settings:
    """Read the settings from flags, variables and defaults. Ends the command with a message when one is invalid."""
    try:
        return Settings(**flags)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        flag = "" if name in SECRETS else f" or --{name.replace('_', '-')}"
        exit_with_error(f"The setting {name} ({environment_variable(name)}{flag}) is not valid: {first['msg']}.")


def setting_source(name: str, settings: Settings, flags: Mapping[str, Any]) -> str:
    """Return the source of a setting's value. `flags` has the value of each setting's flag; None for an omitted one."""
    if flags[name] is not None:
        return "flag"
    if name in SECRETS and secret_file(name) is not None:
        return file_environment_variable(name)
    return environment_variable(name) if name in settings.model_fields_set else "default"


def as_utc(time: datetime | None) -> datetime | None:
    """Return a time of the command line, which has no time zone, in UTC."""
    return None if time is None else time.replace(tzinfo=UTC)


def wide_console() -> Console:
    """Return a console for tables. In a pipe it has PIPE_WIDTH columns, so that cells are not truncated."""
    return Console() if Console().is_terminal else Console(width=PIPE_WIDTH)


def exit_with_error(message: str) -> NoReturn:
    """Print a message on standard error and end with status 2."""
    print(f"headwater: {message}", file=sys.stderr)
    raise typer.Exit(2)
