"""Compares the records that a pipeline made with the records that a case expects."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MISSING: Final = object()
"""The value of a member that a record does not have."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A place at which a record differs from the expected one.

    Attributes:
        path: The members and indexes that lead to the place.
        expected: The expected value; MISSING when the member should not be there.
        found: The value that is there; MISSING when there is none.
    """

    path: tuple[str | int, ...]
    expected: Any
    found: Any


def differences(expected: Any, found: Any, *, exact: bool, path: tuple[str | int, ...] = ()) -> Iterator[Difference]:
    """Yield the differences between two JSON values.

    Members that are not expected are no difference, unless `exact`. Numbers are compared by value, so 1 equals 1.0.

    >>> list(differences({"a": [1, 2]}, {"a": [1.0, 3], "b": 4}, exact=False))
    [Difference(path=('a', 1), expected=2, found=3)]
    """
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for name in [*expected, *(found.keys() - expected.keys() if exact else ())]:
            yield from differences(
                expected.get(name, MISSING), found.get(name, MISSING), exact=exact, path=(*path, name)
            )
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, pair in enumerate(zip(expected, found, strict=True)):
            yield from differences(*pair, exact=exact, path=(*path, index))
    elif isinstance(expected, bool) is not isinstance(found, bool) or expected != found:
        yield Difference(path, expected, found)


def unmatched(expected: Sequence[Any], found: Sequence[Any], *, exact: bool) -> tuple[list[int], list[int]]:
    """Return the indexes of the missing records, and of the surplus ones.

    Each record is matched once, in order.
    """
    rest = list(range(len(found)))
    missing = []
    for index, record in enumerate(expected):
        match = next((each for each in rest if not any(differences(record, found[each], exact=exact))), None)
        if match is None:
            missing.append(index)
        else:
            rest.remove(match)
    return missing, rest


def path_text(path: Sequence[str | int]) -> str:
    """Return a path as people write it.

    >>> path_text((0, "token", "symbols", 1))
    '[0].token.symbols[1]'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def value_text(value: Any, limit: int = 200) -> str:
    """Return a value as JSON that is cut off after `limit` characters.

    >>> value_text({"a": "bcdefgh"}, 8), value_text(MISSING)
    ('{"a": "b…', 'nothing')
    """
    if value is MISSING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[:limit]}…"
