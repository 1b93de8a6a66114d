"""The encoding of records between scripts, and its removal."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from headwater.sandbox.bigint_marks import any_marked, is_marked, remove_marks

TEXTS = st.text(max_size=6) | st.sampled_from(['1e0,"', "\\", '\\"', "5e0]", '{"a":5e0}', "\ud800"])
TREES = st.recursive(
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)


def marked(value: Any) -> str:
    """Generate JSON whose integers have marks."""
    match value:
        case bool() | None | float() | str():
            return json.dumps(value)
        case int():
            return f"{value}e0"
        case list():
            return f"[{','.join(map(marked, value))}]"
    return "{" + ",".join(f"{json.dumps(name)}:{marked(one)}" for name, one in value.items()) + "}"


@given(st.dictionaries(TEXTS, TREES, max_size=4), st.integers(1, 16))
@example({"a": "\\", "b": 5, 'c"': [1, "2e0]"]}, 1)
def test_only_marks_are_removed(record: dict[str, Any], spaces: int) -> None:
    text = json.dumps(record, separators=(",", ":")).encode()
    assert remove_marks(b" " * spaces + marked(record).encode()) == text
    assert remove_marks(text) == text


def test_a_record_with_marks_begins_with_a_space() -> None:
    assert is_marked(b' {"a":5e0}')
    assert not is_marked(b'{"a":5}')
    assert any_marked(b' {"a":5e0}\n{}\n')
    assert any_marked(b'{}\n {"a":5e0}\n')
    assert not any_marked(b'{"a": 5}\n{"b":" "}\n')
