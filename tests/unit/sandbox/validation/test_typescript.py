"""The position of TypeScript syntax in a script, from Deno's error message."""

import pytest

from headwater.sandbox.validation.typescript import unsupported_syntax_error

MESSAGE = "TypeScript {} is not supported in strip-only mode at file:///stripTypeScriptTypes.ts:{}:{}"


@pytest.mark.parametrize(
    ("text", "form", "position", "place"),
    [
        ("enum A {}", "enum", (1, 1), (1, 1)),
        ("\tenum A {}", "enum", (1, 5), (1, 2)),
        ("/* 😀 */ enum A {}", "enum", (1, 11), (1, 10)),
        ("/* 中é */ enum A {}", "enum", (1, 10), (1, 10)),
        ("const enumerate = 1; const enum A {}", "enum", (1, 22), (1, 22)),
        ("a\r\n  enum A {}", "enum", (2, 3), (2, 3)),
        ("a\renum A {}", "enum", (2, 1), (2, 1)),
        ("'a'\u2028; enum A {}", "enum", (1, 7), (2, 3)),
        ("a;\n\tnamespace B { enum C {} }", "namespace declaration", (2, 5), (2, 2)),
        ("x", "enum", (9, 9), (1, 2)),
    ],
)
def test_places_count_as_in_javascript(text: str, form: str, position: tuple[int, int], place: tuple[int, int]) -> None:
    refused = unsupported_syntax_error(text, MESSAGE.format(form, *position))
    assert refused is not None
    assert (refused.line, refused.column) == place


def test_forms_that_are_new_keep_the_engine_s_words() -> None:
    refused = unsupported_syntax_error("x", MESSAGE.format("magic", 1, 1))
    assert refused is not None
    assert "TypeScript magic is not supported" in refused.detail


def test_other_messages_have_no_position() -> None:
    assert unsupported_syntax_error("x", "[InvalidSyntax] Syntax error") is None
