"""Faults that pydantic finds, as JSON pointers (RFC 6901) and sentences."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from headwater.errors import Problem
from headwater.model.dataset import MAX_REPORTED_PROBLEMS

TYPES = ("v8", "redis_set_filter", "kafka", "prices")
"""Tags of the unions in bodies: types of transforms and of sinks."""
TAG = "type"
TAG_FAULTS = ("union_tag_not_found", "union_tag_invalid")
SUBJECT = re.compile("^(?:Input|String|List) should")
"""The pointer is the subject of a sentence."""
SENTENCES = {
    "missing": "is required",
    "extra_forbidden": "is no member of this object; correct its name or leave it out",
    "union_tag_not_found": "is required",
    "model_attributes_type": "must be a JSON object",
    "string_unicode": "must be valid Unicode",
}


def pointer(parts: Iterable[str | int]) -> str:
    """RFC 6901: `~` and `/` inside a name are escaped."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def problems_of(faults: Sequence[Any]) -> list[Problem]:
    """The problems to report for pydantic's errors, at most MAX_REPORTED_PROBLEMS.

    A fault in a parameter points to `/<parameter>`, as if parameters were members of a body.
    """
    return [Problem(pointer(_path(fault)), _sentence(fault)) for fault in faults[:MAX_REPORTED_PROBLEMS]]


def _path(fault: Any) -> list[str | int]:
    """Without the first part (body, query or path), and without the tag that pydantic puts after a union's place.

    A union without its tag is at fault as a whole for pydantic; for a reader it is the tag.
    """
    parts = list(fault["loc"][1:])
    path = [part for i, part in enumerate(parts) if not _is_tag(parts, i)]
    return [*path, TAG] if fault["type"] in TAG_FAULTS else path


def _is_tag(parts: Sequence[str | int], i: int) -> bool:
    """A tag stands after an index, or first when the body itself is a union; then a member of it follows."""
    if parts[i] not in TYPES:
        return False
    return isinstance(parts[i - 1], int) if i else len(parts) > 1


def _sentence(fault: Any) -> str:
    if fault["type"] == "union_tag_invalid":
        tags = str(fault["ctx"]["expected_tags"])
        return "must be " + tags.replace("'", '"').replace(", ", " or ")
    text = SENTENCES.get(fault["type"], fault["msg"]).removeprefix("Value error, ")
    text = SUBJECT.sub("must", text).replace(" after validation", "")
    if fault.get("input", "") is None and text.startswith("must be "):
        text += ", not null"
    return str(text[:1].lower() + text[1:])
