"""Loads a user's source text into a sandbox: a script, a module, or TypeScript."""

import re
from typing import NamedTuple

from tree_sitter import Node

from headwater.errors import InvalidScript
from headwater.sandbox.analysis.tree import ParsedScript, parse
from headwater.sandbox.lookups import LookupFunction
from headwater.sandbox.results import ScriptFailure
from headwater.sandbox.sandbox import Sandbox
from headwater.sandbox.validation import functions, modules, script_globals, typescript
from headwater.sandbox.validation.free_names import find_free_names

_MAX_UNPARSABLE_CHARS = 1 << 16
"""The length up to which a text that can't be stripped is parsed, to find out whether it is a module.

tree-sitter takes ten times as long when there are errors.
"""
_NOT_DEFINED = re.compile(r"([\w$]+) is not defined")
_JSX = re.compile(r"</[\w.]*>|/>")
_DECORATOR = re.compile(r"^\s*@\w", re.MULTILINE)
_EXPORTS = frozenset({"module", "exports"})

_NO_WAIT = "nothing waits for a Promise: take out `async` and `await`"
_NO_DECORATORS = "There are no decorators: call the function on the class or the method."
_NO_JSX = "There is no JSX, as in .tsx files: scripts return records."


class LoadResult(NamedTuple):
    """A script that a sandbox has loaded.

    Attributes:
        script_number: The number of the script in the sandbox.
        script: The parsed text without types.
        javascript: The JavaScript that was generated from the user's text; None when the user's text runs unchanged.
        free_names: The uses of names that the script does not declare; empty when the text has syntax errors.
    """

    script_number: int
    script: ParsedScript
    javascript: str | None
    free_names: dict[str, list[Node]] = {}  # The default dict is shared between instances: replace it, never mutate it.


def load(sandbox: Sandbox, text: str, lookup: LookupFunction) -> LoadResult:
    """Detect whether a text is a script, a module or TypeScript, and load it.

    Raises InvalidScript, SandboxFailed.
    """
    loaded = _Loader(sandbox, lookup).load(text)
    script = loaded.script
    free_names: dict[str, list[Node]] = {} if script.has_errors else find_free_names(script)
    if loaded.javascript is not None:
        free_names = {name: uses for name, uses in free_names.items() if name not in _EXPORTS}
    _require_synchronous(script)
    modules.require_no_import(script)
    _require_no_require_calls(script, free_names)
    return loaded._replace(free_names=free_names)


class _Loader:
    """Tries to load a text as a script, a module, TypeScript, or a CommonJS module."""

    def __init__(self, sandbox: Sandbox, lookup: LookupFunction) -> None:
        self._sandbox = sandbox
        self._lookup = lookup

    def load(self, text: str) -> LoadResult:
        """Load a text as a script, or, if it does not compile, as a module or as TypeScript."""
        try:
            return LoadResult(self._sandbox.add(text, self._lookup), parse(text), None)
        except InvalidScript as invalid:
            if invalid.error != "SyntaxError":
                return self._load_as_common_js(parse(text), invalid)
            return self._load_module_or_typescript(text, invalid)

    def _load_module_or_typescript(self, text: str, invalid: InvalidScript) -> LoadResult:
        stripped = self._sandbox.strip_types(text)
        if isinstance(stripped, ScriptFailure):
            return self._load_unstrippable(text, stripped, invalid)
        if not stripped:  # The text compiles, so the script threw this SyntaxError at its top level.
            raise invalid
        script = parse(stripped)
        if modules.is_module(script):
            return self._load_module(text, script)
        if stripped == text:
            raise _with_advice(invalid)
        return self._load_generated(script, stripped)

    def _load_module(self, text: str, script: ParsedScript) -> LoadResult:
        """Load a module, if possible without stripping anything.

        `f(a < b, c > (d))` parses as TypeScript type arguments, but is valid JavaScript.
        """
        module = modules.Module(script)
        if text != script.text:
            javascript = module.to_script(text)
            try:
                return LoadResult(self._sandbox.add(javascript, self._lookup), parse(text), javascript)
            except InvalidScript as invalid:
                if invalid.error != "SyntaxError":
                    raise _with_advice(invalid, script) from None
        return self._load_generated(script, module.to_script(script.text))

    def _load_unstrippable(self, text: str, failure: ScriptFailure, invalid: InvalidScript) -> LoadResult:
        """Load a text that the type stripper can't parse, if it is a module.

        Otherwise, or if the converted module can't be loaded, raises InvalidScript. The stripper's error is raised if
        it is not a syntax error, or if it names a place in the text. Otherwise the error comes from the last attempt
        to load: for a module from its conversion or from V8, which compiled the converted text.
        """
        if (
            failure.error == "SyntaxError"
            and len(text) <= _MAX_UNPARSABLE_CHARS
            and modules.is_module(script := parse(text))
        ):
            try:
                return self._load_generated(script, modules.Module(script).to_script(text))
            except InvalidScript as module_error:
                raise _unparsable_error(text, failure, module_error) from None
        raise _unparsable_error(text, failure, invalid)

    def _load_generated(self, script: ParsedScript, javascript: str) -> LoadResult:
        try:
            return LoadResult(self._sandbox.add(javascript, self._lookup), script, javascript)
        except InvalidScript as invalid:
            return self._load_as_common_js(script, invalid)

    def _load_as_common_js(self, script: ParsedScript, invalid: InvalidScript) -> LoadResult:
        """Load a text as a CommonJS module when `module` or `exports` was undefined.

        Raises the given error, with advice, when there was another reason.
        """
        undefined = _NOT_DEFINED.fullmatch(invalid.reason)
        if invalid.error != "ReferenceError" or undefined is None or undefined[1] not in _EXPORTS:
            raise _with_advice(invalid, script)
        javascript = modules.from_common_js(script)
        try:
            return LoadResult(self._sandbox.add(javascript, self._lookup), script, javascript)
        except InvalidScript as error:
            raise _with_advice(error, script) from None


