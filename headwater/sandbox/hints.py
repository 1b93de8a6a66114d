"""What a script's text lets expect of it: warnings for its author when it is saved."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from headwater.sandbox.analysis.nodes import every_node, text_of
from headwater.sandbox.analysis.tree import Script

MAX_WARNINGS = 20

GLOBALS = frozenset(
    "Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date Promise RegExp "
    "Error AggregateError EvalError RangeError ReferenceError SuppressedError SyntaxError TypeError URIError globalThis "
    "JSON Math Intl ArrayBuffer Uint8Array Int8Array Uint16Array Int16Array Uint32Array Int32Array BigUint64Array "
    "BigInt64Array Uint8ClampedArray Float16Array Float32Array Float64Array DataView Map BigInt Set Iterator WeakMap "
    "WeakSet Proxy Reflect decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape eval isFinite isNaN "
    "Temporal DisposableStack AsyncDisposableStack console flow atob btoa TextEncoder TextDecoder structuredClone".split()
)
"""What every script has."""
_IN_FUNCTIONS = frozenset({"arguments"})

_NO_NETWORK = (
    "scripts have no network: put what you would look up into a dataset and ask `flow.contains`, or look it up where "
    "the sink's topic is read"
)
_NO_TIMERS = "scripts have no timers: what `process(record)` returns is all that happens"
_NO_CRYPTO = "there is no cryptography: paste a function in plain JavaScript, such as a keccak256, into the script"
_DECODED = (
    "there is no ABI decoder: choose the stream `decoded_log`, whose records have the event's name and params, or cut "
    "the words out of `data` by `BigInt('0x' + data.slice(2, 66))`"
)
_NO_LIBRARY = "libraries are not there: paste the functions that the script needs into it"
_DATASETS = "values by key are not there: keep a list in a dataset and ask `flow.contains(name, values)`"
_NO_MODULES = "a script is one file: paste what it needs into it"
_NO_PAGE = "scripts run in no browser and no Node: `globalThis` has what there is"
_BYTES = "use Uint8Array with TextEncoder, atob and btoa; `parseInt(text, 16)` and `BigInt('0x…')` read hexadecimal digits"
_NO_SHARING = "nothing is shared between records or threads"

_WAYS_OUT = {
    **dict.fromkeys(("Buffer",), _BYTES),
    **dict.fromkeys(("crypto", "createHash", "CryptoJS", "keccak256", "sha3", "sha256"), _NO_CRYPTO),
    **dict.fromkeys(("fetch", "XMLHttpRequest", "WebSocket", "EventSource", "axios", "got", "http", "https"), _NO_NETWORK),
    **dict.fromkeys(("Request", "Response", "Headers", "FormData", "AbortController", "navigator"), _NO_NETWORK),
    **dict.fromkeys(("setTimeout", "setInterval", "setImmediate", "queueMicrotask"), _NO_TIMERS),
    **dict.fromkeys(("clearTimeout", "clearInterval", "requestAnimationFrame"), _NO_TIMERS),
    **dict.fromkeys(("decodeEVMReceipts", "decodeEVMLogs", "decodeEVMTraces", "AbiCoder", "abi", "decodeLog"), _DECODED),
    **dict.fromkeys(("ethers", "web3", "Web3", "viem", "decodeEventLog", "decodeAbiParameters"), _DECODED),
    **dict.fromkeys(("qnLib", "KV", "kv", "kvStore", "redis", "localStorage", "sessionStorage", "storage"), _DATASETS),
    **dict.fromkeys(("lodash", "moment", "dayjs", "BigNumber", "Decimal", "bs58", "solanaWeb3"), _NO_LIBRARY),
    **dict.fromkeys(("require", "module", "exports", "importScripts", "__dirname", "__filename"), _NO_MODULES),
    **dict.fromkeys(("window", "self", "document", "global", "Deno", "Bun", "location"), _NO_PAGE),
    **dict.fromkeys(("Atomics", "SharedArrayBuffer", "Worker", "WeakRef", "FinalizationRegistry"), _NO_SHARING),
    "URL": "take addresses apart by a regular expression, or by split",
    "URLSearchParams": "take query strings apart by split and decodeURIComponent",
    "WebAssembly": "scripts run JavaScript alone",
    "performance": "the time does not move during a call: `Date.now()` is the record's",
    "benthos": "a script is called with the record, and returns what goes on",
    "context": "a script is called with the record alone",
}
_MEMBERS_OF_PROCESS = {
    "env": "there are no environment variables: write their values into the script",
    "argv": "a script has no arguments",
    "nextTick": _NO_TIMERS,
    "exit": "to drop a record, return null",
    "hrtime": "the time does not move during a call: `Date.now()` is the record's",
    "stdout": "use console.log",
    "on": "a script has no events",
}
_PROMISE_METHODS = frozenset({"then", "catch", "finally"})
_DEFINING_METHODS = frozenset({"defineProperty", "defineProperties", "assign", "setPrototypeOf"})
_FUNCTIONS = frozenset({
    "function_declaration", "generator_function_declaration", "function_expression", "generator_function",
    "arrow_function", "method_definition",
})  # fmt: skip
_WRITES = frozenset({"assignment_expression", "augmented_assignment_expression", "update_expression"})


# Each says by the text alone whether a walk through the tree can find anything: of a long script a walk takes 0.1 s.
_MENTIONS_PROCESS_MEMBER = re.compile(rf"\bprocess\s*\??\.\s*(?:{'|'.join(_MEMBERS_OF_PROCESS)})\b")
_MENTIONS_PROMISE = re.compile(rf"\bawait\b|\.\s*(?:{'|'.join(_PROMISE_METHODS)})\b")
_ANY_GLOBAL = rf"\b(?:{'|'.join(GLOBALS)})\b"
_MENTIONS_WRITE = re.compile(
    rf"\bprototype\b|\b(?:{'|'.join(_DEFINING_METHODS)})\b|(?:\bdelete|\+\+|--)\s*{_ANY_GLOBAL}"
    rf"|{_ANY_GLOBAL}\s*[.\[][^;={{}}()]{{0,60}}(?:\+\+|--|=(?![=>]))"
)


def way_out(name: str) -> str:
    """What to do about a name that people expect and that is not there; "" for other names."""
    return _WAYS_OUT.get(name, "")


def warnings(script: Script, free: dict[str, list[Node]]) -> list[str]:
    """Sentences about a script that loads. free: the uses of names that it does not declare."""
    found = [*_undefined(script, free), *_process_members(script), *_promises(script, free), *_frozen(script, free)]
    return found[:MAX_WARNINGS]


def _undefined(script: Script, free: dict[str, list[Node]]) -> Iterator[str]:
    for name, uses in free.items():
        if name not in GLOBALS and name not in _IN_FUNCTIONS:
            advice = way_out(name) or "define it, or take it out"
            yield f"The script uses `{name}` ({_place(script, uses[0])}), which nobody defines: {advice}."


def _process_members(script: Script) -> Iterator[str]:
    """`process` is the script's own function, not the object that Node has."""
    seen = set()
    if not _MENTIONS_PROCESS_MEMBER.search(script.text):
        return
    for holder, member, node in _member_uses(script):
        if holder == "process" and member in _MEMBERS_OF_PROCESS and member not in seen:
            seen.add(member)
            advice = _MEMBERS_OF_PROCESS[member]
            yield f"The script uses `process.{member}` ({_place(script, node)}), which nobody defines: {advice}."


