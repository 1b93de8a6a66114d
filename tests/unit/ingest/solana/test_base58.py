"""Base58, compared with a simple implementation and with solders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from headwater.ingest.solana import base58
from tests.support.solana_blocks import from_base58, to_base58


@given(st.binary(max_size=80) | st.binary(max_size=20).map(lambda data: b"\0\0\0" + data))
def test_both_ways(data: bytes) -> None:
    text = base58.encode(data)
    assert text == to_base58(data)
    assert base58.decode(text) == from_base58(text) == data


@given(st.binary(min_size=32, max_size=32))
def test_keys(data: bytes) -> None:
    assert base58.encode(data) == str(Pubkey.from_bytes(data))


@pytest.mark.parametrize("text", ["0", "abcO", "l1", "I", "a b", "ü", "+"])
def test_other_characters(text: str) -> None:
    with pytest.raises(ValueError, match="base58"):
        base58.decode(text)
