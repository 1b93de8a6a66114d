from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.brokers.base import start_at_ms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(
    st.datetimes(min_value=datetime(1960, 1, 1), max_value=datetime(2100, 1, 1)),
    st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_start_time_is_the_first_millisecond_not_before_it(local: datetime, zone: timezone) -> None:
    time = local.replace(tzinfo=zone)
    stamp = start_at_ms(time.isoformat())
    assert EPOCH + timedelta(milliseconds=stamp) >= time
    assert EPOCH + timedelta(milliseconds=stamp - 1) < time


def test_start_time_in_the_contracts_form() -> None:
    assert start_at_ms("2026-01-02T03:04:05.678Z") == 1_767_323_045_678


def test_an_invalid_start_time() -> None:
    with pytest.raises(ValueError, match="Invalid isoformat"):
        start_at_ms("yesterday")
