"""Modules and TypeScript work in scripts.

The generated scripts run, errors keep their positions, and hostile sources are rejected.
"""

import contextlib
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import InvalidScript
from headwater.model.transforms.v8 import MAX_SCRIPT_BYTES
from headwater.sandbox import Sandbox, validate_script
from headwater.sandbox.deno_command import deno_command
from headwater.sandbox.results import ScriptFailure
from headwater.sandbox.validation.lint import MAX_WARNINGS
from tests.examples import examples
from tests.integration.sandbox.corpus import ANY_BLAME, CASES, Case
from tests.support.sandbox import lines, result, run

RECORD = {"a": 1, "address": "0xAB"}
EXAMPLE = json.dumps(RECORD)

MODULES = [
    "export function process(r) { return { b: r.a + 1 } }",
    "export const process = (r) => ({ b: r.a + 1 });",
    "export let process; process = (r) => ({ b: r.a + 1 });",
    "function process(r) { return { b: r.a + 1 } }\nexport { process };",
    "function f(r) { return { b: r.a + 1 } }\nexport { f as process, f as other }",
    "export { f as process }; const f = (r) => ({ b: r.a + 1 })",
    "const f = (r) => ({ b: r.a + 1 }); export { f as default };",
    "export default function (r) { return { b: r.a + 1 } }",
    "export default function named(r) { return { b: r.a + 1 } }",
    "export default function process(r) { return { b: r.a + 1 } }",
    "export default (r) => ({ b: r.a + 1 });",
    "export default r => { return { b: r.a + 1 } }",
    "const f = (r) => ({ b: r.a + 1 });\nexport default f;",
    "const f = (r) => ({ b: r.a + 1 })\nexport default f\n;[1].forEach(() => {})",
    "function process(r) { return { b: r.a + 1 } } export default process",
    "export const other = 1; export default (r) => ({ b: r.a + other });",
    "export class Adder { add(n) { return n + 1 } }\nexport const process = (r) => ({ b: new Adder().add(r.a) })",
    "export const one = 1, process = (r) => ({ b: r.a + one })",
    "export function transform(r) { return { b: r.a + 1 } }",
    "export default { process(r) { return { b: r.a + 1 } } }",
    "const process = (r) => ({ b: r.a + 1 }); export default { process, other: 1 };",
    "export default 5 + 5; export const process = (r) => ({ b: r.a + 1 })",
    "#!/usr/bin/env node\nexport const process = (r) => ({ b: r.a + 1 })",
    "export const { process } = { process: (r) => ({ b: r.a + 1 }) }",
    "export default(r)=>({b:r.a+1})",
    "export default\n  function\n  (r) { return { b: r.a + 1 } }",
]
COMMON_JS = [
    "module.exports = (r) => ({ b: r.a + 1 })",
    "const f = (r) => ({ b: r.a + 1 }); module.exports = f",
    "module.exports = { process: (r) => ({ b: r.a + 1 }), other: 1 }",
    "function process(r) { return { b: r.a + 1 } }\nmodule.exports = { process };",
    "const process = (r) => ({ b: r.a + 1 })\nmodule.exports = process // the end",
    "exports.process = (r) => ({ b: r.a + 1 })",
    "module.exports.process = function (r) { return { b: r.a + 1 } }",
    (
        "'use strict'; Object.defineProperty(exports, '__esModule', { value: true }); exports.process = void 0;\n"
        "const process = (r) => ({ b: r.a + 1 }); exports.process = process;"
    ),
    "exports.default = (r) => ({ b: r.a + 1 })",
    "exports.transform = (r) => ({ b: r.a + 1 })",
    "const one: number = 1; module.exports = (r: any) => ({ b: r.a + one })",
]
TYPESCRIPT = [
    "const labels: Record<string, string> = {};\nfunction process(r: any) { return { b: r.a + 1 } }",
    "interface R { a: number }\nexport const process = (r: R): { b: number } => ({ b: r.a + 1 })",
    "type R = { a: number; [key: string]: unknown };\nfunction process(r: R) { return { b: r.a! + 1 } as const }",
    "import type { Log } from './types';\nexport function process(log: Log) { return { b: log.a + 1 } }",
    "import { type Log } from './types'; export function process(log: Log) { return { b: log.a + 1 } }",
    "export type { A }; export interface A { a: number }\nexport default (r: A) => ({ b: r.a + 1 })",
    "export default function <T extends { a: number }>(r: T): { b: number } { return { b: r.a + 1 } }",
    "const add = <T,>(x: T, y: number) => (x as any) + y;\nexport default (r: any) => ({ b: add<number>(r.a, 1) })",
    (
        "class Adder { private readonly by: number = 1; declare x: string; add(n: number) { return n + this.by } };"
        "function process(r: any) { return { b: new Adder().add(r.a) } }"
    ),
    (
        "abstract class Base { abstract n(): number }\nclass One extends Base { override n() { return 1 } }\n"
        "function process(r: any) { return { b: r.a + new One().n() } }"
    ),
    "declare const outside: number;\nfunction process(r: any) { return { b: r.a + 1 } satisfies object }",
    "function add(n: number): number; function add(n) { return n + 1 }\nexport default (r: any) => ({ b: add(1) })",
    "let n = 1 as any\n;[1].map((x: number) => x); function process(r: any) { return { b: r.a + n } }",
    "function process(this: any, { a }: { a: number }, rest?: unknown) { return { b: a + 1 } }",
    "// 'é', 😀\nconst é: '😀' | \"中\" = '😀'; const process = (r: any) => ({ b: r.a + 1 })",
    "export const process = (\n  r: { a: number },\n): {\n  b: number;\n} => ({ b: r.a + 1 })",
]


