"""Validation of a script at save: errors with their positions, and warnings."""

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from headwater.errors import InvalidScript
from headwater.model.transforms.v8 import ValidatedScript
from headwater.sandbox import Sandbox, validate_script
from headwater.sandbox.validation.script_globals import GLOBALS
from tests.support.sandbox import lines, run

OK = ValidatedScript([])
"""There are no warnings, and the script runs unchanged."""


class TestRefused:
    @pytest.mark.parametrize(
        ("script", "line", "column"),
        [
            ("let x = ;", 1, 9),
            ("function process(d) { return d..x }", 1, 32),
            ("var x = 'é' + ;", 1, 15),
            ("var 😀;", 1, 5),
            ("function process(d) {\n  return {\n    a: 1,,\n  }\n}", 3, 10),
            ("\n\n  foo bar", 3, 7),
            ("let a;\nlet a; function process() {}", 2, 5),
            ("function process(d) { return `open", 1, 35),
            ("const deep = null;\n  deep.property.name;\nfunction process() {}", 2, 8),
            ("throw new TypeError('own'); function process() {}", 1, 7),
        ],
    )
    def test_with_line_and_column(self, script: str, line: int, column: int) -> None:
        with pytest.raises(InvalidScript) as refused:
            validate_script(script, "{}")
        assert (refused.value.line, refused.value.column) == (line, column)
        assert f"in line {line}, column {column}" in refused.value.detail

    @pytest.mark.parametrize("script", ["", "const x = 1", "const process = {}", "function proces(d) { return d }"])
    def test_without_a_function(self, script: str) -> None:
        with pytest.raises(InvalidScript, match=r"no function `process\(record\)`") as refused:
            validate_script(script, "{}")
        assert (refused.value.line, refused.value.column) == (None, None)

    @pytest.mark.parametrize("script", ["for (;;);", "Array(1e9).fill(1);"])
    def test_a_top_level_that_does_not_end(self, script: str) -> None:
        with pytest.raises(InvalidScript, match="the top level of the script ran for more than 1 s"):
            validate_script(f"{script} function process(d) {{ return d }}", "{}")


class TestTopLevel:
    """Time and random numbers depend on the record.

    At the top level they would differ between workers.
    """

    @pytest.mark.parametrize(
        ("script", "what", "column"),
        [
            ("const START = new Date().toISOString();", "time", 15),
            ("const now = Date.now();", "time", 18),
            ("const text = Date();", "time", 14),
            ("const t = Temporal.Now.instant();", "time", 24),
            ("const f = new Intl.DateTimeFormat('en').format();", "time", 41),
            ("const id = Math.random();", "random number", 17),
            ("const { now } = Date; const at = now();", "time", 34),
            ("function f() { try { return Math.random() } catch { return 0 } } const id = f();", "random number", 34),
            ("while (Date.now() < 5);", "time", 13),
            ("const t = Date.now(); throw new Error('other');", "time", 16),
        ],
    )
    def test_the_top_level_must_not_use_time_or_random_numbers(self, script: str, what: str, column: int) -> None:
        with pytest.raises(InvalidScript, match=rf"asks for (the|a) {what} outside of `process\(record\)`") as refused:
            validate_script(f"{script}\nfunction process(d) {{ return d }}", "{}")
        assert (refused.value.line, refused.value.column) == (1, column)

    @pytest.mark.parametrize(
        "script",
        [
            "const a = new Date(5), b = new Date('2026-01-02'), c = Date.UTC(2026, 1), d = Date.parse('2026-01-02');",
            "const late = () => [Date.now(), Math.random(), new Date()];",
            "const f = new Intl.DateTimeFormat('en').format(new Date(0));",
            "class A { now() { return Date.now() } }",
        ],
    )
    def test_the_top_level_may_parse_times(self, script: str) -> None:
        assert (
            validate_script(f"{script} function process(d) {{ return {{ t: Date.now(), r: Math.random() }} }}", "{}")
            == OK
        )

    @pytest.mark.parametrize("script", ["const now = Date.now();", "const r = Math.random();"])
    def test_stored_scripts_load_as_before(self, sandbox: Sandbox, script: str) -> None:
        assert run(sandbox, f"{script} function process(d) {{ return {{ a: 1 }} }}", lines({})).outputs[0] == b'{"a":1}'


