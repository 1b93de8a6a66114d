"""Converts values of Arrow types to JSON.

Where JSON has several forms for a value, the field of the stream decides.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from headwater.model.timestamps import units_per_second
from headwater.record_files.formats.optional_pyarrow import import_pyarrow
from headwater.record_files.formats.text_columns import converter_of, quoted_excerpt, type_of

Convert = Callable[[Any], Any]
"""Converts a Python value or None to a value that msgspec encodes. Raises ValueError."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND: Final[Mapping[str, int]] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_PRINTABLE: Final = re.compile(rb"[\x20-\x7e]+")
_HEX_TEXT: Final = re.compile(rb"0x[0-9a-fA-F]*")
_ISO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", re.ASCII)


class Member(NamedTuple):
    """The JSON Schema type and the example of the member to which a column is converted."""

    type: str | None
    example: Any

    @classmethod
    def like(cls, example: Any) -> "Member":
        """Return the Member for a nested value, whose type the stream does not define.

        The type follows from the example.
        """
        return cls(type_of(example), example)

    @property
    def is_time_text(self) -> bool:
        """Whether the member is a time in ISO 8601."""
        return isinstance(self.example, str) and _ISO_TIME.match(self.example) is not None


def require_compatible(kind: Any, name: str, type_: str | None) -> None:
    """Raise ValueError when values of an Arrow type can't be converted to a JSON Schema type."""
    types = import_pyarrow("Parquet").types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    targets = next((to for predicate, to in _TARGET_TYPES.items() if getattr(types, predicate)(kind)), ())
    if types.is_map(kind):
        targets = ("object",) if _is_text(kind.key_type) else ("array",)
    if type_ is not None and targets and type_ not in targets:
        raise ValueError(
            f"{name} has the type {kind}, and the stream has {name} as {type_}: "
            f"write the column as {type_}, or leave it out"
        )


def cast_type(kind: Any, name: str) -> Any:
    """Return the Arrow type to which values are cast before they are converted to Python.

    Times become integers, because Python's datetime has no nanoseconds. Raises ValueError for a type that has no JSON
    form.
    """
    pa = import_pyarrow("Parquet")
    types = pa.types
    if types.is_timestamp(kind) or types.is_time(kind) or types.is_duration(kind):
        return pa.int64()
    if types.is_dictionary(kind):
        return cast_type(kind.value_type, name)
    if types.is_struct(kind):
        return pa.struct([(field.name, cast_type(field.type, f"{name}.{field.name}")) for field in kind])
    if types.is_map(kind):
        return pa.map_(cast_type(kind.key_type, name), cast_type(kind.item_type, name))
    if types.is_nested(kind) and hasattr(kind, "value_type"):
        return pa.large_list(cast_type(kind.value_type, name))
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if _is_supported(kind):
        return kind
    raise ValueError(f"the type of {name}, {kind}, is not supported: write the column as another type")


def _is_supported(kind: Any) -> bool:
    types = import_pyarrow("Parquet").types
    return any(getattr(types, predicate)(kind) for predicate in (*_CONVERTER_MAKERS, "is_null"))


def converter(kind: Any, member: Member) -> Convert:
    """Return the converter for values of an Arrow type.

    The type is the column's type before the cast.
    """
    convert = _converter(kind, member)
    return lambda value: None if value is None else convert(value)


def _converter(kind: Any, member: Member) -> Convert:
    types = import_pyarrow("Parquet").types
    if types.is_dictionary(kind):
        return _converter(kind.value_type, member)
    for is_kind, make in _CONVERTER_MAKERS.items():
        if getattr(types, is_kind)(kind):
            return make(kind, member)
    return _unchanged


def _unchanged(value: Any) -> Any:
    return value


def _integer_converter(_kind: Any, member: Member) -> Convert:
    if member.type == "boolean":
        return _as_boolean
    if member.is_time_text:
        return _epoch_converter(member)
    return str if member.type == "string" else _unchanged


def _boolean_converter(_kind: Any, member: Member) -> Convert:
    if member.type == "string":
        return lambda value: "true" if value else "false"
    return int if member.type in ("integer", "number") else _unchanged