@pytest.mark.parametrize("text", [*MODULES, *COMMON_JS, *TYPESCRIPT])
def test_the_generated_script_runs(shared_sandbox: Sandbox, text: str) -> None:
    checked = validate_script(text, EXAMPLE)
    assert checked.warnings == []
    assert checked.javascript is not None
    assert run(shared_sandbox, checked.javascript, lines(RECORD)).outputs[0] == b'{"b":2}'


@pytest.mark.parametrize(
    "text",
    [
        "function process(r) { return { t: f(r.a < 5, r.a > (1)) } } const f = (x, y) => [x, y]",
        "function process(r) { return { octal: 010 } }",
        "function process(r) { with (r) { return { a } } }",
        "if (typeof module !== 'undefined') { module.exports = {} } function process(r) { return r }",
        "/* export */ const text = `export default 1`; function process(r) { return r }",
        "label: for (;;) { break label } function process(r) { return r }",
    ],
)
def test_scripts_run_as_they_are(text: str) -> None:
    assert validate_script(text, EXAMPLE).javascript is None


def test_a_javascript_module_keeps_code_that_looks_like_types(shared_sandbox: Sandbox) -> None:
    text = "const f = (x, y) => [x, y]; export function process(r) { return { t: f(r.a < 5, r.a > (1)) } }"
    javascript = validate_script(text, EXAMPLE).javascript
    assert javascript is not None
    assert run(shared_sandbox, javascript, lines(RECORD)).outputs[0] == b'{"t":[true,false]}'


class TestStrictness:
    @pytest.mark.parametrize(
        ("text", "strict"),
        [
            ("export function process(r) { return { strict: this === undefined } }", True),
            ("export function process(r: any) { return { strict: this === undefined } }", True),
            ("function process(r: any) { return { strict: this === undefined } }", False),
            ("module.exports = { process }; function process(r) { return { strict: this === undefined } }", False),
            ("// a\n'use strict'; module.exports = (r) => ({ strict: (function () { return !this })() })", True),
            ("0; 'use strict'; module.exports = (r) => ({ strict: (function () { return !this })() })", False),
        ],
    )
    def test_only_modules_are_strict(self, shared_sandbox: Sandbox, text: str, strict: bool) -> None:
        javascript = validate_script(text, EXAMPLE).javascript or text
        output = run(shared_sandbox, javascript, lines(RECORD)).outputs[0]
        assert json.loads(output or b"") == {"strict": strict}


