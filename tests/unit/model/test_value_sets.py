"""The rules of values in sets."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidInput
from headwater.model.value_sets import (
    MAX_REPORTED_FAULTS,
    MAX_VALUE_CHARS,
    TRIMMED,
    VALUE_SCHEMA,
    SetId,
    dataset_set_id,
    filter_set_id,
    normalise,
    normalise_all,
)

ADDRESS = st.from_regex(r"0x[0-9a-f]{40}", fullmatch=True)
PADDED = st.builds("{}{}{}".format, st.text(st.sampled_from(TRIMMED)), ADDRESS, st.text(st.sampled_from(TRIMMED)))


class TestNormalise:
    @given(st.text())
    def test_normalising_twice_changes_nothing(self, value: str) -> None:
        assert normalise(normalise(value)) == normalise(value)

    @given(ADDRESS)
    def test_case_and_padding_of_an_address_do_not_matter(self, address: str) -> None:
        assert normalise(f" {address.upper()}\n") == normalise(address) == address

    def test_all_white_space_of_unicode_is_trimmed(self) -> None:
        assert {chr(code) for code in range(0x110000) if chr(code).isspace()} <= set(TRIMMED)

    @given(st.text(st.sampled_from(TRIMMED)), st.text(st.sampled_from(TRIMMED)), ADDRESS)
    def test_blanks_and_zero_width_characters_around_a_value_do_not_matter(
        self, before: str, after: str, address: str
    ) -> None:
        assert normalise(before + address + after) == address

    def test_the_description_asks_for_one_other_character(self) -> None:
        pattern = re.compile(str(VALUE_SCHEMA["pattern"]))
        found = {chr(code) for code in range(0x110000) if not pattern.search(chr(code))}
        assert found == set(TRIMMED)

    def test_whitespace_inside_a_value_is_kept(self) -> None:
        assert normalise("a\u200bb\ufeffc") == "a\u200bb\ufeffc"


class TestNormaliseAll:
    @given(st.lists(PADDED))
    def test_is_normalise_of_each(self, values: list[str]) -> None:
        assert normalise_all(values) == list(map(normalise, values))

    def test_keeps_order_and_repeats(self) -> None:
        assert normalise_all(["B", " a", "b"]) == ["b", "a", "b"]

    def test_length_is_that_of_the_stored_form(self) -> None:
        longest = "x" * MAX_VALUE_CHARS
        assert normalise_all([f"  {longest}  "]) == [longest]

    @pytest.mark.parametrize("bad", ["", "   ", "\ufeff", "\u200b \u2060", "x" * (MAX_VALUE_CHARS + 1)])
    def test_names_the_bad_ones(self, bad: str) -> None:
        with pytest.raises(InvalidInput) as raised:
            normalise_all(["a", bad, "b", bad])
        assert [fault.pointer for fault in raised.value.faults] == ["/values/1", "/values/3"]

    def test_names_only_the_first_of_many(self) -> None:
        with pytest.raises(InvalidInput, match="Some values") as raised:
            normalise_all([""] * 1000)
        assert len(raised.value.faults) == MAX_REPORTED_FAULTS


class TestNames:
    def test_of_filters_and_datasets_never_meet(self) -> None:
        assert filter_set_id("c", "u") == SetId("fs", "c.u")
        assert dataset_set_id("c.u") == SetId("ds", "c.u")
        assert filter_set_id("c", "u") != dataset_set_id("c.u")
