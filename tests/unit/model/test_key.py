"""The format of API keys."""

import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.key import ALPHABET, ID_CHARS, PREFIX, SECRET_CHARS, base62, digest, generate_key, parse_key


class TestGenerateKey:
    def test_a_key_has_the_form(self) -> None:
        text, key_id, _ = generate_key()
        assert re.fullmatch(r"hw_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}", text)
        assert text[len(PREFIX) :][:ID_CHARS] == key_id

    def test_a_key_is_recognised(self) -> None:
        text, key_id, stored = generate_key()
        parsed = parse_key(text)
        assert parsed is not None
        assert parsed[0] == key_id
        assert len(parsed[1]) == SECRET_CHARS
        assert digest(parsed[1]) == stored

    def test_no_two_keys_are_equal(self) -> None:
        assert len({generate_key()[0] for _ in range(100)}) == 100


class TestParse:
    @given(st.integers(0, 68), st.sampled_from(ALPHABET + "_- é"))
    def test_a_typo_is_rejected(self, position: int, character: str) -> None:
        text = generate_key()[0]
        typo = text[:position] + character + text[position + 1 :]
        assert typo == text or parse_key(typo) is None

    @given(st.integers(0, 67))
    def test_transposed_characters_are_rejected(self, position: int) -> None:
        text = generate_key()[0]
        swapped = text[:position] + text[position + 1] + text[position] + text[position + 2 :]
        assert swapped == text or parse_key(swapped) is None

    @pytest.mark.parametrize("character", ["\0", "-", "é", "\n"])
    def test_other_characters_than_base62_are_rejected(self, character: str) -> None:
        text = generate_key()[0][:-6]
        for position in (len(PREFIX), len(PREFIX) + ID_CHARS, len(text) - 1):
            forged = text[:position] + character + text[position + 1 :]
            assert parse_key(forged + base62(zlib.crc32(forged.encode()), 6)) is None

    @pytest.mark.parametrize("change", ["", " ", "\n"])
    def test_another_length_is_rejected(self, change: str) -> None:
        text = generate_key()[0]
        assert parse_key(text + change if change else text[:-1]) is None

    @given(st.text(max_size=100))
    def test_any_other_string_is_rejected(self, text: str) -> None:
        assert parse_key(text) is None
        assert parse_key(PREFIX + text) is None


class TestBase62:
    @given(st.integers(0, 2**256 - 1))
    def test_keeps_the_number(self, number: int) -> None:
        text = base62(number, SECRET_CHARS)
        assert len(text) == SECRET_CHARS
        value = 0
        for character in text:
            value = value * 62 + ALPHABET.index(character)
        assert value == number
