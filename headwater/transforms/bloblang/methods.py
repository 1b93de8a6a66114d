"""The methods of filter expressions, with the meaning that they have in Bloblang.

`get`, `or`, `catch` and `map_each` have nodes of their own in the syntax tree. Each other method has a Python function
here, which takes the literal arguments and returns the compiled method. The docstring of the function says what the
compiled method does. A compiled method returns FAILED for a value of a type that it does not support.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from headwater.transforms.bloblang.json_values import (
    FAILED,
    Value,
    consume_budget_shallow,
    decode_one_level,
    parse_json_prefix,
    to_string,
)

CompiledMethod = Callable[[Value], Value]
"""A compiled method, which maps a value to another. One level of the value is decoded."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """The type of a parameter of a method, and whether it is required."""

    type: type[str] | type[int] | Literal["query"]
    required: bool = True


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """The parameters and the compiler of a method.

    Attributes:
        parameters: The parameters of the method.
        compile: Compiles the method with its arguments; None if the syntax tree has a node of its own for the method.
        argument_error: Returns the error message for invalid arguments; "" for valid ones.
    """

    parameters: tuple[Parameter, ...] = ()
    compile: Callable[..., CompiledMethod] | None = None
    argument_error: Callable[..., str] = lambda *_: ""


# The characters that strings.TrimSpace of Go removes.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


def of_string(convert: Callable[[str], Value]) -> CompiledMethod:
    """Compile a method that only strings have."""
    return lambda value: convert(value) if type(value) is str else FAILED


def lowercase() -> CompiledMethod:
    """Convert a string to lower case."""
    return of_string(str.lower)


def uppercase() -> CompiledMethod:
    """Convert a string to upper case, letter by letter.

    A letter like `ß`, whose upper case has two letters, is kept.
    """
    return of_string(lambda text: text.upper() if text.isascii() else "".join(map(_upper_letter, text)))


def _upper_letter(letter: str) -> str:
    for candidate in (letter.upper(), letter.title()):
        if len(candidate) == 1:
            return candidate
    return letter


def trim(characters: str = _SPACE) -> CompiledMethod:
    """Remove these characters from both ends of a string."""
    return of_string(lambda text: text.strip(characters))


def trim_prefix(prefix: str) -> CompiledMethod:
    """Remove a prefix from a string."""
    return of_string(lambda text: text.removeprefix(prefix))


def trim_suffix(suffix: str) -> CompiledMethod:
    """Remove a suffix from a string."""
    return of_string(lambda text: text.removesuffix(suffix))


def slice_(low: int, high: int | None = None) -> CompiledMethod:
    """Return elements of an array, or bytes of a string, from `low` to before `high`.

    Negative bounds count from the end.
    """

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


def slice_argument_error(low: int, high: int | None = None) -> str:
    """Return the error message for a second bound that is positive and not above the first.

    Returns "" for other bounds.
    """
    return "The first bound of slice() must be below the second one." if high is not None and 0 < high <= low else ""


def split(delimiter: str) -> CompiledMethod:
    """Split a string or an array at delimiters."""

    def parts(value: Value) -> Value:
        if type(value) is str:
            return value.split(delimiter) if delimiter else [*value]
        return _parts_of_array(value, delimiter) if isinstance(value, list) else FAILED

    return parts


def _parts_of_array(values: list[Value], delimiter: str) -> list[Value]:
    parts: list[list[Value]] = [[]]
    for value in values:
        if decode_one_level(value) == delimiter:
            parts.append([])
        else:
            parts[-1].append(value)
    return parts


def index(position: int) -> CompiledMethod:
    """Return an element of an array."""

    def element(value: Value) -> Value:
        if not isinstance(value, list) or not -len(value) <= position < len(value):
            return FAILED
        return value[position]

    return element


def element_or_byte(position: int) -> CompiledMethod:
    """Return an element of an array, or a byte of a string as a letter, as `[0]` does."""
    of_array = index(position)

    def element(value: Value) -> Value:
        if type(value) is not str:
            return of_array(value)
        data = value.encode()
        return chr(data[position]) if -len(data) <= position < len(data) else FAILED

    return element


def flatten() -> CompiledMethod:
    """Replace the arrays in an array by their elements."""

    def flattened(value: Value) -> Value:
        if not isinstance(value, list):
            return FAILED
        elements: list[Value] = []
        for element in map(decode_one_level, value):
            if isinstance(element, list):
                if not consume_budget_shallow(element):
                    return FAILED
                elements += element
            else:
                elements.append(element)
        return elements

    return flattened


def values() -> CompiledMethod:
    """Return the values of an object as an array."""
    return lambda value: [*value.values()] if isinstance(value, dict) else FAILED


def string() -> CompiledMethod:
    """Convert a value that is not a string to JSON text."""
    return to_string


def parse_json() -> CompiledMethod:
    """Return the JSON value with which a string begins."""
    return of_string(parse_json_prefix)


_STRING, _QUERY = Parameter(str), Parameter("query")
METHODS: dict[str, MethodSpec] = {
    "lowercase": MethodSpec(compile=lowercase),
    "uppercase": MethodSpec(compile=uppercase),
    "trim": MethodSpec((Parameter(str, required=False),), trim),
    "trim_prefix": MethodSpec((_STRING,), trim_prefix),
    "trim_suffix": MethodSpec((_STRING,), trim_suffix),
    "slice": MethodSpec((Parameter(int), Parameter(int, required=False)), slice_, slice_argument_error),
    "split": MethodSpec((_STRING,), split),
    "index": MethodSpec((Parameter(int),), index),
    "get": MethodSpec((_STRING,)),
    "string": MethodSpec(compile=string),
    "or": MethodSpec((_QUERY,)),
    "catch": MethodSpec((_QUERY,)),
    "flatten": MethodSpec(compile=flatten),
    "values": MethodSpec(compile=values),
    "parse_json": MethodSpec(compile=parse_json),
    "map_each": MethodSpec((_QUERY,)),
}
ALLOWED_ON_RECORD = ("get", "string", "or", "catch", "values", "map_each")
"""The methods that may be applied to the whole record."""
