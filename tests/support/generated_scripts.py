"""Generates small scripts with top-level objects, aliases, and writes through aliases."""

import random
from typing import Final

INITIAL: Final = (
    "[]", "{}", "[[]]", "{a: []}", "{a: {n: 0}}", "{n: 0}", "[{n: 0}]", "new Map([['a', []]])", "new Set([[]])",
    "'text'", "1", "Object.freeze({a: []})", "/a/", "[1, 2].map((x) => [x])", "Object.values({a: []})", "{a: () => 1}",
    "Object.entries({a: 1})", "new Array(2)", "new Set(['a'])", "{a: 'x', n: 1}",
)  # fmt: skip
HELPERS: Final = (
    "const id = (x) => x;", "function first() { return C0; }", "const wrap = (x) => ({a: x});",
    "function fill(x) { try { x.push(1); } catch {} return x; }", "const copy = (x) => ({...x});",
    "const call = (f, x) => f(x);", "function rest(...all) { return all; }", "const maker = () => () => C1;",
    "function second({a}) { return a; }", "const pick = (x, y = C0) => y;",
)  # fmt: skip


class Generator:
    """Generates scripts from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = 0

    def script(self) -> str:
        """Return a script that defines C0 and C1 at top level."""
        tables = [f"const C{n} = {self._random.choice(INITIAL)};" for n in range(2)]
        body = [self._statement(2) for _ in range(self._random.randint(1, 5))]
        asks = "if (flow.contains('w', [r.id])) r.seen = 1;"
        return "\n".join([*tables, *HELPERS, f"function process(r) {{ {asks}", *body, "return r; }"])

    def _statement(self, depth: int) -> str:
        value, other = self._expression(depth), self._expression(1)
        name = f"v{self._names}"
        if self._random.random() < 0.25:
            self._names += 1
            patterns = (f"{name} = {value}", f"[{name}] = [{value}]", f"{{a: {name} = {other}}} = {value} ?? {{}}")
            return f"try {{ var {self._random.choice(patterns)}; }} catch {{}}"
        statement = self._random.choice((
            f"{value}.push({other})", f"{value}.n = 1", f"{value}.set('b', {other})", f"{value}[0].n++",
            f"for (const x of {value}) x.push(1)", f"delete {value}.a", f"{value}.forEach((x) => x.push(1))",
            f"r.out = {value}", f"{value}.reduce((s, x) => {{ s.n = 1; return x; }}, {other})",
            f"Object.assign({value}, {{n: 1}})", f"{value}.sort()", f"r.n = {value}.length", f"r.t = {value}.n",
            f"r.has = {value}.has('a')", f"fill({value})",
        ))  # fmt: skip
        return f"try {{ {statement}; }} catch {{}}"

    def _expression(self, depth: int) -> str:
        if depth == 0:
            locals_ = [f"v{n}" for n in range(self._names)]
            return self._random.choice(["C0", "C1", "r", "r.list", "r.o", *locals_, *locals_])
        one = self._expression(depth - 1)
        return self._random.choice((
            one, one, f"{one}.a", f"{one}[0]", f"[{one}]", f"({{a: {one}}})", f"id({one})", "first()", f"wrap({one})",
            f"copy({one})", f"rest({one}, 1)", f"second({{a: {one}}})", "pick(1)", "maker()()",
            f"call((x) => x, {one})", f"[...{one}]", f"{one}.map((x) => x)", f"{one}.get('a')", f"({one} ?? r)",
            f"(r.list && {one})",
            f"Object.values({one})", f"Array.from({one})", f"{one}.slice()", f"{one}.find(Boolean)",
            f"new Map([['a', {one}]])", f"Object.assign({{}}, {one})", f"(() => {one})()", f"new Set([{one}])",
            f"(r.x ? {one} : r.o)",
            f"[1].map(() => {one})",
        ))  # fmt: skip
