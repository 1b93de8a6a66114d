"""Refusals of TypeScript whose types can't simply be taken out, such as enums: the place, and the way out."""

import re
import unicodedata

from headwater.errors import ScriptRefused

_MESSAGE = re.compile(r"(.*) at file:\S*:(\d+):(\d+)", re.DOTALL)
_LINE_END = re.compile(r"\r\n|\n|\r")
_LINE_END_OF_JAVASCRIPT = re.compile(r"\r\n|[\n\r\u2028\u2029]")
_TAB_COLUMNS = 4
_FORMS = {
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
"""By a word of the engine's message: a pattern of the tokens that the form may begin with, and the way out."""


def unsupported(text: str, message: str) -> ScriptRefused | None:
    """The refusal by the engine's message, with the way out where one is known; None for a message without a place."""
    found = _MESSAGE.fullmatch(message)
    if found is None:
        return None
    tokens, advice = next((form for word, form in _FORMS.items() if word in found[1]), ("", found[1]))
    line, column = _place(text, int(found[2]), int(found[3]), tokens)
    return ScriptRefused(f"The script can't be loaded: line {line}, column {column}: {advice}.", line, column)


def _place(text: str, line: int, shown_column: int, tokens: str) -> tuple[int, int]:
    """Line and column as JavaScript counts them.

    The engine counts columns as a terminal shows them, with tabs of a width that is not known. So the nearest token is
    taken that the form may begin with.
    """
    starts = [0, *(end.end() for end in _LINE_END.finditer(text))]
    start = starts[min(line, len(starts)) - 1]
    source = _LINE_END.split(text[start:], maxsplit=1)[0]
    near = start + _index(source, shown_column)
    at = min(
        (start + token.start() for token in re.finditer(tokens, source)), key=lambda i: abs(i - near), default=near
    )
    before = _LINE_END_OF_JAVASCRIPT.split(text[:at])
    return len(before), len(before[-1].encode("utf-16-le", errors="surrogatepass")) // 2 + 1


def _index(source: str, shown_column: int) -> int:
    shown = 1
    for i, char in enumerate(source):
        if shown >= shown_column:
            return i
        shown += _columns(char)
    return len(source)


def _columns(char: str) -> int:
    if char == "\t":
        return _TAB_COLUMNS
    if unicodedata.category(char) in ("Mn", "Me", "Cf", "Cc"):
        return 0
    return (2 if unicodedata.east_asian_width(char) in "WF" else 1) + (char > "\uffff")
