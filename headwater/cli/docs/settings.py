"""The page of all settings."""

from typing import Any

from pydantic import SecretStr

from headwater.cli.docs.markdown import document, paragraphs, table
from headwater.settings import SECRETS, Settings, environment_variable, file_environment_variable

INTRODUCTION = """\
A setting is read from its flag, otherwise from its variable, otherwise it has its default. A command has the flags of
the settings that it uses; `headwater settings` shows all values and their sources. When the address of Kafka, Valkey or
the database is empty, the embedded one is used.

Secrets have no flag, because all users of a machine can read command lines. A secret is read from its variable, or from
a file whose path is in the variable with `_FILE` at its end; it is an error to set both."""


def page() -> str:
    """Return the page: one row per setting."""
    rows = [
        (f"`{environment_variable(name)}`", _flag(name), _default(field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    ]
    return document(
        "Settings",
        *paragraphs(INTRODUCTION),
        "",
        *table(("Variable", "Flag", "Default", "Meaning"), rows),
    )


def _flag(name: str) -> str:
    return f"none; `{file_environment_variable(name)}`" if name in SECRETS else f"`--{name.replace('_', '-')}`"


def _default(value: Any) -> str:
    default = value.get_secret_value() if isinstance(value, SecretStr) else value
    if default in ("", None):
        return "empty"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"
