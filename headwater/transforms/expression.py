"""Filter expressions: they select the tested value of a record (bloblang/grammar.py has their form).

What an expression gives, record by record:

* A member that is missing, a member of something that is no object, an index out of an array's range: null. Of members
  with equal names the last one counts.
* A method that a value does not have, as `.lowercase()` of a number or null, is an error; one in an array or in
  `map_each()` is an error of the whole. Null, `deleted()` and an error are in no set, and no error of the record; `|`
  and `.or()` take the next value in their place.
* A string is tested in lower case, not trimmed: a set holds no value with blanks around it. Strings that no set can
  hold (empty, or longer than MAX_VALUE_CHARS) are in no set.
* Numbers and booleans are tested by their JSON text, in lower case: `1.0` is not `1`, `1E5` is `1e5`.
* An array passes when any member does, its arrays' members included. An object is never in the set.

The whole record must be JSON in UTF-8 and an object, whatever is selected; an escape of half a surrogate pair is read
as U+FFFD. Records nested deeper than Python's recursion limit are refused. Only the selected parts become Python
objects: for 850 bytes this takes a fifth of the time of parsing the record.
"""

import json
import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from headwater.model.value_sets import MAX_VALUE_CHARS
from headwater.native import BytesColumn, JsonFieldValues, read_json_field
from headwater.transforms.bloblang import grammar
from headwater.transforms.bloblang.compiler import Compiler, Select, path_of_record, single_member
from headwater.transforms.bloblang.json_values import (
    FAILED,
    NULL,
    SMALL_BYTES,
    Raw,
    Value,
    begin_record,
    members,
    spend,
    spend_on,
    string_or_null,
    syntax,
    whole_characters,
)
from headwater.transforms.bloblang.nodes import Each, Method, Node, Variable, parts

MAX_TEXTS = 250_000
"""An array of more texts is in no set."""


class InvalidRecord(Exception):
    """A record that an expression can't be applied to. error: "InvalidJSON" or "NotAnObject"."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Expression:
    """A parsed expression. Thread-safe."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._decode, field = _reader(node)
        self._select = Compiler(field).select(node, 0)
        self._member, self._strings_only = single_member(node)
        self._counts_work = any(isinstance(part, Each | Method) for part in parts(node))

    def select(self, value: bytes | None) -> list[str]:
        """The texts to look up: the record passes when any is in the set. Raises InvalidRecord."""
        record = self._read(value)
        if self._counts_work or (value and len(value) > SMALL_BYTES):
            begin_record(value or b"")
        try:
            return _texts(self._select(record))
        except RecursionError:  # of JSON in a text, or of many stars
            return []

    def select_single(self, values: BytesColumn) -> JsonFieldValues:
        """The text to look up of each record, "" for none; the doubtful rows are for `select`.

        Where the expression is a member this takes a third of its time; else all rows are doubtful.
        """
        if self._member is None:
            return JsonFieldValues([""] * len(values), [*range(len(values))])
        ascii_only = not _is_utf_8(values.buffer)
        return read_json_field(
            values, self._member, MAX_VALUE_CHARS, strings_only=self._strings_only, ascii_only=ascii_only
        )

    def _read(self, value: bytes | None) -> Any:
        if not value:
            raise InvalidRecord("InvalidJSON", "The record is empty; a filter needs a JSON object.")
        try:
            if not value.isascii():
                value.decode()  # the decoder skips strings without a look at their encoding
            return self._decode(value)
        except UnicodeDecodeError as error:
            raise InvalidRecord("InvalidJSON", f"The record is not UTF-8 (byte {error.start}).") from None
        except msgspec.DecodeError:
            return self._read_again(whole_characters(value))
        except RecursionError:
            raise InvalidRecord("InvalidJSON", "The record is nested too deeply.") from None

    def _read_again(self, value: bytes) -> Any:
        """Read what the decoder refused for half surrogate pairs alone, and tell what is wrong with anything else."""
        try:
            syntax(value)
            return self._decode(value)
        except msgspec.ValidationError:
            raise InvalidRecord("NotAnObject", "A filter needs a record that is a JSON object.") from None
        except msgspec.DecodeError as error:
            raise InvalidRecord("InvalidJSON", f"{error}.") from None


def parse(text: str) -> Expression:
    """Parse an expression. Raises ExpressionRefused with the column of the fault."""
    return Expression(grammar.parse(text))


_PLAIN = json.JSONDecoder(parse_int=str, parse_float=str, object_hook=lambda _: None).decode
_UNNAMEABLE = re.compile(r'["\\\x00-\x1f]')


def _reader(node: Node) -> tuple[Callable[[bytes], Any], Callable[[str], Select]]:
    """A decoder of records, and what makes the selector of a member from its name."""
    whole, names = _members_of_record(node)
    if whole or any(map(_UNNAMEABLE.search, names)):  # msgspec has no such field names
        return members, lambda name: lambda record: record.get(name)
    slots = {name: f"f{number}" for number, name in enumerate(names)}
    fields: list[tuple[str, type, Any]] = [(slot, Raw, NULL) for slot in slots.values()]
    record_type = msgspec.defstruct("Record", fields, rename={slot: name for name, slot in slots.items()}, gc=False)
    return msgspec.json.Decoder(record_type).decode, lambda name: attrgetter(slots[name])


def _members_of_record(node: Node) -> tuple[bool, list[str]]:
    """Whether an expression reads the record as a value, and the members that it reads."""
    found = [*parts(node)]
    names = [path.names[0] for part in found if (path := path_of_record(part))]
    return found.count(Variable(0)) > len(names), list(dict.fromkeys(names))


def _is_utf_8(text: bytes) -> bool:
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False


def _texts(value: Value) -> list[str]:
    """The texts in a value, without those that no set can hold."""
    plain = _plain(value) if type(value) is Raw else value
    if type(plain) is str:  # the usual case
        text = plain.lower()
        return [text] if 0 < len(text) <= MAX_VALUE_CHARS else []
    texts: list[str] = []
    todo = [plain]
    while todo:
        plain = todo.pop()
        if type(plain) is Raw:
            plain = _plain(plain)
        if isinstance(plain, str):
            if len(plain) <= MAX_VALUE_CHARS:
                texts.append(plain.lower())
        elif isinstance(plain, bool):
            texts.append(str(plain).lower())
        elif plain is FAILED or not spend_on(plain):
            return []
        elif isinstance(plain, list):
            todo += plain
    kept = [text for text in texts if 0 < len(text) <= MAX_VALUE_CHARS]
    return kept if len(kept) <= MAX_TEXTS else []


def _plain(value: Raw) -> Value:
    """A string, the text of a number or boolean, an array as a whole, and None of what is in no set."""
    try:
        return string_or_null(value)  # the usual case, and fast
    except msgspec.ValidationError:
        text = bytes(value).decode()
    if text[0] == "{":
        return None
    if text[0] != "[":
        return text
    return _PLAIN(text) if len(text) <= SMALL_BYTES or spend(len(text)) else FAILED
