"""Filter expressions: they select the tested value of a record (grammar.py has their form).

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
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from headwater.model.dataset import MAX_VALUE_CHARS
from headwater.native import Members as NativeMembers
from headwater.native import Texts, read_members
from headwater.transforms import grammar
from headwater.transforms.grammar import (
    Array,
    Catch,
    Chain,
    Coalesce,
    Deleted,
    Each,
    Element,
    Members,
    Method,
    Node,
    Or,
    Step,
    Text,
    Variable,
    Within,
    parts,
)
from headwater.transforms.methods import METHODS, element_or_byte
from headwater.transforms.values import (
    DELETED,
    FAILED,
    MISSING,
    NULL,
    SMALL_BYTES,
    WORK_PER_ELEMENT,
    Raw,
    Special,
    Value,
    affordable,
    allow_work,
    is_nothing,
    members,
    opened,
    string_or_null,
    syntax,
    whole_characters,
)

Select = Callable[[Any], Value]
"""A query of a scope. Scopes are the record, and for the values that are looked at in it (outer scope, value)."""
Apply = Callable[[Value, Any], Value]
"""A step from a value, in a scope."""

MAX_TEXTS = 250_000
"""An array of more texts is in no set."""


class RecordRefused(Exception):
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
        self._select = _Compiler(field).select(node, 0)
        self._member, self._strings_only = _member(node)
        self._counts_work = any(isinstance(part, Each | Method) for part in parts(node))

    def select(self, value: bytes | None) -> list[str]:
        """The texts to look up: the record passes when any is in the set. Raises RecordRefused."""
        try:
            record = self._read(value)
            if self._counts_work or (value and len(value) > SMALL_BYTES):
                allow_work(value or b"")
            return _texts(self._select(record))
        except RecursionError:
            raise RecordRefused("InvalidJSON", "The record is nested too deeply.") from None

    def select_single(self, values: Texts) -> NativeMembers:
        """The text to look up of each record, "" for none; the doubtful rows are for `select`.

        Where the expression is a member this takes a third of its time; else all rows are doubtful.
        """
        if self._member is None:
            return NativeMembers([""] * len(values), [*range(len(values))])
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
            return self._read_again(whole_characters(value))

    def _read_again(self, value: bytes) -> Any:
        """Read what the decoder refused for half surrogate pairs alone, and tell what is wrong with anything else."""
        try:
            syntax(value)
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


_OBJECT = object()
_PLAIN = json.JSONDecoder(parse_int=_Number, parse_float=_Number, object_hook=lambda _: _OBJECT).decode
_INDEX = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UNNAMEABLE = re.compile(r'["\\\x00-\x1f]')
_EVERY = "*"


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
    names = [path.names[0] for part in found if (path := _path_of_record(part))]
    return found.count(Variable(0)) > len(names), list(dict.fromkeys(names))


def _path_of_record(part: Node | Step) -> Members | None:
    """The path that a chain begins with, if it begins at the record."""
    match part:
        case Chain(Variable(0), (Members() as path, *_)):
            return path
    return None


def _member(node: Node) -> tuple[bytes | None, bool]:
    """The name of the member that an expression is, None when it is more, and whether that has to be a string."""
    path = _path_of_record(node)
    if path is None or len(path.names) > 1:
        return None, False
    assert isinstance(node, Chain)
    methods = node.steps[1:]
    if any(method != Method("lowercase") for method in methods):
        return None, False
    return path.names[0].encode(errors="surrogatepass"), bool(methods)


def _is_member(node: Node) -> bool:
    """Whether a query is a member of the record, as it is."""
    name, in_lower_case = _member(node)
    return name is not None and not in_lower_case


def _is_utf_8(text: bytes) -> bool:
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False


class _Compiler:
    """Makes functions of nodes. depth: how many values are looked at in a scope, beside the record."""

    def __init__(self, field: Callable[[str], Select]) -> None:
        self._field = field

    def select(self, node: Node, depth: int) -> Select:
        """The function of a query."""
        match node:
            case Text(text):
                return lambda _: text
            case Deleted():
                return lambda _: DELETED
            case Variable(scope):
                return _variable(scope, depth)
            case Array(items):
                selects = [self.select(item, depth) for item in items]
                return _array(selects, not all(_is_member(item) for item in items))
            case Coalesce(options):
                return _coalesce([self.select(option, depth) for option in options])
            case Chain():
                return self._chain(node, depth)

    def _chain(self, node: Chain, depth: int) -> Select:
        path = _path_of_record(node)
        if path is None:
            return _stepping(self.select(node.source, depth), self._steps(node.steps, depth))
        first, *names = path.names
        steps = [Members(tuple(names)), *node.steps[1:]]
        return _stepping(self._member_of_record(first, depth), self._steps(steps, depth))

    def _steps(self, steps: Sequence[Step], depth: int) -> list[Apply]:
        made: list[Apply] = []
        for step in steps:
            if isinstance(step, Members):
                made += _path(step.names)
            else:
                made.append(self._step(step, depth))
        return made

    def _member_of_record(self, name: str, depth: int) -> Select:
        field = self._field(name)
        if not depth:
            return field
        record = _variable(0, depth)
        return lambda scope: field(record(scope))

    def _step(self, step: Element | Method | Or | Catch | Within | Each, depth: int) -> Apply:
        match step:
            case Element(position):
                return _method(element_or_byte(position))
            case Method(name, arguments):
                make = METHODS[name].make
                assert make
                return _method(make(*arguments))
            case Or(query):
                otherwise = self.select(query, depth)
                return lambda value, scope: otherwise(scope) if is_nothing(value) else value
            case Catch(query):
                caught = self.select(query, depth)
                return lambda value, scope: caught(scope) if value is FAILED else value
            case Within(query):
                inner = self.select(query, depth + 1)
                return lambda value, scope: FAILED if value is FAILED else inner((scope, value))
            case Each(query):
                return _each(self.select(query, depth + 1), WORK_PER_ELEMENT * sum(1 for _ in parts(query)))


def _variable(scope: int, depth: int) -> Select:
    """A value that is looked at, from a scope of this depth."""
    outwards = depth - scope

    def select(at: Any) -> Value:
        for _ in range(outwards):
            at = at[0]
        return at[1] if scope else at

    return select


def _stepping(source: Select, steps: Sequence[Apply]) -> Select:
    if not steps:
        return source

    def select(scope: Any) -> Value:
        value = source(scope)
        for step in steps:
            value = step(value, scope)
        return value

    return select


def _array(items: Sequence[Select], may_be_special: bool) -> Select:
    """An array literal. may_be_special: an item may be deleted or an error."""
    if not may_be_special:
        return lambda scope: [item(scope) for item in items]

    def select(scope: Any) -> Value:
        values = [item(scope) for item in items]
        return _without_deleted(values) if Special in map(type, values) else values

    return select


def _without_deleted(values: list[Value]) -> Value:
    """The elements of an array; an error when one is an error."""
    return FAILED if FAILED in values else [value for value in values if value is not DELETED]


def _coalesce(options: Sequence[Select]) -> Select:
    *tried, last = options

    def select(scope: Any) -> Value:
        for option in tried:
            value = option(scope)
            if not is_nothing(value):
                return value
        return last(scope)

    return select


def _method(apply: Callable[[Value], Value]) -> Apply:
    return lambda value, _: apply(opened(value))


def _each(query: Select, work: int) -> Apply:
    """`.map_each( )` of an array, or of an object by names and values. work: what an element counts."""

    def apply(value: Value, scope: Any) -> Value:
        value = opened(value)
        if isinstance(value, list):
            if not affordable(work * len(value)):
                return FAILED
            return _without_deleted([query((scope, item)) for item in value])
        if not isinstance(value, dict) or not affordable(work * len(value)):
            return FAILED
        by_name = {name: query((scope, {"key": name, "value": item})) for name, item in value.items()}
        if FAILED in by_name.values():
            return FAILED
        return {name: result for name, result in by_name.items() if result is not DELETED}

    return apply


def _path(names: Sequence[str]) -> list[Apply]:
    """Members from a value on; null where one is missing."""
    return [lambda value, _: _found(value, names)] if _EVERY in names else [_child(name) for name in names]


def _child(name: str) -> Apply:
    """A member of an object or, by its number, of an array; null of anything else, but an error of an error."""
    number = _position(name)

    def apply(value: Value, _: Any) -> Value:
        value = opened(value)
        if type(value) is dict:
            return value.get(name)
        if type(value) is list:
            return value[number] if 0 <= number < len(value) else None
        return FAILED if value is FAILED else None

    return apply


def _position(name: str) -> int:
    """The position of an element that a name is the number of; -1: it is none."""
    return int(name) if _INDEX.fullmatch(name) else -1


def _found(value: Value, names: Sequence[str]) -> Value:
    found = _find(value, names)
    return None if found is MISSING else found


def _find(value: Value, names: Sequence[str]) -> Value:
    """What a path leads to, a star in it to every element of an array that has the rest; MISSING where it ends."""
    for at, name in enumerate(names):
        value = opened(value)
        if isinstance(value, list) and name == _EVERY:
            return _find_each(value, names[at + 1 :])
        if isinstance(value, dict):
            value = value.get(name, MISSING)
        elif isinstance(value, list):
            value = value[number] if 0 <= (number := _position(name)) < len(value) else MISSING
        else:
            return value if value is FAILED else MISSING
        if value is MISSING:
            return MISSING
    return value


def _find_each(values: list[Value], names: Sequence[str]) -> Value:
    found = [result for value in values if (result := _find(value, names)) is not MISSING]
    return FAILED if FAILED in found else found or MISSING


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
        elif isinstance(plain, list):
            todo += plain
        elif isinstance(plain, bool):
            texts.append(str(plain).lower())
        elif plain is FAILED:
            return []
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
    return _PLAIN(text) if len(text) <= SMALL_BYTES or affordable(len(text)) else FAILED
