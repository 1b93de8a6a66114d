"""The page of all endpoints."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from headwater.cli.docs.markdown import document, paragraphs, table
from headwater.cli.docs.openapi import description
from headwater.cli.docs.schema import alternatives, members, rules, type_name

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
INTRODUCTION = """\
Requests and responses are JSON. Send the API key in the header `X-API-Key`. Every response has the header
`X-Request-Id`. [errors.md](errors.md) lists the errors, [limits.md](limits.md) the limits, and
[configuration.md](configuration.md) the members of a configuration. The machine-readable description is
[openapi.json](openapi.json); a running Headwater serves it at `/openapi.json` and `/docs`."""


def page() -> str:
    """Return the page: one section per operation, by tag."""
    tags = {tag["name"]: tag["description"] for tag in description()["tags"]}
    return document(
        "Endpoints",
        *paragraphs(INTRODUCTION),
        *(line for tag, text in tags.items() for line in ("", f"## {tag}", "", *paragraphs(text), *_operations(tag))),
    )


def _operations(tag: str) -> Iterator[str]:
    for path, methods in description()["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield from ("", f"### {method.upper()} {path}", "")
                yield from _operation(operation)


def _operation(operation: dict[str, Any]) -> Iterator[str]:
    yield from paragraphs(f"**{operation['summary']}** (`{operation['operationId']}`). {operation['description']}")
    if parameters := operation.get("parameters"):
        rows = [
            (
                f"`{parameter['name']}`",
                parameter["in"],
                type_name(parameter["schema"]),
                rules(parameter["schema"]),
                _default(parameter),
                parameter.get("description", ""),
            )
            for parameter in parameters
        ]
        yield from ("", *table(("Parameter", "In", "Type", "Rules", "Default", "Meaning"), rows))
    if body := operation.get("requestBody"):
        yield from _request(body["content"][JSON])
    yield from _responses(operation["responses"])


def _default(parameter: dict[str, Any]) -> str:
    if parameter.get("required"):
        return "required"
    default = parameter["schema"].get("default")
    return "" if default is None else f"`{default}`"


def _request(content: dict[str, Any]) -> Iterator[str]:
    examples = [example["value"] for example in content.get("examples", {}).values()]
    for schema in alternatives(content["schema"]):
        if "properties" in schema:
            yield from ("", "Request body:", "", *members(schema))
        elif "items" in schema:
            for item in alternatives(schema["items"]):
                yield from ("", f"Request body, an array ({rules(schema)}) of:", "", *members(item))
    for example in examples or [content["example"]]:
        yield from ("", "Example of a request body:", "", *_code(example))


def _responses(responses: dict[str, Any]) -> Iterator[str]:
    errors = [status for status in responses if int(status) >= HTTPStatus.BAD_REQUEST]
    for status, response in responses.items():
        if status in errors:
            continue
        headers = ", ".join(f"`{name}`" for name in response["headers"] if name != "X-Request-Id")
        yield from ("", f"Returns **{status}**" + (f" with the header {headers}" if headers else "") + ":")
        yield from _body(response.get("content", {}))
    yield from ("", "Errors: " + ", ".join(errors) + "." if errors else "It has no errors.")


def _body(content: dict[str, Any]) -> Iterator[str]:
    """Yield the example of a response body."""
    if "example" in content.get(JSON, {}):
        yield from ("", *_code(content[JSON]["example"]))
    elif EVENT_STREAM in content:
        yield from ("", "```", *content[EVENT_STREAM]["example"].strip().splitlines(), "```")
    else:
        yield from ("", "no JSON body.")


def _code(value: Any) -> Iterator[str]:
    yield from ("```json", json.dumps(value, indent=2, ensure_ascii=False), "```")