class TestRefused:
    @pytest.mark.parametrize(
        ("text", "line", "column", "advice"),
        [
            ("import { ethers } from 'ethers';\nfunction process(r) { return r }", 1, 1, "paste what the script needs"),
            ("\n  import x from 'x'; export default (r) => r", 2, 3, "there is no `import`"),
            ("import 'x'; export default (r: any) => r", 1, 1, "there is no `import`"),
            ("import { Log } from './types'; export default (r: Log) => r", 1, 1, "by `import type`"),
            ("import fs = require('fs'); export default (r: any) => r", 1, 1, "there is no `import`"),
            ("export * from 'x'; export const process = (r) => r", 1, 1, "there is no `import`"),
            ("export { process } from 'x'", 1, 1, "there is no `import`"),
            ("function process(r) { return import('x') }", 1, 30, "there is no `import`"),
            ("const f = (r: any) => import('x'); export default f", 1, 23, "there is no `import`"),
            ("function process(r) { return require('x')(r) }", 1, 30, "there is no `require`"),
            ("enum A { B }\nfunction process(r: any) { return r }", 1, 1, "there are no enums"),
            ("\texport const enum A { B } export default (r: any) => r", 1, 9, "there are no enums"),
            ("const c = 1;\nexport enum A { B }\nexport default (r) => ({ a: A.B })", 2, 8, "there are no enums"),
            ("export default enum A { B }\nexport const process = (r) => r", 1, 1, "no export or import of JavaScript"),
            ("export some { a }\nexport const process = (r) => r", 1, 1, "no export or import of JavaScript"),
            ("export some const process = (r) => r", 1, 1, "no export or import of JavaScript"),
            ("namespace A { export const b = 1 } export default (r: any) => r", 1, 1, "there are no namespaces"),
            (
                "class A { constructor(private a: number) {} } export default (r: any) => r",
                1,
                23,
                "parameter properties",
            ),
            ("function process(r: any) { return r }\nexport = process;", 2, 1, "write `export default process`"),
            ("const process = (r: any) => <any>r;", 1, 29, "write `value as Type`"),
            ("const x = await 1; export const process = (r) => r", 1, 11, "Nothing waits for a Promise"),
            ("@decorate class A {} export default (r) => r", 1, 1, "There are no decorators"),
            ("export default (r) => <p>{r.a}</p>", 1, 23, "There is no JSX"),
            ("export const process = (r) => { return 010 }", 1, 40, "Octal literals are not allowed"),
            (
                "export const process = (r: any) => {\n  return r..a\n}",
                1,
                26,
                "Read as TypeScript, it has a syntax error too",
            ),
            ("export const process = (r) => {\n  return r..a\n}", 2, 12, "Unexpected token"),
        ],
    )
    def test_the_error_names_the_fix(self, text: str, line: int, column: int, advice: str) -> None:
        with pytest.raises(InvalidScript, match=re.escape(advice)) as refused:
            validate_script(text, EXAMPLE)
        assert (refused.value.line, refused.value.column) == (line, column)

    @pytest.mark.parametrize(
        "text",
        [
            "const process = (r) => r; export default (r) => null",
            "const process = (r) => r; const f = (r) => null; export { f as process }",
            "const process = (r) => r; module.exports = (r) => null",
            "function process(r) { return r } exports.process = (r) => null",
            "const process = (r) => r; export default { process: (r) => null }",
        ],
    )
    def test_two_candidate_functions(self, text: str) -> None:
        with pytest.raises(InvalidScript, match="keep one of them"):
            validate_script(text, EXAMPLE)

    @pytest.mark.parametrize("text", ["export const a = 1", "module.exports = { a: 1 }", "const a: number = 1"])
    def test_without_a_function(self, text: str) -> None:
        with pytest.raises(InvalidScript, match=r"no function `process\(record\)`"):
            validate_script(text, EXAMPLE)

    def test_a_script_that_throws_a_syntax_error_is_not_typescript(self) -> None:
        with pytest.raises(InvalidScript, match="SyntaxError: own in line 2, column 7"):
            validate_script("const t = (f) => f(1 < 2, 3 > (1));\nthrow new SyntaxError('own')", EXAMPLE)


