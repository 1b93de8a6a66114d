"""Filter expressions: they select the tested value of a record (grammar.py has their form).

What an expression gives, record by record:

* A member that is missing, a member of something that is no object, an index out of an array's range, every field or
  method of null: null. Null is in no set, and no error. Of members with equal names the last one counts.
* `.lowercase()` on a number, a boolean, an array or an object is an error of the record, unless `|` follows.
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
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from headwater.model.dataset import MAX_VALUE_CHARS
from headwater.native import Members, Texts, read_members
from headwater.transforms import grammar
from headwater.transforms.grammar import Array, Chain, Coalesce, Field, Node

Raw = msgspec.Raw
Value = Any  # Raw (not looked into yet), str, None, _Number, bool, _OBJECT, or a list of these
Select = Callable[[Any], Value]


class RecordRefused(Exception):
    """A record that an expression can't be applied to. error: "InvalidJSON", "NotAnObject" or "TypeError"."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Expression:
    """A parsed expression. Thread-safe."""

    def __init__(self, node: Node) -> None:
        self.node = node
        names = list(dict.fromkeys(_names(node)))
        self._decode, field = _reader(names)
        self._select = _compile(node, field)
        self._member, self._strings_only = _member(node)

    def select(self, value: bytes | None) -> list[str]:
        """The texts to look up: the record passes when any is in the set. Raises RecordRefused."""
        try:
            return _texts(self._select(self._read(value)))
        except RecursionError:
            raise RecordRefused("InvalidJSON", "The record is nested too deeply.") from None

    def select_single(self, values: Texts) -> Members:
        """The text to look up of each record, "" for none; the doubtful rows are for `select`.

        Where the expression is a member this takes a third of its time; else all rows are doubtful.
        """
        if self._member is None:
            return Members([""] * len(values), [*range(len(values))])
        ascii_only = not _is_utf_8(values.text)
        return read_members(
            values, self._member, MAX_VALUE_CHARS, strings_only=self._strings_only, ascii_only=ascii_only
        )

    def _read(self, value: bytes | None) -> Any:
        if not value:
            raise RecordRefused("InvalidJSON", "The record is empty; a filter needs a JSON object.")
        try:
            if not value.isascii():
                value.decode()  # the decoder skips strings without a look at their encoding
            return self._decode(value)
        except UnicodeDecodeError as error:
            raise RecordRefused("InvalidJSON", f"The record is not UTF-8 (byte {error.start}).") from None
        except msgspec.DecodeError:
            return self._read_again(_HALVES.sub(_whole_character, value))

    def _read_again(self, value: bytes) -> Any:
        """Read what the decoder refused for half surrogate pairs alone, and tell what is wrong with anything else."""
        try:
            _SYNTAX(value)
            return self._decode(value)
        except msgspec.ValidationError:
            raise RecordRefused("NotAnObject", "A filter needs a record that is a JSON object.") from None
        except msgspec.DecodeError as error:
            raise RecordRefused("InvalidJSON", f"{error}.") from None


def parse(text: str) -> Expression:
    """Parse an expression. Raises ExpressionRefused with the column of the fault."""
    return Expression(grammar.parse(text))


class _Number(str):
    """The JSON text of a number."""

    __slots__ = ()


_NULL = Raw(b"null")
_OBJECT = object()
_SYNTAX = msgspec.json.Decoder(Raw).decode
_STRING = msgspec.json.Decoder(str | None).decode
_MEMBERS = msgspec.json.Decoder(dict[str, Raw]).decode
_ELEMENTS = msgspec.json.Decoder(list[Raw]).decode
_PLAIN = json.JSONDecoder(parse_int=_Number, parse_float=_Number, object_hook=lambda _: _OBJECT).decode
_INDEX = re.compile(r"[0-9]+", re.ASCII)
_UNNAMEABLE = re.compile(r'["\\\x00-\x1f]')
# Group 1: escapes to keep. Else: one half of a pair without the other.
_HALVES = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\[^u]|\\u[^dD]|\\u[dD][0-7])"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    re.DOTALL,
)


def _whole_character(escape: re.Match[bytes]) -> bytes:
    return escape[0] if escape[1] else rb"\ufffd"


