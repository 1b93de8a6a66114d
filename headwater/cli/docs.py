"""`headwater docs`: writes the reference pages that are generated from the code."""

import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import SecretStr

import headwater
from headwater.cli.options import variable
from headwater.errors import HeadwaterError, InvalidInput
from headwater.model.stream import CATALOG, Chain, Entity, stream_name
from headwater.settings import Settings

REFERENCE = Path("docs/reference")
GENERATED = "_Written by `make docs` from the code; change it there._"

AS_ANSWERED = {"problems": "`errors`", "retry_after_s": "the seconds in `Retry-After`"}
"""Attributes of errors that their docstrings name, as an answer shows them."""


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command()(docs)


def docs(out: Annotated[Path, typer.Option(help="Directory to write to.")] = REFERENCE) -> None:
    """Write the reference pages that are generated from the code."""
    out.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (out / name).write_text(page(), "utf-8")


def openapi() -> str:
    """The API's description, as GET /openapi.json answers it."""
    from fastapi import FastAPI

    from headwater.api import openapi as description
    from headwater.api.app import DESCRIPTION, ROUTERS

    api = FastAPI(title="Headwater", version=headwater.__version__, description=DESCRIPTION)
    for router in ROUTERS:
        api.include_router(router)
    description.describe(api)
    return json.dumps(api.openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def settings() -> str:
    """One row per setting."""
    rows = [
        (f"`{variable(name)}`", f"`--{name.replace('_', '-')}`", _default(field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    ]
    return _page(
        "Settings",
        "A setting is read from its flag, else from its variable, else it has its default. A command takes the flags",
        "of the settings that it uses; `headwater settings` shows all values and where each came from. Where the",
        "address of Kafka, Valkey or the database is empty, the embedded one is used.",
        "",
        *_table(("Variable", "Flag", "Default", "Meaning"), rows),
    )


def _default(value: Any) -> str:
    plain = value.get_secret_value() if isinstance(value, SecretStr) else value
    if plain in ("", None):
        return "empty"
    return f"`{str(plain).lower() if isinstance(plain, bool) else plain}`"


def streams() -> str:
    """The catalog, with an example record of each stream."""
    rows = [
        (chain.name, entity.name, f"`{chain.source_type}`", f"`stream.{stream_name(chain.name, entity.name)}`",
         f"`{entity.event_time}`" if entity.event_time else "the broker's time")
        for chain, entity in _catalog()
    ]  # fmt: skip
    return _page(
        "Streams",
        "The catalog, as `GET /api/v1/flow/streams` lists it. The topic is the local default; the setting",
        "`HEADWATER_STREAM_BINDINGS` names others, and binds zerolag feeds (`<chain>.<entity>.zerolag`).",
        "",
        *_table(("Chain", "Entity", "Source type", "Topic", "Event time"), rows),
        "",
        "## Example records",
        *_examples(),
    )


def _catalog() -> Iterator[tuple[Chain, Entity]]:
    return ((chain, entity) for chain in CATALOG for entity in chain.entities)


def _examples() -> Iterator[str]:
    """One example per entity: chains of a family share them."""
    chains: dict[int, list[str]] = {}
    for chain, entity in _catalog():
        chains.setdefault(id(entity), []).append(chain.name)
    for entity in {id(entity): entity for _, entity in _catalog()}.values():
        yield from ("", f"### {', '.join(chains[id(entity)])}: {entity.name}", "", "```json")
        yield json.dumps(entity.example, indent=2, ensure_ascii=False)
        yield "```"


def errors() -> str:
    """One row per problem that the API answers with."""
    from headwater.api.health import NOT_READY
    from headwater.api.problems import INTERNAL, KINDS, METHOD_NOT_ALLOWED, URN

    found = [(kind, _first_paragraph(error)) for error, kind in KINDS.items()]
    found += [(METHOD_NOT_ALLOWED, METHOD_NOT_ALLOWED.say), (INTERNAL, INTERNAL.say)]
    found.append((NOT_READY, "Answer of GET /readyz; `dependencies` says which."))
    found.sort(key=lambda one: (one[0].status, one[0].name))
    return _page(
        "Errors",
        "Every error is a problem document (RFC 9457, `application/problem+json`) with `type`, `title`, `status`,",
        "`detail`, `instance` and `request_id`. `invalid-input` has `errors` too: a JSON pointer and a sentence per",
        "fault. 429 and 503 carry `Retry-After`.",
        "",
        *_table(
            ("Type", "Status", "Title", "When"),
            [(f"`{URN}{kind.name}`", str(kind.status.value), kind.title, when) for kind, when in found],
        ),
        "",
        "Kinds of `invalid-input` that name a place in `detail`:",
        "",
        *(f"- {_first_paragraph(error)}" for error in InvalidInput.__subclasses__()),
    )


def _first_paragraph(error: type[HeadwaterError]) -> str:
    text = " ".join((inspect.getdoc(error) or "").split("\n\n")[0].split())
    for attribute, shown in AS_ANSWERED.items():
        text = text.replace(f"`{attribute}`", shown)
    return text


def _page(title: str, *lines: str) -> str:
    return "\n".join((f"# {title}", "", GENERATED, "", *lines)) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(row)} |".replace("\n", " ")


PAGES: dict[str, Callable[[], str]] = {
    "openapi.json": openapi,
    "settings.md": settings,
    "streams.md": streams,
    "errors.md": errors,
}
