"""Warnings from the static analysis of a script."""

import pytest

from headwater.sandbox.analysis.tree import parse
from headwater.sandbox.validation import lint
from headwater.sandbox.validation.free_names import find_free_names
from headwater.sandbox.validation.script_globals import GLOBALS


def warnings(text: str) -> list[str]:
    script = parse(text)
    return lint.warnings(script, find_free_names(script))


class TestUndefinedNames:
    @pytest.mark.parametrize(
        ("name", "advice"),
        [
            ("Buffer", "Uint8Array"),
            ("crypto", "no cryptography"),
            ("fetch", "flow.contains"),
            ("setTimeout", "no timers"),
            ("decodeEVMReceipts", "decoded_log"),
            ("ethers", "decoded_log"),
            ("web3", "decoded_log"),
            ("qnLib", "dataset"),
            ("benthos", "called with the record"),
            ("URL", "regular expression"),
            ("WebAssembly", "only JavaScript"),
            ("helper", "define it, or take it out"),
        ],
    )
    def test_name_the_way_out(self, name: str, advice: str) -> None:
        (warning,) = warnings(f"function process(r) {{\n  return {name}(r) ?? {name} }}")
        assert warning.startswith(f"The script uses `{name}` (line 2, column 10), which is not defined: ")
        assert advice in warning

    def test_process_may_be_defined_by_the_script(self) -> None:
        (warning,) = warnings("function process(r) { return { key: process.env.KEY, other: process.env.OTHER } }")
        assert warning.startswith("The script uses `process.env` (line 1, column 37)")

    def test_known_globals_cause_no_warning(self) -> None:
        used = ", ".join(sorted(GLOBALS))
        (warning,) = warnings(f"function process() {{ return [{used}, arguments, process.length] }}")
        assert warning.startswith("The script makes a Promise")

    def test_the_number_of_warnings_is_limited(self) -> None:
        names = ", ".join(f"name{number}" for number in range(100))
        assert len(warnings(f"const process = () => [{names}]")) == lint.MAX_WARNINGS


class TestPromises:
    @pytest.mark.parametrize(
        ("text", "place", "advice"),
        [
            (
                "async function f(r) { await g(r); h() } const g = f, h = f",
                "line 1, column 23",
                "what follows never runs",
            ),
            ("const f = async (rs) => { for await (const r of rs) g(r) }, g = f", "line 1, column 27", "never runs"),
            ("const f = (p) => p.then(() => 1)", "line 1, column 18", "never runs"),
            ("const f = (p) => p\n.catch(() => 1)", "line 1, column 18", "is not noticed"),
            ("const f = () => Promise.reject(new Error('x'))", "line 1, column 17", "in place of a rejected Promise"),
            ("const f = () => new Promise((resolve) => resolve(1))", "line 1, column 21", "nothing waits for one"),
        ],
    )
    def test_unawaited_promises(self, text: str, place: str, advice: str) -> None:
        (warning,) = warnings(text)
        assert place in warning
        assert advice in warning

    @pytest.mark.parametrize("text", ["const f = (r) => r.then", "const then = 1, f = () => then", "'await'"])
    def test_other_uses_of_the_words(self, text: str) -> None:
        assert warnings(text) == []


class TestFrozenBuiltIns:
    @pytest.mark.parametrize(
        "write",
        [
            "BigInt.prototype.toJSON = function () { return String(this) }",
            "Array.prototype['last'] = 1",
            "Math.seed ??= 1",
            "JSON.count++",
            "delete Object.prototype.x",
            "console.log = () => 1",
            "flow.contains = () => true",
            "Object.defineProperty(Array.prototype, 'last', { value: 1 })",
            "Object.assign(String.prototype, { a: 1 })",
            "Reflect.defineProperty(Object.prototype, 'x', {})",
        ],
    )
    def test_in_a_function(self, write: str) -> None:
        (warning,) = warnings(f"function process(r) {{ {write}; return r }}")
        assert "inside a function (line 1, column " in warning
        assert "built-ins are frozen once the top level has run" in warning
        assert warnings(write) == []

    @pytest.mark.parametrize(
        "text",
        [
            "(() => { Array.prototype.last = 1 })()",
            "(function () { Array.prototype.last = 1 })()",
            "function setup() { Array.prototype.last = 1 } setup()",
            "['a', 'b'].forEach((name) => { String.prototype[name] = 1 })",
            "function process(Array) { Array.prototype.last = 1 }",
            "const Map = {}; function process() { Map.a = 1 }",
            "function process(r) { r.Array.prototype = 1; const o = {}; o.Math = 1; Object.assign(o, r); return o }",
            "function process(r) { if (Math.max(r.a, 1) == 2) r.a = 1; return Object.keys(r).length >= 1 }",
        ],
    )
    def test_at_the_top_level_or_of_other_things(self, text: str) -> None:
        assert warnings(text) == []