TYPES = st.sampled_from(
    ["", ": number", ": Map<string, number[]>", ": 'é'", ": '😀中'", ": (a: number) => { b: string }", "?: any"]
)
SPACE = st.sampled_from(
    ["", " ", "\t", "\n", "\n\n  ", "/* 😀 é */ ", "// é\n", "type A = { a: '😀' };\n", "interface B { b: string }"]
)
FORMS = st.sampled_from([
    "export function process(r{type}) {{ {space}return r.x.y }}",
    "export default function (r{type}) {{ {space}return r.x.y }}",
    "export default (r{type}) => {{ {space}return r.x.y }}",
    "function process(r{type}) {{ {space}return r.x.y }}\nlet z: any",
    "const f = (r{type}) => {{ {space}return r.x.y }};\nexport {{ f as process }}",
    "module.exports = {{ process(r{type}) {{ {space}return r.x.y }} }}; let z: any",
    "export const process = (r{type}) => {{ {space}return r.x.y }}",
])  # fmt: skip


@given(FORMS, TYPES, SPACE, SPACE)
@settings(max_examples=examples(30))
def test_error_positions_refer_to_the_source(form: str, type_: str, before: str, inside: str) -> None:
    text = before + form.format(type=type_, space=inside)
    (warning,) = validate_script(text, EXAMPLE).warnings
    head = text[: text.index("x.y") + 2]
    line, column = head.count("\n") + 1, len(head.rpartition("\n")[2].encode("utf-16-le")) // 2 + 1
    assert f"(reading 'y') in line {line}, column {column}." in warning


DEEP = {
    "parentheses": "(" * MAX_SCRIPT_BYTES,
    "comparisons": "<" * MAX_SCRIPT_BYTES,
    "generics": "let a: " + "A<" * 250_000 + "B" + ">" * 250_000,
    "types": "type A = " + "{a:" * 200_000 + "1" + "}" * 200_000 + "; function process(r: any) { return r }",
    "arrows": "let f = " + "(a: number) => " * 60_000 + "1",
    "casts": "let a = b" + " as any" * 140_000,
    "statements": "let x: any; " + "if(x)" * 200_000,
    "templates": "let a: `" + "${`" * 100_000,
    "patterns": "export const " + "[" * 200_000 + "a" + "]" * 200_000 + " = 1",
    "conditions": "type A = " + "a extends b ? c : " * 50_000 + "d;",
    "backtracking": "let a: any = " + "async (a = " * 4_000 + "1" + ") => 1" * 4_000,
    "exports": "export { " + "a," * 300_000 + "a };",
    "errors": "export const a = 1;" + "let let ) ] } ( " * 60_000,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP.keys())
def test_hostile_sources_are_rejected_in_time(text: str) -> None:
    began_s = time.monotonic()
    with pytest.raises(InvalidScript):
        validate_script(text, EXAMPLE)
    assert time.monotonic() - began_s < 10


