"""Loads what a user sent, be it a script, a module or TypeScript, into a checking sandbox."""

import re
from typing import NamedTuple

from tree_sitter import Node

from headwater.errors import ScriptRefused
from headwater.sandbox import missing, typescript
from headwater.sandbox.analysis import functions, modules
from headwater.sandbox.analysis.names import free_names
from headwater.sandbox.analysis.tree import Script, parse
from headwater.sandbox.results import ScriptError
from headwater.sandbox.supervisor import Lookup, Sandbox

_MAX_BROKEN_UNITS = 1 << 16
"""A longer text with syntax errors is not parsed, which takes ten times as long as for a text without."""
_NOT_DEFINED = re.compile(r"([\w$]+) is not defined")
_JSX = re.compile(r"</[\w.]*>|/>")
_DECORATOR = re.compile(r"^\s*@\w", re.MULTILINE)
_EXPORTS = frozenset({"module", "exports"})

_NO_WAIT = "nothing waits for a Promise: take out `async` and `await`"
_NO_DECORATORS = "There are no decorators: call the function on the class or the method."
_NO_JSX = "There is no JSX, as in .tsx files: scripts return records."


class Loaded(NamedTuple):
    """A script in a sandbox.

    Attributes:
        number: Its number there.
        tree: The syntax tree of the text without types.
        javascript: The script that was made from the sent text; None when that runs as it is.
        free: The uses of names that the script does not declare; empty when the tree has errors.
    """

    number: int
    tree: Script
    javascript: str | None
    free: dict[str, list[Node]] = {}  # a NamedTuple's default is shared: it is replaced, never changed


def load(sandbox: Sandbox, text: str, lookup: Lookup) -> Loaded:
    """Load a text as what it is. Raises ScriptRefused, SandboxFailed."""
    loaded = _Reader(sandbox, lookup).load(text)
    tree, free = loaded.tree, {} if loaded.tree.has_errors else free_names(loaded.tree)
    if loaded.javascript is not None:
        free = {name: uses for name, uses in free.items() if name not in _EXPORTS}
    _require_synchronous(tree)
    modules.require_no_import(tree)
    _require_no_require(tree, free)
    return loaded._replace(free=free)


class _Reader:
    def __init__(self, sandbox: Sandbox, lookup: Lookup) -> None:
        self._sandbox = sandbox
        self._lookup = lookup

    def load(self, text: str) -> Loaded:
        """Load a text as a script, or, if it does not compile, as a module or as TypeScript."""
        try:
            return Loaded(self._sandbox.add(text, self._lookup), parse(text), None)
        except ScriptRefused as refused:
            if refused.error != "SyntaxError":
                return self._with_exports(parse(text), refused)
            return self._module_or_typescript(text, refused)

    def _module_or_typescript(self, text: str, refused: ScriptRefused) -> Loaded:
        stripped = self._sandbox.without_types(text)
        if isinstance(stripped, ScriptError):
            return self._without_stripper(text, stripped, refused)
        if not stripped:  # the script itself threw the SyntaxError
            raise refused
        tree = parse(stripped)
        if modules.is_module(tree):
            return self._module(text, tree)
        if stripped == text:
            raise _explained(refused)
        return self._made(tree, stripped)

    def _module(self, text: str, tree: Script) -> Loaded:
        """Load a module, if possible with all of its text: `f(a < b, c > (d))` looks like types, and is JavaScript."""
        module = modules.Module(tree)
        if text != tree.text:
            javascript = module.script_of(text)
            try:
                return Loaded(self._sandbox.add(javascript, self._lookup), parse(text), javascript)
            except ScriptRefused as refused:
                if refused.error != "SyntaxError":
                    raise _explained(refused, tree) from None
        return self._made(tree, module.script_of(tree.text))

    def _without_stripper(self, text: str, error: ScriptError, refused: ScriptRefused) -> Loaded:
        """Refuse a text that the stripper can't read. Where it is a module, the engine names the fault better."""
        unreadable = _unreadable(text, error, refused)
        if error.error == "SyntaxError" and len(text) <= _MAX_BROKEN_UNITS and modules.is_module(tree := parse(text)):
            try:
                return self._made(tree, modules.Module(tree).script_of(text))
            except ScriptRefused as named:
                raise _unreadable(text, error, named) from None
        raise unreadable

    def _made(self, tree: Script, javascript: str) -> Loaded:
        try:
            return Loaded(self._sandbox.add(javascript, self._lookup), tree, javascript)
        except ScriptRefused as refused:
            return self._with_exports(tree, refused)

    def _with_exports(self, tree: Script, refused: ScriptRefused) -> Loaded:
        """Load a script that was refused since `module` or `exports` is not defined. Refuses it else."""
        undefined = _NOT_DEFINED.fullmatch(refused.reason)
        if refused.error != "ReferenceError" or undefined is None or undefined[1] not in _EXPORTS:
            raise _explained(refused, tree)
        javascript = modules.from_common_js(tree)
        try:
            return Loaded(self._sandbox.add(javascript, self._lookup), tree, javascript)
        except ScriptRefused as error:
            raise _explained(error, tree) from None