class TestWarnings:
    @pytest.mark.parametrize(
        "script",
        [
            "function process(d) { return d }",
            "async function unused() {}; const transform = (d) => null",
            "function process(d) { return flow.contains('anything', [d.a]) ? d.x.y.z : d }",
            "// comment\n'use strict'; class A { static process() {} }; let process = A.process",
        ],
    )
    def test_none(self, script: str) -> None:
        assert validate_script(script, '{"a":1}') == OK

    def test_an_exception_on_the_example(self) -> None:
        (warning,) = validate_script("function process(d) {\n  return d.a.b.c }", '{"a":1}').warnings
        assert "TypeError" in warning
        assert "in line 2, column 16" in warning

    def test_the_warning_shows_the_record(self) -> None:
        (warning,) = validate_script(
            "function process(d) { return d.logs.map((log) => log) }", '{"address":"0x1"}'
        ).warnings
        assert "is one object, not a block and not a list, with the members `address`" in warning

    def test_warnings_of_other_errors_do_not_show_the_record(self) -> None:
        (warning,) = validate_script("function process(d) { throw new TypeError('no') }", '{"a":1}').warnings
        assert warning == "The script fails on the stream's example record: TypeError: no in line 1, column 29."

    def test_a_call_that_takes_too_long(self) -> None:
        (warning,) = validate_script("function process(d) { for (;;); }", "{}").warnings
        assert "50 ms" in warning

    @pytest.mark.parametrize("returned", ["{ error: String(d.a) }", "[{ error: 'x', stack: '' }, { error: 'y' }]"])
    def test_nothing_but_an_error(self, returned: str) -> None:
        (warning,) = validate_script(f"function process(d) {{ return {returned} }}", "{}").warnings
        assert warning.startswith("The script turns the stream's example record into nothing but an error: {")

    @pytest.mark.parametrize("returned", ["{ error: 'x', a: 1 }", "[{ error: 'x' }, { a: 1 }]", "[]", "{}"])
    def test_more_than_an_error(self, returned: str) -> None:
        assert validate_script(f"function process(d) {{ return {returned} }}", "{}") == OK

    def test_an_error_that_the_script_catches(self) -> None:
        script = (
            "function process(r) { try { return { n: Buffer.from(r.a) } } catch (e) { return { error: e.message } } }"
        )
        trial, undefined = validate_script(script, '{"a":"00"}').warnings
        assert "nothing but an error" in trial
        assert undefined.startswith(
            "The script uses `Buffer` (line 1, column 41), which is not defined: use Uint8Array"
        )


class TestPromises:
    @pytest.mark.parametrize(
        "script",
        [
            "async function process(d) { return d }",
            "const process = async (d) => d",
            "let transform = async function (d) { return d }",
            "const f = async (d) => d; const process = f",
            "export default async (d) => d",
            "module.exports = { process: async (d) => d }",
            "module.exports = { async process(d) { return d } }",
            "function process(d) { return Promise.resolve(d) }",
            "const later = async (d) => d; function process(d) { return later(d) }",
        ],
    )
    def test_are_refused_as_results(self, script: str) -> None:
        with pytest.raises(InvalidScript, match=r"nothing waits for a Promise.*ake out `async` and `await`"):
            validate_script(script, "{}")

    def test_await_in_a_function_that_is_not_async(self) -> None:
        with pytest.raises(InvalidScript, match="Nothing waits for a Promise: take out `async` and `await`"):
            validate_script("function process(d) { const x = await f(d); return x }", "{}")


class TestNames:
    def test_main(self) -> None:
        with pytest.raises(InvalidScript, match="It defines `main`: rename it to `process`"):
            validate_script("function help() {} function main(stream) { return stream }", "{}")

    def test_the_only_function(self) -> None:
        with pytest.raises(InvalidScript, match="It defines `handle`: rename it to `process`"):
            validate_script("export const handle = (record: object) => record", "{}")

    def test_several_functions(self) -> None:
        with pytest.raises(InvalidScript, match="It defines `a`, `b`: rename the one that takes a record to `process`"):
            validate_script("function a() {} const b = () => 1", "{}")

    @pytest.mark.parametrize(
        ("script", "advice"),
        [
            ("const b = Buffer.alloc(1);", "Use Uint8Array"),
            ("const x = require('x');", "A script is one file: paste what it needs into it"),
            ("function f() { return require('x') }", "there is no `require`: a script is one file"),
            ("setTimeout(() => 1, 5);", "Scripts have no timers"),
        ],
    )
    def test_unknown_names_are_reported_with_the_fix(self, script: str, advice: str) -> None:
        with pytest.raises(InvalidScript, match=advice):
            validate_script(f"{script} function process(d) {{ return d }}", "{}")

    def test_global_names_are_known(self, sandbox: Sandbox) -> None:
        script = "function process() { return { names: Object.getOwnPropertyNames(globalThis) } }"
        found = set(msgspec.json.decode(run(sandbox, script, lines({})).outputs[0] or b"")["names"]) - {"process"}
        assert found <= GLOBALS
        assert GLOBALS - found <= {"atob", "btoa", "TextEncoder", "TextDecoder", "structuredClone"}


def test_many_unknown_names() -> None:
    with ThreadPoolExecutor(12) as pool:
        scripts = [f"function process(d) {{ return d.a{number}.b }}" for number in range(12)]
        warnings = list(pool.map(lambda script: validate_script(script, "{}").warnings, scripts))
    assert all(len(found) == 1 and "TypeError" in found[0] for found in warnings)


@pytest.mark.parametrize(
    "value", ["123456789012345678901234567890n", "JSON.rawJSON('1e400')", "JSON.rawJSON('9'.repeat(5000))"]
)
def test_thrown_values_of_any_type_are_reported(value: str) -> None:
    (warning,) = validate_script(f"function process(r) {{ return {{ error: {value} }} }}", "{}").warnings
    assert warning.startswith("The script turns the stream's example record into nothing but an error: {")