PROCESS = "function process(r) { return r }\n"
LONG = {
    "names": PROCESS + "const f = () => [" + ", ".join(f"n{i}" for i in range(100_000)) + "]",
    "calls": PROCESS + "function f(x) { Object.assign(Array.prototype, x); return x" + ".a()" * 4_000 + " }",
    "members": PROCESS + "function f(x) { x" + ".b" * 200_000 + " = Math.y }",
    "writes": PROCESS + "function f() { " + "Math.a = 1;" * 80_000 + "}",
    "functions": PROCESS + "".join(f"function f{i}() {{}}" for i in range(50_000)),
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
@pytest.mark.long
def test_long_scripts_are_analysed(text: str) -> None:
    assert len(validate_script(text, EXAMPLE).warnings) <= MAX_WARNINGS


def test_a_stack_overflow_during_compilation_has_no_position() -> None:
    with pytest.raises(InvalidScript, match=r"Maximum call stack size exceeded|nested too deeply") as refused:
        validate_script(PROCESS + "const a = " + "(()=>" * 1_000 + "1" + ")" * 1_000, EXAMPLE)
    assert refused.value.line is None


def test_concurrent_hostile_sources_do_not_affect_other_saves() -> None:
    def outcome(text: str) -> object:
        try:
            return validate_script(text, EXAMPLE).warnings
        except InvalidScript:
            return "refused"

    good = "export const process = (r: any) => ({ b: r.a })"
    with ThreadPoolExecutor(12) as pool:
        outcomes = list(pool.map(outcome, [*DEEP.values(), *[good] * 12]))
    assert outcomes == ["refused"] * len(DEEP) + [[]] * 12


def test_ordinary_nesting_is_accepted() -> None:
    deep = "if (x) { " * 500 + "}" * 500 + " const a: any = " + "[" * 500 + "]" * 500
    assert validate_script(f"let x: any; {deep}\nfunction process(r: any) {{ return r }}", EXAMPLE).warnings == []


class TestCheckingChild:
    """Only the child that checks scripts has the type stripper.

    It is sandboxed like the other children.
    """

    def test_workers_have_no_stripper(self) -> None:
        assert "stripTypeScriptTypes }" not in json.dumps(deno_command(jit=False).argv)
        assert deno_command(jit=False).for_validation is False

    @pytest.mark.parametrize(
        "body",
        [
            "return { t: typeof stripTypeScriptTypes }",
            "return { t: typeof globalThis.stripTypeScriptTypes }",
        ],
    )
    def test_scripts_do_not_see_it(self, body: str) -> None:
        with Sandbox(spare=False, command=deno_command(jit=False, for_validation=True)) as sandbox:
            assert result(sandbox, body) == {"t": "undefined"}

    def test_the_checking_child_strips_types_after_its_hello(self) -> None:
        with Sandbox(spare=False, command=deno_command(jit=False, for_validation=True)) as sandbox:
            assert sandbox.strip_types("if (a) { let b: string }") == "if (a) { let b         }"
            assert sandbox.strip_types("let a = 1") == ""

    def test_saves_continue_after_a_source_that_kills_the_child(self) -> None:
        with Sandbox(spare=False, command=deno_command(jit=False, for_validation=True)) as sandbox:
            assert isinstance(sandbox.strip_types("let a: any = " + "[" * 100_000), ScriptFailure)
            assert sandbox.strip_types("let a: any") == "let a     "


@pytest.mark.parametrize("case", [case for case in CASES if not case.slow], ids=lambda case: case.name)
def test_hostile_typescript_is_saved_with_a_warning_or_rejected(case: Case) -> None:
    with contextlib.suppress(InvalidScript):
        checked = validate_script(f"export default function (d: any): any {{\n{case.body}\n}}", EXAMPLE)
        assert checked.javascript is not None
        assert checked.warnings or case.outcomes - ANY_BLAME


PIECES = st.sampled_from(
    [
        "",
        " ",
        "\n",
        "{",
        "}",
        "(",
        ")",
        "<",
        ">",
        ":",
        ";",
        ",",
        "=>",
        "export ",
        "import ",
        "type ",
        "as any",
        "`",
        "'",
    ]
)


@given(st.sampled_from([*MODULES, *COMMON_JS, *TYPESCRIPT]), st.data())
@settings(max_examples=examples(60))
@pytest.mark.long
def test_sources_with_errors_are_rejected_or_keep_their_lines(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 10)))
    changed = text[:start] + data.draw(PIECES) + text[end:]
    with contextlib.suppress(InvalidScript):
        javascript = validate_script(changed, EXAMPLE).javascript
        if javascript is not None:
            generated = javascript.removeprefix(
                javascript[: javascript.index("\n") + 1] if javascript[:2] == "/*" else ""
            )
            assert all(map(_is_from, generated.split("\n"), changed.split("\n")))


def _is_from(generated: str, sent: str) -> bool:
    """Return whether a generated line matches the source line.

    At each position it must have the source's character, a blank, or a replaced export.
    """
    pairs = zip(_units(generated), _units(sent), strict=False)
    return sum(one not in (other, *_BLANKS) for one, other in pairs) <= len("function process")


def _units(text: str) -> list[int]:
    """Return the UTF-16 code units, in which columns are counted."""
    encoded = text.encode("utf-16-le")
    return [low + 256 * high for low, high in zip(encoded[::2], encoded[1::2], strict=True)]


_BLANKS = [ord(char) for char in " ;\ufeff\u2002"]