def _member_uses(script: Script) -> Iterator[tuple[str, str, Node]]:
    for node in every_node(script.root):
        if node.type == "member_expression":
            holder, member = node.child_by_field_name("object"), node.child_by_field_name("property")
            if holder is not None and member is not None and holder.type == "identifier":
                yield text_of(holder), text_of(member), node


def _promises(script: Script, free: dict[str, list[Node]]) -> Iterator[str]:
    """At most one sentence: the first place where something waits, or seems to."""
    for node in every_node(script.root) if _MENTIONS_PROMISE.search(script.text) else ():
        if node.type == "await_expression" or (node.type == "for_in_statement" and node.children[1].type == "await"):
            yield (
                f"The script awaits something ({_place(script, node)}), but nothing waits for a Promise: what follows "
                "never runs. Take out `async` and `await`; `flow.contains` and all else that there is needs neither."
            )
            return
        if node.type == "call_expression" and _is_promise_call(node):
            yield (
                f"The script leaves work to a Promise ({_place(script, node)}), but nothing waits for one: what is given "
                "to `then`, `catch` or `finally` never runs, and a rejected Promise is not noticed. Call it directly."
            )
            return
    if "Promise" in free:
        yield (
            f"The script makes a Promise ({_place(script, free['Promise'][0])}), but nothing waits for one. Use its "
            "value directly, and `throw` an error in place of a rejected Promise."
        )


