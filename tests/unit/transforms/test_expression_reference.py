"""Filter expressions give the same results as Bento.

Its results are recorded in the files of `bloblang/`.

records.jsonl has the records, accepted.jsonl expressions with the texts that are in Bento's result of each record (none
of null, an object, a deleted value and an error), refused.jsonl expressions that Headwater has not.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import InvalidExpression
from headwater.transforms.expression import parse
from tests.support.expressions import select

FOLDER = Path(__file__).with_name("bloblang")


def lines(name: str) -> list[str]:
    return (FOLDER / name).read_text("utf-8").rstrip("\n").split("\n")


def rows(name: str) -> list[Any]:
    return [pytest.param(row, id=row["expression"]) for row in map(json.loads, lines(name))]


@pytest.mark.parametrize("row", rows("accepted.jsonl"))
def test_means_what_it_means_in_bento(row: dict[str, Any]) -> None:
    assert [select(row["expression"], record) for record in lines("records.jsonl")] == row["texts"]


@pytest.mark.parametrize("row", rows("refused.jsonl"))
def test_names_the_way_out(row: dict[str, Any]) -> None:
    with pytest.raises(InvalidExpression) as caught:
        parse(row["expression"])
    assert (caught.value.column, row["says"] in caught.value.detail) == (row["column"], True), caught.value.detail
