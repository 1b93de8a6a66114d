"""The error messages of the parser, which say what is wrong and what to write instead."""

import re

FORM = "`root = this.<field>`"
CONDITIONS = (
    "Conditions are not supported in filter expressions: select a field here, and write conditions in a v8 transform."
)
COMPARISONS = (
    "Comparisons are not supported: the value of the field is looked up in the filter's set. Select the field, put the "
    "values into the set, and write other comparisons in a v8 transform."
)
ARITHMETIC = "Arithmetic is not supported: compute the value in a v8 transform before the filter, and select it here."
HEADERS = "A filter sees the record, not its key or headers: select a field of the record, as in `this.<field>`."
NOT_IN_THE_RECORD = (
    "A filter sees the record and nothing else: select a field, or write the value as a string in double quotes."
)
VARIABLES = "Variables are not supported: write the field where its value is used, as in `this.<field>`."
NOT_A_STRING = (
    "The only literals are strings in double quotes; a number, true or false in a record is compared by its JSON text."
)
QUOTES = 'Strings, and names with other characters than letters, digits and `_`, are in double quotes: this."odd name".'
UNEXPECTED_IMPORT = (
    "Imports and named maps are not supported: write the fields in the expression, or use a v8 transform."
)
ONE_ASSIGNMENT = (
    "An expression is one query: select several values with an array, as in `root = [this.<field>, this.<other>]`."
)
OBJECTS = "An object is in no set: select its values with an array, as in `[this.<field>, this.<other>]`."
ONLY_THE_RECORD = f"Expected `.` and a field: `this` alone is the whole record, which is in no set. Use {FORM}."
SQUARE_BRACKETS_AFTER_RECORD = 'Expected `.` and a field: a member of the record is `this.<field>`, or this."odd name".'
EXPECTED_ASSIGNMENT = f"Expected `=`: the value is assigned to root as a whole, with {FORM}."
EXPECTED_FIELD_BEFORE_METHOD = "Expected a field before the method, as in `this.<field>.{method}()`."
EXPECTED_CLOSING = "Expected `)`."
EXPECTED_CLOSING_OF_ARRAY = "Expected `,` or `]` in the array."
EXPECTED_INDEX = (
    "Square brackets after a value contain one whole number, as in `this.<field>[0]`. For a range write "
    '`.slice(0, 2)`, for a name `."odd name"`, and for every element `."*"`.'
)
EXPECTED_SPACES_AT_ARROW = "Write spaces around `->`, as in `map_each(item -> item.<field>)`."
BAD_NAME_OF_ELEMENT = (
    "`{name}` can't name an element here: use another name before `->`, as in `map_each(item -> item.<field>)`."
)
UNEXPECTED_ARROW = "A name before `->` is only allowed in map_each(), as in `map_each(item -> item.<field>)`."
MESSAGE_OF_ERROR = (
    "Inside catch(), `this` is the error's message and not the record: use `.or(this.<field>)` or "
    "`| this.<field>` for another value in place of an error."
)
EXPECTED_FIELD = 'Expected a field name, an array index, a "quoted name" or a method after the dot.'
EVERY_ELEMENT = 'Quote the star that means every element: this.<field>."*".<field>.'
AMPERSANDS = f"There is no `&&` here. {CONDITIONS}"
DEFAULTS = "There is no `{operator}` here. A single `|` takes the first value that is not null."
ARROW = "The arrow is `->` here, as in `map_each(item -> item.<field>)`."
BAR_ON_ITS_LINE = "A line can't begin with a `|`, found `|`: write it at the end of the line before."

