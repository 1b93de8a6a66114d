"""Indexes of outputs, which stored offsets and repeats depend on."""

import math

from hypothesis import given
from hypothesis import strategies as st

from headwater.model import outputs
from headwater.model.outputs import MAX_OUTPUTS_PER_RECORD, output_index

BELOW = 2**61 - 1
records, positions = st.integers(0, BELOW - 1), st.integers(0, MAX_OUTPUTS_PER_RECORD - 1)


class TestOutputIndex:
    @given(records, st.integers(0, 9))
    def test_the_first_ten_outputs_have_consecutive_numbers(self, record: int, position: int) -> None:
        assert output_index(record, position) == (10 * record + position) % BELOW

    @given(records, positions)
    def test_an_index_is_below_the_modulus(self, record: int, position: int) -> None:
        assert 0 <= output_index(record, position) < BELOW

    def test_the_numbers_of_later_outputs_never_change(self) -> None:
        """Consumers have stored the indexes, so after a change repeats would look new."""
        assert output_index(0, 10) == 1_071_841_116_081_138_994
        assert output_index(0, 11) == 1_398_624_265_240_091_301
        assert output_index(0, 999) == 904_727_839_881_903_943
        assert output_index(7, 10) == 861_825_991_242_322_498

    def test_different_numbers_have_different_powers(self) -> None:
        assert math.gcd(outputs._EXPONENT, BELOW - 1) == 1

    def test_the_numbers_of_many_records_and_positions_differ(self) -> None:
        first = [output_index(0, position) for position in range(MAX_OUTPUTS_PER_RECORD)]
        second = [
            output_index(number, position) for number in first[::9] for position in range(0, MAX_OUTPUTS_PER_RECORD, 3)
        ]
        many = [output_index(number, position) for number in range(10_000) for position in range(30)]
        assert len({*first}) == len(first)
        assert len({*second}) == len(second)
        assert len({*many}) == len(many)