def _as_boolean(value: float) -> bool:
    """Convert 0 and 1 to a boolean.

    Programs without nullable booleans write these numbers.
    """
    if value not in (0, 1):
        raise ValueError(f"{value} is neither true nor false")
    return value == 1


def _text_converter(_kind: Any, member: Member) -> Convert:
    """Return the converter of text to the JSON type of the stream's member.

    Programs export wide integers and nested values as text.
    """
    if member.type in (None, "string"):
        return _unchanged
    parse = converter_of(member.type)
    return lambda value: msgspec.Raw(parse(value)) if value else None


def _decimal_converter(_kind: Any, member: Member) -> Convert:
    """Return the converter of decimals, which keeps all digits.

    Programs without wide integers write integers as decimals with a fraction of zeros, which is left out where the
    stream has an integer or a string.
    """
    if member.type == "string":
        return _decimal_text
    if member.type == "integer":
        return lambda value: msgspec.Raw(_decimal_text(value).encode())
    return lambda value: msgspec.Raw(f"{value:f}".encode())


def _decimal_text(value: Decimal) -> str:
    text = f"{value:f}"
    whole, _, fraction = text.partition(".")
    return text if fraction.strip("0") else whole


def _binary_converter(kind: Any, member: Member) -> Convert:
    """Return the converter of binary values to hex, or to text if they look like text.

    Some programs store text without the UTF8 annotation. If the stream's member holds hex, arbitrary raw bytes are
    possible, so only 0x followed by nothing but hexadecimal digits counts as text.
    """
    convert_text = _text_converter(kind, member)
    holds_hex = isinstance(member.example, str) and member.example.startswith("0x")

    def convert(value: bytes) -> Any:
        is_text = _HEX_TEXT.fullmatch(value) if holds_hex else _PRINTABLE.fullmatch(value)
        if is_text:
            return convert_text(value.decode("ascii"))
        if member.type not in (None, "string"):
            raise ValueError(f"the bytes are not the text of a value of the type {member.type}")
        return f"0x{value.hex()}"

    return convert


def _float_converter(_kind: Any, member: Member) -> Convert:
    """Return the converter of floats, which converts NaN and infinities to null.

    Programs without nullable integers write integers as floats.
    """
    as_text = _epoch_converter(member) if member.is_time_text else _float_text
    converters: Mapping[str | None, Convert] = {"integer": _as_integer, "string": as_text, "boolean": _as_boolean}
    convert = converters.get(member.type, _unchanged)
    return lambda value: convert(value) if math.isfinite(value) else None


def _as_integer(value: float) -> Any:
    return msgspec.Raw(b"%d" % int(value)) if value.is_integer() else value


def _float_text(value: float) -> str:
    return str(int(value)) if value.is_integer() else format(Decimal(repr(value)), "f")


def _timestamp_converter(kind: Any, member: Member) -> Convert:
    factor, example = 10**9 // _PER_SECOND[kind.unit], member.example
    if isinstance(example, int | float):
        nanoseconds_per_unit = 10**9 // units_per_second(example)
        return lambda value: value * factor // nanoseconds_per_unit
    show = _utc_formatter(member)
    return lambda value: show(value * factor)


