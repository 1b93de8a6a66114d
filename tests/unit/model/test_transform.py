"""Numbers of outputs: stored positions and repeats rely on them."""

import math

from hypothesis import given
from hypothesis import strategies as st

from headwater.model import transform
from headwater.model.transform import (
    MAX_OUTPUTS_PER_RECORD,
    RedisSetFilterTransform,
    Transform,
    V8Transform,
    feeds_script,
    output_number,
)

BELOW = 2**61 - 1
records, places = st.integers(0, BELOW - 1), st.integers(0, MAX_OUTPUTS_PER_RECORD - 1)


class TestOutputNumber:
    @given(records, st.integers(0, 9))
    def test_up_to_ten_are_counted_through(self, record: int, place: int) -> None:
        assert output_number(record, place) == (10 * record + place) % BELOW

    @given(records, places)
    def test_it_fits_into_a_column(self, record: int, place: int) -> None:
        assert 0 <= output_number(record, place) < BELOW

    def test_the_numbers_of_later_places_stay_as_they_are(self) -> None:
        """They name records that sinks have: a change would make repeats look new."""
        assert output_number(0, 10) == 1_071_841_116_081_138_994
        assert output_number(0, 11) == 1_398_624_265_240_091_301
        assert output_number(0, 999) == 904_727_839_881_903_943
        assert output_number(7, 10) == 861_825_991_242_322_498

    def test_no_power_is_taken_twice(self) -> None:
        assert math.gcd(transform._POWER, BELOW - 1) == 1

    def test_those_of_many_records_and_places_differ(self) -> None:
        first = [output_number(0, place) for place in range(MAX_OUTPUTS_PER_RECORD)]
        second = [
            output_number(number, place) for number in first[::9] for place in range(0, MAX_OUTPUTS_PER_RECORD, 3)
        ]
        many = [output_number(number, place) for number in range(10_000) for place in range(30)]
        assert len({*first}) == len(first)
        assert len({*second}) == len(second)
        assert len({*many}) == len(many)


def test_a_script_feeds_the_next_one_also_through_filters() -> None:
    script = V8Transform(uid="a", type="v8", script="")
    filter_ = RedisSetFilterTransform(uid="b", type="redis_set_filter", filter_expr="root = this.a")
    chain: list[Transform] = [filter_, script, filter_, script, filter_]
    assert [feeds_script(chain, place) for place in range(5)] == [True, True, True, False, False]