def _with_advice(invalid: InvalidScript, script: ParsedScript | None = None) -> InvalidScript:
    """Return the error with advice appended, where there is advice for it."""
    advice = _advice_on(invalid, script)
    if not advice:
        return invalid
    return InvalidScript(f"{invalid.detail} {advice}", invalid.line, invalid.column)


def _advice_on(invalid: InvalidScript, script: ParsedScript | None) -> str:
    if invalid.error == "NoProcess" and script is not None:
        return _other_functions(script)
    if invalid.error == "ReferenceError" and (undefined := _NOT_DEFINED.fullmatch(invalid.reason)):
        return _sentence(script_globals.advice_for(undefined[1]))
    if invalid.error == "SyntaxError" and invalid.reason.startswith("await is only valid"):
        return _sentence(_NO_WAIT)
    return ""


def _other_functions(script: ParsedScript) -> str:
    """Return a sentence about the functions that a script without an entry point defines."""
    functions_by_name = functions.top_level_functions(script)
    if not functions_by_name or not functions_by_name.keys().isdisjoint(modules.ENTRY_NAMES):
        return ""
    names = list(functions_by_name)
    if "main" in names or len(names) == 1:
        name = "main" if "main" in names else names[0]
        sentence = f"It defines `{name}`: rename it to `process` if it is what takes a record."
        return f"{sentence} {_sentence(_NO_WAIT)}" if functions.is_async(functions_by_name[name]) else sentence
    shown = ", ".join(f"`{name}`" for name in names[:10])
    return f"It defines {shown}: rename the one that takes a record to `process`."


def _unparsable_error(text: str, failure: ScriptFailure, invalid: InvalidScript) -> InvalidScript:
    """Return the error for a text that neither compiles nor can have its types stripped."""
    if failure.error != "SyntaxError":
        return InvalidScript(f"The script can't be read as JavaScript or TypeScript: {failure.message}.")
    if (error := typescript.unsupported_syntax_error(text, failure.message)) is not None:
        return error
    advice = _advice_on(invalid, None)
    if not advice and _DECORATOR.search(text):
        advice = _NO_DECORATORS
    if not advice and _JSX.search(text):
        advice = _NO_JSX
    detail = f"{invalid.detail} {advice or 'Read as TypeScript, it has a syntax error too.'}"
    return InvalidScript(detail, invalid.line, invalid.column) if invalid.error else invalid


def _require_synchronous(script: ParsedScript) -> None:
    entry_point = functions.entry_point(script)
    if entry_point is not None and functions.is_async(entry_point):
        raise modules.error_at(script, entry_point, _NO_WAIT)


def _require_no_require_calls(script: ParsedScript, free_names: dict[str, list[Node]]) -> None:
    if uses := free_names.get("require"):
        raise modules.error_at(script, uses[0], f"there is no `require`: {script_globals.advice_for('require')}")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""
