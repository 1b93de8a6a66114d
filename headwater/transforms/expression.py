"""Filter expressions, which select the value of a record that is looked up in a set.

See bloblang/parser.py. The result of an expression for one record:

* A missing member, a member of a value that is not an object, and an index in a path (`.5`) outside of the array are
  null. If several members of an object have the same name, the last one counts.
* `[5]` and `.index(5)` outside of the array are errors.
* A method of a value that does not have this method, such as `.lowercase()` of a number or null, is an error. An error
  inside of an array or `map_each()` makes the whole result an error. Null, `deleted()` and errors never match a set,
  and do not make the record fail. `|` and `.or()` replace them by the next value.
* A string is looked up in lower case, but not trimmed: a string with white space at an end never matches, because no
  value of a set has any there. Empty strings and strings longer than MAX_VALUE_CHARS never match, because no set can
  contain them.
* Numbers and booleans are looked up by their JSON text in lower case: `1.0` is not `1`, and `1E5` is `1e5`.
* An array matches when any of its elements does, also the elements of arrays in it. An object never matches.

The whole record must be JSON in UTF-8 and an object, whatever is selected. The escape of a lone surrogate is read as
U+FFFD. Records that are nested deeper than Python's recursion limit are invalid. Only the selected parts become Python
objects: for a record of 850 bytes this takes a fifth of the time of parsing it.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from typing import Any

import msgspec

from headwater.model.value_sets import MAX_VALUE_CHARS
from headwater.native import BytesColumn, JsonFieldValues, read_json_field
from headwater.transforms.bloblang import parser
from headwater.transforms.bloblang.compiler import CompiledQuery, Compiler, path_of_record, single_member
from headwater.transforms.bloblang.json_values import (
    FAILED,
    FREE_SIZE,
    NULL,
    Raw,
    Value,
    consume_budget,
    consume_budget_shallow,
    decode_object,
    decode_raw,
    replace_lone_surrogates,
    reset_budget,
    string_or_null,
)
from headwater.transforms.bloblang.nodes import MapEach, Method, Node, ScopeValue, walk

MAX_LOOKUP_VALUES = 250_000
"""An array with more values to look up than this never matches."""
_DECODE_ARRAY = json.JSONDecoder(parse_int=str, parse_float=str, object_hook=lambda _: None).decode
_NOT_A_FIELD_NAME = re.compile(r'["\\\x00-\x1f]')
"""The characters that msgspec does not allow in the name of a field."""


class InvalidRecord(Exception):
    """A record to which an expression can't be applied.

    Attributes:
        error: The class of the error, "InvalidJSON" or "NotAnObject".
        message: The error message.
    """

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Expression:
    """A parsed expression. Thread-safe."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._decode, getter_of = _decoder_and_getters(node)
        self._query = Compiler(getter_of).compile_query(node, 0)
        self._member, self._strings_only = single_member(node)
        self._needs_budget = any(isinstance(part, MapEach | Method) for part in walk(node))

    def select(self, record: bytes | None) -> list[str]:
        """Return the values to look up; the record passes when any of them is in the set.

        Raises InvalidRecord.
        """
        decoded = self._decode_record(record)
        if self._needs_budget or (record and len(record) > FREE_SIZE):
            reset_budget(record or b"")
        try:
            return _lookup_values(self._query(decoded))
        except RecursionError:  # parse_json() of deeply nested JSON, or a path with many stars, can raise it
            return []

    def select_fast(self, records: BytesColumn) -> JsonFieldValues:
        """Return for each record the value to look up, and the rows that need `select`.

        The value is "" where there is none.

        For an expression that is one member of the record, perhaps with `.lowercase()`, this takes a third of the time
        of `select`. For any other expression, all rows need `select`.
        """
        if self._member is None:
            return JsonFieldValues([""] * len(records), [*range(len(records))])
        # A record with invalid UTF-8 needs `select`, which reports it.
        skip_non_ascii = not _is_utf_8(records.buffer)
        return read_json_field(
            records, self._member, MAX_VALUE_CHARS, strings_only=self._strings_only, skip_non_ascii=skip_non_ascii
        )

    def _decode_record(self, record: bytes | None) -> Any:
        if not record:
            raise InvalidRecord("InvalidJSON", "The record is empty; a filter needs a JSON object.")
        try:
            if not record.isascii():
                record.decode()  # the decoder does not check the encoding of the strings that it skips
            return self._decode_members(record)
        except UnicodeDecodeError as error:
            raise InvalidRecord("InvalidJSON", f"The record is not UTF-8 (byte {error.start}).") from None
        except RecursionError:
            raise InvalidRecord("InvalidJSON", "The record is nested too deeply.") from None

    def _decode_members(self, record: bytes) -> Any:
        """Decode the members of a record that the expression reads.

        The decoder rejects lone surrogates: they are replaced when the first attempt fails. Raises InvalidRecord with
        the reason when the record is still invalid, and RecursionError.
        """
        with suppress(msgspec.DecodeError):
            return self._decode(record)
        replaced = replace_lone_surrogates(record)
        try:
            decode_raw(replaced)
            return self._decode(replaced)
        except msgspec.ValidationError:
            raise InvalidRecord("NotAnObject", "A filter needs a record that is a JSON object.") from None
        except msgspec.DecodeError as error:
            raise InvalidRecord("InvalidJSON", f"{error}.") from None


