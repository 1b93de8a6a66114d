"""Sets of values: the rules that filters and datasets share."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from headwater.errors import InvalidInput, Problem

MAX_VALUE_CHARS = 1024
MAX_VALUES_PER_REQUEST = 250_000
MAX_PAGE = 10_000
DEFAULT_PAGE = 100
MAX_DATASET_PAGE = 500_000
DEFAULT_DATASET_PAGE = 10_000
MAX_CURSOR = 2**53 - 1
MAX_DATASET_NAME_CHARS = 200
MAX_REPORTED_PROBLEMS = 20
_BLANKS = (
    *(*range(0x09, 0x0E), *range(0x1C, 0x21), 0x85, 0xA0, 0x1680),
    *(*range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000),
)
"""All that Unicode calls white space, as `str.isspace` does."""
_ZERO_WIDTH = (
    *(0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F)),
    *(*range(0x2060, 0x2065), *range(0x2066, 0x206A), 0xFEFF),
)
"""The byte order mark, and the joiners and marks of direction that editors and web pages put around pasted text."""
TRIMMED = "".join(map(chr, (*_BLANKS, *_ZERO_WIDTH)))
"""The characters that are removed at both ends of a value."""
_ANY_OTHER = r"[^\s\u001c-\u001f\u0085\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
VALUE_SCHEMA = {"type": "string", "minLength": 1, "maxLength": MAX_VALUE_CHARS, "pattern": _ANY_OTHER}
"""A value in API descriptions. Its length counts after trimming, which a schema can't say."""


@dataclass(frozen=True, slots=True)
class SetId:
    """Names one stored set: kind "fs" is a filter (id = `<config_id>.<transform_uid>`), "ds" a dataset (its id)."""

    kind: Literal["fs", "ds"]
    id: str


def filter_set(config_id: str, transform_uid: str) -> SetId:
    """The set of one redis_set_filter transform."""
    return SetId("fs", f"{config_id}.{transform_uid}")


def dataset_set(dataset_id: str) -> SetId:
    """The set of one dataset."""
    return SetId("ds", dataset_id)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A named set of an owner. state is "pending" until its name can be looked up by scripts."""

    id: str
    owner: str
    name: str
    state: Literal["pending", "live", "deleting"]
    created_at: datetime
    updated_at: datetime


def trim(value: str) -> str:
    """The value without the characters of TRIMMED at both ends."""
    return value.strip(TRIMMED)


def normalise(value: str) -> str:
    """The stored form of a value: trimmed, lower case (contract: values are compared without case)."""
    return trim(value).lower()


def _is_unicode(value: str) -> bool:
    """False for text with half a surrogate pair, which JSON can write and UTF-8 can't."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def _is_good(value: str) -> bool:
    return 0 < len(value) <= MAX_VALUE_CHARS and _is_unicode(value)


def normalise_all(values: Sequence[str], first: int = 0) -> list[str]:
    """The stored forms of a request's values, in order. first: the number of the first one in the request.

    Raises InvalidInput with a pointer per bad value (at most MAX_REPORTED_PROBLEMS) when one is empty after
    trimming or longer than MAX_VALUE_CHARS.
    """
    stored = list(map(str.lower, map(str.strip, values)))
    if not "".join(stored).isascii():  # plain `strip` trims all that ASCII text needs, and in half the time
        stored = list(map(normalise, values))
    bad = [i for i, value in enumerate(stored) if not _is_good(value)] if _has_bad(stored) else []
    if bad:
        text = f"must have 1 to {MAX_VALUE_CHARS} characters after trimming, and no half of a surrogate pair"
        problems = [Problem(f"/values/{first + i}", text) for i in bad[:MAX_REPORTED_PROBLEMS]]
        raise InvalidInput("Some values are empty, too long or no Unicode text; nothing was changed.", problems)
    return stored


def _has_bad(stored: Sequence[str]) -> bool:
    """False when a quick look at all of them shows that none is bad."""
    lengths = set(map(len, stored))
    return 0 in lengths or max(lengths, default=0) > MAX_VALUE_CHARS or not "".join(stored).isascii()