def _names(node: Node) -> list[str]:
    """The members of the record that an expression reads."""
    match node:
        case Field(name):
            return [name]
        case Chain(source, _):
            return _names(source)
        case Array(nodes) | Coalesce(nodes):
            return [name for one in nodes for name in _names(one)]


def _reader(names: Sequence[str]) -> tuple[Callable[[bytes], Any], Callable[[str], Select]]:
    """A decoder of records, and what makes the selector of a member from its name."""
    if any(map(_UNNAMEABLE.search, names)):  # msgspec has no such field names
        return _MEMBERS, lambda name: lambda record: record.get(name)
    slots = {name: f"f{number}" for number, name in enumerate(names)}
    fields: list[tuple[str, type, Any]] = [(slot, Raw, _NULL) for slot in slots.values()]
    record_type = msgspec.defstruct("Record", fields, rename={slot: name for name, slot in slots.items()}, gc=False)
    return msgspec.json.Decoder(record_type).decode, lambda name: attrgetter(slots[name])


def _member(node: Node) -> tuple[bytes | None, bool]:
    """The name of the member that an expression is, None when it is more, and whether that has to be a string."""
    in_lower_case = isinstance(node, Chain) and all(step is None for step in node.steps)
    source = node.source if isinstance(node, Chain) and in_lower_case else node
    return source.name.encode(errors="surrogatepass") if isinstance(source, Field) else None, in_lower_case


def _is_utf_8(text: bytes) -> bool:
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False


def _compile(node: Node, field: Callable[[str], Select]) -> Select:
    match node:
        case Field(name):
            return field(name)
        case Chain(source, steps):
            return _chain(_compile(source, field), steps)
        case Array(items):
            selects = [_compile(item, field) for item in items]
            return lambda record: [select(record) for select in selects]
        case Coalesce(options):
            return _coalesce([_compile(option, field) for option in options])


def _chain(source: Select, steps: Sequence[str | None]) -> Select:
    def select(record: Any) -> Value:
        value = source(record)
        for step in steps:
            value = _lowercase(value) if step is None else _child(value, step)
        return value

    return select


def _coalesce(options: Sequence[Select]) -> Select:
    *tried, last = options

    def select(record: Any) -> Value:
        for option in tried:
            try:
                value = option(record)
            except RecordRefused:
                continue
            if not _is_null(value):
                return value
        return last(record)

    return select


def _child(value: Value, name: str) -> Value:
    """A member of an object or, by its number, of an array; None of anything else."""
    if isinstance(value, Raw):
        match memoryview(value)[0:1].tobytes():
            case b"{":
                return _MEMBERS(value).get(name)
            case b"[":
                value = _ELEMENTS(value)
    if not isinstance(value, list) or not _INDEX.fullmatch(name):
        return None
    index = int(name)
    return value[index] if index < len(value) else None


def _lowercase(value: Value) -> str | None:
    plain = _plain(value)
    if plain is None:
        return None
    if type(plain) is not str:
        kind = {_Number: "a number", bool: "a boolean", list: "an array"}.get(type(plain), "an object")
        raise RecordRefused("TypeError", f".lowercase() needs a string, not {kind}.")
    return plain.lower()


def _plain(value: Value) -> Value:
    """Look into a Raw."""
    if not isinstance(value, Raw):
        return value
    try:
        return _STRING(value)  # the usual case, and fast
    except msgspec.ValidationError:
        return _PLAIN(bytes(value).decode())


def _is_null(value: Value) -> bool:
    return value is None or (isinstance(value, Raw) and bytes(value) == b"null")


def _texts(value: Value) -> list[str]:
    """The texts in a value, without those that no set can hold."""
    plain = _plain(value)
    if type(plain) is str:  # the usual case
        text = plain.lower()
        return [text] if 0 < len(text) <= MAX_VALUE_CHARS else []
    texts: list[str] = []
    todo = [plain]
    while todo:
        plain = _plain(todo.pop())
        if isinstance(plain, list):
            todo += plain
        elif isinstance(plain, str | bool):
            texts.append(str(plain).lower())
    return [text for text in texts if 0 < len(text) <= MAX_VALUE_CHARS]
