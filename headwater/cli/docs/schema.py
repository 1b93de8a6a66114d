"""Renders JSON schemas as text and tables."""

import json
from collections.abc import Iterator
from typing import Any

from headwater.cli.docs.markdown import table
from headwater.cli.docs.openapi import description
from headwater.model.fields import NO_NUL_PATTERN
from headwater.model.value_sets import VALUE_SCHEMA

MEMBER_HEAD = ("Member", "Type", "Default", "Rules", "Meaning")
RANGES = (("minLength", "maxLength", "characters"), ("minItems", "maxItems", "items"), ("minimum", "maximum", ""))
MAX_PATTERN_CHARS = 100
"""Longer patterns would make a table unreadable; the description of the value says the same in words."""
PATTERNS = {NO_NUL_PATTERN: "no NUL", VALUE_SCHEMA["pattern"]: "not blank"}


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a reference names. Other schemas are returned unchanged."""
    name = schema.get("$ref", "").rpartition("/")[2]
    target: dict[str, Any] = description()["components"]["schemas"][name] if name else schema
    return target


def alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alternative schemas of a value, without null."""
    schema = resolved(schema)
    schemas = schema.get("oneOf") or [each for each in schema.get("anyOf", []) if "type" in each or "$ref" in each]
    return [resolved(each) for each in schemas or [schema] if each.get("type") != "null"]


def members(schema: dict[str, Any]) -> Iterator[str]:
    """Return a table of an object's members."""
    required = schema.get("required", [])
    rows = [
        (
            f"`{name}`",
            type_name(member),
            _default(member, name in required),
            rules(member),
            resolved(member).get("description", "Selects this type." if "const" in member else ""),
        )
        for name, member in schema["properties"].items()
    ]
    return table(MEMBER_HEAD, rows)


def type_name(schema: dict[str, Any]) -> str:
    """Return the type of a value, such as `string` or `array of object`."""
    names = dict.fromkeys(_type_name(alternative) for alternative in alternatives(schema))
    null = " or null" if any(each.get("type") == "null" for each in schema.get("anyOf", [])) else ""
    return " or ".join(names) + null


def _type_name(schema: dict[str, Any]) -> str:
    if "items" in schema:
        return f"array of {type_name(schema['items'])}"
    return str(schema.get("type", "any"))


def rules(schema: dict[str, Any]) -> str:
    """Return the constraints on a value."""
    return "; ".join(dict.fromkeys(rule for each in (schema, *alternatives(schema)) for rule in _rules(each)))


def _rules(schema: dict[str, Any]) -> Iterator[str]:
    if "const" in schema:
        yield f"`{schema['const']}`"
    if "enum" in schema:
        yield "one of " + ", ".join(f"`{value}`" for value in schema["enum"])
    for low, high, unit in RANGES:
        if low in schema or high in schema:
            yield _range(schema.get(low), schema.get(high), unit)
    if "pattern" in schema:
        yield PATTERNS.get(schema["pattern"]) or _pattern(schema["pattern"])
    if "items" in schema:
        yield from (f"each: {rule}" for rule in _rules(resolved(schema["items"])))


def _pattern(pattern: str) -> str:
    return f"matches `{pattern}`" if len(pattern) <= MAX_PATTERN_CHARS else "matches the pattern in openapi.json"


def _range(low: float | None, high: float | None, unit: str) -> str:
    if high is None:
        text = f"at least {low:,g}"
    elif low is None:
        text = f"at most {high:,.0f}"
    else:
        text = f"{low:,.0f} to {high:,.0f}"
    return f"{text} {unit}".rstrip()


def _default(schema: dict[str, Any], required: bool) -> str:
    if required:
        return "required"
    return f"`{json.dumps(schema['default'])}`" if schema.get("default") is not None else ""