def _explained(refused: ScriptRefused, tree: Script | None = None) -> ScriptRefused:
    """The refusal, with the way out where one is known."""
    way_out = _way_out(refused, tree)
    if not way_out:
        return refused
    return ScriptRefused(f"{refused.detail} {way_out}", refused.line, refused.column)


def _way_out(refused: ScriptRefused, tree: Script | None) -> str:
    if refused.error == "NoProcess" and tree is not None:
        return _other_functions(tree)
    if refused.error == "ReferenceError" and (undefined := _NOT_DEFINED.fullmatch(refused.reason)):
        return _sentence(missing.way_out(undefined[1]))
    if refused.error == "SyntaxError" and refused.reason.startswith("await is only valid"):
        return _sentence(_NO_WAIT)
    return ""


def _other_functions(tree: Script) -> str:
    found = functions.by_name(tree)
    if not found or not found.keys().isdisjoint(modules.ENTRY_NAMES):
        return ""
    names = list(found)
    if "main" in names or len(names) == 1:
        name = "main" if "main" in names else names[0]
        sentence = f"It defines `{name}`: rename it to `process` if it is what takes a record."
        return f"{sentence} {_sentence(_NO_WAIT)}" if functions.is_async(found[name]) else sentence
    shown = ", ".join(f"`{name}`" for name in names[:10])
    return f"It defines {shown}: rename the one that takes a record to `process`."


def _unreadable(text: str, error: ScriptError, refused: ScriptRefused) -> ScriptRefused:
    """The error for a text that does not compile as a script, and whose types can't be stripped either."""
    if error.error != "SyntaxError":
        return ScriptRefused(f"The script can't be read as JavaScript or TypeScript: {error.message}.")
    if (unsupported := typescript.unsupported(text, error.message)) is not None:
        return unsupported
    advice = _way_out(refused, None)
    if not advice and _DECORATOR.search(text):
        advice = _NO_DECORATORS
    if not advice and _JSX.search(text):
        advice = _NO_JSX
    detail = f"{refused.detail} {advice or 'Read as TypeScript, it has a syntax error too.'}"
    return ScriptRefused(detail, refused.line, refused.column) if refused.error else refused


def _require_synchronous(tree: Script) -> None:
    entry = functions.entry(tree)
    if entry is not None and functions.is_async(entry):
        raise modules.refusal(tree, entry, _NO_WAIT)


def _require_no_require(tree: Script, free: dict[str, list[Node]]) -> None:
    if uses := free.get("require"):
        raise modules.refusal(tree, uses[0], f"there is no `require`: {missing.way_out('require')}")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""