def _epoch_converter(member: Member) -> Convert:
    """Return the converter of numbers since the epoch to the text of a time.

    The size of a number tells its unit.
    """
    show = _utc_formatter(member)
    return lambda value: show(int(Decimal(repr(value)) * (10**9 // units_per_second(value))))


def _utc_formatter(member: Member) -> Callable[[int], str]:
    """Return a function that formats nanoseconds since the epoch like the example.

    The text has the zone suffix of the example, and at least as many fractional digits.
    """
    example = member.example if member.is_time_text else "Z"
    zone, digits = "Z" if example.endswith("Z") else "", len(example.removesuffix("Z").partition(".")[2])
    return lambda nanoseconds: _time_text(nanoseconds, digits) + zone


def _time_text(nanoseconds: int, digits: int) -> str:
    """Return ISO 8601 text with as many fractional digits as needed.

    Their number is 0, 3, 6 or 9, or `digits` if that is larger and at most 9.
    """
    seconds, rest = divmod(nanoseconds, 10**9)
    fraction = f"{rest:09}"
    needed = next((n for n in (0, 3, 6) if not fraction[n:].strip("0")), 9)
    fraction = fraction[: max(needed, digits if digits <= 9 else 0)]
    try:
        time = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError("the time is out of range: it is outside of the years 1 to 9999") from None
    text = time.replace(tzinfo=None).isoformat(timespec="seconds")
    return f"{text}.{fraction}" if fraction else text


def _date_converter(_kind: Any, _member: Member) -> Convert:
    return lambda value: value.isoformat()


def _time_of_day_converter(kind: Any, _member: Member) -> Convert:
    factor = 10**9 // _PER_SECOND[kind.unit]
    return lambda value: _time_text(value * factor, 0).partition("T")[2]


def _duration_converter(_kind: Any, member: Member) -> Convert:
    return str if member.type == "string" else _unchanged


def _list_converter(kind: Any, member: Member) -> Convert:
    example = member.example[0] if isinstance(member.example, list) and member.example else None
    convert = converter(kind.value_type, Member.like(example))
    return lambda values: [convert(value) for value in values]


def _struct_converter(kind: Any, member: Member) -> Convert:
    example = member.example if isinstance(member.example, dict) else {}
    members = [(field.name, converter(field.type, Member.like(example.get(field.name)))) for field in kind]
    return lambda value: {name: convert(value[name]) for name, convert in members}


_UNKNOWN_MEMBER: Final = Member(None, None)
"""The member for keys and values of a map, whose types the stream does not define."""


def _map_converter(kind: Any, _member: Member) -> Convert:
    """Return the converter of maps.

    A map with text keys becomes an object, another map a list of [key, value].
    """
    key, item = converter(kind.key_type, _UNKNOWN_MEMBER), converter(kind.item_type, _UNKNOWN_MEMBER)
    make = _as_object if _is_text(kind.key_type) else list
    return lambda pairs: make([(key(name), item(value)) for name, value in pairs])


def _as_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object.

    Raises ValueError for a repeated key, because an object would lose a value.
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the map has the key {quoted_excerpt(repeated)} twice: write the map with distinct keys")
    return members


def _is_text(kind: Any) -> bool:
    types = import_pyarrow("Parquet").types
    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)  # type: ignore[no-any-return]


_NUMBER_TARGETS: Final = ("integer", "number", "string")
"""A number, or its text."""
_TARGET_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "is_boolean": ("boolean", *_NUMBER_TARGETS),
    "is_integer": ("boolean", *_NUMBER_TARGETS),
    "is_floating": ("boolean", *_NUMBER_TARGETS),
    "is_decimal": _NUMBER_TARGETS,
    "is_timestamp": _NUMBER_TARGETS,
    "is_duration": _NUMBER_TARGETS,
    "is_date": ("string",),
    "is_time": ("string",),
    "is_struct": ("object",),
    "is_list": ("array",),
    "is_large_list": ("array",),
    "is_fixed_size_list": ("array",),
    "is_list_view": ("array",),
    "is_large_list_view": ("array",),
}
"""The JSON Schema types to which a column can be converted, by pyarrow's type predicate.

A column of text can be converted to each type.
"""
_CONVERTER_MAKERS: Final[Mapping[str, Callable[[Any, Member], Convert]]] = {
    "is_boolean": _boolean_converter,
    "is_integer": _integer_converter,
    "is_string": _text_converter,
    "is_large_string": _text_converter,
    "is_decimal": _decimal_converter,
    "is_binary": _binary_converter,
    "is_large_binary": _binary_converter,
    "is_fixed_size_binary": _binary_converter,
    "is_floating": _float_converter,
    "is_timestamp": _timestamp_converter,
    "is_date": _date_converter,
    "is_time": _time_of_day_converter,
    "is_duration": _duration_converter,
    "is_string_view": _text_converter,
    "is_binary_view": _binary_converter,
    "is_list_view": _list_converter,
    "is_large_list_view": _list_converter,
    "is_list": _list_converter,
    "is_large_list": _list_converter,
    "is_fixed_size_list": _list_converter,
    "is_map": _map_converter,
    "is_struct": _struct_converter,
}
"""The functions that make a converter, by the name of pyarrow's type predicate.

Columns of type null are accepted too, and dictionaries of accepted types. All other types raise ValueError.
"""
