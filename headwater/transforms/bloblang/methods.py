"""The methods of filter expressions, with Bloblang's meaning. A method that a value does not have gives FAILED."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from headwater.transforms.bloblang.json_values import (
    FAILED,
    Value,
    opened,
    parsed,
    spend_on,
    string_of,
)

Apply = Callable[[Value], Value]
"""A compiled method: it takes an opened value."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of a method."""

    type: type[str] | type[int] | Literal["query"]
    required: bool = True


@dataclass(frozen=True, slots=True)
class Signature:
    """A method.

    Attributes:
        parameters: Its arguments.
        make: Makes the method from its arguments; None where the method looks at more than the value.
        fault: Says what is wrong with the arguments; empty when nothing is.
    """

    parameters: tuple[Argument, ...] = ()
    make: Callable[..., Apply] | None = None
    fault: Callable[..., str] = lambda *_: ""


# What strings.TrimSpace of Go removes.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


def of_string(change: Callable[[str], Value]) -> Apply:
    """A method that only strings have."""
    return lambda value: change(value) if type(value) is str else FAILED


def lowercase() -> Apply:
    """The string in lower case."""
    return of_string(str.lower)


def uppercase() -> Apply:
    """The string in upper case, letter by letter: `ß` stays."""
    return of_string(lambda text: text.upper() if text.isascii() else "".join(map(_upper_letter, text)))


def _upper_letter(letter: str) -> str:
    for changed in (letter.upper(), letter.title()):
        if len(changed) == 1:
            return changed
    return letter


def trim(letters: str = _SPACE) -> Apply:
    """The string without these letters at its ends."""
    return of_string(lambda text: text.strip(letters))


def trim_prefix(prefix: str) -> Apply:
    """The string without a beginning."""
    return of_string(lambda text: text.removeprefix(prefix))


def trim_suffix(suffix: str) -> Apply:
    """The string without an end."""
    return of_string(lambda text: text.removesuffix(suffix))


def slice_(low: int, high: int | None = None) -> Apply:
    """Elements of an array, or bytes of a string, from `low` to before `high`; negative ones count from the end."""

    def bounds(length: int) -> slice | None:
        end = length if high is None else high + length if high < 0 else high
        end = min(max(end, 0), length)
        start = max(low + length, 0) if low < 0 else low
        return slice(start, end) if start <= end else None

    def cut(value: Value) -> Value:
        if type(value) is str and not value.isascii():
            data = value.encode()
            part = bounds(len(data))
            return FAILED if part is None else data[part].decode(errors="replace")
        if type(value) is not str and not isinstance(value, list):
            return FAILED
        part = bounds(len(value))
        return FAILED if part is None else value[part]

    return cut


def slice_fault(low: int, high: int | None = None) -> str:
    """What is wrong with bounds that give nothing of any value; empty when nothing is."""
    return "The first bound of slice() must be below the second one." if high is not None and 0 < high <= low else ""


def split(delimiter: str) -> Apply:
    """The parts of a string, or of an array, between delimiters."""

    def parts(value: Value) -> Value:
        if type(value) is str:
            return value.split(delimiter) if delimiter else [*value]
        return _parts_of_array(value, delimiter) if isinstance(value, list) else FAILED

    return parts


def _parts_of_array(values: list[Value], delimiter: str) -> list[Value]:
    parts: list[list[Value]] = [[]]
    for value in values:
        if opened(value) == delimiter:
            parts.append([])
        else:
            parts[-1].append(value)
    return parts


def index(position: int) -> Apply:
    """An element of an array."""

    def element(value: Value) -> Value:
        if not isinstance(value, list) or not -len(value) <= position < len(value):
            return FAILED
        return value[position]

    return element


def element_or_byte(position: int) -> Apply:
    """An element of an array, or a byte of a string as a letter: what `[0]` gives."""
    of_array = index(position)

    def element(value: Value) -> Value:
        if type(value) is not str:
            return of_array(value)
        data = value.encode()
        return chr(data[position]) if -len(data) <= position < len(data) else FAILED

    return element


def flatten() -> Apply:
    """An array with the elements of its arrays in their place."""

    def flat(value: Value) -> Value:
        if not isinstance(value, list):
            return FAILED
        taken: list[Value] = []
        for inner in map(opened, value):
            if isinstance(inner, list):
                if not spend_on(inner):
                    return FAILED
                taken += inner
            else:
                taken.append(inner)
        return taken

    return flat


def values() -> Apply:
    """The values of an object."""
    return lambda value: [*value.values()] if isinstance(value, dict) else FAILED


def string() -> Apply:
    """The JSON text of what is no string."""
    return string_of


def parse_json() -> Apply:
    """The JSON value that a string begins with."""
    return of_string(parsed)


_TEXT, _QUERY = Argument(str), Argument("query")
METHODS: dict[str, Signature] = {
    "lowercase": Signature(make=lowercase),
    "uppercase": Signature(make=uppercase),
    "trim": Signature((Argument(str, required=False),), trim),
    "trim_prefix": Signature((_TEXT,), trim_prefix),
    "trim_suffix": Signature((_TEXT,), trim_suffix),
    "slice": Signature((Argument(int), Argument(int, required=False)), slice_, slice_fault),
    "split": Signature((_TEXT,), split),
    "index": Signature((Argument(int),), index),
    "get": Signature((_TEXT,)),
    "string": Signature(make=string),
    "or": Signature((_QUERY,)),
    "catch": Signature((_QUERY,)),
    "flatten": Signature(make=flatten),
    "values": Signature(make=values),
    "parse_json": Signature(make=parse_json),
    "map_each": Signature((_QUERY,)),
}
OF_RECORDS = ("get", "string", "or", "catch", "values", "map_each")
"""The methods that the whole record has."""
