"""Hostile scripts, each with the allowed outcomes of one bad call between good calls."""

from typing import NamedTuple

ANY_BLAME = {"Timeout", "SandboxCrash", "RangeError"}


class Case(NamedTuple):
    """A hostile script.

    Attributes:
        body: The body of the bad call.
        outcomes: The allowed error classes or outputs.
        slow: Whether the call takes seconds."""

    name: str
    body: str
    outcomes: set[str]
    slow: bool = False


CASES = [
    # Endless loops.
    Case("empty loop", "for (;;) {}", {"Timeout"}),
    Case("loop that catches", "for (;;) { try { throw 0 } catch { continue } finally { continue } }", {"Timeout"}),
    Case("loop in toJSON", "return { toJSON() { for (;;) {} } }", {"Timeout"}),
    Case("loop in a then getter", "return { get then() { for (;;) {} } }", {"Timeout"}),
    Case("wait for ever", "Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0)", {"ReferenceError"}),
    # Slow built-ins.
    Case("backtracking", "return { r: /^(\\w+\\s?)*$/.test('word '.repeat(12) + '!') }", {"Timeout"}),
    Case("nested quantifiers", "return { r: /(y*y*)*z/.exec('y'.repeat(50)) }", {"Timeout"}, slow=True),
    Case("squaring a BigInt", "let n = 7n ** 999999n; for (;;) n *= n", {"Timeout", "RangeError"}),
    Case("BigInt to text", "return { r: String(2n ** (2n ** 26n)).length }", {"Timeout"}),
    Case(
        "power tower", "return { r: String(2n ** (2n ** 28n) % 9n) }", {'{"r":"7"}', "Timeout", "RangeError"}, slow=True
    ),
    # Heap.
    Case("arrays", "const kept = []; for (;;) kept.push(new Array(5000).fill(d))", ANY_BLAME),
    Case(
        "strings",
        "const all = []; for (let i = 0; ; i++) all.push(('z'.repeat(2 ** 19) + i).split('').join())",
        ANY_BLAME,
        slow=True,
    ),
    Case("many objects", "return Array.from({ length: 9e7 }, (_, i) => ({ i }))", ANY_BLAME, slow=True),
    Case("sort", "return { r: Array.from({ length: 2e7 }, (_, i) => -i).sort().length }", ANY_BLAME, slow=True),
    Case(
        "code from text",
        "let code = ''; for (let i = 0; i < 1e6; i++) code += 'var v' + i + ';'; eval(code)",
        {"Timeout", "EvalError"},
        slow=True,
    ),
    Case("one huge array", "new Array(2 ** 30).fill(3)", ANY_BLAME, slow=True),
    Case("endless map", "const m = new Map(); for (let i = 0; ; i++) m.set(i, {})", ANY_BLAME, slow=True),
    Case("closures", "const kept = []; for (;;) kept.push(() => kept)", ANY_BLAME, slow=True),
    Case("registered symbols", "for (let i = 0; ; i++) Symbol.for('symbol ' + i)", ANY_BLAME, slow=True),
    # Off the heap.
    Case("buffers", "const kept = []; for (;;) kept.push(new Uint8Array(32 << 20).fill(9))", ANY_BLAME),
    Case("small buffers", "const kept = []; for (;;) kept.push(new Uint8Array(8192).fill(9))", ANY_BLAME, slow=True),
    Case(
        "growing buffers",
        "const all = []; const o = { maxByteLength: 2 ** 29 };"
        " for (;;) { const b = new ArrayBuffer(8, o); b.resize(2 ** 25); all.push(b) }",
        ANY_BLAME,
        slow=True,
    ),
    Case(
        "copies of typed arrays",
        "let a = new Float64Array(2 ** 19).fill(2); const all = []; for (;;) all.push(a = a.slice())",
        ANY_BLAME,
        slow=True,
    ),
    Case("wasm memory", "for (;;) new WebAssembly.Memory({ initial: 5000 })", {"ReferenceError"}),
    Case("formatters", "for (;;) new Intl.NumberFormat('de').format(1)", ANY_BLAME, slow=True),
    # Scripts that hung earlier versions.
    Case(
        "promise that feeds itself",
        "const again = () => { Promise.resolve(1).then(again) }; again(); return { r: 1 }",
        {'{"r":1}'},
    ),
    Case(
        "endless async generator",
        "const g = async function* () { for (;;) yield 1 };"
        " (async () => { for await (const x of g()); })(); return { r: 1 }",
        {'{"r":1}'},
    ),
    Case("rejected promises", "for (;;) Promise.reject(new Error('no'))", ANY_BLAME, slow=True),
    # Limits of sizes.
    Case("recursion", "const deeper = () => deeper() + 1; return { r: deeper() }", {"RangeError"}),
    Case("long join", "return { r: new Array(1 << 27).join('abcdef') }", {"RangeError"}),
    Case(
        "array that lies",
        "return new Proxy([], { get: (t, k) => (k === 'length' ? 2 ** 32 - 1 : {}) })",
        {"InvalidOutput"},
    ),
    Case("longest string", "return { r: 'a'.repeat(2 ** 29 - 24) }", ANY_BLAME),
    Case(
        "deep nesting",
        "let a = {}; for (let i = 0; i < 3e5; i++) a = { a }; return a",
        {"OutputTooLarge", "RangeError", "Timeout"},
    ),
    Case(
        "huge regex",
        "return { r: new RegExp('(?:a|b|c)+'.repeat(20000)).test('abc') }",
        {"SyntaxError", *ANY_BLAME},
        slow=True,
    ),
    Case("text that loops", "flow.contains('x', [{ toString() { for (;;) {} } }])", {"TypeError"}),
    # Death of the process.
    Case("replacement bomb", "return { r: 'b'.repeat(1 << 23).replace(/b/g, '$&'.repeat(16)).length }", ANY_BLAME),
    # Regular expressions.
    Case("nested plus", "return { r: /^(a+)+$/.test('a'.repeat(40) + '!') }", {"Timeout"}),
    Case("alternatives that overlap", "return { r: /^(?:a|a|aa)+$/.test('a'.repeat(60) + 'b') }", {"Timeout"}),
    Case("back reference", "return { r: /^(a*)*\\1b$/.test('a'.repeat(36)) }", {"Timeout"}),
    Case("look behind", "return { r: /(?<=^(?:x+x+)+)y/.test('x'.repeat(40)) }", {"Timeout", '{"r":false}'}),
    Case("sticky scan", "const r = /(?:.*,){12}z/y; for (;;) r.exec(','.repeat(200))", {"Timeout"}, slow=True),
    Case(
        "deep groups",
        "return { r: new RegExp('('.repeat(3e5) + ')'.repeat(3e5)).test('') }",
        {"SyntaxError", *ANY_BLAME},
    ),
    Case(
        "huge repetition",
        "return { r: new RegExp('(?:a{1000}){1000}').test('a') }",
        {"SyntaxError", '{"r":false}', *ANY_BLAME},
        slow=True,
    ),
    # More of memory and time.
    Case("rope", "let s = 'ab'; for (;;) s += s + 'x'", {"RangeError", *ANY_BLAME}, slow=True),
    Case(
        "normal forms",
        "return { r: '\\ufdfa'.repeat(3e7).normalize('NFKC').length }",
        {"RangeError", *ANY_BLAME},
        slow=True,
    ),
    Case(
        "case folding",
        "return { r: '\\u0130'.repeat(1e8).toLowerCase().length }",
        {"RangeError", *ANY_BLAME},
        slow=True,
    ),
    Case("padding", "return { r: 'x'.padEnd(2 ** 29 - 25, 'ab').split('') }", ANY_BLAME, slow=True),
    Case(
        "sparse array",
        "const a = []; a[2 ** 32 - 2] = 1; return { r: a.reverse().length }",
        {"Timeout", *ANY_BLAME},
        slow=True,
    ),
    Case(
        "flat",
        "let a = []; for (let i = 0; i < 1e6; i++) a = [a]; return { r: a.flat(Infinity) }",
        ANY_BLAME,
        slow=True,
    ),
    Case("array of itself", "const a = [1, 2]; for (;;) a.push(...a)", ANY_BLAME, slow=True),
    Case("sets of sets", "let s = new Set(); for (;;) s = new Set([s, ...s, {}])", ANY_BLAME, slow=True),
    Case(
        "endless generator",
        "const g = function* () { for (;;) yield* g() }; return { r: [...g()] }",
        ANY_BLAME,
        slow=True,
    ),
    Case("big text of an error", "throw new Error('e'.repeat(2 ** 28))", {"Error", *ANY_BLAME}, slow=True),
    Case("large numbers as text", "return { r: (2n ** 4000000n).toString().length }", {"Timeout", '{"r":1204120}'}),
    Case(
        "date that never ends",
        "for (let t = 0; ; t++) new Date(t).toLocaleString('en')",
        {"Timeout", *ANY_BLAME},
        slow=True,
    ),
    Case("sort that lies", "return { r: Array.from({ length: 3e5 }, () => 1).sort(() => { for (;;); }) }", {"Timeout"}),
    # The engine's own stack.
    Case(
        "chain of proxies",
        "let p = {}; for (let i = 0; i < 2e5; i++) p = new Proxy(p, {}); return { r: p.x }",
        {"{}", *ANY_BLAME},
    ),
    Case(
        "chain of bound functions",
        "let f = () => 1; for (let i = 0; i < 5e5; i++) f = f.bind(); return { r: f() }",
        {'{"r":1}', *ANY_BLAME},
    ),
    Case(
        "chain of prototypes",
        "let o = {}; for (let i = 0; i < 1e6; i++) o = Object.create(o); return { r: o.x }",
        {"{}", *ANY_BLAME},
        slow=True,
    ),
    Case(
        "text nested in JSON",
        "return { r: JSON.parse('['.repeat(3e6) + ']'.repeat(3e6)) }",
        {"OutputTooLarge", "SyntaxError", *ANY_BLAME},
        slow=True,
    ),
    Case(
        "comparison that recurs",
        "const a = []; a[0] = a; return { r: String([a, [a]]), t: [a].flat(50).length }",
        {'{"r":",","t":1}'},
    ),
    Case("overflow in a callback", "const f = (x) => 'x'.replace(/x/, f) + 1; return { r: f() }", {"RangeError"}),
    Case("overflow in toJSON", "const o = { toJSON() { return JSON.stringify(o) } }; return o", {"RangeError"}),
    Case("overflow in a trap", "const p = new Proxy({}, { get: (t, k) => p[k] }); return { r: p.x }", {"RangeError"}),
    # Escapes.
    Case("function from a string", "return { r: flow.contains.constructor('return this')() }", {"EvalError"}),
    Case(
        "function of a harness error",
        "try { flow.contains(1, 2) } catch (e) { return { r: e.constructor.constructor('return this')() } }",
        {"EvalError"},
    ),
    Case("async function from a string", "return { r: (async () => {}).constructor('return 1') }", {"EvalError"}),
    Case("import", "import('node:fs').then((m) => { d.fs = m }); return { r: typeof d.fs }", {'{"r":"undefined"}'}),
    Case("the runtime", "return { r: Deno.readTextFileSync('/etc/passwd') }", {"ReferenceError"}),
    Case("require", "return { r: require('child_process').execSync('id') }", {"ReferenceError"}),
    Case("bindings of node", "return { r: process.binding('fs') }", {"TypeError"}),
    Case(
        "callers",
        "const f = function () { let c = f; while (c.caller) c = c.caller; return c }; return { r: f() === process }",
        {'{"r":true}'},
    ),
    Case(
        "this of a sloppy function",
        "return { r: Reflect.ownKeys((function () { return this })()).includes('Deno') }",
        {'{"r":false}'},
    ),
    Case("workers", "return { r: new Worker('data:text/javascript,1') }", {"ReferenceError"}),
    Case("shared memory", "return { r: new SharedArrayBuffer(8) }", {"ReferenceError"}),
    # Effects on later records.
    Case(
        "setter on a prototype",
        "Object.defineProperty(Object.prototype, 'n', { set() {}, get() { return 0 } })",
        {"TypeError"},
    ),
    Case("inherited then", "Object.prototype.then = (f) => f(0); return {}", {"TypeError", "{}"}),
    Case("inherited toJSON", "Object.prototype.toJSON = () => 'mine'; return {}", {"TypeError", "{}"}),
    Case(
        "merge of __proto__",
        "const m = (a, b) => { for (const k in b) a[k] = Object(b[k]) === b[k] ? m(a[k], b[k]) : b[k]; return a };"
        ' m({}, JSON.parse(\'{"__proto__":{"n":0}}\')); return {}',
        {"TypeError", "{}"},
    ),
    Case("iterator of arrays", "Array.prototype[Symbol.iterator] = function* () {}; return {}", {"TypeError", "{}"}),
    Case("stringify and parse", "JSON.stringify = () => '{}'; JSON.parse = () => ({}); return {}", {"TypeError", "{}"}),
    Case(
        "call and apply", "Function.prototype.call = Function.prototype.apply = () => 0; return {}", {"TypeError", "{}"}
    ),
    Case(
        "primitive conversion",
        "BigInt.prototype[Symbol.toPrimitive] = () => 0; Number.prototype.valueOf = () => 0; return {}",
        {"TypeError", "{}"},
    ),
    Case(
        "the function itself", "process = () => null; globalThis.process = () => null; return {}", {"TypeError", "{}"}
    ),
]
