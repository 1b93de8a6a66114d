"""Evaluates filter expressions on single records."""

import pytest

from headwater.transforms.expression import InvalidRecord, parse


def select(text: str, record: str | bytes | None) -> list[str]:
    """Return what an expression selects from a record, sorted."""
    return sorted(parse(text).select(record.encode() if isinstance(record, str) else record))


def refusal(text: str, record: str | bytes | None) -> InvalidRecord:
    with pytest.raises(InvalidRecord) as caught:
        select(text, record)
    return caught.value