def parse(expression: str) -> Expression:
    """Parse an expression. Raises InvalidExpression with the column of the error."""
    return Expression(parser.parse(expression))


def _decoder_and_getters(node: Node) -> tuple[Callable[[bytes], Any], Callable[[str], CompiledQuery]]:
    """Return a decoder of records, and a function that returns the getter of a member."""
    names = members_of_record(node)
    if _uses_whole_record(node) or any(map(_NOT_A_FIELD_NAME.search, names)):
        return decode_object, lambda name: lambda record: record.get(name)
    slots = {name: f"f{number}" for number, name in enumerate(names)}
    fields: list[tuple[str, type, Any]] = [(slot, Raw, NULL) for slot in slots.values()]
    record_type = msgspec.defstruct("Record", fields, rename={slot: name for name, slot in slots.items()}, gc=False)
    return msgspec.json.Decoder(record_type).decode, lambda name: attrgetter(slots[name])


def members_of_record(node: Node) -> list[str]:
    """Return the names of the record's members that an expression reads, each once."""
    return list(dict.fromkeys(_record_members(node)))


def _record_members(node: Node) -> list[str]:
    return [path.names[0] for part in walk(node) if (path := path_of_record(part))]


def _uses_whole_record(node: Node) -> bool:
    """Return whether an expression uses the record other than as the start of a path.

    ScopeValue(0) is the record, and each path that starts at the record contains it once.
    """
    return [*walk(node)].count(ScopeValue(0)) > len(_record_members(node))


def _is_utf_8(text: bytes) -> bool:
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False


def _lookup_values(value: Value) -> list[str]:
    """Return the values to look up for the result of a query.

    Values that no set can contain are left out.
    """
    result = _decode_for_lookup(value) if type(value) is Raw else value
    if type(result) is str:  # the usual case
        lowered = result.lower()
        return [lowered] if 0 < len(lowered) <= MAX_VALUE_CHARS else []
    lookup_values: list[str] = []
    remaining = [result]
    while remaining:
        part = remaining.pop()
        if type(part) is Raw:
            part = _decode_for_lookup(part)
        if isinstance(part, str):
            if len(part) <= MAX_VALUE_CHARS:
                lookup_values.append(part.lower())
        elif isinstance(part, bool):
            lookup_values.append(str(part).lower())
        elif part is FAILED or not consume_budget_shallow(part):
            return []
        elif isinstance(part, list):
            remaining += part
    storable = [lookup_value for lookup_value in lookup_values if 0 < len(lookup_value) <= MAX_VALUE_CHARS]
    return storable if len(storable) <= MAX_LOOKUP_VALUES else []


def _decode_for_lookup(value: Raw) -> Value:
    """Decode a value to a string, JSON text, or array; None for null and objects.

    Numbers and booleans become their JSON text.
    """
    try:
        return string_or_null(value)  # the usual case, and fast
    except msgspec.ValidationError:
        text = bytes(value).decode()
    if text[0] == "{":
        return None
    if text[0] != "[":
        return text
    return _DECODE_ARRAY(text) if len(text) <= FREE_SIZE or consume_budget(len(text)) else FAILED
