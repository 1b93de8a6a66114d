"""`headwater owners`: the quotas of single owners."""

import inspect
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from headwater.cli.options import DATABASE, takes_settings, wide_console
from headwater.errors import InvalidInput
from headwater.model.quota import QUOTA_MEANINGS, QUOTA_NAMES, QuotaName
from headwater.settings import Settings, environment_variable

app = typer.Typer(help="Show and set the quotas of single owners.", no_args_is_help=True)
NONE, DEFAULT = "none", "default"
DEFAULTS_FROM_THIS_ENVIRONMENT = (
    "Default quotas were read from the HEADWATER_QUOTA_* variables of this command's environment, and may differ from "
    "those of the running service. Run this command in the service's environment, or use GET /api/v1/flow/limits with "
    "a key of the owner."
)
Owner = Annotated[str, typer.Argument(help="The owner's name, as `headwater keys list` shows it.")]


def _set(settings: Settings, owner: Owner, **flags: str | None) -> None:
    """Set quotas of one owner. They take effect at once in all processes."""
    from headwater.app.database import opened_keys, opened_quotas

    given = {name: flags[f"max_{name}"] for name in QUOTA_NAMES if flags[f"max_{name}"] is not None}
    if not given:
        raise InvalidInput("Name at least one quota, as in --max-workers 10.")
    changes = {name: _number(name, text) for name, text in given.items() if text != DEFAULT}
    with opened_quotas(settings) as quotas:
        quotas.set_limits(owner, changes, [name for name in given if name not in changes])
    print(f"{owner}: {', '.join(f'{name} {text}' for name, text in given.items())}")
    with opened_keys(settings) as keys:
        if all(key.owner != owner for key in keys.list()):
            print(f"There is no key of an owner {owner} yet. `headwater keys list` shows the owners that have keys.")


def _number(name: QuotaName, text: str | None) -> int | None:
    if text == NONE:
        return None
    if text is None or not text.isascii() or not text.isdecimal():
        raise InvalidInput(f"--max-{name.replace('_', '-')} takes a whole number, {NONE} or {DEFAULT}.")
    return int(text)


def _show(settings: Settings, owner: Owner) -> None:
    """Show the usage and the quotas of an owner."""
    from headwater.app.database import quota_limits_of

    limits, own = quota_limits_of(settings, owner)
    table = Table("quota", "used", "allowed", "set by", "what is counted")
    for limit in limits:
        set_by = "owners set" if limit.name in own else environment_variable(f"quota_{limit.name}")
        table.add_row(limit.name, f"{limit.used:,}", _shown(limit.allowed), set_by, QUOTA_MEANINGS[limit.name])
    wide_console().print(table)
    if len(own) < len(limits):
        print(DEFAULTS_FROM_THIS_ENVIRONMENT)


def _list(settings: Settings) -> None:
    """List the owners that have quotas of their own.

    All other owners have the quotas in the settings.
    """
    from headwater.app.database import opened_quotas

    table = Table("owner", *QUOTA_NAMES)
    with opened_quotas(settings) as quotas:
        for owner, own in quotas.overrides().items():
            table.add_row(Text(owner), *(_shown(own[name]) if name in own else DEFAULT for name in QUOTA_NAMES))
    wide_console().print(table)


def _shown(allowed: int | None) -> str:
    return NONE if allowed is None else f"{allowed:,}"


def _with_flags(command: Any) -> Any:
    """Replace `**flags` in the command's signature by one flag per quota."""
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
        for name, meaning in QUOTA_MEANINGS.items()
    ]
    command.__signature__ = inspect.Signature([*own, *flags])
    return command


app.command("set")(takes_settings(*DATABASE)(_with_flags(_set)))
app.command("show")(takes_settings(*DATABASE, "redis_url")(_show))
app.command("list")(takes_settings(*DATABASE)(_list))
