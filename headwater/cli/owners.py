"""`headwater owners`: the quotas of single owners."""

import inspect
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from headwater.cli.options import DATABASE, takes_settings, wide_console
from headwater.errors import InvalidInput
from headwater.model.quota import MEANINGS, QUOTA_NAMES, QuotaName
from headwater.settings import Settings, environment_variable

app = typer.Typer(help="Show and set what single owners may have.", no_args_is_help=True)
NONE, DEFAULT = "none", "default"
NOT_OF_THE_SERVICE = (
    "Quotas of HEADWATER_QUOTA_* variables were read from the environment of this command. The running service has "
    "those that it was started with: run this command in the same environment, or read the service's with a key of "
    "the owner and GET /api/v1/flow/limits."
)
Owner = Annotated[str, typer.Argument(help="The owner's name, as `headwater keys list` shows it.")]


def _set(settings: Settings, owner: Owner, **flags: str | None) -> None:
    """Give an owner quotas of its own. They hold at once, for all processes."""
    from headwater.app.control import keys_of, quotas_of

    given = {name: flags[f"max_{name}"] for name in QUOTA_NAMES if flags[f"max_{name}"] is not None}
    if not given:
        raise InvalidInput("Name at least one quota, as in --max-workers 10.")
    changes = {name: _number(name, text) for name, text in given.items() if text != DEFAULT}
    with quotas_of(settings) as quotas:
        quotas.set_limits(owner, changes, [name for name in given if name not in changes])
    print(f"{owner}: {', '.join(f'{name} {text}' for name, text in given.items())}")
    with keys_of(settings) as keys:
        if all(key.owner != owner for key in keys.list()):
            print(f"No key belongs to an owner {owner} yet. `headwater keys list` shows the owners that have one.")


def _number(name: QuotaName, text: str | None) -> int | None:
    if text == NONE:
        return None
    if text is None or not text.isascii() or not text.isdecimal():
        raise InvalidInput(f"--max-{name.replace('_', '-')} takes a whole number, {NONE} or {DEFAULT}.")
    return int(text)


def _show(settings: Settings, owner: Owner) -> None:
    """Show what an owner has, and may have."""
    from headwater.app.control import limits_of

    limits, own = limits_of(settings, owner)
    table = Table("quota", "used", "allowed", "set by", "what is counted")
    for limit in limits:
        set_by = "owners set" if limit.name in own else environment_variable(f"quota_{limit.name}")
        table.add_row(limit.name, f"{limit.used:,}", _shown(limit.allowed), set_by, MEANINGS[limit.name])
    wide_console().print(table)
    if len(own) < len(limits):
        print(NOT_OF_THE_SERVICE)


def _list(settings: Settings) -> None:
    """List the owners that have quotas of their own. All others have those of the settings."""
    from headwater.app.control import quotas_of

    table = Table("owner", *QUOTA_NAMES)
    with quotas_of(settings) as quotas:
        for owner, own in quotas.overrides().items():
            table.add_row(Text(owner), *(_shown(own[name]) if name in own else DEFAULT for name in QUOTA_NAMES))
    wide_console().print(table)


def _shown(allowed: int | None) -> str:
    return NONE if allowed is None else f"{allowed:,}"


def _with_flags(command: Any) -> Any:
    """The command with one flag per quota in place of `**flags`."""
    own = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
    flags = [
        inspect.Parameter(
            f"max_{name}",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None, typer.Option(help=f"{meaning.capitalize()}: a number, {NONE} or {DEFAULT}.")
            ],
        )
        for name, meaning in MEANINGS.items()
    ]
    command.__signature__ = inspect.Signature([*own, *flags])
    return command


app.command("set")(takes_settings(*DATABASE)(_with_flags(_set)))
app.command("show")(takes_settings(*DATABASE, "redis_url")(_show))
app.command("list")(takes_settings(*DATABASE)(_list))