def _is_promise_call(call: Node) -> bool:
    function = call.child_by_field_name("function")
    if function is None or function.type != "member_expression":
        return False
    member = function.child_by_field_name("property")
    return member is not None and text_of(member) in _PROMISE_METHODS


def _frozen(script: Script, free: dict[str, list[Node]]) -> Iterator[str]:
    """At most one sentence for each built-in that a function writes to."""
    built_ins = {node.start_byte for name, nodes in free.items() if name in GLOBALS for node in nodes}
    seen = set()
    for target in _writes_in_functions(script) if built_ins and _MENTIONS_WRITE.search(script.text) else ():
        holder = _holder(target)
        name = text_of(holder) if holder.start_byte in built_ins else ""
        if name and name not in seen:
            seen.add(name)
            yield (
                f"The script writes to `{text_of(target)[:100]}` inside a function ({_place(script, target)}): built-ins "
                "are frozen once the top level has run, so the write changes nothing, and is a TypeError in strict code. "
                "Write to built-ins at the top level."
            )


def _holder(target: Node) -> Node:
    """`a` of `a.b[c].d`."""
    while target.type in ("member_expression", "subscript_expression"):
        inner = target.child_by_field_name("object")
        assert inner is not None
        target = inner
    return target


def _writes_in_functions(script: Script) -> list[Node]:
    """The members that are written to in functions that run for records, as far as that can be seen."""
    walk = _WriteWalk()
    walk.read(script.root)
    return [target for target, functions in walk.writes if not functions & walk.called_at_top]


class _WriteWalk:
    """writes: each target, with the names of the functions around it. called_at_top: functions that the top level calls."""

    def __init__(self) -> None:
        self.writes: list[tuple[Node, frozenset[str]]] = []
        self.called_at_top: set[str] = set()
        self._run_at_top: set[int] = set()

    def read(self, root: Node) -> None:
        cursor = root.walk()
        around: list[frozenset[str] | None] = [None]
        while True:
            node = cursor.node
            assert node is not None
            inside = self._enter(node, around[-1])
            if cursor.goto_first_child():
                around.append(inside)
                continue
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return
                around.pop()

    def _enter(self, node: Node, functions: frozenset[str] | None) -> frozenset[str] | None:
        """functions: the names of the functions around it; None at the top level."""
        kind = node.type
        if kind in _FUNCTIONS and node.id not in self._run_at_top:
            name = node.child_by_field_name("name")
            return (functions or frozenset()) | {text_of(name) if name is not None else ""}
        if kind == "call_expression":
            self._call(node, functions)
        elif functions is not None and kind in _WRITES:
            self._write(node.child_by_field_name("left") or node.child_by_field_name("argument"), functions)
        elif functions is not None and kind == "unary_expression" and node.children[0].type == "delete":
            self._write(node.child_by_field_name("argument"), functions)
        return functions

    def _call(self, node: Node, functions: frozenset[str] | None) -> None:
        called, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        given = arguments.named_children if arguments is not None else []
        if functions is None:
            while called is not None and called.type == "parenthesized_expression":
                called = called.named_children[0]
            if called is not None and called.type == "identifier":
                self.called_at_top.add(text_of(called))
            self._run_at_top.update(one.id for one in [called, *given] if one is not None)
        elif called is not None and called.type == "member_expression" and given:
            if text_of(called).removeprefix("Object.").removeprefix("Reflect.") in _DEFINING_METHODS:
                self._write(given[0], functions)

    def _write(self, target: Node | None, functions: frozenset[str]) -> None:
        if target is not None and target.type in ("member_expression", "subscript_expression"):
            self.writes.append((target, functions))


def _place(script: Script, node: Node) -> str:
    line, column = script.position(node)
    return f"line {line}, column {column}"
