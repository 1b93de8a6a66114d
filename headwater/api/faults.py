"""Converts pydantic's errors to faults, whose places are JSON pointers (RFC 6901)."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from headwater.errors import Fault
from headwater.model.parallelism import PARALLELISM_TAGS
from headwater.model.sink import SINK_MODELS
from headwater.model.transforms import TRANSFORM_MODELS
from headwater.model.value_sets import MAX_REPORTED_FAULTS

UNION_TAGS = TRANSFORM_MODELS.keys() | SINK_MODELS.keys()
"""The discriminator values of the unions in request bodies: the types of transforms and of sinks."""
TAG = "type"
TAG_ERRORS = ("union_tag_not_found", "union_tag_invalid")
SUBJECT = re.compile("^(?:Input|String|List) should")
"""Matches the subject and the verb of pydantic's messages, which "must" replaces.

The subject of a fault's sentence is the JSON pointer.
"""
MESSAGES_BY_TYPE = {
    "missing": "is required",
    "extra_forbidden": "is not a member of this object; correct its name or omit it",
    "union_tag_not_found": "is required",
    "model_attributes_type": "must be a JSON object",
    "string_unicode": "must be valid Unicode",
}


def pointer(parts: Iterable[str | int]) -> str:
    """Return the JSON pointer of a path; `~` and `/` inside a name are escaped."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def faults_of(errors: Sequence[Any], *, is_union_body: bool = False) -> list[Fault]:
    """Return the faults that pydantic's errors report, at most MAX_REPORTED_FAULTS.

    The pointer of a fault in a query parameter is `/<parameter>`, as if parameters were members of a body.

    Args:
        errors: The errors.
        is_union_body: Whether the body itself is one of several types of objects.
    """
    return [Fault(pointer(_path(error, is_union_body)), _sentence(error)) for error in errors[:MAX_REPORTED_FAULTS]]


def _path(error: Any, is_union_body: bool) -> list[str | int]:
    """Return pydantic's `loc` without its first part and without the tags of unions.

    The first part is `body`, `query` or `path`. When a union has no valid tag, pydantic's `loc` is the whole union; the
    returned path then leads to the tag.
    """
    parts = list(error["loc"][1:])
    path = [part for index, part in enumerate(parts) if not _is_tag(parts, index, is_union_body)]
    return [*path, TAG] if error["type"] in TAG_ERRORS else path


def _is_tag(parts: Sequence[str | int], index: int, is_union_body: bool) -> bool:
    """Whether a part is a union tag, which pydantic inserts after the path of the union.

    The unions are the items of lists, and `parallelism`. When the body itself is a union, its tag is the
    first part, and a member follows.
    """
    if parts[index] in PARALLELISM_TAGS:
        return True
    if parts[index] not in UNION_TAGS:
        return False
    return isinstance(parts[index - 1], int) if index else is_union_body


def _sentence(error: Any) -> str:
    if error["type"] == "union_tag_invalid":
        tags = str(error["ctx"]["expected_tags"])
        return "must be " + tags.replace("'", '"').replace(", ", " or ")
    text = MESSAGES_BY_TYPE.get(error["type"], error["msg"]).removeprefix("Value error, ")
    text = SUBJECT.sub("must", text).replace(" after validation", "").replace("must be True", "must be true")
    if error.get("input", "") is None and text.startswith("must be "):
        text += ", not null"
    return str(text[:1].lower() + text[1:])
