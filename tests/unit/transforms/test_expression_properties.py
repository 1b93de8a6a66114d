"""Filter expressions on random records give the results of an independent implementation.

The fast path gives the same results.
"""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from headwater.model.value_sets import MAX_VALUE_CHARS
from headwater.native import BytesColumn
from headwater.transforms.expression import InvalidRecord, parse
from tests.support import bloblang
from tests.support.bloblang import NAMES, Query
from tests.support.expressions import select


def fields() -> st.SearchStrategy[str]:
    return st.sampled_from([*(n for n in NAMES if n.isalnum() and n.isascii()), *map(json.dumps, NAMES)])


def simple_queries() -> st.SearchStrategy[str]:
    """Texts of simple expressions: paths, arrays, `|` and `.lowercase()`."""
    space = st.sampled_from(["", " ", "\n\t"])
    steps = st.lists(st.one_of(fields(), st.just("lowercase()")), max_size=3)
    paths = st.builds(lambda first, rest, s: f".{s}".join(["this", first, *rest]), fields(), steps, space)
    return st.recursive(
        paths,
        lambda inner: st.one_of(
            st.builds(lambda items, s: f"[{s}{f'{s},{s}'.join(items)}{s}]", st.lists(inner, max_size=3), space),
            st.builds(lambda items, s: f"|{s}".join(items), st.lists(inner, min_size=2, max_size=3), space),
        ),
        max_leaves=4,
    )


def documents() -> st.SearchStrategy[str]:
    """JSON texts of objects, with repeated names, odd spacing and numbers in many spellings."""
    numbers = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
    texts = st.one_of(st.sampled_from(["X", "é", "0xAB"]), st.text(max_size=5)).flatmap(
        lambda text: st.sampled_from([json.dumps(text), json.dumps(text, ensure_ascii=False)])
    )
    scalars = st.one_of(texts.filter(encodable), numbers, st.sampled_from(["null", "true", "false"]))
    space = st.sampled_from(["", " ", "\n\t"])

    def objects(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pair = st.builds(lambda k, s, v: f"{json.dumps(k)}{s}:{s}{v}", st.sampled_from(NAMES), space, inner)
        return st.builds(lambda s, pairs: f"{{{s}{f'{s},'.join(pairs)}{s}}}", space, st.lists(pair, max_size=5))

    def arrays(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.builds(lambda s, items: f"[{s}{f',{s}'.join(items)}]", space, st.lists(inner, max_size=3))

    return objects(st.recursive(scalars, lambda inner: st.one_of(objects(inner), arrays(inner)), max_leaves=12))


def encodable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


@given(bloblang.queries(), st.lists(documents(), min_size=1, max_size=3))
@example(Query('this."a"', lambda env: env.this.get("a")), [r'{"a": "\ud83d\ude00"}'])
def test_as_an_independent_reading(query: Query, documents: list[str]) -> None:
    for document in documents:
        record = json.loads(document, parse_int=bloblang.Number, parse_float=bloblang.Number)
        assert select(f"root = {query.text}", document) == bloblang.run(query, record), query.text


@given(simple_queries(), st.sampled_from(["", " ", "\n"]), documents())
def test_earlier_expressions_are_still_valid(query: str, space: str, document: str) -> None:
    assert select(f"{space}root{space.strip()}={space}{query}{space}", document) == select(query, document)


@given(simple_queries(), documents())
def test_lower_case_is_needless(query: str, document: str) -> None:
    [text, *others] = select(f"({query}).string()", document) or [""]
    assert not others
    assert select(f"({query}).string().lowercase()", document) == ([text] if text else [])


def broken() -> st.SearchStrategy[bytes | None]:
    """Values that are invalid as records."""
    objects = st.text(alphabet='{}":a,\n ', max_size=20).map(lambda text: b"{%b}" % text.encode())
    return st.none() | st.binary(max_size=30).map(lambda raw: b'{"a":' + raw + b"}") | objects


@st.composite
def padded(draw: st.DrawFn) -> bytes | None:
    """Valid and invalid records. Short, long and very long records are read in different ways."""
    record = draw(documents().map(str.encode) | broken())
    pad = b'{"pad":"%b",' % (b"x" * draw(st.sampled_from([0, 50, 100, 5_000])))
    return record if record is None or draw(st.booleans()) else record.replace(b"{", pad, 1)


@given(
    st.sampled_from(
        ['this."a"', "this.b", "this.a.lowercase()", 'this."odd name"', "this.a | this.b", "this.a.b", 'this."*"']
    ),
    st.lists(padded(), max_size=4),
)
@example("this.a", [b'{"a": "X"}', b'{"a": null}', b"{}", '{"a": "İ"}'.encode()])
@example("this.a", [b'{"a": "%s"}' % (b"x" * (MAX_VALUE_CHARS + 1)), b'{"a": ""}'])
@example("this.a", [None, b'{"a": "x"}'])
@example("this.a", [b'{"a":"x"}{"a":"y"}', b" "])
@example("this.a", [b'{"a":"x"}\n{"a":"y"}', b"{", b"}"])
@example("this.a.lowercase()", [b'{"a": 5}', b'{"a": true}', b'{"a": []}'])
@example("this.a", [b'{"a":"x","b":"\xff"}', b'{"a":"x"}', '{"a":"x","b":"é"}'.encode()])
@example("this.a", ['{"a": "%s"}'.replace("%s", "é" * MAX_VALUE_CHARS).encode()])
@example('this.a.""', [b'{"a": "X"}', b'{"a": {"": "X"}}'])
def test_batches_equal_single_records(query: str, records: list[bytes | None]) -> None:
    expression = parse(f"root = {query}")
    texts, unparsed_rows = expression.select_fast(BytesColumn.of(records))
    for row, record in enumerate(records):
        if row in unparsed_rows:
            assert texts[row] == ""
        else:
            assert expression.select(record) == ([texts[row]] if texts[row] else [])


def test_batches_use_the_fast_path() -> None:
    values = BytesColumn.of([b'{"a": "X"}', '{"b": ["\\u00e9\\"", -1.5E3, {"a": "é"}], "a": "Y"}'.encode()])
    for query in ("this.a", "this.a.lowercase()"):
        assert parse(f"root = {query}").select_fast(values) == (["x", "y"], [])
    numbers = BytesColumn.of([b'{"a": 1E5}', b'{"a": false}', b'{"a": null}'])
    assert parse("root = this.a").select_fast(numbers) == (["1e5", "false", ""], [])
    assert parse("root = this.a.lowercase()").select_fast(numbers) == (["", "", ""], [0, 1])


@given(
    st.binary(max_size=30).map(lambda raw: b'{"a":' + raw + b"}")
    | st.text(alphabet='{}[]",:\\ua1e.-', max_size=20).map(str.encode)
)
def test_any_bytes_are_judged_as_json_is(record: bytes) -> None:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        is_object = isinstance(json.loads(record.decode(), parse_constant=refuse), dict)
    except ValueError:
        is_object = False
    try:
        parse("root = this.zz").select(record)
        accepted = True
    except InvalidRecord:
        accepted = False
    assert accepted == is_object
