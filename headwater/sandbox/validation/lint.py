"""Warnings for the author of a script from static analysis (lint).

The API returns them when a script is saved.
"""

import re
from collections.abc import Iterator
from itertools import chain, islice

from tree_sitter import Node

from headwater.sandbox.analysis.nodes import every_node, text_of
from headwater.sandbox.analysis.tree import ParsedScript
from headwater.sandbox.validation import writes
from headwater.sandbox.validation.script_globals import GLOBALS, MEMBERS_OF_PROCESS, advice_for

MAX_WARNINGS = 20

_PROMISE_METHODS = frozenset({"then", "catch", "finally"})
# Cheap pre-checks: a regular expression decides whether the walk over the syntax tree, which takes 0.1 s for a long
# script, can find anything.
_MENTIONS_PROCESS_MEMBER = re.compile(rf"\bprocess\s*\??\.\s*(?:{'|'.join(MEMBERS_OF_PROCESS)})\b")
_MENTIONS_PROMISE = re.compile(rf"\bawait\b|\.\s*(?:{'|'.join(_PROMISE_METHODS)})\b")
_ANY_GLOBAL = rf"\b(?:{'|'.join(GLOBALS)})\b"
_MENTIONS_WRITE = re.compile(
    rf"\bprototype\b|\b(?:Object|Reflect)\.(?:define|assign|setPrototype)|(?:\bdelete|\+\+|--)\s*{_ANY_GLOBAL}"
    rf"|{_ANY_GLOBAL}\s*[.\[][^;={{}}()]{{0,60}}(?:\+\+|--|=(?![=>]))"
)


def warnings(script: ParsedScript, free_names: dict[str, list[Node]]) -> list[str]:
    """Return warnings about a script that can be loaded.

    `free_names` has the uses of names that the script does not declare.
    """
    all_warnings = chain(
        _undefined_names(script, free_names),
        _members_of_process(script),
        _promises(script, free_names),
        _writes_to_built_ins(script, free_names),
    )
    return list(islice(all_warnings, MAX_WARNINGS))


def _undefined_names(script: ParsedScript, free_names: dict[str, list[Node]]) -> Iterator[str]:
    for name, uses in free_names.items():
        if name not in GLOBALS and name != "arguments":
            advice = advice_for(name) or "define it, or take it out"
            yield f"The script uses `{name}` ({_place(script, uses[0])}), which is not defined: {advice}."


def _members_of_process(script: ParsedScript) -> Iterator[str]:
    """Yield a warning for each member of Node's object `process` that a script uses.

    In scripts `process` is their own function.
    """
    seen = set()
    if not _MENTIONS_PROCESS_MEMBER.search(script.text):
        return
    for object_name, member, node in _member_uses(script):
        if object_name == "process" and member in MEMBERS_OF_PROCESS and member not in seen:
            seen.add(member)
            advice = MEMBERS_OF_PROCESS[member]
            yield f"The script uses `process.{member}` ({_place(script, node)}), which is not defined: {advice}."


def _member_uses(script: ParsedScript) -> Iterator[tuple[str, str, Node]]:
    for node in every_node(script.root):
        if node.type == "member_expression":
            owner, member = node.child_by_field_name("object"), node.child_by_field_name("property")
            if owner is not None and member is not None and owner.type == "identifier":
                yield text_of(owner), text_of(member), node


def _promises(script: ParsedScript, free_names: dict[str, list[Node]]) -> Iterator[str]:
    """Yield at most one warning about the use of Promises.

    It is about the first `await` or the first call of `then`, `catch` or `finally`, or else about the first `Promise`.
    """
    for node in every_node(script.root) if _MENTIONS_PROMISE.search(script.text) else ():
        if node.type == "await_expression" or _is_waiting_loop(node):
            yield (
                f"The script awaits something ({_place(script, node)}), but nothing waits for a Promise: what follows "
                "never runs. Take out `async` and `await`: `flow.contains` needs neither."
            )
            return
        if node.type == "call_expression" and _is_promise_call(node):
            yield (
                f"The script leaves work to a Promise ({_place(script, node)}), but nothing waits for one: "
                "what is given to `then`, `catch` or `finally` never runs, and a rejected Promise is not noticed. "
                "Call the function directly, without a Promise."
            )
            return
    if "Promise" in free_names:
        place = _place(script, free_names["Promise"][0])
        yield (
            f"The script makes a Promise ({place}), but nothing waits for one. Use its value directly, and `throw` an "
            "error in place of a rejected Promise."
        )


def _is_waiting_loop(node: Node) -> bool:
    """Return whether a node is a loop `for await (const item of items)`."""
    return node.type == "for_in_statement" and node.children[1].type == "await"


def _is_promise_call(call: Node) -> bool:
    function = call.child_by_field_name("function")
    if function is None or function.type != "member_expression":
        return False
    member = function.child_by_field_name("property")
    return member is not None and text_of(member) in _PROMISE_METHODS


def _writes_to_built_ins(script: ParsedScript, free_names: dict[str, list[Node]]) -> Iterator[str]:
    """Yield at most one warning for each built-in object that a function writes to."""
    built_ins = {node.start_byte for name, nodes in free_names.items() if name in GLOBALS for node in nodes}
    seen = set()
    for target in writes.writes_in_functions(script) if built_ins and _MENTIONS_WRITE.search(script.text) else ():
        written_object = writes.written_object(target)
        name = text_of(written_object) if written_object.start_byte in built_ins else ""
        if name and name not in seen:
            seen.add(name)
            yield (
                f"The script writes to `{text_of(target)[:100]}` inside a function ({_place(script, target)}): "
                "built-ins are frozen once the top level has run, so the write changes nothing, and is a TypeError in "
                "strict code. Write to built-ins at the top level."
            )


def _place(script: ParsedScript, node: Node) -> str:
    line, column = script.position(node)
    return f"line {line}, column {column}"
