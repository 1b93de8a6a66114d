"""All settings."""

from typing import Any

from pydantic import SecretStr

from headwater.cli.docs.markdown import document, table
from headwater.cli.options import variable
from headwater.settings import Settings


def page() -> str:
    """One row per setting."""
    rows = [
        (f"`{variable(name)}`", f"`--{name.replace('_', '-')}`", _default(field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    ]
    return document(
        "Settings",
        "A setting is read from its flag, else from its variable, else it has its default. A command takes the flags",
        "of the settings that it uses; `headwater settings` shows all values and where each came from. Where the",
        "address of Kafka, Valkey or the database is empty, the embedded one is used.",
        "",
        *table(("Variable", "Flag", "Default", "Meaning"), rows),
    )


def _default(value: Any) -> str:
    plain = value.get_secret_value() if isinstance(value, SecretStr) else value
    if plain in ("", None):
        return "empty"
    return f"`{str(plain).lower() if isinstance(plain, bool) else plain}`"