_STRING_ARGUMENT = "{name}() takes a string in double quotes, as in `{example}`."
_ARGUMENTS = {
    "trim": _STRING_ARGUMENT.format(name="trim", example='.trim(" ")') + " Without one, white space is trimmed.",
    "trim_prefix": _STRING_ARGUMENT.format(name="trim_prefix", example='.trim_prefix("0x")'),
    "trim_suffix": _STRING_ARGUMENT.format(name="trim_suffix", example='.trim_suffix(".eth")'),
    "split": _STRING_ARGUMENT.format(name="split", example='.split(",")'),
    "get": _STRING_ARGUMENT.format(name="get", example='.get("token.symbol")'),
    "slice": "slice() takes one or two whole numbers, as in `.slice(0, 10)`.",
    "index": "index() takes one whole number, as in `.index(0)`.",
    "or": "or() takes one query, as in `.or(this.<field>)`.",
    "catch": 'catch() takes one string or query, as in `.catch("none")`.',
    "map_each": "map_each() takes one query, as in `.map_each(item -> item.<field>)`.",
}

_NULLS = "It is not needed: null, a missing member and an error never match a set."
_NUMBERS = "It is not needed: a number is compared by its JSON text, which `.string()` gives."
_STRINGS = "It is not needed: a string is compared as it is, but in lower case."
_ORDER = "It is not needed: an array matches when any of its elements is in the set."
_ARRAYS = "Write an array, as in `[this.<field>, this.<other>]`; the elements of arrays in it count too."
_TESTS = "The value is looked up in the filter's set; write other tests in a v8 transform."
_USE_A_SCRIPT = "Compute the value in a v8 transform before the filter."
_ALTERNATIVES = {
    "first": "Use `.index(0)`.",
    "last": "Use `.index(-1)`.",
    "map": "Use `.( )`, as in `this.token.(symbol | name)`.",
    "keys": "Use `.map_each(item -> item.key).values()`.",
    "bool": "It is not needed: true and false are compared by their JSON text.",
    "not_empty": "It is not needed: null, an empty string, an empty array and an error never match a set.",
    **dict.fromkeys(("not_null", "exists"), _NULLS),
    **dict.fromkeys(("number", "int64", "int32", "uint64", "uint32", "float64"), _NUMBERS),
    "bytes": _STRINGS,
    **dict.fromkeys(("unique", "sort", "enumerated"), _ORDER),
    **dict.fromkeys(("concat", "append", "merge", "assign"), _ARRAYS),
    **dict.fromkeys(
        ("filter", "any", "all", "contains", "in", "has_prefix", "has_suffix", "type", "length", "re_match"), _TESTS
    ),
}

_FUNCTIONS = {
    **dict.fromkeys(("meta", "metadata", "root_meta", "kafka_key"), HEADERS),
    **dict.fromkeys(("env", "file", "hostname", "now", "uuid_v4", "random_int", "count", "counter"), NOT_IN_THE_RECORD),
    **dict.fromkeys(("json", "content"), f"Select a field of the record with {FORM}."),
    "nothing": "Use `deleted()` for no value.",
    "if": CONDITIONS,
    "match": CONDITIONS,
    "var": VARIABLES,
}
_WORDS = {
    "if": CONDITIONS,
    "match": CONDITIONS,
    "let": VARIABLES,
    **dict.fromkeys(("true", "false", "null"), NOT_A_STRING),
    "deleted": "Write `deleted()`, with parentheses.",
}
_STATEMENTS = {
    "if": CONDITIONS,
    "match": CONDITIONS,
    "let": VARIABLES,
    "meta": "A filter passes records on as they are, and sets no headers. Select a field with " + FORM + ".",
    **dict.fromkeys(("import", "from", "map"), UNEXPECTED_IMPORT),
}
_SYMBOLS = (
    ("||", DEFAULTS.format(operator="||")),
    ("??", DEFAULTS.format(operator="??")),
    ("&&", AMPERSANDS),
    ("=>", ARROW),
    (("==", "!=", ">=", "<=", ">", "<"), COMPARISONS),
    ("->", UNEXPECTED_ARROW),
    ("-", f"{ARITHMETIC} {QUOTES}"),
    (("+", "*", "/", "%"), ARITHMETIC),
    ("!", CONDITIONS),
    ("@", HEADERS),
    ("$", VARIABLES),
    ("{", OBJECTS),
    ("'", QUOTES),
    (";", ONE_ASSIGNMENT),
)
_OPERATORS = {"or": DEFAULTS.format(operator="or"), "and": CONDITIONS, "in": COMPARISONS}
_WORD = re.compile(r"[A-Za-z0-9_]*", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z0-9_]+)(?:\.[A-Za-z0-9_.]+)?[ \t]*=(?![=>])", re.ASCII)


