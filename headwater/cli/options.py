"""Command-line flags for settings, one to one with the HEADWATER_* variables.

Secrets have a variable and no flag.
"""

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
"""The width of tables that are not printed on a terminal."""
DATABASE = ("data_dir", "database_url", "secret_key", "old_secret_key")
"""The settings with which a command connects to the database."""
KAFKA = ("data_dir", "kafka_bootstrap_servers", *(f"kafka_{member}" for member in KafkaSecurity.model_fields))
"""The settings with which a command connects to Kafka."""

_MECHANISMS = ("kafka_sasl_mechanism", "kafka_reader_sasl_mechanism")
_FLAG_TYPES: dict[object, type] = {SecretStr: str, Path | None: Path} | {
    Settings.model_fields[name].annotation: str for name in _MECHANISMS
}
"""The type of the flag, by the type of its setting, where the two differ.

The flag of a SASL mechanism is a string instead of a choice, because for Kerberos (GSSAPI) Settings has a better
message than typer.
"""


def _flag(name: str) -> inspect.Parameter:
    """Return the flag of a setting.

    The flag of a secret is hidden, and `takes_settings` rejects it.
    """
    field = Settings.model_fields[name]
    flag_type: Any = _FLAG_TYPES.get(field.annotation, field.annotation)
    default = "" if field.default in ("", None) else f" Default: {field.default}."
    option = typer.Option(
        help=f"{field.description}{default} [{environment_variable(name)}]",
        show_default=False,
        case_sensitive=False,
        hidden=name in SECRETS,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[flag_type | None, option]
    )


def takes_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command one flag per named setting.

    Without names, the command has the flags of all settings. The command receives the parameter `settings`. A
    HeadwaterError ends the command with the message of the error and exit status 2.
    """
    flags = [_flag(name) for name in names or Settings.model_fields]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            flag_values = {flag.name: arguments.pop(flag.name) for flag in flags}
            _exit_on_secrets(flag_values)
            given_flags = {name: value for name, value in flag_values.items() if value is not None}
            try:
                command(settings=load_settings(given_flags), **arguments)
            except HeadwaterError as error:
                exit_with_error(error.detail)

        command_parameters = inspect.signature(command).parameters.values()
        parameters = [*(each for each in command_parameters if each.name != "settings"), *flags]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _exit_on_secrets(flag_values: Mapping[str, Any]) -> None:
    """End the command when a secret is given by a flag.

    All users of this machine can read command lines.
    """
    for name in sorted(SECRETS.intersection(name for name, value in flag_values.items() if value is not None)):
        exit_with_error(
            f"--{name.replace('_', '-')} is not accepted, because other users of this machine can read command lines. "
            f"Set the variable {environment_variable(name)}, or {file_environment_variable(name)} to the path of a "
            "file that holds the value."
        )


def load_settings(flags: dict[str, Any]) -> Settings:
    """Read the settings from flags, variables and defaults.

    Ends the command with a message when a setting is invalid.
    """
    try:
        return Settings(**flags)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        flag = "" if name in SECRETS else f" or --{name.replace('_', '-')}"
        exit_with_error(f"The setting {name} ({environment_variable(name)}{flag}) is not valid: {first['msg']}.")


def setting_source(name: str, settings: Settings, flags: Mapping[str, Any]) -> str:
    """Return the source of a setting's value: its flag, a variable or the default.

    Args:
        name: The name of the setting.
        settings: The settings of the command.
        flags: The value of each setting's flag; None for an omitted flag.
    """
    if flags[name] is not None:
        return "flag"
    if name in SECRETS and secret_file(name) is not None:
        return file_environment_variable(name)
    return environment_variable(name) if name in settings.model_fields_set else "default"


def as_utc(time: datetime | None) -> datetime | None:
    """Return a time of the command line, which has no time zone, as a time in UTC."""
    return None if time is None else time.replace(tzinfo=UTC)


def wide_console() -> Console:
    """Return a console for tables.

    In a pipe it has PIPE_WIDTH columns, so that cells are not truncated.
    """
    return Console() if Console().is_terminal else Console(width=PIPE_WIDTH)


def exit_with_error(message: str) -> NoReturn:
    """Print a message on standard error and end with status 2."""
    print(f"headwater: {message}", file=sys.stderr)
    raise typer.Exit(2)
