"""Parses query parameters and the If-Match header, and reports pydantic's faults as JSON pointers (RFC 6901)."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from pydantic import BeforeValidator
from starlette.datastructures import QueryParams

from headwater.errors import Fault, InvalidInput
from headwater.model.sink import SINK_MODELS
from headwater.model.transforms import TRANSFORM_MODELS
from headwater.model.value_sets import MAX_REPORTED_FAULTS
from headwater.services.flows import IfMatch

# ---- faults ----

UNION_TAGS = TRANSFORM_MODELS.keys() | SINK_MODELS.keys()
"""The discriminator values of the unions in request bodies: the types of transforms and of sinks."""
TAG = "type"
TAG_FAULTS = ("union_tag_not_found", "union_tag_invalid")
SUBJECT = re.compile("^(?:Input|String|List) should")
"""Matches the subject of pydantic's messages. It is cut off, since the JSON pointer is the subject of our sentences."""
MESSAGES_BY_TYPE = {
    "missing": "is required",
    "extra_forbidden": "is not a member of this object; correct its name or omit it",
    "union_tag_not_found": "is required",
    "model_attributes_type": "must be a JSON object",
    "string_unicode": "must be valid Unicode",
}


def pointer(parts: Iterable[str | int]) -> str:
    """Return a JSON pointer: `~` and `/` inside a name are escaped (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def faults_of(errors: Sequence[Any]) -> list[Fault]:
    """Return the faults to report for pydantic's errors, at most MAX_REPORTED_FAULTS.

    A fault in a parameter points to `/<parameter>`, as if parameters were members of a body.
    """
    return [Fault(pointer(_path(error)), _sentence(error)) for error in errors[:MAX_REPORTED_FAULTS]]


def _path(error: Any) -> list[str | int]:
    """Return pydantic's `loc` without its first part (body, query or path) and without the tags of unions.

    pydantic reports a union without a valid tag as a whole; the path then points to the tag.
    """
    parts = list(error["loc"][1:])
    path = [part for i, part in enumerate(parts) if not _is_tag(parts, i)]
    return [*path, TAG] if error["type"] in TAG_FAULTS else path


def _is_tag(parts: Sequence[str | int], i: int) -> bool:
    """Whether a part is a union tag, which pydantic inserts after a list index.

    When the body itself is a union, its tag is the first part, and a member follows.
    """
    if parts[i] not in UNION_TAGS:
        return False
    return isinstance(parts[i - 1], int) if i else len(parts) > 1


def _sentence(error: Any) -> str:
    if error["type"] == "union_tag_invalid":
        tags = str(error["ctx"]["expected_tags"])
        return "must be " + tags.replace("'", '"').replace(", ", " or ")
    text = MESSAGES_BY_TYPE.get(error["type"], error["msg"]).removeprefix("Value error, ")
    text = SUBJECT.sub("must", text).replace(" after validation", "")
    if error.get("input", "") is None and text.startswith("must be "):
        text += ", not null"
    return str(text[:1].lower() + text[1:])


# ---- query parameters ----

# pydantic alone would also accept integers such as `1_0` and ` 7`.
# Put the validators after `Query(…)` in an Annotated type: before it, they would remove the constraints of the Query
# from the OpenAPI schema. pydantic runs validators from right to left, so NULL_TO_NONE goes after STRICT_INTEGER.

TRUE, FALSE = ("true", "1", "yes", "y", "on", "t"), ("false", "0", "no", "n", "off", "f")


def _require_digits(sent: object) -> object:
    if isinstance(sent, str) and not re.fullmatch("-?[0-9]+", sent):
        raise ValueError("must be an integer, in digits alone")
    return sent


def _null_to_none(sent: object) -> object:
    return None if sent in ("", "null") else sent


def _to_boolean(sent: object) -> object:
    if not isinstance(sent, str):
        return sent
    word = sent.lower()  # clients in Python write True
    if word not in TRUE + FALSE:
        raise ValueError("must be true or false")
    return word in TRUE


STRICT_INTEGER = BeforeValidator(_require_digits)
NULL_TO_NONE = BeforeValidator(_null_to_none)
"""Converts an empty or `null` cursor to None (the first page): some clients send the last page's null as text."""
STRICT_BOOLEAN = BeforeValidator(_to_boolean)


def refuse_unknown(query_string: bytes, known: Collection[str]) -> None:
    """Raise InvalidInput for query parameters that the operation does not have, so that a typo is noticed."""
    unknown = sorted(set(QueryParams(query_string)).difference(known))
    if not unknown:
        return
    parameters = f"the query parameters {', '.join(sorted(known))}" if known else "no query parameters"
    detail = f"is unknown; this operation has {parameters}"
    faults = [Fault(pointer([name]), detail) for name in unknown[:MAX_REPORTED_FAULTS]]
    raise InvalidInput("The request was refused.", faults, unknown[0])


# ---- If-Match (RFC 9110, section 13.1.1) ----

_ENTITY_TAG = re.compile(r'\s*(W/)?"([^"]*)"\s*(?:,|$)')


def revisions(lines: list[str]) -> IfMatch:
    """Return the revisions in the lines of an If-Match header; None for `*` and without the header.

    Weak entity tags, and tags that are not revisions, match nothing.
    """
    if not lines or "*" in map(str.strip, lines):
        return None
    tags = (match for line in lines for match in _ENTITY_TAG.finditer(line))
    return frozenset(int(tag) for weak, tag in (match.groups() for match in tags) if not weak and _is_revision(tag))


def _is_revision(tag: str) -> bool:
    """Whether a tag is a revision number in canonical form. The limit on its length bounds the cost of int()."""
    return len(tag) < 20 and tag.isascii() and tag.isdecimal() and str(int(tag)) == tag