def statement_error(expression: str, at: int) -> str:
    """Return the error message for an expression that does not begin with `root`.

    Returns "" if its beginning may be valid.
    """
    word = _word(expression, at)
    if match := _ASSIGNMENT.match(expression, at):
        return f"Expected `root`, found `{match[1]}`: the value is assigned to root as a whole, with {FORM}."
    after = expression[at + len(word) : at + len(word) + 1]
    return _STATEMENTS.get(word, "") if after in (" ", "\t") else ""


def source_error(expression: str, at: int, in_catch: bool) -> str:
    """Return the error message for a place in the expression at which a value was expected."""
    word = _word(expression, at)
    after = expression[at + len(word) :]
    if word and after.startswith("("):
        known = _FUNCTIONS.get(word, "Select a field, or compute the value in a v8 transform before the filter.")
        return f"There is no function {word}() here, only deleted(). {known}"
    if word and re.match(r"[ \t]*->", after):
        return UNEXPECTED_ARROW
    if word in _WORDS:
        return _WORDS[word]
    if word.isdecimal() or re.match(r"-[ \t]*[0-9]", expression[at:]):
        return NOT_A_STRING
    if in_catch and word:
        return MESSAGE_OF_ERROR
    if word:
        name = "<field>" if word == "root" else word
        return f"Expected `this`, found `{word}`. Select a field with `this.{name}`; assign with {FORM}."
    return symbol_error(expression, at) or f"Expected `this.<field>`, an array `[…]` or a string; assign with {FORM}."


def field_error(expression: str, at: int) -> str:
    """Return the error message for a place after a dot at which a field was expected."""
    if expression.startswith("*", at):
        return EVERY_ELEMENT
    if expression.startswith("'", at):
        return QUOTES
    return EXPECTED_INDEX if expression.startswith("[", at) else EXPECTED_FIELD


def method_error(name: str) -> str:
    """Return the error message for a method that does not exist."""
    return f"There is no method {name}() here. {_ALTERNATIVES.get(name, _USE_A_SCRIPT)}"


def arguments_error(name: str) -> str:
    """Return the error message that says which arguments a method takes."""
    return _ARGUMENTS.get(name, f"Expected `)`: {name}() takes no arguments.")


def trailing_error(expression: str, end: int, at: int) -> str:
    """Return the error message for an expression that continues after a whole query.

    Args:
        expression: The expression.
        end: Where the query ends.
        at: Where the first character after the query is that is not white space.
    """
    character = expression[at]
    if message := symbol_error(expression, at) or _OPERATORS.get(_word(expression, at), ""):
        return message
    on_another_line = "\n" in expression[end:at]
    if character == "|":
        return BAR_ON_ITS_LINE
    if on_another_line and _word(expression, at):
        return ONE_ASSIGNMENT
    if character == "=":
        return COMPARISONS
    if character in ".[":
        return f"Expected the end or `|`, found `{character}`: write it without space before it."
    hint = f" {QUOTES}" if not character.isalnum() else f" {ONE_ASSIGNMENT}"
    return f"Expected the end, `.` or `|`, found `{character}`.{hint}"


def symbol_error(expression: str, at: int) -> str:
    """Return the error message for an operator or another sign that is not supported.

    Returns "" when something else is at this place.
    """
    return next((message for signs, message in _SYMBOLS if expression.startswith(signs, at)), "")


def _word(expression: str, at: int) -> str:
    match = _WORD.match(expression, at)
    return match[0] if match else ""
