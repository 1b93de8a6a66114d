"""The page that lists the members of the request body that saves a configuration."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from headwater.cli.docs.markdown import document, paragraphs
from headwater.cli.docs.openapi import description
from headwater.cli.docs.schema import alternatives, members
from headwater.model.sink import SINK_MODELS
from headwater.model.transforms import TRANSFORM_MODELS

INTRODUCTION = """\
The body of `POST /api/v1/flow` and `PUT /api/v1/flow/{config_id}`. A member that is in none of these tables is rejected
with 422. See [expressions.md](expressions.md) for `filter_expr`, [scripts.md](scripts.md) for `script`,
[streams.md](streams.md) for `chain` and `entity`, and [limits.md](limits.md) for the limits that the operator sets."""
MODELS_WITH_DOCSTRINGS: Mapping[str, Mapping[str, type[BaseModel]]] = {
    "pipeline_config.transforms": TRANSFORM_MODELS,
    "pipeline_config.sinks": SINK_MODELS,
}
"""The models whose docstrings say what each type does, by the path of the objects."""


def page() -> str:
    """Return the page: one table per object in the body."""
    operation = description()["paths"]["/api/v1/flow"]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    return document(
        "Configuration",
        *paragraphs(INTRODUCTION),
        *_objects("", body),
    )


def _objects(path: str, schema: dict[str, Any]) -> Iterator[str]:
    """Yield a table for each form of an object, and then the tables of its members."""
    forms = [form for form in alternatives(schema) if "properties" in form]
    for form in forms:
        tag = form["properties"].get("type", {}).get("const")
        title = (f"`{path}`" if path else "The body") + (f", type `{tag}`" if tag else "")
        yield from ("", f"## {title}", "", *paragraphs(_description(path, tag, form)), "", *members(form))
    for form in forms:
        for name, member in form["properties"].items():
            for alternative in alternatives(member):
                yield from _objects(f"{path}.{name}".lstrip("."), alternative.get("items", alternative))


def _description(path: str, tag: str | None, form: dict[str, Any]) -> str:
    """Return what an object is, or what its type does."""
    model = MODELS_WITH_DOCSTRINGS.get(path, {}).get(tag or "")
    return str(form["description"]) if model is None else inspect.getdoc(model) or ""
