"""The undeclared names that a script uses."""

import pytest

from headwater.sandbox.analysis.tree import parse
from headwater.sandbox.validation.free_names import find_free_names


def free(text: str) -> list[str]:
    script = parse(text)
    assert not script.has_errors
    return list(find_free_names(script))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("const { a, b: c = d, ...e } = f; a; b; c; e", ["d", "f", "b"]),
        ("function g({ h }, [i], ...j) { return [h, i, j] } g(h)", ["h"]),
        ("try {} catch ({ k }) { k } k", ["k"]),
        ("try {} catch { k }", ["k"]),
        (
            "class X extends Y { #p = q; static { r } m(s) { return this.n + s } get [o]() { return X } } new X()",
            ["Y", "q", "r", "o"],
        ),
        ("const v = class W { m() { return W } }; W", ["W"]),
        ("for (const a of b) c(a); a", ["b", "c", "a"]),
        ("for (var a of b); a", ["b"]),
        ("for (let i = 0; i < n; i++) { let m = i } i; m", ["n", "i", "m"]),
        ("for (d in e) f(d)", ["e", "f"]),
        ("(a = b) => a; x => x; (async y => y)(z)", ["b", "z"]),
        ("{ let a = 1 } a; function f() { { var r = 2 } return r } r", ["a", "r"]),
        ("{ function hoisted() {} } hoisted()", []),
        ("late(); function late() {} const f = () => g; const g = 1", []),
        ("(function me() { me() })(); me", ["me"]),
        ("label: for (const x of y) { continue label }", ["y"]),
        ("x = {s, t: u, v() {}}; x.w", ["s", "u"]),
        ("[p, q.r] = s; ({ t, u: v, w = k } = z); p; t; v; w", ["q", "s", "k", "z"]),
        ("count += 1; other++", ["count", "other"]),
        ("typeof Buffer === 'undefined' ? 1 : Buffer.from(x)", ["x"]),
        ("globalThis.shared = 1; shared; a?.b.c; o[k]; ({ [m]: 1 })", ["globalThis", "a", "o", "k", "m"]),
        ("switch (s) { case t: let w; default: w } w", ["s", "t", "w"]),
        ("tag`text ${inside}`; new.target; undefined", ["tag", "inside"]),
        ("export { z as y, f as default }; const f = 1", ["z"]),
        ("using r = open(); r", ["open"]),
        ("let { a = dflt, ['x']: y } = {}; a; y", ["dflt"]),
    ],
)
def test_names_that_are_declared_nowhere_around(text: str, names: list[str]) -> None:
    assert free(text) == names


def test_all_uses_in_order() -> None:
    script = parse("fetch('a');\n  fetch('b')")
    assert [script.position(use) for use in find_free_names(script)["fetch"]] == [(1, 1), (2, 3)]


def test_depth_needs_no_stack() -> None:
    assert free("[" * 20_000 + "deep" + "]" * 20_000) == ["deep"]
