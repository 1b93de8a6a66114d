"""`headwater owners`: shows and sets the quotas of single owners."""

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
MAX_DIGITS = 18
"""More digits would not fit into the database's column."""
NONE, DEFAULT = "none", "default"
"""The values of a flag that make an owner unlimited, and that restore the default limit."""
DEFAULTS_FROM_THIS_ENVIRONMENT = (
    "Default quotas were read from the HEADWATER_QUOTA_* variables of this command's environment, and may differ from "
    "the default quotas of the running service. Run this command in the service's environment, or use GET "
    "/api/v1/flow/limits with a key of the owner."
)
Owner = Annotated[str, typer.Argument(help="The owner's name, as `headwater keys list` shows it.")]


def _set(settings: Settings, owner: Owner, **flags: str | None) -> None:
    """Set quotas of one owner. They take effect at once in all processes."""
    from headwater.app.database import installation_keys, installation_quotas

    texts = {name: flags[f"max_{name}"] for name in QUOTA_NAMES if flags[f"max_{name}"] is not None}
    if not texts:
        raise InvalidInput("Name at least one quota, as in --max-workers 10.")
    limits = {name: _parse_limit(name, text) for name, text in texts.items() if text != DEFAULT}
    with installation_quotas(settings) as quotas:
        quotas.set_limits(owner, limits, [name for name in texts if name not in limits])
    print(f"{owner}: {', '.join(f'{name} {text}' for name, text in texts.items())}")
    with installation_keys(settings) as keys:
        if all(key.owner != owner for key in keys.list()):
            print(f"There is no key of an owner {owner} yet. `headwater keys list` shows the owners that have keys.")


def _parse_limit(name: QuotaName, text: str | None) -> int | None:
    """Return the limit in a flag; None for unlimited. Raises InvalidInput."""
    if text == NONE:
        return None
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > MAX_DIGITS:
        raise InvalidInput(
            f"--max-{name.replace('_', '-')} takes a whole number below 10^{MAX_DIGITS}, {NONE} or {DEFAULT}."
        )
    return int(text)


def _show(settings: Settings, owner: Owner) -> None:
    """Show the usage and the limit of each quota of an owner."""
    from headwater.app.database import quota_usage_and_overrides

    usages, overrides = quota_usage_and_overrides(settings, owner)
    table = Table("quota", "used", "limit", "set by", "what is counted")
    for usage in usages:
        set_by = "`headwater owners set`" if usage.name in overrides else environment_variable(f"quota_{usage.name}")
        table.add_row(usage.name, f"{usage.used:,}", _limit_text(usage.limit), set_by, QUOTA_MEANINGS[usage.name])
    wide_console().print(table)
    if len(overrides) < len(usages):
        print(DEFAULTS_FROM_THIS_ENVIRONMENT)


def _list(settings: Settings) -> None:
    """List the owners that have limits of their own.

    Owners that are not listed have the limits in the settings.
    """
    from headwater.app.database import installation_quotas

    table = Table("owner", *QUOTA_NAMES)
    with installation_quotas(settings) as quotas:
        for owner, limits in quotas.overrides().items():
            texts = (_limit_text(limits[name]) if name in limits else DEFAULT for name in QUOTA_NAMES)
            table.add_row(Text(owner), *texts)
    wide_console().print(table)


def _limit_text(limit: int | None) -> str:
    return NONE if limit is None else f"{limit:,}"


def _with_flags(command: Any) -> Any:
    """Replace `**flags` in the command's signature by one flag per quota."""
    parameters = [each for each in inspect.signature(command).parameters.values() if each.kind is not each.VAR_KEYWORD]
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
    command.__signature__ = inspect.Signature([*parameters, *flags])
    return command


app.command("set")(takes_settings(*DATABASE)(_with_flags(_set)))
app.command("show")(takes_settings(*DATABASE, "redis_url")(_show))
app.command("list")(takes_settings(*DATABASE)(_list))
