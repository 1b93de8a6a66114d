"""Sets of values: the ids, the limits and the validation that filters and datasets share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple

from headwater.errors import Fault, InvalidInput

MAX_VALUE_CHARS = 1024
MAX_VALUES_PER_REQUEST = 250_000
MAX_VALUES_PER_PAGE = 10_000
DEFAULT_VALUES_PER_PAGE = 100
MAX_DATASET_VALUES_PER_PAGE = 500_000
DEFAULT_DATASET_VALUES_PER_PAGE = 10_000
MAX_CURSOR = 2**53 - 1
"""The largest cursor of a page. A cursor is the position of a value in the fixed order of the pages. JavaScript, which
clients may use, represents integers up to this one exactly.
"""
MAX_DATASET_NAME_CHARS = 200
MAX_REPORTED_FAULTS = 20
_BLANKS = (
    *(*range(0x09, 0x0E), *range(0x1C, 0x21), 0x85, 0xA0, 0x1680),
    *(*range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000),
)
"""The code points of all white space of Unicode, which is what `str.isspace` accepts."""
_ZERO_WIDTH = (
    *(0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F)),
    *(*range(0x2060, 0x2065), *range(0x2066, 0x206A), 0xFEFF),
)
"""The code points of the byte order mark, and of the joiners and marks of direction that editors and web pages put
around pasted text.
"""
TRIMMED = "".join(map(chr, (*_BLANKS, *_ZERO_WIDTH)))
"""The characters that are removed at both ends of a value."""
_NOT_TRIMMED = r"[^\s\u001c-\u001f\u0085\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
VALUE_SCHEMA = {"type": "string", "minLength": 1, "maxLength": MAX_VALUE_CHARS, "pattern": _NOT_TRIMMED}
"""The JSON schema of a value. The length limits apply after trimming, which a schema can't express."""

FILTER_SET: Final = "fs"
"""The kind of a set with the values of a filter."""
DATASET: Final = "ds"
"""The kind of a set with the values of a dataset."""


@dataclass(frozen=True, slots=True)
class SetId:
    """Identifies a stored set.

    Attributes:
        kind: FILTER_SET or DATASET.
        id: `<config_id>.<transform_uid>` of the filter, or the id of the dataset.
    """

    kind: Literal["fs", "ds"]
    id: str

    @property
    def name(self) -> str:
        """The kind and the id as one text, for example `ds:<dataset_id>`."""
        return f"{self.kind}:{self.id}"


class SetVersion(NamedTuple):
    """A version of a set.

    Attributes:
        number: The number of the version, which each change of the set raises. It is 0 for a set without a change.
        stamp: A random text for each version; empty for the version 0. A server that lost its last writes, for example
            in a failover, assigns the same numbers again with other stamps.
    """

    number: int
    stamp: str


class SetHistory(NamedTuple):
    """The present version of a set, and some of its earlier versions.

    Attributes:
        current: The present version.
        stamps: The stamps of earlier versions that the set store still knows, by their number.
    """

    current: SetVersion
    stamps: Mapping[int, str]

    def contains(self, version: SetVersion) -> bool:
        """Return whether the set certainly had this version, and no write up to it was lost."""
        return not version.number or version == self.current or self.stamps.get(version.number) == version.stamp


def filter_set_id(config_id: str, transform_uid: str) -> SetId:
    """Return the id of the set of a redis_set_filter transform."""
    return SetId(FILTER_SET, f"{config_id}.{transform_uid}")


def parse_filter_set_id(set_id: SetId) -> tuple[str, str]:
    """Return the configuration's id and the transform's uid from the id of a filter's set."""
    config_id, _, transform_uid = set_id.id.partition(".")
    return config_id, transform_uid


def dataset_set_id(dataset_id: str) -> SetId:
    """Return the id of the set of a dataset."""
    return SetId(DATASET, dataset_id)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A named set of an owner.

    Attributes:
        state: "pending" until scripts can look up the name, then "live", and "deleting" during the deletion.
    """

    id: str
    owner: str
    name: str
    state: Literal["pending", "live", "deleting"]
    created_at: datetime
    updated_at: datetime


def trim(value: str) -> str:
    """Return the value without the characters of TRIMMED at both ends."""
    return value.strip(TRIMMED)


def normalise(value: str) -> str:
    """Return the stored form of a value: trimmed and in lower case.

    Values are compared case-insensitively.
    """
    return trim(value).lower()


def _is_unicode(value: str) -> bool:
    """Whether a text has no lone surrogate, which JSON can express and UTF-8 can't."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def _is_valid(value: str) -> bool:
    return 0 < len(value) <= MAX_VALUE_CHARS and _is_unicode(value)


def normalise_all(values: Sequence[str], first_index: int = 0) -> list[str]:
    """Return the stored forms of some values of a request, in order.

    Raises InvalidInput with a pointer for each invalid value (at most MAX_REPORTED_FAULTS). A value is invalid when it
    is empty after trimming, longer than MAX_VALUE_CHARS or not valid Unicode text.

    Args:
        values: The values.
        first_index: The index of the first of these values in the request.
    """
    normalised = list(map(str.lower, map(str.strip, values)))
    if not "".join(normalised).isascii():  # for ASCII text, `str.strip` does the same in half the time
        normalised = list(map(normalise, values))
    invalid = [i for i, value in enumerate(normalised) if not _is_valid(value)] if _may_have_invalid(normalised) else []
    if invalid:
        text = f"must have 1 to {MAX_VALUE_CHARS} characters after trimming, and no lone surrogate"
        faults = [Fault(f"/values/{first_index + i}", text) for i in invalid[:MAX_REPORTED_FAULTS]]
        raise InvalidInput("Some values are empty, too long or not Unicode text; nothing was changed.", faults)
    return normalised


def _may_have_invalid(normalised: Sequence[str]) -> bool:
    """Whether some values may be invalid, by a quick check of all values together.

    When the result is true, each value must be checked.
    """
    lengths = set(map(len, normalised))
    return 0 in lengths or max(lengths, default=0) > MAX_VALUE_CHARS or not "".join(normalised).isascii()
