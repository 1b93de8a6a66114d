"""The exit statuses of commands, and what is printed about an error."""

import sys
from typing import Any, Final, NoReturn

import typer

from headwater_client.errors import (
    Ambiguous,
    ConfigurationError,
    ConnectionFailed,
    HeadwaterError,
    MissingExtra,
    NotAllowed,
    NotFound,
    RateLimited,
    RequestFailed,
    ServerError,
    Unauthenticated,
    Unavailable,
    UnexpectedResponse,
)

FAILED: Final = 1
WOULD_CHANGE: Final = 2
NOT_FOUND: Final = 3
NOT_ALLOWED: Final = 4
SERVICE_UNAVAILABLE: Final = 5
USAGE: Final = 64
INTERRUPTED: Final = 130

_RULES: Final[tuple[tuple[tuple[type[HeadwaterError], ...], int, str], ...]] = (
    ((NotFound,), NOT_FOUND, "`headwater flows list` shows your pipelines."),
    ((Unauthenticated,), NOT_ALLOWED, "Set HEADWATER_KEY or --key, or choose a profile with --profile."),
    ((NotAllowed,), NOT_ALLOWED, "Use another API key with --key or --profile."),
    ((ConnectionFailed,), SERVICE_UNAVAILABLE, "Start the server with `headwater up`, or name another one with --url."),
    (
        (Unavailable, RateLimited),
        SERVICE_UNAVAILABLE,
        "Run the command again; `headwater status` shows what is unavailable.",
    ),
    ((ServerError,), FAILED, "Look at the log of the server."),
    ((UnexpectedResponse,), FAILED, "Check --url: another server may answer there."),
    ((Ambiguous,), USAGE, ""),
    ((ConfigurationError,), USAGE, "Options: --url, --key and --profile; `headwater up` leaves a key in its folder."),
    ((MissingExtra,), FAILED, ""),
)


class CommandError(Exception):
    """A command can't do what it was asked to do.

    Attributes:
        code: The exit status.
        advice: What to do next.
    """

    def __init__(self, message: str, code: int = FAILED, advice: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.advice = advice


def exit_with(error: Exception, *, as_json: bool) -> NoReturn:
    """Print an error on standard error, and end with its exit status."""
    code, advice = _rule(error)
    if as_json:
        _print_json(error, code)
    else:
        print(f"headwater: {_message(error)}", file=sys.stderr)
        if advice:
            print(advice, file=sys.stderr)
    raise typer.Exit(code)


def exit_code_of(error: Exception) -> int:
    """Return the exit status for an error."""
    return _rule(error)[0]


def _message(error: Exception) -> str:
    lines = [str(error)]
    if isinstance(error, Ambiguous):
        lines += [f"  {config_id}  {name}" for config_id, name in error.candidates]
    return "\n".join(lines)


def _rule(error: Exception) -> tuple[int, str]:
    if isinstance(error, CommandError):
        return error.code, error.advice
    for kinds, code, advice in _RULES:
        if isinstance(error, kinds):
            return code, advice
    return (FAILED if isinstance(error, HeadwaterError) else USAGE), ""


def _print_json(error: Exception, code: int) -> None:
    import msgspec

    document: Any = {"title": type(error).__name__, "detail": str(error), "exit_code": code}
    if isinstance(error, RequestFailed):
        document = msgspec.to_builtins(error.problem)
    print(msgspec.json.encode(document).decode(), file=sys.stderr)
