"""Error messages with position and advice for TypeScript that can't be erased."""

import re
import unicodedata

from headwater.errors import InvalidScript

_MESSAGE = re.compile(r"(.*) at file:\S*:(\d+):(\d+)", re.DOTALL)
_LINE_END = re.compile(r"\r\n|\n|\r")
_LINE_END_OF_JAVASCRIPT = re.compile(r"\r\n|[\n\r\u2028\u2029]")
_TAB_COLUMNS = 4
_UNSUPPORTED_SYNTAX = {
    "enum": ("enum|const", "there are no enums: write `const Color = Object.freeze({ Red: 0, Green: 1 })`"),
    "namespace": ("namespace|module", "there are no namespaces: write functions and constants of their own"),
    "module": ("namespace|module", "there are no namespaces: write functions and constants of their own"),
    "parameter property": (
        "public|private|protected|readonly|override",
        "there are no parameter properties: declare the member, and assign it in the constructor",
    ),
    "import equals": ("import|export", "there is no `import`: paste what the script needs into it"),
    "export assignment": ("export", "write `export default process`"),
    "angle-bracket": ("<", "write `value as Type` in place of `<Type>value`"),
}
"""By a word in Deno's message: a pattern of the tokens with which the unsupported syntax may begin, and the advice."""


def unsupported_syntax_error(text: str, message: str) -> InvalidScript | None:
    """Convert Deno's message to an error, with advice if there is advice for it.

    Returns None for a message without a place.
    """
    match = _MESSAGE.fullmatch(message)
    if match is None:
        return None
    # The empty pattern of tokens matches everywhere, so that the place stays as Deno reports it.
    tokens, advice = next((form for word, form in _UNSUPPORTED_SYNTAX.items() if word in match[1]), ("", match[1]))
    line, column = _place(text, int(match[2]), int(match[3]), tokens)
    return InvalidScript(f"The script can't be loaded: line {line}, column {column}: {advice}.", line, column)


def _place(text: str, line: int, shown_column: int, tokens: str) -> tuple[int, int]:
    """Return line and column as JavaScript counts them.

    Deno counts columns as a terminal displays them, with an unknown tab width. So the place is the place of the nearest
    token with which the syntax may begin.
    """
    starts = [0, *(end.end() for end in _LINE_END.finditer(text))]
    start = starts[min(line, len(starts)) - 1]
    source = _LINE_END.split(text[start:], maxsplit=1)[0]
    near = start + _index_of_display_column(source, shown_column)
    at = min(
        (start + token.start() for token in re.finditer(tokens, source)), key=lambda i: abs(i - near), default=near
    )
    before = _LINE_END_OF_JAVASCRIPT.split(text[:at])
    return len(before), len(before[-1].encode("utf-16-le", errors="surrogatepass")) // 2 + 1


def _index_of_display_column(source: str, shown_column: int) -> int:
    shown = 1
    for i, char in enumerate(source):
        if shown >= shown_column:
            return i
        shown += _display_width(char)
    return len(source)


def _display_width(char: str) -> int:
    if char == "\t":
        return _TAB_COLUMNS
    if unicodedata.category(char) in ("Mn", "Me", "Cf", "Cc"):
        return 0
    return (2 if unicodedata.east_asian_width(char) in "WF" else 1) + (char > "\uffff")
